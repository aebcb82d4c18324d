"""Kernels for GPUs: maps a body's loops to a grid of threads, and runs the same kernels on the host."""
