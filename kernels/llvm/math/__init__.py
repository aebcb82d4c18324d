"""Transcendental functions written out in LLVM IR, one family a file."""
