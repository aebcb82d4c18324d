"""The compile service: a server process that runs LLVM, a cache of object code on disk, and a loader.

`client` exchanges messages with the server (`kernels/build/server.py`), `cache` stores object code, `loader`
maps it into memory, and `code` combines the three: it turns keys and requests into callable addresses.
`fingerprint` is the part of a key that identifies the machine.
"""

BODY, GRID, TEXT, PTX, ROUTINE = "body", "grid", "text", "ptx", "routine"
"""Kinds of requests: the body of a kernel, the same as grid kernels for a target that is named, LLVM IR that
is compiled for the generic processor, or LLVM IR and the architecture of a GPU."""
