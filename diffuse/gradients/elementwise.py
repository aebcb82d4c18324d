"""Rules of functions that are applied to each element: numpy.org/doc/stable/reference/ufuncs.html.

A rule takes the gradient of the result `g`, the result `y` and the inputs.
"""

from __future__ import annotations

import math
from typing import Any

from diffuse.gradients.variable import FUNCTIONS, UFUNCS, Rule, Variable, apply, np, plain

LN2, LN10 = math.log(2.0), math.log(10.0)

ONE: dict[str, Rule] = {
    "negative": lambda g, y, x: -g,
    "positive": lambda g, y, x: g,
    "absolute": lambda g, y, x: g * np.sign(x),
    "fabs": lambda g, y, x: g * np.sign(x),
    "sqrt": lambda g, y, x: g / (2.0 * y),
    "cbrt": lambda g, y, x: g / (3.0 * y * y),
    "square": lambda g, y, x: g * (2.0 * x),
    "reciprocal": lambda g, y, x: -g * y * y,
    "exp": lambda g, y, x: g * y,
    "exp2": lambda g, y, x: g * y * LN2,
    "expm1": lambda g, y, x: g * (y + 1.0),
    "log": lambda g, y, x: g / x,
    "log2": lambda g, y, x: g / (x * LN2),
    "log10": lambda g, y, x: g / (x * LN10),
    "log1p": lambda g, y, x: g / (x + 1.0),
    "sin": lambda g, y, x: g * np.cos(x),
    "cos": lambda g, y, x: -g * np.sin(x),
    "tan": lambda g, y, x: g * (1.0 + y * y),
    "arcsin": lambda g, y, x: g / np.sqrt(1.0 - x * x),
    "arccos": lambda g, y, x: -g / np.sqrt(1.0 - x * x),
    "arctan": lambda g, y, x: g / (1.0 + x * x),
    "sinh": lambda g, y, x: g * np.cosh(x),
    "cosh": lambda g, y, x: g * np.sinh(x),
    "tanh": lambda g, y, x: g * (1.0 - y * y),
    "arcsinh": lambda g, y, x: g / np.sqrt(x * x + 1.0),
    "arccosh": lambda g, y, x: g / np.sqrt(x * x - 1.0),
    "arctanh": lambda g, y, x: g / (1.0 - x * x),
    "deg2rad": lambda g, y, x: g * (math.pi / 180.0),
    "rad2deg": lambda g, y, x: g * (180.0 / math.pi),
    "conjugate": lambda g, y, x: g,
}


def _chosen(g: Any, mine: Any, equal: Any) -> Any:
    """The gradient of the selected input; half of it where both are equal."""
    return g * (mine + 0.5 * equal)


def _power_exponent(g: Any, y: Any, x: Any, p: Any) -> Any:
    return np.where(y != 0.0, g * y * np.log(np.where(x > 0.0, x, 1.0)), 0.0)


TWO: dict[str, tuple[Rule, Rule]] = {
    "add": (lambda g, y, a, b: g, lambda g, y, a, b: g),
    "subtract": (lambda g, y, a, b: g, lambda g, y, a, b: -g),
    "multiply": (lambda g, y, a, b: g * b, lambda g, y, a, b: g * a),
    "divide": (lambda g, y, a, b: g / b, lambda g, y, a, b: -g * y / b),
    "power": (lambda g, y, x, p: g * p * np.power(x, p - 1), _power_exponent),
    "float_power": (lambda g, y, x, p: g * p * np.float_power(x, p - 1), _power_exponent),
    "arctan2": (lambda g, y, a, b: g * b / (a * a + b * b), lambda g, y, a, b: -g * a / (a * a + b * b)),
    "hypot": (lambda g, y, a, b: g * a / y, lambda g, y, a, b: g * b / y),
    "logaddexp": (lambda g, y, a, b: g * np.exp(a - y), lambda g, y, a, b: g * np.exp(b - y)),
    "logaddexp2": (lambda g, y, a, b: g * np.exp2(a - y), lambda g, y, a, b: g * np.exp2(b - y)),
    "copysign": (lambda g, y, a, b: g * np.sign(a) * np.sign(y), lambda g, y, a, b: g * 0.0),
    "fmod": (lambda g, y, a, b: g, lambda g, y, a, b: -g * np.trunc(a / b)),
    "remainder": (lambda g, y, a, b: g, lambda g, y, a, b: -g * np.floor(a / b)),
    **{name: (lambda g, y, a, b: _chosen(g, a > b, a == b), lambda g, y, a, b: _chosen(g, b > a, a == b))
       for name in ("maximum", "fmax")},
    **{name: (lambda g, y, a, b: _chosen(g, a < b, a == b), lambda g, y, a, b: _chosen(g, b < a, a == b))
       for name in ("minimum", "fmin")},
}

UFUNCS |= {name: (rule,) for name, rule in ONE.items()}
UFUNCS |= TWO
UFUNCS |= {"radians": UFUNCS["deg2rad"], "degrees": UFUNCS["rad2deg"], "true_divide": UFUNCS["divide"],
           "pow": UFUNCS["power"], "mod": UFUNCS["remainder"], "abs": UFUNCS["absolute"]}


def where(condition: Any, x: Any, y: Any) -> Any:
    """`numpy.where` of three arguments."""
    chosen = plain(condition)
    return apply(lambda a, b: np.where(chosen, a, b),
                 (lambda g, _, a, b: np.where(chosen, g, 0.0), lambda g, _, a, b: np.where(chosen, 0.0, g)),
                 (x, y), [plain(x), plain(y)])


def clip(x: Any, a_min: Any = None, a_max: Any = None) -> Any:
    """`numpy.clip`: the gradient is zero where a bound was taken.  Bounds have none."""
    low, high, value = plain(a_min), plain(a_max), plain(x)
    inside = np.ones(value.shape, bool) if low is None and high is None else (
        (value >= low) if high is None else (value <= high) if low is None
        else (value >= low) & (value <= high))
    return apply(lambda a: np.clip(a, low, high), (lambda g, y, a: np.where(inside, g, 0.0),), (x,), [value])


def astype(x: Variable, dtype: Any) -> Any:
    """A cast to another floating-point type; the gradient is cast back."""
    kind = plain(x).dtype
    return apply(lambda a: a.astype(dtype), (lambda g, y, a: g.astype(kind),), (x,), [plain(x)])


FUNCTIONS |= {"where": where, "clip": clip, "astype": astype,
              "nan_to_num": lambda x: apply(
                  np.nan_to_num, (lambda g, y, a: np.where(np.isfinite(a), g, 0.0),), (x,), [plain(x)]),
              "copy": lambda x: apply(np.copy, (lambda g, y, a: g,), (x,), [plain(x)]),
              "sinc": lambda x: _sinc(x)}


def _sinc(x: Any) -> Any:
    """sin(pi x) / (pi x), with the derivative 0 at 0."""
    def back(g: Any, y: Any, a: Any) -> Any:
        safe = np.where(a == 0.0, 1.0, a)
        return g * np.where(a == 0.0, 0.0, (np.cos(math.pi * a) - y) / safe)

    return apply(np.sinc, (back,), (x,), [plain(x)])
