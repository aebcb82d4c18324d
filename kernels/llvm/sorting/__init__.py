"""Routines that sort, search and count, each a function `void k(ptr words)` over contiguous memory.

They are not operations of fused tasks: the array library calls them on parts of arrays, in several threads.
"""
