"""Which tasks may run as one, and what that makes unnecessary: pure functions over the IR."""
