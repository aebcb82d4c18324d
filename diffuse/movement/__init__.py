"""Redistribution of an array from one partition to another: distributed types, collectives, and routes
between ranks.

After "Memory-efficient array redistribution through portable collective communication" (Rink et al., 2021).
Pure functions, from types (`mesh`, `collectives`, with `meaning` as their definition) over the search for the
cheapest sequence (`weak`, `search`) to what each rank sends and receives
(`lowering`, `direct`, `route`, `choice`).
"""

from diffuse.movement.boxes import Box, Holding, Layout, layout
from diffuse.movement.choice import direct, gathered, redistribute, synthesised
from diffuse.movement.machine import Machine
from diffuse.movement.route import Route, Turn

__all__ = ["Box", "Holding", "Layout", "Machine", "Route", "Turn", "direct", "gathered", "layout",
           "redistribute", "synthesised"]
