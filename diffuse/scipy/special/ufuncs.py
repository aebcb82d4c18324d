"""Ufunc objects of `scipy.special`: SciPy's signatures and errors, computed by tasks of the formulas.

On float32 and float64 (and what SciPy promotes to them) a call is recorded and fuses with the operations
around it.  Arrays below `DIFFUSE_SMALL` elements, and complex, long double and object arrays are SciPy's.
"""

from __future__ import annotations

from typing import Any

import numpy
import scipy.special

from diffuse.library import operations, routines
from diffuse.numpy.arrays import base, core
from diffuse.numpy.arrays.access import host
from diffuse.numpy.arrays.core import ARRAYS, Array
from diffuse.numpy.bridge import fallback
from diffuse.numpy.ops import rules
from diffuse.numpy.ops.compiled import compute, host_function
from diffuse.numpy.ops.operands import adopt, wrap
from diffuse.numpy.ops.ufuncs import ufunc
from diffuse.scipy.special import bessel_functions, elementary, error_functions, gamma_functions  # noqa: F401
from diffuse.scipy.special.terms import FORMULAS, PREFIX

FLOATS = (numpy.dtype("float32"), numpy.dtype("float64"))


class special_ufunc(ufunc):
    """A ufunc of `scipy.special` over Diffuse arrays."""

    library = "scipy.special"
    formula = True

    def __init__(self, function: numpy.ufunc, name: str) -> None:
        super().__init__(function)
        self.__name__ = name
        self.operation = PREFIX + name
        self.recordable = operations.known(self.operation)
        self.host = host_function(self)

    def __reduce__(self) -> tuple[Any, ...]:
        return find, (self.__name__,)

    def general(self, args: tuple[Any, ...], out: tuple[Any, ...] | None = None, **options: Any) -> Any:
        """Handle any call; SciPy computes those that the formula does not cover (complex numbers, strings,
        objects)."""
        operands = tuple([adopt(x) for x in args])
        others = [adopt(options.get("where", True)), *[adopt(x, writing=True) for x in out or ()]]
        if not any(isinstance(x, Array) for x in (*operands, *others)):
            found = self.numpy(*args, **options) if out is None else self.numpy(*args, out=out, **options)
            return wrap(found) if out is None else found
        if not self._formula(operands, options):
            if out is not None:
                options["out"] = out
            return fallback.call(self.numpy, args, options, f"scipy.special.{self.__name__}")
        return super().general(operands, out, **options)

    def _formula(self, operands: tuple[Any, ...], options: dict[str, Any]) -> bool:
        """Does SciPy compute this call in float32 or float64, from arrays and numbers?"""
        if "signature" in options or "sig" in options:
            return False
        if any(type(x) not in ARRAYS and type(x) not in rules.WEAK
               and type(x) not in rules.STRONG for x in operands):
            return False
        try:
            types = rules.resolve(self, operands, (None,), options.get("dtype"),
                                        options.get("casting", "same_kind"))
        except TypeError:
            return True  # calling it raises SciPy's own error
        return all(t in FLOATS for t in types)

    def at_once(self, operands: tuple[Any, ...], targets: tuple[Any, ...], outs: tuple[Any, ...],
                options: dict[str, Any], show: Any = wrap) -> Any:
        """Compute at once on the memory of the operands: by SciPy's function if they are small, else by the
        compiled formula.  NumPy handles outputs and masks: SciPy 1.17 writes beyond masked results."""
        if len(targets) > 1 or any(x is not None and not isinstance(x, (Array, numpy.ndarray))
                                   for x in targets):
            return super().at_once(operands, targets, outs, options, show)
        values = [host(x) if isinstance(x, Array) else x for x in operands]
        target = targets[0] if targets else None
        memory: Any = base.writable(target) if isinstance(target, Array) else target
        types = rules.resolve(self, operands, (None,), options.get("dtype"),
                                    options.get("casting", "same_kind"))
        kwargs: dict[str, Any] = {k: host(v) if isinstance(v, Array) else v for k, v in options.items()}
        small = not [x for x in operands if isinstance(x, Array) and x.form.size >= core.SMALL]
        if memory is None and not kwargs:
            return wrap(self.numpy(*values) if small else self.host(*values))
        names = tuple([t.name for t in types])
        result = self.numpy(*values, dtype=types[-1]) if small else compute(
            routines.routine(self.operation, names[:-1], names[-1]), values, types)
        casting = kwargs.get("casting", "same_kind")
        if memory is not None and not numpy.can_cast(types[-1], memory.dtype, casting):
            return self.numpy(*values, out=memory, **kwargs)  # SciPy's error
        kwargs.pop("dtype", None)
        found = numpy.positive(result, out=memory, **kwargs)
        if isinstance(target, Array):
            base.wrote(target)
        return outs[0] if outs and outs[0] is not None else wrap(found)


def find(name: str) -> special_ufunc:
    return UFUNCS[name]


UFUNCS: dict[str, special_ufunc] = {
    name: special_ufunc(getattr(scipy.special, name), name)
    for name in FORMULAS if isinstance(getattr(scipy.special, name, None), numpy.ufunc)
}
"""The functions that have formulas, by SciPy's names."""
UFUNCS["psi"] = UFUNCS["digamma"]

