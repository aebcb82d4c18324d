"""`diffuse run --compare`: two measured runs of one program, as a table of what Diffuse changed."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
from typing import Any

import click

MEASURE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "measure.py")


def measured(under: str, words: list[str], folder: str, variables: dict[str, str]) -> dict[str, Any]:
    """Run a program in a fresh process under "numpy" or "diffuse"."""
    place = os.path.join(folder, under)
    os.mkdir(place)
    environment = {**os.environ, "PYTHONUNBUFFERED": "1", **variables}
    done = subprocess.run([sys.executable, MEASURE, under, place, *words], env=environment, check=False)
    path = os.path.join(place, "measured.json")
    if done.returncode or not os.path.exists(path):
        raise click.ClickException(f"the program failed under {under}: exit status {done.returncode}")
    with open(path) as found:
        measures: dict[str, Any] = json.load(found)
    return measures


def difference(folder: str) -> dict[str, float] | None:
    """The largest difference of each result; None if the program named none."""
    import numpy

    paths = [os.path.join(folder, under, "results.npz") for under in ("numpy", "diffuse")]
    if not all(os.path.exists(path) for path in paths):
        return None
    largest = {}
    with numpy.load(paths[0]) as plain, numpy.load(paths[1]) as ours:
        for name in plain.files:
            a, b = plain[name], ours[name]
            if a.shape != b.shape or a.dtype != b.dtype:
                raise click.ClickException(f"result {name!r} is {a.dtype}{a.shape} under NumPy "
                                           f"and {b.dtype}{b.shape} under Diffuse")
            differ = ~((a == b) | ((a != a) & (b != b)))
            with numpy.errstate(all="ignore"):
                gap = numpy.abs(a[differ].astype(complex) - b[differ].astype(complex))
            largest[name] = float(gap.max()) if gap.size else 0.0
    return largest


def steady(times: list[float]) -> float:
    """The median of the last half of the steps."""
    return statistics.median(times[len(times) // 2:])


def comparison(words: list[str], variables: dict[str, str]) -> dict[str, Any]:
    """Both runs, one after the other, and what they show."""
    with tempfile.TemporaryDirectory(prefix="diffuse-") as folder:
        plain = measured("numpy", words, folder, {})
        ours = measured("diffuse", words, folder, variables)
        gaps = difference(folder)
    found: dict[str, Any] = {"program": words, "peak": {"numpy": plain["peak"], "diffuse": ours["peak"]}}
    if "steps" not in plain:
        found["total"] = {"numpy": plain["total"], "diffuse": ours["total"]}
        found["counters"] = ours["counts"][-1]
        return found
    found["iterations"] = len(plain["steps"])
    found["first"] = {"numpy": plain["steps"][0], "diffuse": ours["steps"][0]}
    found["steady"] = {"numpy": steady(plain["steps"]), "diffuse": steady(ours["steps"])}
    found["total"] = {"numpy": sum(plain["steps"]), "diffuse": sum(ours["steps"])}
    found["arrays"] = {"numpy": plain["arrays"], "diffuse": ours["arrays"]}
    found["operations"] = ours["counts"][-1]["recorded"]
    found["tasks"] = ours["counts"][-1]["launched"]
    found["difference"] = gaps
    found["steps"] = {"numpy": plain["steps"], "diffuse": ours["steps"]}
    return found


def show(words: list[str], as_json: bool, variables: dict[str, str]) -> int:
    """Compare and print."""
    found = comparison(words, variables)
    if as_json:
        print(json.dumps(found, indent=2))
        return 0
    print(f"{' '.join(words)}: under NumPy and under Diffuse, one run each")
    if "steady" in found:
        print(f"\n{'time of an iteration':32}{'NumPy':>12}{'Diffuse':>12}{'ratio':>9}")
        for label, key in (("first", "first"), (f"steady state, of {found['iterations']}", "steady")):
            print(_row(label, found[key], _seconds, "  "))
    else:
        print("\n(whole-program times: the program does not define arguments, setup, step and results)")
        print(f"{'':32}{'NumPy':>12}{'Diffuse':>12}{'ratio':>9}")
    print(_row("all iterations" if "steady" in found else "time", found["total"], _seconds))
    print(_row("memory peak", found["peak"], _megabytes))
    if "arrays" in found:
        print(_row("of it since before set-up", found["arrays"], _megabytes, "  "))
        print(f"\n{'operations in an iteration':32}{found['operations']:12,}")
        print(f"{'tasks after fusion':32}{found['tasks']:12,}")
        for name, gap in (found["difference"] or {}).items():
            print(f"{'largest difference in ' + name:32}{gap:12.3g}")
    return 0


def _row(label: str, pair: dict[str, float], shown: Any, indent: str = "") -> str:
    ratio = pair["numpy"] / pair["diffuse"] if pair["diffuse"] else float("inf")
    return f"{indent + label:32}{shown(pair['numpy']):>12}{shown(pair['diffuse']):>12}{ratio:8.2f}x"


def _seconds(value: float) -> str:
    return f"{value:.3f} s" if value >= 1 else f"{value * 1e3:.2f} ms"


def _megabytes(value: float) -> str:
    return f"{value / 2**20:,.0f} MiB"
