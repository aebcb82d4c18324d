"""Ranks over MPI: every rank runs the same program, and computes what it owns of each launch."""
