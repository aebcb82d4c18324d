"""Reverse-mode differentiation: turns a function into its gradient."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

from diffuse.gradients.variable import Variable, np, shape_of

Function = Callable[..., Any]


def grad(function: Function, argnums: int | Sequence[int] = 0) -> Function:
    """A function that returns the gradient of `function` with respect to an argument, or to several.

    `function` takes arrays, numbers, or lists, tuples and dicts of these, and returns one real number (an
    array of no dimension).  It has to be written with functions of NumPy and operators; branches and loops
    of Python are followed as they run.  Gradients have the shapes of the arguments, in the same lists,
    tuples and dicts.

    TypeError at an operation that has no rule, at one that writes into a variable, for complex or integer
    arguments, and at once for what is no function; ValueError if the result is no single number.
    """
    pair = value_and_grad(function, argnums)

    @wraps(function)
    def gradient(*args: Any, **options: Any) -> Any:
        return pair(*args, **options)[1]

    return gradient


def value_and_grad(function: Function, argnums: int | Sequence[int] = 0) -> Function:
    """A function that returns what `function` returns, and its gradient as `grad` does."""
    if not callable(function):
        raise TypeError(f"{function!r} is no function: gradients are of functions, and functions themselves")
    several = not isinstance(argnums, int)
    numbers = [argnums] if isinstance(argnums, int) else list(argnums)

    @wraps(function)
    def both(*args: Any, **options: Any) -> tuple[Any, Any]:
        for number in numbers:
            if not -len(args) <= number < len(args):
                raise ValueError(f"argument {number} of {len(args)}: gradients are of arguments that are "
                                 "given by position")
        leaves: list[Variable] = []
        given = list(args)
        for number in numbers:
            given[number] = _variables(args[number], leaves)
        result = function(*given, **options)
        value = result.value if isinstance(result, Variable) else result
        if shape_of(value) != ():
            raise ValueError(f"the function returns an array of shape {shape_of(value)}; gradients are those "
                             "of one number: sum it up")
        found = _back(result, leaves) if isinstance(result, Variable) else {}
        gradients = [_gradients(given[number], found) for number in numbers]
        return value, tuple(gradients) if several else gradients[0]

    return both


def _variables(value: Any, leaves: list[Variable]) -> Any:
    """Replace the arrays and numbers of an argument by variables."""
    if isinstance(value, dict):
        return {key: _variables(each, leaves) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)([_variables(each, leaves) for each in value])
    if isinstance(value, Variable):  # of an outer gradient that is being computed
        leaves.append(Variable(value))
        return leaves[-1]
    array = np.asarray(value)
    if array.dtype.kind != "f":
        raise TypeError(f"gradient with respect to an argument of type {array.dtype}: it has to be of real "
                        "floating-point numbers; convert it with astype(float)")
    leaves.append(Variable(array))
    return leaves[-1]


def _back(result: Variable, leaves: list[Variable]) -> dict[int, Any]:
    """Return the gradients of the leaves, by their numbers: the backward pass.

    Variables are visited from the last to the first; the first contribution to a gradient is taken as it is
    and others are added, so that nothing has to be zeroed first.
    """
    found: dict[int, Any] = {result.number: np.ones((), result.dtype)}
    wanted = {leaf.number for leaf in leaves}
    kept: dict[int, Any] = {}
    reached = _reached(result)
    for number in sorted(reached, reverse=True):
        gradient = found.pop(number, None)
        if gradient is None:
            continue
        if number in wanted:
            kept[number] = gradient
        for parent, rule in reached[number].parents:
            part = rule(gradient)
            before = found.get(parent.number)
            found[parent.number] = part if before is None else before + part
    return kept


def _reached(result: Variable) -> dict[int, Variable]:
    """Every variable from which the result was computed, by its number."""
    found = {result.number: result}
    left = [result]
    while left:
        for parent, _ in left.pop().parents:
            if parent.number not in found:
                found[parent.number] = parent
                left.append(parent)
    return found


def _gradients(value: Any, found: dict[int, Any]) -> Any:
    """The gradients in the structure of an argument; zeros where the result does not depend on a variable."""
    if isinstance(value, dict):
        return {key: _gradients(each, found) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)([_gradients(each, found) for each in value])
    gradient = found.get(value.number)
    return np.zeros(value.shape, value.dtype) if gradient is None else gradient
