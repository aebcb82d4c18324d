"""What happened, for people: events and counters, lines of the program, floating-point errors."""
