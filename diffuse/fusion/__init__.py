"""Decides which tasks may run as one and which stores this removes: pure functions over the IR."""
