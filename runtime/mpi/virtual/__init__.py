"""Ranks that one process plays: predicted ones count what real ranks send, simulated ones run the program."""
