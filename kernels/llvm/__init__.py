"""From a body to LLVM IR."""
