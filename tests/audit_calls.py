"""The calls of the audit: every public callable of NumPy with arguments drawn by NumPy's own signatures.

A call is a few lines of text that make operands, and one expression; both follow from a number.
"""

from __future__ import annotations

import contextlib
import inspect
import re
from functools import cache
from operator import attrgetter
from random import Random
from typing import Any, NamedTuple

import numpy

from tests import audit_operands
from tests.audit_operands import SELDOM
from tests.audit_parameters import NUMBERS, OF_FUNCTION, PARAMETERS, STRANGE, Draft, of

LEFT_OUT = set("""
    save savez savez_compressed savetxt load loadtxt genfromtxt fromfile fromregex memmap seterr geterr
    seterrcall geterrcall errstate getbufsize setbufsize set_printoptions get_printoptions printoptions
    show_config show_runtime info test get_include busday_count busday_offset is_busday busdaycalendar
    datetime_as_string datetime_data nested_iters asmatrix bmat frompyfunc einsum_path array2string
    array_repr array_str base_repr binary_repr format_float_positional format_float_scientific
    fromstring as_strided mintypecode typename issubdtype isdtype dump dumps tofile to_device""".split())
"""Files, state, text and types: calls that have no array, or no result to compare."""
GROWING = set("""
    outer unstack polyadd polysub kron triu tril vander diag diagflat ix_ meshgrid einsum tensordot correlate
    convolve corrcoef cov inner matmul dot polymul polyfit poly roots cond pinv svd svdvals qr lstsq
    eig eigh eigvals eigvalsh norm matrix_norm matrix_rank inv solve det slogdet apply_along_axis tri
    eye identity multi_dot matvec vecmat histogram2d histogramdd polydiv isin tensorinv tensorsolve cholesky
    matrix_power""".split())
"""Functions whose results or times grow faster than their operands: given small arrays only."""
FOREIGN = 0.12
"""How many of the calls are of NumPy's own functions, on this library's arrays."""
CHAINED = 0.2
"""How many of the calls are made on the result of another one."""
EXACT = set("""
    add subtract multiply negative positive absolute maximum minimum fmax fmin where concatenate stack vstack
    hstack reshape transpose take roll flip rot90 getitem tile repeat clip astype copy moveaxis swapaxes
    broadcast_to expand_dims squeeze ravel diagonal tril triu pad append delete insert floor rint trunc sign
    logical_and logical_or logical_not equal not_equal less greater bitwise_and bitwise_or bitwise_xor
    nonzero argsort compress extract choose select atleast_2d isnan isfinite argwhere flatten sort unique
    diff""".split())
"""Calls whose results have NumPy's bits at any size."""
AFTER = 0.12
"""How many of the calls have their operands overwritten before anybody looks at the results."""
OPERATORS = "+ - * / // % ** @ & | ^ << >> < <= == != > >=".split()
OTHERS = {"emath": "sqrt log log2 logn log10 power arccos arcsin arctanh".split(),
          "lib.stride_tricks": ["sliding_window_view"]}
"""The functions of modules without a list of them."""
UNARY = "-{} +{} ~{} abs({}) bool({}) float({}) int({}) len({}) complex({}) list({})".split()
ATTRIBUTES = """T mT real imag flat size shape strides dtype itemsize nbytes ndim base flat[0] flat[1:]
data.shape __array_namespace__() __len__() flags.c_contiguous __array_priority__ __copy__() __deepcopy__({})
tobytes() tolist() item() flatten() squeeze() __contains__(0) __format__('') flat[::2] __pow__(2)
__rsub__(3) __divmod__(2) __ipow__(2) __matmul__(3) __invert__() __index__() __hash__ __bool__()
__reduce__()[2][:4] __array__('f4') __array_interface__['shape'] __eq__(None) __lt__('a')""".split()
INDICES = """... 0 -1 1: ::-1 ::2 None ...,None ...,0 0,... :,0 :,::-1 1:,1: True False [0] [0,-1] [] (0,) 99
1.5 :0 ...,...""".split()


THING = object()
"""An object of no use to NumPy, called `thing`: the same one for both libraries."""


class Call(NamedTuple):
    """Text of one call."""

    mode: str
    seed: int
    name: str
    lines: tuple[str, ...]
    text: str

    def __str__(self) -> str:
        return f"{self.mode} {self.seed}: " + "; ".join((*self.lines, self.text))


class Callable_(NamedTuple):
    """A public callable: how it is written, and its parameters."""

    path: str
    name: str
    parameters: tuple[inspect.Parameter, ...]


@cache
def callables() -> dict[str, list[Callable_]]:
    """All public callables of NumPy that the audit knows, by kind."""
    found: dict[str, list[Callable_]] = {"ufunc": [], "function": [], "method": [], "library": []}
    for name in sorted(dir(numpy)):
        value = getattr(numpy, name)
        if name.startswith("_") or name in LEFT_OUT or isinstance(value, type) or not callable(value):
            continue
        kind = "ufunc" if isinstance(value, numpy.ufunc) else "function"
        found[kind].append(Callable_(f"np.{name}", name, _parameters(value)))
    for path in ("linalg", "fft", "emath", "lib.stride_tricks"):
        module = attrgetter(path)(numpy)
        for name in OTHERS.get(path) or module.__all__:
            value = getattr(module, name)
            if callable(value) and not isinstance(value, type) and name not in LEFT_OUT:
                found["library"].append(Callable_(f"np.{path}.{name}", name, _parameters(value)))
    for name in dir(numpy.ndarray):
        value = getattr(numpy.ndarray, name)
        if callable(value) and not name.startswith("_") and name not in LEFT_OUT:
            found["method"].append(Callable_(f"a.{name}", name, _parameters(value)[1:]))
    return found


def _parameters(value: Any) -> tuple[inspect.Parameter, ...]:
    return tuple(inspect.signature(value).parameters.values())


def generate(seed: int, mode: str) -> Call:
    """Make up a call: the same one for the same number and mode.  The mode says how large its arrays are."""
    pick = Random(f"{seed} {mode}")
    draft = Draft(pick, mode)
    if pick.random() < CHAINED:
        _before(draft)
    kind = pick.choices(("ufunc", "part", "operator", "function", "method", "library", "element"),
                        (28, 8, 12, 28, 12, 5, 7))[0]
    name, text = _made(draft, kind)
    if avoided(draft, text):
        return Call(mode, seed, "abs", ("a = array((7,), 'f8', 'C', 2)",), "np.abs(a)")
    if draft.shapes and pick.random() < AFTER:
        text = f"after({text}, {', '.join(draft.shapes)})"
    if pick.random() < FOREIGN:
        text = re.sub(r"\bnp\.", "numpy.", text)
    return Call(mode, seed, name, tuple(draft.lines), text)


def _made(draft: Draft, kind: str) -> tuple[str, str]:
    """A call of this kind: the name that it goes by, and its text."""
    return {"part": _part, "operator": _operator, "element": _element}.get(kind, _call)(draft, kind)


def _before(draft: Draft) -> None:
    """A call before the other one, whose result is its first operand, if it has NumPy's bits and a type that
    Diffuse computes with."""
    pick, mode = draft.pick, draft.mode
    kind = pick.choices(("ufunc", "operator", "function", "method", "element"), (25, 25, 30, 12, 8))[0]
    name, text = _made(draft, kind)
    draft.mode = mode
    exact = mode == "small" or name in EXACT or name in OPERATORS[:3]
    found = None
    if exact and not re.search("where=|empty", text) and not avoided(draft, text) and len(draft.shapes) < 5:
        with contextlib.suppress(Exception):
            found = run(numpy, draft.lines, text)
    spreads = mode == "large" and 1 in getattr(found, "shape", ())  # a column and a row make a large square
    if (type(found) is numpy.ndarray and found.dtype.str[1:] in audit_operands.NATIVE and found.size < 60_000
            and not spreads):
        draft.keep(text, found.shape, found.dtype.str[1:])
    else:
        draft.forget()


def avoided(draft: Draft, text: str) -> bool:
    """Would a call end NumPy's process, or take it minutes?

    NumPy 2.4 reads a mask through a null pointer where it compares integers with a Python integer that their
    type does not have.  It ends where it folds another type into an output of objects, as `median` does by
    the mean of those in the middle, or joins matrices of three dimensions.  It writes running values beyond
    an output without dimensions, and frees a converted output of `choose` twice.  Integers of any size may
    grow without end.
    """
    into = re.search(r"out=\(?(\w)\b", text)
    if into and ("choose(" in text and "mode=" in text or draft.shapes.get(into[1]) == ()
                 and re.search(r"cumsum|cumprod|cumulative_|accumulate", text)):
        return True
    called = re.match(r"np\.(\w+)\(", text)
    if "matrix" in text and called and not isinstance(getattr(numpy, called[1], None), numpy.ufunc):
        return True
    folds = r"\b(any|all|mean|(nan)?median)\(|dtype="
    if "out=" in text and "O" in draft.dtypes.values() and re.search(folds, text):
        return True
    if re.search(r"np\.(less|greater|equal|not_equal)", text) and "where=" in text:
        return re.search(r"[(, ](-1|-2|-?300|1<<\d+)[,)]", text) is not None
    if re.search(r"(put|take|choose)\(.*1<<40.*'wrap'", text):  # NumPy subtracts the extent again and again
        return True
    if re.search(r"prod\(.*object", text):
        return True
    if re.search(r"np\.(pow|power|left_shift|bitwise_left_shift|ldexp)\b|<<|\*\*", text):
        method = "." in text.partition("(")[0][3:]
        objects = "O" in draft.dtypes.values() or "object" in text
        return "1<<" in text and (method or objects) or objects and (method or "object" in text)
    return False


def _call(draft: Draft, kind: str) -> tuple[str, str]:
    pick = draft.pick
    chosen = pick.choice(callables()[kind])
    if chosen.name in GROWING or kind == "library" and chosen.name not in ("fft", "rfft", "ifft"):
        draft.stay_small()
    draft.tame = kind == "library"
    if draft.tame:
        draft.first = None
    if kind == "method":
        chosen = chosen._replace(path=f"{draft.new(draft.any_shape())}.{chosen.name}")
    return chosen.name, _with_arguments(draft, chosen)


def _with_arguments(draft: Draft, chosen: Callable_) -> str:
    """A call of a callable, with required arguments and some of the others."""
    pick, words, open_, out = draft.pick, [], True, False
    share = pick.choice((0.0, 0.15, 0.3))
    for parameter in chosen.parameters:
        required = parameter.default is parameter.empty
        if parameter.kind is parameter.VAR_KEYWORD:
            continue
        if parameter.name == "out":
            out = pick.random() < 0.3
            open_ = False
            continue
        if not required and pick.random() >= share:
            open_ = False
            continue
        make = OF_FUNCTION.get(f"{chosen.name}.{parameter.name}") or PARAMETERS.get(parameter.name)
        if make is None:
            open_ = False
            continue
        if pick.random() < 0.02:
            make = of(*STRANGE)
        by_position = open_ and parameter.kind is not parameter.KEYWORD_ONLY
        if parameter.kind is parameter.VAR_POSITIONAL:
            words += [make(draft) for _ in range(1 if chosen.name == "view" else pick.randrange(1, 4))]
        elif by_position and (required or pick.random() < 0.5 or parameter.kind is parameter.POSITIONAL_ONLY):
            words.append(make(draft))
        elif parameter.kind is not parameter.POSITIONAL_ONLY:
            words.append(f"{parameter.name}={make(draft)}")
            open_ = False
    if out and not (chosen.name == "clip" and "out" in words):
        target = _out(draft, f"{chosen.path}({', '.join(words)})")
        words.append(f"out={target}")
    return f"{chosen.path}({', '.join(words)})"


def _out(draft: Draft, text: str) -> str:
    """An array for the result: of its shape and type or of others, a view of an operand, or nonsense."""
    pick = draft.pick
    try:
        if avoided(draft, text):
            raise ValueError(text)
        natural = run(numpy, draft.lines, text)
    except Exception:
        natural = numpy.zeros(draft.shape)
    results = natural if isinstance(natural, tuple) and natural else (natural,)
    targets = []
    for result in results[:4]:
        kind = pick.randrange(16)
        shape, dtype = numpy.shape(result), getattr(result, "dtype", numpy.dtype("f8"))
        name = dtype.str.lstrip("<|=") if dtype.kind not in "OV" else "O"
        if kind < 4:
            name = pick.choice(audit_operands.DTYPES)
        if kind == 9:  # one that is NumPy's from beginning to end, or of another byte order
            name = pick.choice(SELDOM)
        if kind == 4:
            shape = audit_operands.shape_like(pick, shape)
        if "cum" in text or "accumulate" in text:  # NumPy writes beyond an output of no dimension
            shape, kind = shape or (1,), kind if all(draft.shapes.values()) else 0
        if kind in (5, 6, 7) and draft.shapes:
            target = pick.choice([*draft.shapes])
            targets.append(draft.view(target) if kind > 5 else target)
        elif kind == 8:
            targets.append(pick.choice(("None", "3", "[1.]", "numpy.zeros(3)", "...", "()")))
        elif len(draft.shapes) < 8:
            targets.append(draft.new(shape, name))
        else:
            targets.append("None")
    if len({re.split(r"[.\[]", target)[0] for target in targets}) < len(targets):  # two results in one array
        targets = ["None"] * len(targets)
    if len(targets) == 1 and pick.random() < 0.8:
        return targets[0]
    return f"({', '.join(targets)},)"


def _part(draft: Draft, kind: str) -> tuple[str, str]:
    """A method of a ufunc."""
    pick = draft.pick
    nin = pick.choice((1, 2, 2, 2, 2, 2))
    chosen = pick.choice([c for c in callables()["ufunc"] if getattr(numpy, c.name).signature is None
                          and getattr(numpy, c.name).nin == nin])
    method = pick.choice("reduce reduce accumulate reduceat outer at".split())
    if method == "outer":
        draft.stay_small()
    first = draft.new(draft.any_shape()) if pick.random() < 0.95 else draft.operand()
    words = [first]
    options = {"reduce": ("axis", "dtype", "keepdims", "initial", "where"), "accumulate": ("axis", "dtype"),
               "reduceat": ("axis", "dtype"), "outer": ("dtype", "where", "casting", "order")}.get(method, ())
    if method == "reduceat" and draft.mode == "large":  # from each index NumPy may go to the end
        words.append(draft.new((5,), "u1"))
    elif method in ("reduceat", "at"):
        words.append(draft.indices())
    if method in ("outer", "at") and getattr(numpy, chosen.name).nin == 2:
        words.append(draft.operand())
    words += [f"{name}={PARAMETERS[name](draft)}" for name in options if pick.random() < 0.3]
    if chosen.name in ("pow", "power", "left_shift", "bitwise_left_shift", "ldexp"):  # numbers without end
        words = [word for word in words if word != "dtype=object"]
    text = f"np.{chosen.name}.{method}("
    if method != "at" and pick.random() < 0.3:
        words.append(f"out={_out(draft, text + ', '.join(words) + ')')}")
    return f"{chosen.name}.{method}", f"{text}{', '.join(words)})"


def _operator(draft: Draft, kind: str) -> tuple[str, str]:
    pick = draft.pick
    if pick.random() < 0.12:
        form = pick.choice(UNARY if draft.mode != "large" else UNARY[:5])
        return form, form.format(draft.new(draft.any_shape()))
    sign = pick.choice(OPERATORS)
    if sign == "@":
        draft.stay_small()
    a = draft.new(draft.any_shape())
    b = draft.operand()
    if pick.random() < 0.35 and sign not in ("<", "<=", "==", "!=", ">", ">="):
        left = draft.view(a) if pick.random() < 0.2 else a
        return f"{sign}=", f"update({left}, '{sign}=', {b})"
    if pick.random() < 0.1:
        return "divmod", f"divmod({a}, {b})"
    return sign, f"{a} {sign} {b}" if pick.random() < 0.7 else f"{b} {sign} {a}"


def _element(draft: Draft, kind: str) -> tuple[str, str]:
    """Attributes, elements, assignments."""
    pick = draft.pick
    a = draft.new(draft.any_shape())
    way = pick.randrange(10)
    if way < 3:
        attribute = pick.choice(ATTRIBUTES)
        return attribute, f"{a}.{attribute}"
    if way == 3:
        name = pick.choice(("shape", "dtype", "real", "imag", "flat", "T", "size", "strides"))
        value = {"shape": draft.extents, "dtype": PARAMETERS["dtype"].__get__(draft)}.get(name,
                                                                                          draft.operand)()
        return f"{name}=", f"setattr({a}, '{name}', {value})"
    index = pick.choice(INDICES) if pick.random() < 0.7 else pick.choice((draft.mask, draft.indices))()
    if way < 7:
        return "getitem", f"{a}[{index}]"
    value = draft.operand() if pick.random() < 0.7 else pick.choice(NUMBERS)
    return "setitem", f"assign({a}, numpy.s_[{index}], {value})"


def run(np: Any, lines: Any, text: str, scope: dict[str, Any] | None = None) -> Any:
    """Run a call with one library; the operands are in `scope` then."""
    scope = {} if scope is None else scope
    scope.update(np=np, numpy=numpy, update=update, assign=assign, after=after, thing=THING,
                 array=lambda *words: audit_operands.array(np, *words))
    for line in lines:
        exec(line, scope)
    return eval(text, scope)


def assign(array: Any, index: Any, value: Any) -> None:
    array[index] = value


def after(result: Any, *arrays: Any) -> Any:
    """A result, when all arrays were overwritten that can be: views of them show it, and nothing else."""
    for array in arrays:
        if array.flags.writeable and array.dtype.kind in "biufc":
            array[...] = array[::-1] if array.ndim and array.dtype.kind != "b" else 0
            array *= 0
    return result


def update(left: Any, sign: str, right: Any) -> Any:
    """`left += right` and the like, as an expression."""
    scope = {"left": left, "right": right}
    exec(f"left {sign} right", scope)
    return scope["left"]
