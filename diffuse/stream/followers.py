"""Plans the groups that wait behind one whose machine code is missing, so that their kernels are compiled
meanwhile."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

from diffuse.interrupts import of_handler
from diffuse.runtime.base import CodeUse

if TYPE_CHECKING:
    from diffuse.stream.execute import Forwarder


def plan_followers(forwarder: Forwarder) -> None:
    """Plan the closed groups; planning a group sends the request to compile its kernel.

    While the program still records, the newest one is left out, as the program may drop results of it.  Where
    it drops results of others, they are planned anew.  Several ranks plan each group in its turn, as all of
    them have to make the same plans.
    """
    window, stores = forwarder.window, forwarder.stores
    if stores.runtime.code is not CodeUse.PREFERRED or stores.lost or forwarder.thorough:
        return
    settled = len(window.closed) - bool(window.open.recorded)
    for group in islice(list(window.closed), max(0, settled)):
        if not group.opaque:
            try:
                forwarder.plan_of(group, group.number)
            except Exception as error:
                if of_handler(error):
                    raise
                return  # it comes again when this group is launched
