"""Rules of products, and of linear algebra."""

from __future__ import annotations

from typing import Any

from diffuse.gradients.variable import FUNCTIONS, Variable, np, one, plain, unbroadcast


def _both(x: Any, y: Any, value: Any, back_x: Any, back_y: Any) -> Any:
    """The result of two operands, either of which may be a variable."""
    parents = [(each, back) for each, back in ((x, back_x), (y, back_y)) if isinstance(each, Variable)]
    return Variable(value, tuple(parents)) if parents else value


def _turned(a: Any) -> Any:
    return np.swapaxes(a, -1, -2)


def _matmul(x: Any, y: Any) -> Any:
    a, b = plain(x), plain(y)
    rows = a if a.ndim > 1 else np.reshape(a, (1, -1))
    columns = b if b.ndim > 1 else np.reshape(b, (-1, 1))

    def whole(g: Any) -> Any:
        """The gradient with the dimensions that vectors dropped."""
        if a.ndim == 1 and b.ndim == 1:
            return np.reshape(g, (1, 1))
        return g[..., None, :] if a.ndim == 1 else g[..., :, None] if b.ndim == 1 else g

    def back_x(g: Any) -> Any:
        return np.reshape(unbroadcast(whole(g) @ _turned(columns), rows.shape), a.shape)

    def back_y(g: Any) -> Any:
        stacked = a.ndim > 2 and b.ndim == 2  # a product for each matrix of the stack, or one for all
        if stacked and a.shape[-1] * b.shape[-1] > a.shape[-2] * (a.shape[-1] + b.shape[-1]):
            return np.reshape(a, (-1, a.shape[-1])).T @ np.reshape(g, (-1, b.shape[-1]))
        return np.reshape(unbroadcast(_turned(rows) @ whole(g), columns.shape), b.shape)

    return _both(x, y, a @ b, back_x, back_y)


def _dot(x: Any, y: Any) -> Any:
    if not plain(x).ndim or not plain(y).ndim:
        return x * y
    if plain(y).ndim > 2:
        return np.tensordot(x, y, ((-1,), (-2,)))
    return _matmul(x, y)


def _outer(x: Any, y: Any) -> Any:
    return np.reshape(x, (-1, 1)) * np.reshape(y, (1, -1))


def _inner(x: Any, y: Any) -> Any:
    if not plain(x).ndim or not plain(y).ndim:
        return x * y
    return np.tensordot(x, y, ((-1,), (-1,)))


def _tensordot(x: Any, y: Any, axes: Any = 2) -> Any:
    a, b = plain(x), plain(y)
    if isinstance(axes, int):
        mine, its = tuple(range(a.ndim - axes, a.ndim)), tuple(range(axes))
    else:
        mine, its = (tuple(k) if isinstance(k, (tuple, list)) else (k,) for k in axes)
    mine, its = tuple(k % a.ndim for k in mine), tuple(k % b.ndim for k in its)
    letters = [chr(97 + k) for k in range(a.ndim + b.ndim)]
    first, second = letters[:a.ndim], letters[a.ndim:]
    for i, j in zip(mine, its, strict=True):
        second[j] = first[i]
    kept = [c for k, c in enumerate(first) if k not in mine]
    kept += [c for k, c in enumerate(second) if k not in its]
    return _einsum(f"{''.join(first)},{''.join(second)}->{''.join(kept)}", x, y)


def _einsum(subscripts: str, *operands: Any) -> Any:
    """The gradient of an Einstein sum, which is another one with result and operand exchanged.  Along letters
    that only an operand has, which were summed over, its gradient is constant."""
    if "->" not in subscripts or "." in subscripts:
        raise TypeError(f"einsum {subscripts!r}: gradients support subscripts with '->' and without '...'")
    inputs, output = subscripts.replace(" ", "").split("->")
    terms = inputs.split(",")
    if any(len(set(term)) != len(term) for term in terms):
        raise TypeError(f"einsum {subscripts!r}: an operand with one letter twice has no rule for gradients")
    values = [plain(each) for each in operands]
    extents = dict(pair for term, v in zip(terms, values, strict=True)
                   for pair in zip(term, v.shape, strict=True))

    def back(k: int) -> Any:
        others = [(term, v) for j, (term, v) in enumerate(zip(terms, values, strict=True)) if j != k]
        there = set(output).union(*[term for term, _ in others])
        found = "".join(c for c in terms[k] if c in there)
        wanted = ",".join([output, *[term for term, _ in others]])

        def rule(g: Any) -> Any:
            part = np.einsum(f"{wanted}->{found}", g, *[v for _, v in others])
            apart = np.reshape(part, tuple(extents[c] if c in there else 1 for c in terms[k]))
            return np.broadcast_to(apart, values[k].shape)

        return rule

    parents = [(each, back(k)) for k, each in enumerate(operands) if isinstance(each, Variable)]
    value = np.einsum(subscripts, *values)
    return Variable(value, tuple(parents)) if parents else value


def _solve(x: Any, y: Any) -> Any:
    a, b = plain(x), plain(y)
    value = np.linalg.solve(a, b)

    def back_y(g: Any) -> Any:
        return np.linalg.solve(_turned(a), g)

    def back_x(g: Any) -> Any:
        part = back_y(g)
        return -_outer(part, value) if b.ndim == 1 else -(part @ _turned(value))

    return _both(x, y, value, back_x, back_y)


def _inv(x: Any) -> Any:
    value = np.linalg.inv(plain(x))
    return one(x, value, lambda g: -(_turned(value) @ g @ _turned(value)))


def _det(x: Any) -> Any:
    a = plain(x)
    value = np.linalg.det(a)
    return one(x, value, lambda g: g * value * _turned(np.linalg.inv(a)))


FUNCTIONS |= {"matmul": _matmul, "dot": _dot, "outer": _outer, "inner": _inner, "vdot": _inner,
              "tensordot": _tensordot, "einsum": _einsum, "solve": _solve, "inv": _inv, "det": _det}
