"""When and where kernels are compiled, and where machine code is kept."""
