"""Loads at distances that the kernel computes: elements that an array of indices names."""

from __future__ import annotations

from diffuse.ir import ITEMSIZE
from diffuse.kernels.llvm.code import Code, Value
from diffuse.kernels.llvm.memory import Place, Step, address, element, lane, load, load_lanes, load_one


def load_behind(code: Code, place: Place, step: Step, distance: str) -> Value:
    """Load the elements at a distance after a place; the distance, a value, is the same in all lanes."""
    first = str(lane(code, "int64", distance, "0"))
    return load(code, place._replace(base=element(code, place.dtype, place.base, first)), step)


def load_apart(code: Code, place: Place, step: Step, distances: str) -> Value:
    """Load elements at distances that differ between lanes; inactive lanes read the first again."""
    if place.letter != "0":
        stride = str(ITEMSIZE[place.dtype]) if place.letter == "1" else place.stride
        place = place._replace(letter="s", stride=stride)
    at = place.base if place.letter == "0" else address(code, place, step)
    if code.lanes == 1:
        return load_one(code, place.dtype, element(code, place.dtype, at, distances), place.constant)

    def there(k: int) -> str:
        offset = code.let(f"mul nsw i64 {place.stride}, {k}") if place.letter != "0" else "0"
        distance = str(lane(code, "int64", distances, str(k)))
        if step.active is not None and place.letter != "0":
            within = code.let(f"icmp sgt i64 {step.active}, {k}")
            offset = code.let(f"select i1 {within}, i64 {offset}, i64 0")
        moved = at if offset == "0" else code.let(f"getelementptr inbounds i8, ptr {at}, i64 {offset}")
        return element(code, place.dtype, moved, distance)

    return load_lanes(code, place.dtype, there)
