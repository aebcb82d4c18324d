"""Plans how an array moves between the ranks from one partition to another, in bounded memory.

After "Memory-efficient array redistribution through portable collective communication" (Rink et al., 2021).
Pure functions: the cheapest sequence of collectives (`weak`, `search`), what each rank then sends and
receives (`lowering`), the direct exchange of boxes (`direct`), and the choice between them (`choice`).
`definition/` states the paper's types and collectives themselves, for tests.
"""

from diffuse.movement.boxes import Box, Holding, Layout, layout
from diffuse.movement.choice import direct, gathered, redistribute, synthesised
from diffuse.movement.machine import Machine
from diffuse.movement.route import Actions, Route

__all__ = ["Box", "Holding", "Layout", "Machine", "Route", "Actions", "direct", "gathered", "layout",
           "redistribute", "synthesised"]
