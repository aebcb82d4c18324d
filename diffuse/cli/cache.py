"""`diffuse cache`: the compiled kernels that are kept on disk."""

from __future__ import annotations

import json
import time
from typing import Any

import click

from diffuse import settings
from diffuse.cli.info import sized, stored


def listed() -> list[dict[str, Any]]:
    """Every kernel on disk, the most recently used first."""
    from diffuse.service.cache import SUFFIX

    folder = stored().folder
    found = [(path, path.stat()) for path in folder.glob("*" + SUFFIX)] if folder.is_dir() else []
    return [{"key": path.name.removesuffix(SUFFIX), "bytes": status.st_size, "used": status.st_mtime}
            for path, status in sorted(found, key=lambda item: -item[1].st_mtime)]


@click.group(name="cache")
def command() -> None:
    """List, measure or clear the compiled kernels kept on disk."""


@command.command(name="ls")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def ls(as_json: bool) -> int:
    """List the kernels, the latest used first."""
    found = listed()
    if as_json:
        print(json.dumps(found, indent=2))
        return 0
    for one in found:
        used = time.strftime("%Y-%m-%d %H:%M", time.localtime(one["used"]))
        print(f"{used}  {one['bytes']:10,} bytes  {one['key']}")
    return 0


@command.command(name="stats")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def stats(as_json: bool) -> int:
    """Say how many kernels there are and how large they are together."""
    entries, size = stored().entries()
    limit = settings.config.cache_size
    found = {"folder": settings.config.cache_dir, "kernels": entries, "bytes": size, "limit": limit}
    if as_json:
        print(json.dumps(found, indent=2))
    else:
        print(f"{found['folder']}: {entries} kernels, {sized(size)} of at most "
              f"{'any size' if limit is None else sized(limit)}")
    return 0


@command.command(name="clear")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def clear(as_json: bool) -> int:
    """Remove every kernel; the next run compiles again."""
    removed = stored().clear()
    print(json.dumps({"removed": removed}) if as_json else f"{removed} kernels removed")
    return 0
