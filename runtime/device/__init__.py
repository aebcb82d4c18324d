"""Runtimes with memory that the host does not see: a GPU's, and a simulated one's."""
