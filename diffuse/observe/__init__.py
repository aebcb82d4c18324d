"""Observability for users: events and counters, source lines of the program, floating-point errors."""
