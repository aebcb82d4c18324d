"""Lowers operations of a body to LLVM instructions whose results are those of NumPy."""
