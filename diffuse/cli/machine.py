"""`diffuse machine`: measures what messages, kernels and products take on ranks, for `diffuse.plan`."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import click

from diffuse.cli import job
from diffuse.cli import launch as launching
from diffuse.runtime import machine
from diffuse.settings import config

FEWEST, MOST = 2, 4
"""Ranks where no option names a number: one for each processor, within these bounds."""


@click.command(name="machine")
@job.options
def command(**options: Any) -> int:
    """Measure the machine once, on ranks over MPI, and keep that in the cache folder: latency and bandwidth
    of messages, and the rates of additions, fused operations, memory and products. Plans count with it."""
    launch = job.taken(options)
    if not launch.named:
        launch = replace(launch, ranks=min(MOST, max(FEWEST, machine.processors())))
    config.runtime = "mpi"
    launching.apply(launch)
    if not launch.outer:
        raise click.UsageError("messages need at least two ranks: name --ranks, --nodes or --hosts")
    return launching.become(launch, ["-m", "diffuse.cli.timing"])
