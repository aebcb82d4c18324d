"""The parts of the PTX machine (tests/ptx_machine.py)."""
