"""The functions of NumPy that are recorded as index tasks."""
