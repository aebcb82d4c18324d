"""Machine code from outside the program: a process that compiles, object code kept on disk, and its loader.

`client` talks to the compiling process, `cache` keeps what it made, `loader` maps it into memory, and `code`
puts the three together: a key and a request become addresses that can be called.  `fingerprint` is what keys
say of the machine.  The process itself is `kernels/build/server.py`.
"""
