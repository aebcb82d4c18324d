"""The kernel language: bodies, the operations they are made of, and how tasks become one body."""
