"""NumPy's functions of arrays that lie in parts on several ranks: each rank computes its part."""
