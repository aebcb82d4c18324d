"""Compiles fused tasks to machine code: bodies, their meaning, and their compilation."""
