"""Calls of every public function of NumPy with generated arguments: does Diffuse do what NumPy does?

    python tests/audit.py --calls 200000     some minutes on two processors; exit status 1 if any differs
    python tests/audit.py --repeat large 4711     one call again, as text and with all that differs
    python tests/audit.py --calls 9000 --modes wrong-small,wrong-recorded,wrong-large     wrong calls only

A call is made in one of three modes: on small arrays, on small ones that are recorded all the same
(DIFFUSE_SMALL=0), and on ones of more than 16,384 elements.  The modes that begin with `wrong` make calls
that are wrong in one way each (audit_wrong.py), also on fewer than 128 elements.  What a line prints, mode
and number, makes the call again.  A call that ends its process is reported like any other.
"""

from __future__ import annotations

import sys
import traceback
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from tests import shares

MODES = {"small": 40, "recorded": 45, "large": 15,
         "wrong-few": 10, "wrong-small": 20, "wrong-recorded": 25, "wrong-large": 10}
"""The modes, and how many of a hundred calls each has."""


def settle(mode: str) -> None:
    """Prepare the process for the calls of a mode."""
    from diffuse.settings import config

    config.small = 0 if mode.endswith("recorded") else 16384


def checked(mode: str, number: int) -> tuple[str, list[str]]:
    """One call: its text, and what differs; a known difference as a line in brackets."""
    from tests import audit_calls, audit_compare, audit_known, audit_wrong

    call = (audit_wrong if mode.startswith("wrong") else audit_calls).generate(number, mode)
    settle(mode)
    try:
        found = audit_compare.differences(call)
        known = [audit_known.known(call, difference) for difference in found]
        if any(known):  # what comes with a known difference follows from it
            found = [f"[{what}]" for what in dict.fromkeys(filter(None, known))]
        return str(call), found
    except Exception:
        return str(call), [f"cannot be compared: {traceback.format_exc(limit=-3)}"]


def main() -> int:
    given = shares.options(__doc__, MODES, "calls", 20_000)
    if given.repeat:
        return shares.repeated(checked, *given.repeat)
    made, known, wrong = shares.run(checked, shares.shares(given.modes, given.count, given.first, 2000),
                                    given.processes, given.show)
    for what, n in known.most_common():
        print(f"{n:6} {what}")
    print(", ".join(f"{n} {mode}" for mode, n in made.items()), f"calls; {wrong} differ in "
          f"other ways than the {sum(known.values())} known ones")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
