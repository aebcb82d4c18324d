"""The names of the commands, each with its description."""

COMMANDS = {
    "run": "Run a NumPy program with Diffuse in NumPy's place.",
    "info": "Show the machine, the threads, the settings, the cache, Legate, MPI, the GPU and the versions.",
    "explain": "Run a program and say what was fused, and what stopped the rest.",
    "coverage": "Say how each public name of NumPy runs: fused, at once, or by NumPy and why.",
    "export": "Write a stand-alone program for MPI from an operator and a grid of processes.",
    "machine": "Measure once what messages and work take on ranks, for diffuse.plan.",
    "cache": "List, measure or clear the compiled kernels kept on disk.",
}
