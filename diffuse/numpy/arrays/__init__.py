"""The array: memory, views, methods and operators."""
