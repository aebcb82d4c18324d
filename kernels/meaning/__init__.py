"""The meaning of bodies, defined with NumPy: runs until machine code is there, and is the oracle for it."""
