"""Emits LLVM IR for a body."""
