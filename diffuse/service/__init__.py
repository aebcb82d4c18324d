"""The compile service: a server process that runs LLVM, a cache of object code on disk, and a loader.

`client` exchanges messages with the server (`kernels/build/server.py`), `cache` stores object code, `loader`
maps it into memory, and `code` combines the three: it turns keys and requests into callable addresses.
`fingerprint` is the part of a key that identifies the machine.
"""

BODY, GRID, TEXT, PTX, ROUTINE = "body", "grid", "text", "ptx", "routine"
"""Kinds of requests: the body of a kernel; its grid kernels for a named target; LLVM IR to compile for the
generic processor; LLVM IR and the architecture of a GPU; a routine."""

MARK = "_DIFFUSE_COMPILES"
"""Environment variable that is set for the server: its number of threads.  Where Python is embedded,
`sys.executable` may be the program itself: it would run again in place of the server, and start another
one."""
