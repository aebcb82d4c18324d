"""What the analysis of a group has found out about its tasks."""

from __future__ import annotations

from diffuse.fusion.canonical import Numbering
from diffuse.fusion.constraints import Effects
from diffuse.stream.outline import Outline


class Analysis:
    """The canonical numbers, the effects and the kernel's outline of the tasks of a group.

    Of most groups nothing is asked, because the program recorded the same before: it is made when needed.
    """

    __slots__ = ("numbering", "effects", "outline")

    def __init__(self) -> None:
        self.numbering = Numbering()
        self.effects = Effects()
        self.outline = Outline(self.numbering)
