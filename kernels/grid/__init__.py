"""Kernels for GPUs: what a body's loops become on a grid of threads, and the same kernels run on the host."""
