"""Functions of NumPy that sort, search and count, on all threads."""
