"""Holds the analysis of a group of tasks."""

from __future__ import annotations

from diffuse.fusion.canonical import Numbering
from diffuse.fusion.constraints import Effects
from diffuse.stream.cuts import Cuts
from diffuse.stream.outline import Outline


class Analysis:
    """The canonical numbers, the cuts, the effects and the kernel's outline of the tasks of a group.

    It is made on demand: most groups were recorded before, and need no analysis.
    """

    __slots__ = ("numbering", "cuts", "effects", "outline")

    def __init__(self) -> None:
        self.numbering = Numbering()
        self.cuts = Cuts()
        self.effects = Effects()
        self.outline = Outline(self.numbering)
