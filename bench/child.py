"""A measurement in a process of its own: the script starts itself, the child's last line is the answer."""

from __future__ import annotations

import json
import subprocess
import sys
import traceback
from collections.abc import Callable, Mapping
from typing import Any

from case import ROOT

Measures = dict[str, Any]


def ask(script: str, contender: str, options: Measures, environment: dict[str, str]) -> Measures:
    """Start `script` as the child of itself; what it measured, or why it did not."""
    command = [sys.executable, script, "--child", contender, json.dumps(options)]
    done = subprocess.run(command, env=environment, text=True, stdout=subprocess.PIPE, timeout=1800)
    lines = done.stdout.splitlines()
    if done.returncode or not lines:
        return {"absent": f"failed (status {done.returncode})"}
    return dict(json.loads(lines[-1]))


def answer(contenders: Mapping[str, Callable[[Measures], Measures]]) -> bool:
    """In the child: measure, print, and say that this was a child."""
    if sys.argv[1:2] != ["--child"]:
        return False
    sys.path.append(str(ROOT))
    try:
        result = contenders[sys.argv[2]](json.loads(sys.argv[3]))
    except ImportError as error:
        result = {"absent": f"not installed ({error})"}
    except Exception as error:
        traceback.print_exc()
        result = {"absent": f"failed ({type(error).__name__}: {error})"}
    print(json.dumps(result))
    return True
