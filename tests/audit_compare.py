"""Whether a call with Diffuse did what it does with NumPy: results, operands, warnings, errors.

Of each array: elements, element type, shape, strides, flags, which array of the call it is, or where in the
memory of which one it lies.
"""

from __future__ import annotations

import re
from types import ModuleType
from typing import Any

import numpy

import diffuse
import diffuse.numpy
from diffuse.numpy.arrays import core
from diffuse.stream import engine
from tests import audit_calls
from tests.audit_calls import Call
from tests.outcomes import warned

ARITHMETIC = set("""
    add subtract multiply divide true_divide floor_divide remainder mod fmod divmod sqrt square
    reciprocal negative positive absolute abs fabs sign copysign maximum minimum fmax fmin floor ceil
    trunc rint conj conjugate clip round around fix modf frexp ldexp nextafter spacing where""".split())
"""Calls that have NumPy's bits at any size, as those that only compare, move or count elements have."""
SUMS = set("""
    sum mean std var prod average nansum nanmean nanstd nanvar nanprod cumsum cumprod cumulative_sum
    cumulative_prod nancumsum nancumprod trace dot vdot inner matmul @ matvec vecmat vecdot einsum
    tensordot norm vector_norm matrix_norm cov corrcoef trapezoid linalg add.reduce multiply.reduce
    add.accumulate multiply.accumulate subtract.accumulate add.reduceat multiply.reduceat
    logaddexp.reduce multi_dot matrix_power apply_over_axes apply_along_axis expm1 power pow float_power
    ** logaddexp logaddexp2 linspace logspace geomspace interp polyval poly gradient kron convolve
    correlate""".split())
"""Calls that add or multiply many elements."""

SAME = {"scalar divide": "divide"}
"""Operations that Diffuse's warnings name after the tasks that compute them."""

POWERS = r"np\.(pow|power|float_power|exp2?|expm1|sinh|cosh)\("
"""Calls whose results are so large that they differ as integers, too, where they are cast to such."""

SMALL = 16384
"""Arrays of fewer elements have NumPy's bits."""
EPSILON = {2: 1e-3, 4: 1.2e-7, 8: 2.3e-16}
ULPS = 20
"""What two results of a function may differ by: each is within a few units of the last place of the true one,
each part of a complex result measured by both."""


class Place(str):
    """A place that may also be an operand itself."""


class Outcome:
    """What one library made of a call."""

    def __init__(self, np: Any, call: Call) -> None:
        self.scope: dict[str, Any] = {}
        self.result: Any = None
        self.error: Any = None
        self.made: set[str] = set()
        """The operands that are results of other calls."""
        late = ""
        np.random.seed(5)
        with warned() as caught:
            try:
                self.result = audit_calls.run(np, call.lines, call.text, self.scope)
                late = " when it is computed" if call.mode.startswith("wrong") else ""
                # what lacks memory is known when it is computed, and errors of what is overwritten count
                engine.current().fence_thoroughly()
            except Exception as error:
                self.error = named(error)
                self.error = self.error[0] + late, self.error[1]
            diffuse.fence()
            names = [line.partition(" = ")[0] for line in call.lines]
            self.operands = {name: self.scope[name] for name in names if name in self.scope}
            self.roots = {name: memory(root(value)) for name, value in self.operands.items()}
            self.made = {line.partition(" = ")[0] for line in call.lines if " = array(" not in line}
            self.shown = {name: self.told(value, owns=name not in self.made)
                          for name, value in self.operands.items()}
            if self.error is None:
                self.shown["result"] = self.told(self.result, True)
            diffuse.fence()
        self.warnings = sorted({(w.category.__name__, str(w.message)) for w in caught
                                if "from broadcast_array" not in str(w.message)})

    def told(self, value: Any, placed: bool = False, owns: bool = True) -> Any:
        """Everything about a value that has to be alike, with arrays as NumPy's last of all."""
        if type(value) in core.PENDING:
            value = value.value()
        if isinstance(value, numpy.ndarray) or type(value) is diffuse.numpy.ndarray:
            kind = "ndarray" if type(value) in (numpy.ndarray,
                                                diffuse.numpy.ndarray) else type(value).__name__
            if kind == "MaskedArray":
                return ["masked", *[self.told(part, placed) for part in (
                    numpy.asarray(value), numpy.ma.getmaskarray(value))]]
            strides = value.strides if value.size else None
            place = (self.place(value) if value.size else None) if placed else ""
            known = owns and place is not None and self.made.isdisjoint(place.split("[")[:1])
            return ["array", kind, value.dtype.str, value.shape, strides, flags(value, known), place,
                    memory(value)]
        if isinstance(value, numpy.generic):
            return ["number", type(value).__name__, numpy.asarray(value)]
        if isinstance(value, (tuple, list)):
            return [type(value).__name__, *[self.told(v, placed) for v in value]]
        if isinstance(value, (float, complex)):
            return [type(value).__name__, numpy.asarray(value)]
        if isinstance(value, memoryview):
            return ["memoryview", value.shape, value.strides, value.format, value.readonly]
        if isinstance(value, ModuleType):
            return "module"
        if type(value).__name__ in ("function", "MethodType", "builtin_function_or_method", "Flat"):
            return type(value).__name__.lower()
        if type(value).__name__ in ("flatiter", "nditer"):
            return "flat"
        return [type(value).__name__, addressless(repr(value))]

    def place(self, value: Any) -> Any:
        """Which operand a value is, or in the memory of which one it lies, how far from the start."""
        for name, operand in self.operands.items():
            if operand is value:
                return name
        found = memory(value)
        for name, whole in self.roots.items():
            if whole.nbytes and found.size and numpy.may_share_memory(whole, found):
                place = f"{name}[{address(found) - address(whole)}]"
                # an array of NumPy's and one of Diffuse's that stands for it may be the same to a program
                either = isinstance(self.operands[name], numpy.ndarray) != isinstance(value, numpy.ndarray)
                return Place(place) if either else place
        return None


def memory(value: Any) -> Any:
    """An array as NumPy's, on its own memory."""
    return numpy.asarray(value) if isinstance(value, numpy.ndarray) else value.__array__()


def root(value: Any) -> Any:
    """The array that owns what a view shows, as far as arrays go."""
    if not isinstance(value, numpy.ndarray) and type(value) is not diffuse.numpy.ndarray:
        return numpy.asarray(0)
    while isinstance(value.base, numpy.ndarray) or type(value.base) is diffuse.numpy.ndarray:
        value = value.base
    return value


def address(array: Any) -> int:
    return int(array.__array_interface__["data"][0])


def flags(value: Any, known: bool) -> str:
    """Flags by their letters.  Whether a result that lies in no operand owns its memory, or is a view of a
    temporary that nobody else sees, as many a function of NumPy's returns, nobody can tell apart."""
    found = value.flags
    letters = (("C", found.c_contiguous), ("F", found.f_contiguous), ("W", found.writeable),
               ("A", found.aligned), ("O", known and found.owndata))
    return "".join(letter for letter, on in letters if on)


def named(error: BaseException) -> tuple[str, str]:
    """The name and the words of an error; that memory is lacking each allocator says in its own."""
    if isinstance(error, MemoryError):
        return "MemoryError", ""
    return type(error).__name__, wording(error)


def wording(error: BaseException) -> str:
    return addressless(str(error)).replace("diffuse.numpy", "numpy")


def addressless(text: str) -> str:
    return re.sub(r"0x[0-9a-fA-F]+", "0x", text).replace("diffuse.numpy", "numpy")


def differences(call: Call) -> list[str]:
    """What Diffuse does otherwise than NumPy, a line each; nothing if all is well."""
    theirs, ours = Outcome(numpy, call), Outcome(diffuse.numpy, call)
    found = []
    if theirs.error != ours.error:
        found.append(f"error: {ours.error}, NumPy's {theirs.error}")
    if theirs.error is None is ours.error and not warned_alike(ours.warnings, theirs.warnings):
        found.append(f"warnings: {ours.warnings}, NumPy's {theirs.warnings}")
    if theirs.error is not None and "integer powers" in theirs.error[1]:
        return found  # it comes when some elements were written
    near = nearness(call, max([size_of(t[-1]) for t in theirs.shown.values() if type(t) is list], default=0))
    if near != "bits" and "'unsafe'" in call.text and re.search(POWERS, call.text):
        near += " cast"
    scale = max([size(t[-1]) for t in theirs.shown.values() if type(t) is list], default=1.0)
    coarse = coarsest(call, [t[-1] for t in theirs.shown.values() if type(t) is list])
    for name in theirs.shown.keys() & ours.shown.keys():
        if name == "result" and undefined(call):
            ours.shown[name], theirs.shown[name] = without(ours.shown[name]), without(theirs.shown[name])
        if re.match("fmax|fmin|nanmax|nanmin", call.name):
            ours.shown[name], theirs.shown[name] = unsigned(ours.shown[name]), unsigned(theirs.shown[name])
        found += unequal(ours.shown[name], theirs.shown[name], name, near, scale, coarse)
    return found


def warned_alike(ours: list[tuple[str, str]], theirs: list[tuple[str, str]]) -> bool:
    """Do warnings say the same?  One of ours names every operation of a task that may be meant, and stands
    for several of NumPy's if several are."""
    said = [meanings(warning) for warning in ours]
    meant = [meanings(warning) for warning in theirs]
    return all([any([one & other for other in meant]) for one in said]) and all(
        [any([one & other for other in said]) for one in meant])


def meanings(warning: tuple[str, str]) -> set[tuple[str, str, str]]:
    """What a warning may mean: its type, the fault, and each operation that it names."""
    fault, _, names = warning[1].partition(" encountered in ")
    return {(warning[0], fault, SAME.get(name, name)) for name in names.partition(" (")[0].split(" or ")}


def size_of(value: Any) -> int:
    """How many elements an array has; 0 for anything else."""
    return value.size if isinstance(value, numpy.ndarray) else 0


def nearness(call: Call, most: int) -> str:
    """How near results have to be: equal bits, a few units in the last place, or as sums of many elements.
    `most` is the number of elements of the largest array: small ones may have a large result."""
    name = call.name.removesuffix("=").partition(".")[0]
    if call.mode == "small" and most < SMALL:
        return "bits"
    if "'c" in call.text + "".join(call.lines) and name in ("abs", "absolute", "abs({})", "multiply", "*",
                                                            "square"):
        return "ulps"
    if call.name in SUMS or name in SUMS or "linalg" in call.text or "fft" in call.text:
        return "sums"
    if call.name in ARITHMETIC or name in ARITHMETIC:
        return "bits"
    return "ulps"


def coarsest(call: Call, arrays: list[Any]) -> float:
    """The precision of the least precise type that the call may have computed in: small integers take small
    floating-point types."""
    types = [x.dtype for x in arrays if isinstance(x, numpy.ndarray)]
    narrow = [t for t in types if t.kind in "biu" and t.itemsize < 4]
    sizes = [t.itemsize // (2 if t.kind == "c" else 1) for t in types if t.kind in "fc"]
    sizes += [2 * t.itemsize for t in narrow]
    sizes += [n for word, n in (("f2", 2), ("f4", 4), ("c8", 4)) if word in call.text]
    sizes += [4] * ("loat32" in call.text or "complex64" in call.text) + [2] * ("float16" in call.text)
    return EPSILON.get(min(sizes, default=8), 2.3e-16)


def size(value: Any) -> float:
    """The largest finite magnitude of an array's elements."""
    if not isinstance(value, numpy.ndarray) or value.dtype.kind not in "iufcb" or not value.size:
        return 1.0
    with numpy.errstate(all="ignore"):
        found = numpy.abs(value.astype("c16" if value.dtype.kind == "c" else "f8"))
    return float(found[numpy.isfinite(found)].max(initial=1.0))


def unequal(ours: Any, theirs: Any, where: str, near: str, scale: float, coarse: float) -> list[str]:
    """Compare two values that `Outcome.told` gave."""
    if isinstance(ours, list) and isinstance(theirs, list) and len(ours) == len(theirs):
        found = []
        names = ("", "class", "dtype", "shape", "strides", "flags", "place", "elements")
        for k, (one, other) in enumerate(zip(ours, theirs, strict=True)):
            part = f"{where}.{names[k]}" if ours[0] == "array" else where
            found += unequal(one, other, part, near, scale, coarse)
        return found
    if isinstance(ours, numpy.ndarray) and isinstance(theirs, numpy.ndarray):
        return [] if ours.shape != theirs.shape or ours.dtype != theirs.dtype or alike(ours, theirs, near,
                                                                                       scale, coarse) \
            else [f"{where}: {differing(ours, theirs)}"]
    if type(ours) is Place and theirs in (ours, ours[0]):
        return []
    return [] if type(ours) is type(theirs) and ours == theirs else [f"{where}: {ours}, NumPy's {theirs}"]


def differing(ours: Any, theirs: Any) -> str:
    """The first elements that differ, of ours and of NumPy's."""
    apart = numpy.array([repr(a) != repr(b) for a,
                         b in zip(ours.ravel().tolist(), theirs.ravel().tolist(), strict=True)])
    few = numpy.flatnonzero(apart)[:4]
    return (f"{apart.sum()} of {ours.size}, at {few.tolist()}: {ours.ravel()[few].tolist()}, "
            f"NumPy's {theirs.ravel()[few].tolist()}")


def undefined(call: Call) -> bool:
    """Does nobody promise what the elements of the result are?  Long doubles have bytes that say nothing."""
    if call.name == "view" and re.search("'[gG]'", call.lines[0]):
        return True
    masked = "where=" in call.text and call.name.partition(".")[2] in ("", "outer")
    filled = re.search(r"out=(?!None|\.\.\.|\([^()]*None)", call.text) is not None
    blank = call.name.startswith("empty") or "np.ndarray(" in call.text or "'empty'" in call.text
    return blank or masked and not filled


def unsigned(told: Any) -> Any:
    """What was told of a result, with zeros of one sign: which of two `fmax` takes goes by the place
    in the array, with NumPy."""
    if isinstance(told, numpy.ndarray) and told.dtype.kind == "f":
        return numpy.asarray(told + told.dtype.type(0))
    return [unsigned(part) for part in told] if type(told) is list else told


def without(told: Any) -> Any:
    """What was told of a result, without elements."""
    if type(told) is list and told[0] in ("array", "number"):
        return told[:-1]
    return [without(part) for part in told] if type(told) is list else told


def alike(ours: Any, theirs: Any, near: str, scale: float, coarse: float) -> bool:
    """Are elements equal, or near enough?  NaN of any sign and payload is NaN; the sign of zero counts."""
    kind = ours.dtype.kind
    if kind in "OMmV":
        return repr(ours.tolist()) == repr(theirs.tolist())
    if kind in "iu" and near.endswith(" cast"):
        gap = numpy.maximum(ours, theirs) - numpy.minimum(ours, theirs)
        return bool((gap <= ULPS * coarse * numpy.abs(theirs.astype("f8"))).all())
    near = near.removesuffix(" cast")
    if kind not in "fc":
        return bool(numpy.array_equal(ours, theirs))
    a, b = numpy.ascontiguousarray(ours), numpy.ascontiguousarray(theirs)
    if kind == "c":
        a, b = a.view(a.real.dtype), b.view(b.real.dtype)
    with numpy.errstate(all="ignore"):
        same = (a == b) & (numpy.signbit(a) == numpy.signbit(b)) | numpy.isnan(a) & numpy.isnan(b)
        if near == "bits" or same.all():
            return bool(same.all())
        if kind == "f" and not (same | numpy.isfinite(a) & numpy.isfinite(b)).all():
            return False
        if kind == "c":  # each library rounds parts by the size of the whole, and overflows in its own way
            lost = ~numpy.isfinite(a.reshape(-1, 2)).all(1) & ~numpy.isfinite(b.reshape(-1, 2)).all(1)
            same = same.reshape(-1) | numpy.repeat(lost, 2)
            b_size = numpy.repeat(numpy.abs(b.reshape(-1, 2)).max(1, initial=1.0), 2)
        else:
            b_size = numpy.abs(b)
        a, b, same = a.reshape(-1), b.reshape(-1), same.reshape(-1)
        epsilon = max(coarse, EPSILON.get(a.dtype.itemsize, 2.3e-16))
        if near != "sums":
            slack = numpy.maximum(ULPS * epsilon * b_size.reshape(-1), 1e-300)
            return bool((same | (numpy.abs(a - b) <= slack)).all())
        part = (3e4 if epsilon < 1e-8 else 1e3 if epsilon < 1e-4 else 20) * epsilon
        return bool((same | (numpy.abs(a - b) <= part * numpy.maximum(numpy.abs(b), scale))).all())
