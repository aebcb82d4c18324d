"""The default runtime: a pool of native threads over shared memory."""
