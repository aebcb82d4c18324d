"""`diffuse coverage`: how each public name of NumPy runs under Diffuse, found by calling it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from typing import Any

import click

from diffuse.settings import config


def totals(found: Sequence[Any]) -> dict[str, int]:
    """The number of names that run each way."""
    from diffuse.cli import probe

    counts = Counter(one.way for one in found)
    return {way: counts[way] for way in probe.WAYS}


def report(found: Sequence[Any], every: bool) -> str:
    """The findings as text: totals, then the names of each way."""
    from diffuse.cli import probe

    counts = totals(found)
    lines = [f"{len(found)} public names of NumPy: functions, methods of arrays and of ufuncs, objects", ""]
    lines += [f"{counts[way]:6}  {way:9} {said}" for way, said in probe.WAYS.items()]
    lines += ["", f"Below {config.small:,} elements (DIFFUSE_SMALL) NumPy's own function computes at once "
              "what is listed here; the ways are those of larger arrays."]
    for way in probe.WAYS:
        if way == probe.OBJECT and not every:
            continue
        reasons: dict[str, list[str]] = {}
        for one in found:
            if one.way == way:
                reasons.setdefault(one.reason, []).append(one.name.removeprefix("numpy."))
        for reason, names in reasons.items():
            lines += ["", f"{way}{': ' + reason if reason else ''} ({len(names)})"]
            lines += [f"  {line}" for line in wrapped(names)]
    return "\n".join(lines)


def wrapped(names: Sequence[str]) -> list[str]:
    """The names in lines of a terminal's width."""
    from textwrap import wrap

    return wrap(" ".join(names), 100, break_long_words=False, break_on_hyphens=False)


@click.command(name="coverage")
@click.option("--json", "as_json", is_flag=True, help="Print JSON: also the element types of ufuncs.")
@click.option("--all", "every", is_flag=True, help="List constants, classes and modules, too.")
@click.argument("names", nargs=-1)
def command(as_json: bool, every: bool, names: tuple[str, ...]) -> int:
    """Say how each public name of NumPy runs; or those NAMES."""
    from diffuse.cli import probe

    wanted = [f"numpy.{name.removeprefix('numpy.').removeprefix('np.')}" for name in names]
    try:
        found = probe.findings(wanted, types=as_json or bool(names))
    except KeyError as error:
        name = str(error.args[0]).removeprefix("numpy.")
        raise click.UsageError(f"{name!r}: expected public names of NumPy, such as sort, linalg.svd, "
                               "ndarray.sort or maximum.at") from None
    if as_json:
        print(json.dumps({"small": config.small, "totals": totals(found),
                          "names": [one._asdict() for one in found]}, indent=2))
    else:
        print(report(found, every or bool(names)))
    return 0
