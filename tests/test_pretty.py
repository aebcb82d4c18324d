"""The text of tasks, windows, refusals and keys, line by line."""

from __future__ import annotations

from diffuse.fusion.constraints import prefix
from diffuse.ir.text import key_text, task_text, window_text
from tests.build import array, key, reduction, task

a, b = array(0, 9), array(1, 8)


#   a: 0 1 2 3 4 5 6 7 8       neighbours added by tiles of 2, and copied back one to the right
def test_a_window_and_its_refusal() -> None:
    window = [task("add", [a[:-1], a[1:]], b, points=4), task("copy", [b], a[1:], points=4)]
    head, why = prefix(window)
    assert window_text(window, why) == (
        "add[4]  %0@2+0<8:R, %0@2+1:R, %1@2+0:W\n"
        "copy[4] %1@2+0:R, %0@2+1:W\n"
        "-- copy stays out: anti-dependence on store 0@2+1")
    assert len(head) == 1


def test_scalars_operators_and_lines_are_shown() -> None:
    assert task_text(task("multiply", [b, 0.5], b, where="app.py:3")) == (
        "multiply[1] %1:R, %1:W, float64(0.5)  # app.py:3")
    assert task_text(reduction("max", b, array(2), points=4)) == "max[4] %1@2+0:R, %2:Rd(max)"
    assert task_text(task("copy", [0.0], array(3, 4, 4), points=(2, 2), axis=(0, 1))) == (
        "copy[2x2] %3@2+0,2p1+0:W, float64(0.0)")


def test_a_key_shows_each_view_once_and_no_extent() -> None:
    window = [task("exp", [b], b, points=4), task("add", [b, b[::-1]], array(2, 8), points=4)]
    assert key_text(key(window, {2})) == (
        "exp(float64,float64)[p] in new space of rank 1 cut along 0: %0.0[float64 1 covers]:R, %0.0[same]:W\n"
        "add(float64,float64,float64)[=] in space 0: "
        "%0.0:R, %0.1[float64 s alias 0 covers]:R, %1.0[float64 1 same covers]:W\n"
        "live: %1")


def test_nothing_prints_as_nothing() -> None:
    assert window_text([]) == "" and key_text(key([])) == "live: none"
