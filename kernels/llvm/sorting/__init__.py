"""Routines that order, search and count, each one function `void k(ptr words)` over whole pieces of memory.

They are no operations of fused tasks: the array library calls them on parts of arrays, in several threads.
"""
