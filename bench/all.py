"""Every benchmark in turn, then all goals in one table.

    python bench/all.py [--quick] [--rounds N] [--threads N]
"""

from __future__ import annotations

import json
import subprocess
import sys

import report
from case import ROOT

BENCHES = ("black_scholes", "channel_flow", "shallow_water", "stencil", "conjugate_gradient", "cg", "cgs",
           "bicgstab", "gmg", "jacobi", "mandelbrot", "overheads", "calls", "sorting", "compile", "cold",
           "new_shapes", "everyday", "ocean")


def main() -> int:
    """Run each with the options given; status 1 when one of them failed, not when it missed a goal."""
    goals, failed = [], []
    for name in BENCHES:
        numbers = ROOT / "bench" / "results" / f"{name}.json"
        numbers.unlink(missing_ok=True)
        command = [sys.executable, str(ROOT / "bench" / f"{name}.py"), *sys.argv[1:], "--json", str(numbers)]
        if subprocess.run(command).returncode or not numbers.exists():
            failed.append(name)
            continue
        for row in json.loads(numbers.read_text())["goals"]:
            goals.append({**row, "what": f"{name}: {row['what']}"})
    print(report.goal_table(goals))
    if failed:
        print(f"failed: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
