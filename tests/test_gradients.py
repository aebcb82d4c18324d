"""Gradients of programs against finite differences, for every rule; training steps by hand and by JAX."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy
import pytest

import diffuse
import diffuse.numpy as np
from diffuse import library, settings
from diffuse.gradients.variable import FUNCTIONS, UFUNCS
from tests.each import for_each

POSITIVE = {"log", "log1p", "log2", "log10", "sqrt", "arccosh", "power", "float_power", "pow", "cbrt"}
WITHIN = {"arcsin", "arccos", "arctanh"}
CALLS: dict[str, tuple[Callable[..., Any], tuple[tuple[int, ...], ...]]] = {
    "where": (lambda x, y: np.where(x > y, x * y, x - y), ((3, 4), (4,))),
    "clip": (lambda x: np.clip(x, -0.5, 0.5) * x, ((3, 4),)),
    "sum": (lambda x: x.sum(0) * x[0] + np.sum(x, axis=1, keepdims=True)[:1, 0], ((3, 4),)),
    "add.reduce": (lambda x: np.add.reduce(x * x), ((3, 4),)),
    "mean": (lambda x: x.mean(1) * np.mean(x), ((3, 4),)),
    "average": (lambda x: np.average(x, axis=1) ** 2, ((3, 4),)),
    "prod": (lambda x: x.prod(1) * np.prod(x), ((3, 4),)),
    "max": (lambda x: x.max(0) * x.max(), ((3, 4),)),
    "min": (lambda x: np.min(x, axis=(0, 1)) * np.amin(x, 1), ((3, 4),)),
    "amax": (lambda x: np.amax(x, axis=1, keepdims=True) * x, ((3, 4),)),
    "var": (lambda x: x.var(1, ddof=1) * np.var(x), ((3, 4),)),
    "std": (lambda x: x.std(0) * np.std(x), ((3, 4),)),
    "cumsum": (lambda x: np.cumsum(x, 1) * x + np.cumsum(x).reshape(3, 4), ((3, 4),)),
    "norm": (lambda x: np.linalg.norm(x) * np.linalg.norm(x, axis=1), ((3, 4),)),
    "reshape": (lambda x: x.reshape(4, 3) * np.reshape(x, (4, -1))[:, :1], ((3, 4),)),
    "transpose": (lambda x: x.T * np.transpose(x, (1, 0))[:, :1] + x.transpose(1, 0), ((3, 4),)),
    "swapaxes": (lambda x: np.swapaxes(x, 0, 1) @ np.moveaxis(x, 0, 1).T, ((3, 4),)),
    "broadcast_to": (lambda x: np.broadcast_to(x, (3, 4)) * np.arange(12.0).reshape(3, 4), ((4,),)),
    "getitem": (lambda x: x[1:, ::2] * x[0, 1] + x[[0, 0], [1, 1]] * x[..., None, 2][:2, 0], ((3, 4),)),
    "take": (lambda x: np.take(x, [0, 2, 2], axis=1) * np.take(x, [3]), ((3, 4),)),
    "concatenate": (lambda x, y: np.concatenate([x, y, x], 1) * 2.0 ** np.arange(11.0), ((3, 4), (3, 3))),
    "stack": (lambda x, y: np.stack([x, y], 1) * x[:, None], ((3, 4), (3, 4))),
    "vstack": (lambda x, y: np.vstack([x, y]) ** 2, ((3, 4), (4,))),
    "hstack": (lambda x, y: np.hstack([x, y]) ** 2, ((4,), (3,))),
    "split": (lambda x: np.split(x, 2, 1)[0] * np.split(x, [1, 3], 1)[1], ((3, 4),)),
    "roll": (lambda x: np.roll(x, 1, 1) * x + np.roll(x, (1, 2), (0, 1)), ((3, 4),)),
    "flip": (lambda x: np.flip(x, 1) * x, ((3, 4),)),
    "pad": (lambda x: np.pad(x, ((1, 2), (0, 1))) * np.arange(30.0).reshape(6, 5), ((3, 4),)),
    "repeat": (lambda x: np.repeat(x, 3, 1) * np.arange(12.0), ((3, 4),)),
    "tile": (lambda x: np.tile(x, (2, 3)) * np.arange(12.0), ((3, 4),)),
    "tril": (lambda x: np.tril(x) @ np.triu(x).T, ((3, 4),)),
    "diag": (lambda x: np.diag(x) * np.trace(x) + np.diagonal(x, 1)[:1], ((3, 4),)),
    "diag of a vector": (lambda x: np.diag(x) @ x, ((3,),)),
    "diff": (lambda x: np.diff(x, axis=1) * np.diff(x, 2).sum(), ((3, 4),)),
    "take_along_axis": (lambda x: np.take_along_axis(x, np.argsort(x, 1), 1) * np.arange(4.0), ((3, 4),)),
    "sort": (lambda x: np.sort(x, 1) * np.arange(4.0), ((3, 4),)),
    "squeeze": (lambda x: np.squeeze(np.expand_dims(x, 1)) * np.ravel(x).reshape(3, 4), ((3, 4),)),
    "astype": (lambda x: x.astype(numpy.float64) * x, ((3, 4),)),
    "nan_to_num": (lambda x: np.nan_to_num(x) * np.copy(x), ((3, 4),)),
    "sinc": (lambda x: np.sinc(x), ((3, 4),)),
    "matmul": (lambda x, y: x @ y, ((3, 4), (4, 2))),
    "stacked matmul": (lambda x, y: x @ y, ((2, 3, 4), (4, 2))),
    "matrix and vector": (lambda x, y: (x @ y) * (y @ x.T), ((3, 4), (4,))),
    "dot": (lambda x, y: np.dot(x, y) * np.inner(x, y) * np.vdot(x, x), ((4,), (4,))),
    "outer": (lambda x, y: np.outer(x, y) ** 2, ((3,), (4,))),
    "tensordot": (lambda x, y: np.tensordot(x, y, ((1, 2), (0, 1))), ((2, 3, 4), (3, 4, 2))),
    "einsum": (lambda x, y: np.einsum("bij,jk->bk", x, y), ((2, 3, 4), (4, 2))),
    "solve": (lambda x, y: np.linalg.solve(x + 4 * np.eye(3), y), ((3, 3), (3,))),
    "inv": (lambda x: np.linalg.inv(x + 4 * np.eye(3)) @ x, ((3, 3),)),
    "det": (lambda x: np.linalg.det(x + 4 * np.eye(3)), ((3, 3),)),
}


def differences(function: Callable[..., Any], given: list[Any]) -> list[Any]:
    """Derivatives by central differences."""
    found = []
    for k, array in enumerate(given):
        slopes = numpy.zeros(array.shape)
        for index in numpy.ndindex(array.shape):
            ends = []
            for step in (1e-6, -1e-6):
                moved = [each.copy() for each in given]
                moved[k][index] += step
                ends.append(float(function(*moved)))
            slopes[index] = (ends[0] - ends[1]) / 2e-6
        found.append(slopes)
    return found


def agrees(function: Callable[..., Any], given: list[Any]) -> None:
    """Weights make every element of the result count differently."""
    def weighed(*args: Any) -> Any:
        y = function(*args)
        return (y * np.cos(np.arange(1.0, y.size + 1).reshape(y.shape))).sum() if y.shape else y

    def number(*args: Any) -> Any:  # a value alone, which takes the same way
        return diffuse.value_and_grad(weighed)(*args)[0]

    gradients = diffuse.grad(weighed, range(len(given)))(*given)
    for found, expected in zip(gradients, differences(number, given), strict=True):
        assert found.shape == expected.shape
        numpy.testing.assert_allclose(numpy.asarray(found), expected, rtol=2e-5, atol=2e-7)


@for_each("name", UFUNCS)
def test_a_ufunc(name: str) -> None:
    rng = numpy.random.default_rng(len(name))
    given = [rng.uniform(-2, 2, shape) for shape in ((2, 3), (3,))[:len(UFUNCS[name])]]
    if name in POSITIVE:
        given = [numpy.abs(each) + (1.1 if name == "arccosh" else 0.2) for each in given]
    elif name in WITHIN:
        given = [each / 2.2 for each in given]
    with numpy.errstate(all="ignore"):
        agrees(getattr(np, name), given)


@for_each("name", CALLS)
def test_a_function(name: str) -> None:
    function, shapes = CALLS[name]
    rng = numpy.random.default_rng(len(name))
    agrees(function, [rng.standard_normal(shape) for shape in shapes])


def test_every_function_with_a_rule_is_tested() -> None:
    called = "\n".join(repr(f.__code__.co_names) for f, _ in CALLS.values())
    aliases = {"permute_dims": "transpose", "concat": "concatenate", "atleast_1d": "hstack",
               "atleast_2d": "vstack", "atleast_3d": "squeeze", "getitem": "take", "matmul": "swapaxes"}
    assert [name for name in FUNCTIONS if f"'{aliases.get(name, name)}'" not in called] == []


def network(m: Any, weights: Any, x: Any, labels: Any) -> Any:
    """Two layers and the cross-entropy."""
    hidden = m.maximum(x @ weights["w1"] + weights["b1"], 0.0)
    logits = hidden @ weights["w2"] + weights["b2"]
    shifted = logits - logits.max(axis=1, keepdims=True)
    return -(labels * (shifted - m.log(m.sum(m.exp(shifted), axis=1, keepdims=True)))).sum() / len(x)


def block(m: Any, weights: Any, x: Any) -> Any:
    """A block of a transformer, and a loss."""
    heads = 2
    def apart(y: Any) -> Any:
        return m.swapaxes(m.reshape(y, (*y.shape[:2], heads, y.shape[2] // heads)), 1, 2)

    q, k, v = (apart(x @ weights[name]) for name in ("wq", "wk", "wv"))
    scores = q @ m.swapaxes(k, 2, 3) / numpy.sqrt(q.shape[-1])
    raised = m.exp(scores - m.max(scores, axis=-1, keepdims=True))
    mixed = m.reshape(m.swapaxes(raised / m.sum(raised, axis=-1, keepdims=True) @ v, 1, 2), x.shape)
    y = x + mixed @ weights["wo"]
    y = (y - m.mean(y, axis=-1, keepdims=True)) / m.sqrt(m.var(y, axis=-1, keepdims=True) + 1e-5)
    y = y + m.tanh(y @ weights["w1"]) @ weights["w2"]
    return m.mean(y * y * weights["scale"])


def parameters(*shapes: tuple[str, tuple[int, ...]]) -> dict[str, Any]:
    rng = numpy.random.default_rng(7)
    return {name: rng.standard_normal(shape) / max(1, shape[0]) ** 0.5 for name, shape in shapes}


NETWORK = parameters(("w1", (6, 9)), ("b1", (9,)), ("w2", (9, 4)), ("b2", (4,)))
BLOCK = parameters(("wq", (8, 8)), ("wk", (8, 8)), ("wv", (8, 8)), ("wo", (8, 8)), ("w1", (8, 16)),
                   ("w2", (16, 8)), ("scale", (8,)))


def data() -> tuple[Any, Any]:
    rng = numpy.random.default_rng(8)
    return rng.standard_normal((12, 6)), numpy.eye(4)[rng.integers(0, 4, 12)]


def by_hand(weights: dict[str, Any], x: Any, labels: Any) -> dict[str, Any]:
    """The gradient of the network, as one would write it."""
    before = x @ weights["w1"] + weights["b1"]
    hidden = numpy.maximum(before, 0.0)
    logits = hidden @ weights["w2"] + weights["b2"]
    raised = numpy.exp(logits - logits.max(1, keepdims=True))
    d_logits = (raised / raised.sum(1, keepdims=True) - labels) / len(x)
    d_hidden = (d_logits @ weights["w2"].T) * (before > 0)
    return {"w1": x.T @ d_hidden, "b1": d_hidden.sum(0), "w2": hidden.T @ d_logits, "b2": d_logits.sum(0)}


@pytest.mark.parametrize("small", [0, 16384])
def test_three_training_steps_by_hand(small: int) -> None:
    x, labels = data()
    ours, theirs = ({name: w.copy() for name, w in NETWORK.items()} for _ in range(2))
    with settings.using(small=small):
        ours = {name: np.array(w) for name, w in ours.items()}
        for _ in range(3):
            gradients = diffuse.grad(lambda w: network(np, w, np.array(x), np.array(labels)))(ours)
            ours = {name: w - 0.5 * gradients[name] for name, w in ours.items()}
            step = by_hand(theirs, x, labels)
            theirs = {name: w - 0.5 * step[name] for name, w in theirs.items()}
        for name, expected in theirs.items():
            numpy.testing.assert_allclose(numpy.asarray(ours[name]), expected, rtol=1e-11, atol=1e-13)


def test_the_network_and_the_block_agree_with_jax() -> None:
    jax = pytest.importorskip("jax")
    jax.config.update("jax_enable_x64", True)
    x, labels = data()
    sequence = numpy.random.default_rng(9).standard_normal((3, 5, 8))
    for function, weights, given in ((network, NETWORK, (x, labels)), (block, BLOCK, (sequence,))):
        value, ours = diffuse.value_and_grad(
            lambda w, f=function, a=given: f(np, w, *map(np.array, a)))(weights)
        expected, theirs = jax.value_and_grad(lambda w, f=function, a=given: f(jax.numpy, w, *a))(weights)
        numpy.testing.assert_allclose(float(value), float(expected), rtol=1e-12)
        for name in weights:
            step, asked = [weights[name] - 0.1 * numpy.asarray(found[name]) for found in (ours, theirs)]
            numpy.testing.assert_allclose(numpy.asarray(ours[name]), numpy.asarray(theirs[name]), rtol=1e-12,
                                          atol=1e-12)
            numpy.testing.assert_allclose(step, asked, rtol=1e-12, atol=1e-13)


def test_forward_and_backward_stand_in_one_window() -> None:
    with settings.using(small=0, window="auto", compile="off"):
        x = np.ones((64, 32))
        library.fence()
        gradient = diffuse.grad(lambda a: (np.tanh(a * 2.0) * a).sum())(x)
        window = library.current().window
        held = [task.operation for group in (*window.closed, window.open) for task in group.tasks]
        assert "tanh" in held and held.index("tanh") < len(held) - 4
        expected = numpy.tanh(2.0) + 2.0 * (1 - numpy.tanh(2.0) ** 2)
        numpy.testing.assert_allclose(numpy.asarray(gradient), expected, rtol=1e-14)


MIXED: dict[str, Callable[[Any, Any], Any]] = {
    "matmul": lambda x, v: x @ v, "add": lambda x, v: x + v, "maximum": np.maximum,
    "dot": np.dot, "concatenate": lambda x, v: np.concatenate([x, v]), "stack": lambda x, v: np.stack((x, v)),
    "where": lambda x, v: np.where(x > 0.0, v, x)}


@pytest.mark.parametrize("name", MIXED)
def test_arrays_beside_variables_stay_pending(name: str) -> None:
    values = numpy.arange(9.0).reshape(3, 3) - 4.0
    with settings.using(small=0):
        x, v = np.asarray(values) * 1.0, np.asarray(values) * 2.0

        def loss(v: Any) -> Any:
            return np.sum(MIXED[name](x, v))

        found = diffuse.grad(loss)(v)
        assert library.current().window.held > 2 and not x.storage.exported
        assert numpy.asarray(found).shape == (3, 3)


def test_gradients_of_gradients() -> None:
    second = diffuse.grad(diffuse.grad(lambda x: np.sin(x) * x ** 3))
    x = 0.7
    expected = -numpy.sin(x) * x ** 3 + 6 * x ** 2 * numpy.cos(x) + 6 * x * numpy.sin(x)
    assert float(second(numpy.float64(x))) == pytest.approx(expected, rel=1e-13)


def test_lists_and_tuples_and_arguments_without_influence() -> None:
    def loss(pair: Any, other: Any) -> Any:
        return (pair[0] * pair[1][0]).sum()

    pair = numpy.ones(3), [numpy.full(3, 2.0)]
    (first, (second,)), none = diffuse.grad(loss, (0, 1))(pair, numpy.ones(2))
    assert numpy.asarray(first).tolist() == [2.0] * 3 and numpy.asarray(second).tolist() == [1.0] * 3
    assert numpy.asarray(none).tolist() == [0.0, 0.0]


def test_what_has_no_gradient_is_refused_at_the_call() -> None:
    x = numpy.ones(3)
    for function, sentence in {
        lambda x: np.fft.fft(x).real.sum(): "numpy.fft has no rule for gradients",
        lambda x: np.frexp(x)[0].sum(): "numpy.frexp has no rule",
        lambda x: float(x[0]): r"float\(\) of a variable",
        lambda x: numpy.asarray(x).sum(): "a variable is no array",
        lambda x: np.einsum("...i->...", x): "without '...'",
        lambda x: np.linalg.norm(x, 1): "the Euclidean one has",
    }.items():
        with pytest.raises(TypeError, match=sentence):
            diffuse.grad(function)(x)
    with pytest.raises(ValueError, match="gradients are those of one number"):
        diffuse.grad(lambda x: x * 2)(x)
    with pytest.raises(TypeError, match="of type int64"):
        diffuse.grad(lambda x: x.sum())(numpy.arange(3))
    with pytest.raises(ValueError, match="argument 1 of 1"):
        diffuse.grad(lambda x: x.sum(), 1)(x)
    with pytest.raises(TypeError, match="3 is no function"):
        diffuse.grad(3)  # type: ignore[arg-type]

    def writes(x: Any) -> Any:
        x[0] = 1.0
        return x.sum()

    with pytest.raises(TypeError, match="cannot be written to"):
        diffuse.grad(writes)(x)
