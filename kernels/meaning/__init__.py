"""What a body means, with NumPy: runs until machine code is there, and the oracle for it."""
