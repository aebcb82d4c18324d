"""`diffuse run --compare`: two measured runs of one program, as a table of what Diffuse changed.

Printed text and saved files are compared (agreement.py), and the exit status tells whether they agree.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
from typing import Any

import click

from diffuse.cli import agreement

MEASURE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "measure.py")


def measured(under: str, words: list[str], folder: str, variables: dict[str, str], shown: bool
             ) -> dict[str, Any]:
    """Run a program in a fresh process under "numpy" or "diffuse"; its output is kept, and printed if
    `shown`."""
    place = os.path.join(folder, under)
    os.mkdir(place)
    environment = {**os.environ, "PYTHONUNBUFFERED": "1", **variables}
    with subprocess.Popen([sys.executable, MEASURE, under, place, *words], env=environment,
                          stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        printed = []
        for line in process.stdout:
            printed.append(line.decode(errors="replace"))
            if shown:
                print(printed[-1], end="", flush=True)
    path = os.path.join(place, "measured.json")
    if process.returncode or not os.path.exists(path):
        raise click.ClickException(f"the program failed under {under}: exit status {process.returncode}")
    with open(path) as found:
        measures: dict[str, Any] = json.load(found)
    measures["printed"] = "".join(printed)
    return measures


def results(folder: str) -> tuple[dict[str, float | None] | None, list[str]]:
    """The largest difference of each named result (None if the program named none), and sentences about those
    that differ by more than rounding."""
    import numpy

    paths = [os.path.join(folder, under, "results.npz") for under in ("numpy", "diffuse")]
    if not all(os.path.exists(path) for path in paths):
        return None, []
    largest: dict[str, float | None] = {}
    differences = []
    with numpy.load(paths[0]) as plain, numpy.load(paths[1]) as ours:
        for name in plain.files:
            largest[name] = agreement.gap(plain[name], ours[name])
            if said := agreement.arrays(plain[name], ours[name]):
                differences.append(f"result {name!r} {said}")
    return largest, differences


def steady(times: list[float]) -> float:
    """The median of the last half of the steps."""
    return statistics.median(times[len(times) // 2:])


def comparison(words: list[str], variables: dict[str, str], shown: bool) -> dict[str, Any]:
    """Run the program both ways, one after the other, and collect the measurements."""
    with tempfile.TemporaryDirectory(prefix="diffuse-") as folder:
        plain = measured("numpy", words, folder, {}, shown)
        ours = measured("diffuse", words, folder, variables, False)
        gaps, differences = results(folder)
        differences += agreement.files(plain["saved"], ours["saved"])
        equal = (agreement.same_text(plain["printed"], ours["printed"])
                 and agreement.same_files(plain["saved"], ours["saved"])
                 and all(gap == 0 for gap in (gaps or {}).values()))
    if said := agreement.texts(plain["printed"], ours["printed"]):
        differences.insert(0, "printed text: " + said)
    found: dict[str, Any] = {"program": words, "peak": {"numpy": plain["peak"], "diffuse": ours["peak"]},
                             "compared": {"lines": len(plain["printed"].splitlines()),
                                          "files": sorted(plain["saved"]), "results": len(gaps or ())},
                             "differences": differences, "equal": equal}
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
    """Compare and print; returns 0 if both runs agree, else 1."""
    found = comparison(words, variables, not as_json)
    status = int(bool(found["differences"]))
    if as_json:
        print(json.dumps(found, indent=2))
        return status
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
            print(f"{'largest difference in ' + name:32}" + (f"{gap:12.3g}" if gap is not None else ""))
    print("\n" + verdict(found["compared"], found["differences"], found["equal"]))
    return status


def verdict(compared: dict[str, Any], differences: list[str], equal: bool) -> str:
    """Describe in words whether the runs agree, exactly or but for rounding, and in what."""
    if differences:
        return "\n".join(["The results differ:", *(f"  {said}" for said in differences)])
    counts = {"line": compared["lines"], "saved file": len(compared["files"]),
              "named result": compared["results"]}
    found = ", ".join(f"{n} {what}{'s' * (n != 1)}" for what, n in counts.items() if n)
    if not found:
        return "Nothing to compare: the program printed nothing and saved nothing."
    return f"The results {'are equal' if equal else 'agree but for rounding'}: {found}."


def _row(label: str, pair: dict[str, float], shown: Any, indent: str = "") -> str:
    ratio = pair["numpy"] / pair["diffuse"] if pair["diffuse"] else float("inf")
    return f"{indent + label:32}{shown(pair['numpy']):>12}{shown(pair['diffuse']):>12}{ratio:8.2f}x"


def _seconds(value: float) -> str:
    return f"{value:.3f} s" if value >= 1 else f"{value * 1e3:.2f} ms"


def _megabytes(value: float) -> str:
    return f"{value / 2**20:,.0f} MiB"
