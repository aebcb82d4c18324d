"""When two runs agree: text with numbers, arrays, files."""

from __future__ import annotations

from pathlib import Path

import numpy
import pytest

from diffuse.cli import agreement


@pytest.mark.parametrize("one, other", [
    ("mean 0.30000000000000004", "mean 0.3"),
    ("[1.  2.5]", "[1. 2.5]"),                              # spaces follow from the longest number
    ("residual 3.1e-17", "residual -2.2e-16"),
    ("x = 1.23449, y", "x = 1.2345, y"),                    # one unit in the last place
    ("took 0.52 s for 3 steps", "took 1.9 s for 3 steps"),  # times
    ("speed: 12.5 ms, nan -inf", "speed: 0.1 ms, nan -inf"),
    ("v1.2.3 of x3", "v1.2.3 of x3"),
])
def test_texts_that_agree(one: str, other: str) -> None:
    assert agreement.texts(one, other) is None


def test_texts_are_the_same_but_for_times() -> None:
    assert agreement.same_text("[1.  2.5] took 0.52 s\n", "[1. 2.5] took 11.9 s\n")
    assert not agreement.same_text("mean 0.30000000000000004", "mean 0.3")


@pytest.mark.parametrize("one, other", [
    ("mean 0.30001", "mean 0.31"),
    ("iterations 152", "iterations 153"),
    ("iterations 1520000", "iterations 1520001"),
    ("ok", "not ok"),
    ("1.0 m", "2.0 m"),
    ("nan", "1.0"),
    ("inf", "-inf"),
    ("took 0.5 s for 3 steps", "took 0.5 s for 4 steps"),
    ("x3", "x4"),
    ("a\nb", "a"),
])
def test_texts_that_differ(one: str, other: str) -> None:
    assert agreement.texts(one, other) is not None


def test_arrays_agree_in_half_of_their_digits() -> None:
    x = numpy.linspace(1.0, 2.0, 5)
    assert agreement.arrays(x, x * (1 + 1e-10)) is None
    assert agreement.arrays(numpy.array([1.0, 1e-17]), numpy.array([1.0, 5e-17])) is None
    assert agreement.arrays(x.astype("f4"), (x * (1 + 1e-5)).astype("f4")) is None
    assert agreement.arrays(numpy.array([numpy.nan, numpy.inf]), numpy.array([numpy.nan, numpy.inf])) is None
    for other in (x * (1 + 1e-6), x.astype("f4"), x[:4], numpy.where(x > 1.9, numpy.nan, x)):
        assert agreement.arrays(x, other) is not None
    assert agreement.arrays(numpy.arange(3), numpy.array([0, 1, 3])) == (
        "differs in 1 of 3 elements; [2] is 2 under NumPy and 3 under Diffuse")
    assert agreement.arrays(numpy.array(["a"]), numpy.array(["b"])) is not None
    fields = numpy.array([(1.0, 2)], "f8,i8")
    other = numpy.array([(1.0, 3)], "f8,i8")
    assert "field 'f1' that differs" in str(agreement.arrays(fields, other))


def test_files_that_one_run_alone_saved_and_files_of_bytes(tmp_path: Path) -> None:
    for name, content in (("a", b"\xff1"), ("b", b"\xff2"), ("c", b"1.0000001 m"), ("d", b"1.0000002 m")):
        (tmp_path / name).write_bytes(content)
    a, b, c, d = (str(tmp_path / name) for name in "abcd")
    assert list(agreement.files({"x": a}, {"x": a})) == []
    assert list(agreement.files({"x.csv": c}, {"x.csv": d})) == []
    assert list(agreement.files({"x.bin": a}, {"x.bin": b, "y": a})) == [
        "x.bin differs: 2 bytes under NumPy and 2 under Diffuse, not all the same",
        "y was saved under Diffuse alone"]


def test_pictures_are_compared_by_their_pixels(tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image")
    pixels = numpy.zeros((20, 20, 3), "u1")
    paths = []
    for number, value in enumerate((0, 1, 200)):
        pixels[:, 3] = value
        paths.append(str(tmp_path / f"{number}.png"))
        image.fromarray(pixels).save(paths[-1])
    assert list(agreement.files({"p.png": paths[0]}, {"p.png": paths[1]})) == []
    assert "root mean square" in next(agreement.files({"p.png": paths[0]}, {"p.png": paths[2]}))
