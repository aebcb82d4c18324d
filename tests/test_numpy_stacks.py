"""`numpy.linalg` on stacks of matrices: NumPy's bits, layouts and errors, from several threads."""

from __future__ import annotations

from typing import Any

import numpy
import pytest

import diffuse.numpy as dnp
from diffuse.numpy.bridge import threaded
from diffuse.numpy.order import team
from tests.outcomes import warned

CALLS: list[tuple[str, dict[str, Any]]] = [
    *[(name, {}) for name in """inv det slogdet cholesky qr eigvals eigvalsh eig eigh svd svdvals
       pinv matrix_rank cond""".split()],
    ("eigh", {"UPLO": "U"}), ("cholesky", {"upper": True}), ("qr", {"mode": "complete"}),
    ("qr", {"mode": "r"}), ("qr", {"mode": "raw"}), ("svd", {"full_matrices": False}),
    ("svd", {"compute_uv": False}),
    ("svd", {"hermitian": True}), ("pinv", {"hermitian": True}), ("cond", {"p": 1})]


@pytest.fixture(autouse=True)
def threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(team, "threads", lambda: 3)


def outcome(np: Any, name: str, operands: list[Any], options: dict[str, Any]) -> Any:
    with warned() as told:
        try:
            found = getattr(np.linalg, name)(*[np.array(x, order="K") for x in operands], **options)
        except (ValueError, numpy.linalg.LinAlgError) as error:
            return type(error), str(error)
    parts = [numpy.asarray(x) for x in (found if isinstance(found, tuple) else (found,))]
    said = [(x.dtype, x.shape, x.strides, x.tobytes()) for x in parts]
    return type(found) if isinstance(found, tuple) else None, said, {str(w.message) for w in told}


def stacks(shape: tuple[int, ...]) -> list[Any]:
    r = numpy.random.default_rng(2)
    x = r.standard_normal(shape)
    positive, singular, holed = x @ x.swapaxes(-1, -2) + numpy.eye(shape[-2]), x.copy(), x.copy()
    singular[..., 0, :] = singular[..., 1, :]
    holed.flat[7] = numpy.nan
    return [x, positive, singular, holed, x.astype("f4"), x + 1j * x[..., ::-1], x.swapaxes(-1, -2), x[::2]]


@pytest.mark.parametrize("shape", [(1000, 5, 5), (20, 30, 6, 6), (900, 6, 4), (200, 9, 9)], ids=str)
def test_stacks_give_numpys_bits(shape: tuple[int, ...]) -> None:
    for x in stacks(shape):
        for name, options in CALLS:
            ours, plain = outcome(dnp, name, [x], options), outcome(numpy, name, [x], options)
            assert ours == plain, (name, options)
        for y in (x[..., :2], x[..., 0], x[:1, ..., :1]):
            assert outcome(dnp, "solve", [x, y], {}) == outcome(numpy, "solve", [x, y], {})


def test_a_stack_is_shared_out() -> None:
    seen: list[int] = []
    inverse = threaded.Stacked(numpy.linalg._linalg._umath_linalg.inv)  # type: ignore[attr-defined]
    real = inverse._function

    def counted(x: Any, **options: Any) -> Any:
        seen.append(len(x))
        return real(x, **options)

    inverse._function = counted
    inverse(numpy.ones((3000, 8, 8)) + numpy.eye(8), signature="d->d")
    assert len(seen) == 3 and sum(seen) == 3000
    inverse(numpy.ones((3000, 5, 5)) + numpy.eye(5), signature="d->d")
    assert seen[3:] == [3000]  # OpenBLAS's lock takes longer than such a matrix
