"""Calls in which NumPy's own short arrays meet Diffuse's arrays of the same shape.

Below 128 elements arrays are NumPy's, but for parts of large arrays.  So each of the two kinds may be what a
method belongs to, what it reads, and what it writes.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import numpy
import pytest

import diffuse
import diffuse.numpy as dnp
from diffuse.numpy.small import native
from tests.each import for_each
from tests.outcomes import warned

ANY = """
    x.cumsum(out=y)
    x.cumprod(out=y)
    x.cumsum(0,None,y)
    x.cumsum(axis=0,out=y)
    x.clip(1,3,out=y)
    x.clip(y,None)
    x.clip(None,y)
    x.clip(y,y+1,out=z)
    x.clip(1,3,y)
    x.round(out=y)
    x.round(1,out=y)
    x.take(i,out=y)
    x.take(i)
    x.take(i,out=y,mode='clip')
    x.take(i,mode='wrap')
    x.choose(y)
    j.choose((x,y))
    j.choose((x,y),out=z)
    j.choose((x,y),out=z,mode='clip')
    x.compress(m)
    x.compress(m,out=y[:int(m.sum())])
    x.dot(y)
    x.dot(y,out=s)
    x.conj(y)
    x.conjugate(y)
    x.sum(out=s)
    x.sum(where=m)
    x.sum(initial=s)
    x.prod(out=s)
    x.min(out=s)
    x.max(out=s)
    x.max(where=m,initial=0)
    x.mean(out=s)
    x.mean(where=m)
    x.var(out=s)
    x.std(out=s)
    x.var(mean=s)
    x.any(out=sb)
    x.all(out=sb)
    x.any(where=m)
    x.argmax(out=si)
    x.argmin(out=si)
    x.argmax(0,si)
    x.put(i,y)
    x.put([0],y)
    x.fill(y[(0,)*y.ndim])
    x.fill(s)
    x.fill(y)
    i.fill(x)
    x.setfield(y,x.dtype)
    x.astype(y.dtype)
    x+y
    y+x
    divmod(x,y+1)
    x//(y+1)
    x%(y+1)
    x**y
    x==y
    x<y
    y<x
    x.__add__(y)
    x.__iadd__(y)
    x.__radd__(y)
    put(x,0,y[0])
    put(x,(0,)*x.ndim,y)
    put(x,(0,)*x.ndim,s)
    put(x,(0,)*x.ndim,y[:1])
    put(i,(0,)*i.ndim,x)
    put(si,(),x)
    put(si,(),s)
    put(s,(),y)
    put(x,m,y[m])
    put(x,m,3)
    put(x,i,y)
    put(x,Ellipsis,y)
    put(x,slice(None),y)
    x[m]
    x[i]
    x[si]
    x[m,...]
    x[i,...]
    x[(j,)]
    x[:si]
    x.__getitem__(si)
    put(x.flat,slice(None),y)
    put(x.flat,i,y)
    put(x.flat,m.ravel(),3)
    x.flat[i.ravel()]
    x.flat[m.ravel()]
    x.flat[si]
    numpy.add(x,y)
    numpy.add(x,1,out=y)
    numpy.add(y,1,out=x)
    numpy.add(x,y,out=x)
    numpy.add(x,y,where=m,out=y)
    numpy.add(x,y,where=m,out=x)
    np.add(x,1,out=y)
    np.add(y,1,out=x)
    np.add(x,y,where=m,out=x)
    np.add(x,y,where=m,out=y)
    np.add.reduce(x,out=s)
    np.add.reduce(y,out=s)
    np.add.accumulate(x,out=y)
    np.add.accumulate(y,out=x)
    numpy.add.accumulate(x,out=y)
    numpy.add.accumulate(y,out=x)
    numpy.add.reduceat(x,[0],out=y[:1])
    np.add.reduceat(x,[0],out=y[:1])
    np.add.reduceat(y,[0],out=x[:1])
    np.add.outer(x[:2],y[:2])
    np.add.at(x,i,y)
    np.add.at(y,i,x)
    numpy.add.at(x,i,y)
    numpy.add.at(y,i,x)
    numpy.divmod(x,y+1,out=(y,z))
    np.divmod(x,y+1,out=(x,y))
    np.divmod(x,y+1,out=(y,x))
    np.matmul(x,y.T)
    np.cumsum(x,out=y)
    np.cumsum(y,out=x)
    numpy.cumsum(x,out=y)
    numpy.cumsum(y,out=x)
    numpy.clip(x,1,3,out=y)
    numpy.clip(y,1,3,out=x)
    np.clip(x,y,None,out=z)
    np.clip(y,x,None,out=x)
    numpy.sum(x,out=s)
    numpy.sum(y,out=s)
    numpy.mean(x,out=s)
    numpy.std(x,out=s)
    numpy.argmax(x,out=si)
    numpy.take(x,i,out=y)
    numpy.take(y,i,out=x)
    np.take(x,i,out=y)
    np.take(y,i,out=x)
    numpy.copyto(x,y)
    numpy.copyto(y,x)
    numpy.copyto(x,y,where=m)
    numpy.copyto(y,x,where=m)
    np.copyto(x,y,where=m)
    np.copyto(y,x,where=m)
    numpy.concatenate((x,y))
    numpy.concatenate((x,y),out=w)
    np.concatenate((x,y),out=w)
    np.concatenate((x,x),out=w)
    np.concatenate((y,y),out=w)
    np.stack((x,y),out=pair)
    numpy.stack((x,y),out=pair)
    np.where(m,x,y)
    numpy.where(m,x,y)
    numpy.where(m,y,x)
    numpy.dot(x,y,out=s)
    np.outer(x,y)
    np.outer(x,y,out=all)
    np.inner(x,y)
    np.vdot(x,y)
    np.place(x,m,y)
    np.place(y,m,x)
    np.putmask(x,m,y)
    np.putmask(y,m,x)
    numpy.place(x,m,y)
    numpy.putmask(x,m,y)
    numpy.putmask(y,m,x)
    np.put(x,i,y)
    np.put(y,i,x)
    numpy.put(x,i,y)
    np.put_along_axis(x,j,y,0)
    np.put_along_axis(y,j,x,0)
    np.take_along_axis(x,j,0)
    np.choose(j,(x,y))
    np.choose(j,(x,y),out=z)
    np.choose(j,(x,y),out=x)
    np.select([m,~m],[x,y])
    np.vstack((x,y))
    np.nanmean(x,out=s)
    np.nansum(x,out=s)
    np.nanmax(x,out=s)
    np.round(x,1,out=y)
    np.round(y,1,out=x)
    numpy.round(x,1,out=y)
    np.random.default_rng(3).random(out=y)
    np.random.default_rng(3).standard_normal(out=y)
    np.random.default_rng(3).shuffle(y)
    np.random.default_rng(3).permuted(x,out=y)
    np.random.default_rng(3).permuted(y,out=x)
    numpy.float64(2)+y
    y*numpy.float64(2)
    numpy.float64(2)==y
    numpy.int64(1).choose((x,y),out=z)
    numpy.int64(1).take(si)
    numpy.array(2.).cumsum(out=one)
    numpy.array(2.).clip(1,3,out=s)
    numpy.array(2.).argmax(out=si)
    numpy.array(2.).conj(s)
    numpy.array(2.).take(0,out=s)
    np.array([x,y])
    np.array([x[0],y[0]])
"""
LINE = """
    x.repeat(j.ravel())
    x@y
    y@x
    x.__matmul__(y)
    np.dot(x,y,out=s)
    np.dot(y,x,out=s)
    np.tensordot(x,y,1)
    np.einsum('i,i',x,y)
    np.einsum('i,i->i',x,x,out=y)
    np.einsum('i,i->i',x,y,out=x)
    numpy.einsum('i,i->i',x,x,out=y)
    np.compress(m.ravel(),x,out=y[:int(m.sum())])
    numpy.array([2.]).dot(y[:1])
"""
MATRIX = """
    x.trace(out=s)
    x.sum(axis=0,out=r)
    x.mean(axis=0,out=r)
    x.std(axis=0,out=r)
    x.max(axis=0,out=r)
    x.argmax(axis=0,out=ri)
    x.argmin(axis=0,out=ri)
    x.any(axis=0,out=rb)
    x.cumsum(axis=1,out=y)
    x.cumprod(axis=1,out=y)
    x@y.T
    y@x.T
    np.matmul(x,x.T,out=square)
    np.matmul(y,y.T,out=square)
    numpy.matmul(x,y.T,out=square)
    np.mean(x,axis=0,out=r)
    np.var(y,axis=0,out=r)
    x.dot(y.T,out=square)
    x.dot(y.T,square)
    x.take(i[:2,0],axis=0,out=two)
"""
"""Calls on arrays of any number of dimensions, of one, and of two.  `x` is of one kind and all others are of
another, or all are Diffuse's.  `y` and `z` are like `x`, `s`, `sb` and `si` have no dimensions, `r`, `ri` and
`rb` are rows, and `w` takes two arrays; `m` is a mask, and `i` and `j` are positions."""

NAMES: dict[str, tuple[str, Callable[[tuple[int, ...]], tuple[int, ...]], int]] = {
    **dict.fromkeys("xyz", ("f8", lambda shape: shape, 9)),
    "s": ("f8", lambda shape: (), 4), "sb": ("?", lambda shape: (), 2), "si": ("i8", lambda shape: (), 2),
    "one": ("f8", lambda shape: (1,), 4),
    "r": ("f8", lambda shape: shape[1:], 9), "ri": ("i8", lambda shape: shape[1:], 9),
    "rb": ("?", lambda shape: shape[1:], 2), "two": ("f8", lambda shape: (2, *shape[1:]), 9),
    "w": ("f8", lambda shape: (2 * shape[0], *shape[1:]), 9), "pair": ("f8", lambda shape: (2, *shape), 9),
    "all": ("f8", lambda shape: (prod(shape), prod(shape)), 9),
    "square": ("f8", lambda shape: (shape[0], shape[0]), 9),
    "m": ("?", lambda shape: shape, 2),
    "i": ("i8", lambda shape: shape, 5), "j": ("i8", lambda shape: shape, 2),
}
"""Element type, shape and the number of different values of each operand."""


def operands(np: Any, own: str, shape: tuple[int, ...]) -> dict[str, Any]:
    """The operands of a call; those that `own` names are NumPy's arrays, the others parts of large ones."""
    found: dict[str, Any] = {}
    for k, (name, (dtype, shaped, values)) in enumerate(NAMES.items()):
        data = numpy.random.default_rng(k).integers(0, values, shaped(shape)).astype(dtype)
        if np is numpy or name in own.split():
            found[name] = data
            continue
        whole = np.zeros((40_000 // max(data.size, 1), *data.shape), dtype)
        found[name] = whole[3, ...] if data.ndim else whole[3:4].reshape(())
        found[name][...] = data
        assert type(found[name]) is dnp.ndarray
    return found


def put(array: Any, index: Any, value: Any) -> None:
    array[index] = value


def told(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return [told(v) for v in value]
    if isinstance(value, (numpy.ndarray, numpy.generic, dnp.ndarray)):
        return str(value.dtype), value.shape, value.tolist()
    return repr(value)


def outcome(np: Any, own: str, shape: tuple[int, ...], call: str) -> Any:
    """The result or error, which operand the result is, all operands behind the call, and the warnings."""
    given = operands(np, own, shape)
    result: Any
    with warned() as caught:
        try:
            found = eval(call, {"np": np, "numpy": numpy, "put": put, **given})
            result = told(found), [name for name, value in given.items() if value is found]
        except Exception as error:
            result = type(error).__name__, str(error).replace("diffuse.numpy", "numpy")
        diffuse.fence()
    return result, told([*given.values()]), sorted({str(w.message) for w in caught})


@pytest.mark.skipif(native is None, reason="without it NumPy's methods take no outputs of Diffuse's")
@pytest.mark.parametrize("own", ["x", "", " ".join(set(NAMES) - {"x"})], ids=["of_x", "of_none", "of_others"])
@pytest.mark.parametrize("shape", [(50,), (5, 8)], ids=["line", "matrix"])
def test_arrays_of_both_kinds(shape: tuple[int, ...], own: str) -> None:
    different = []
    for call in (ANY + (LINE if len(shape) == 1 else MATRIX)).strip().splitlines():
        expected, found = outcome(numpy, own, shape, call), outcome(dnp, own, shape, call)
        if repr(expected) != repr(found):
            different.append(f"{call}: {found}, NumPy's {expected}"[:600])
    assert not different, "\n".join(different)


@pytest.mark.skipif(native is None, reason="without it NumPy asks an array for a number of Python's")
@for_each("kind", ["i1", "i8", ">i4", "f4", "?", "c16", "O", "U5", "M8[s]", "i4,f8"])
@for_each("method", [False, True])
def test_an_element_of_numpys_own_array_takes_an_array_as_numpy_does(kind: str, method: bool) -> None:
    """NumPy would ask for int(b) or float(b), which know nothing of element types."""
    def assigned(np: Any, values: Any, shape: tuple[int, ...]) -> Any:
        part = (np.ones(20_000) * values)[:1].reshape(shape) if shape != (9,) else np.ones(20_000) * values
        array = numpy.zeros(3, kind)
        with warned() as caught:
            try:
                if method:
                    numpy.ndarray.__setitem__(array, 1, part)
                else:
                    array[1] = part
                found: Any = array.tolist()
            except Exception as error:
                found = repr(error), repr(error.__cause__)
        if kind == "O":
            return type(array[1]) is np.ndarray, array[1] is part
        return repr(found), [str(one.message) for one in caught]

    for values in 300, float("nan"), 1j, True:
        for shape in (), (1,), (9,):
            assert assigned(dnp, values, shape) == assigned(numpy, values, shape), (values, shape)


@pytest.mark.skipif(native is None, reason="without it NumPy's generators know no arrays but its own")
@pytest.mark.parametrize("call", [
    "g.shuffle(x)", "g.shuffle(x=x)", "g.shuffle(x.reshape(2, -1), axis=1)", "g.permuted(x, out=x)",
    "g.random(out=x)", "g.standard_normal(out=x)", "g.standard_exponential(out=x)", "old.shuffle(x)",
    "g.standard_gamma(2.0, out=x)", "numpy.random.shuffle(x)", "numpy.random.RandomState.shuffle(old, x)",
    "g.random(out=x[::2])", "g.shuffle(locked)"])
def test_numpys_generators_shuffle_and_fill(call: str) -> None:
    def drawn(np: Any) -> Any:
        x, locked = np.arange(20_000.0), np.arange(20_000.0)
        locked.flags.writeable = False
        numpy.random.seed(3)
        given = {"x": x, "locked": locked,
                 "g": numpy.random.default_rng(3), "old": numpy.random.RandomState(3)}
        with warned() as caught:
            try:
                found = eval(call, {"numpy": numpy, **given})
            except Exception as error:
                found = str(error)
        return found is x or found, x.tolist(), [str(one.message) for one in caught], given["g"].random()

    expected, found = drawn(numpy), drawn(dnp)
    assert found[1:] == expected[1:] and (found[0] == expected[0] or type(found[0]) is dnp.ndarray)


@pytest.mark.parametrize("copy", [False, True])
@pytest.mark.filterwarnings("ignore:the matrix subclass")
def test_a_matrix_of_a_view_with_strides(copy: bool) -> None:
    def made(np: Any) -> Any:
        x = np.arange(40_000.0).reshape(-1, 4)
        found = []
        for view in x[::3, ::2], x.T, x[::2], x[0], x:
            m = numpy.matrix(view, copy=copy)
            m[0, 1] = 7
            found.append((m.shape, m.strides, m.flags.f_contiguous, float(view.reshape(-1)[1]), m.sum()))
        return found, numpy.matrix(x[::3], dtype="f4").dtype, type(numpy.matrix(x)) is numpy.matrix

    assert made(dnp) == made(numpy)


@pytest.mark.skipif(native is None, reason="without it the method returns the output")
@pytest.mark.parametrize("call", ["sum(out=y)", "round(out=y)", "max(None, y)", "clip(1, 2, out=y)",
                                  "take(0, out=y)", "conj(y)", "any(out=y)", "std(out=y)"])
def test_a_method_of_a_number_returns_the_element_that_it_wrote(call: str) -> None:
    def found(np: Any) -> Any:
        y = np.zeros(20_000)[:1].reshape(())
        result = eval(f"np.float64(3).{call}", {"np": np, "y": y})
        written = float(y)
        y[...] = 5  # which changes the output, not the result
        return type(result) is numpy.float64, float(result), written

    assert found(dnp) == found(numpy)
