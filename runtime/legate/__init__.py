"""The runtime on Legate: fused tasks as tasks of Legate, on one machine or on several ranks."""
