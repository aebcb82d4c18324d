"""Samples of the audit of calls (audit.py) and of the fuzzer of views (stateful.py), and what these found."""

from __future__ import annotations

import ctypes
import os
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy
import pytest

import diffuse
import diffuse.numpy as dnp
from diffuse.settings import config
from tests import audit, audit_calls, audit_parameters, stateful
from tests.outcomes import warned


@pytest.fixture(autouse=True)
def quiet(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Without warnings about functions that NumPy computes, and without compiling: kernels would differ each
    time."""
    before = config.small, config.fallback, config.compile
    config.fallback, config.compile = "silent", "off"
    yield
    config.small, config.fallback, config.compile = before


@pytest.mark.local_only("arrays are in memory of their own there, and NumPy's view of them a copy")
@pytest.mark.parametrize(("mode", "count"), [("small", 300), ("recorded", 300), ("large", 30)])
def test_generated_calls(mode: str, count: int) -> None:
    for number in range(count):
        text, differences = audit.checked(mode, number)
        assert not [d for d in differences if d[0] != "["], text + "\n" + "\n".join(differences)


@pytest.mark.local_only("NumPy's views of the memory are copies there")
@pytest.mark.parametrize("mode", [*stateful.MODES])
def test_families_of_views(mode: str) -> None:
    for number in range(6):
        text, differences = stateful.checked(mode, number)
        assert not [d for d in differences if d[0] != "["], text + "\n" + "\n".join(differences)


@pytest.mark.parametrize("text", ["np.median(a, out=b)", "a.mean(out=b)", "np.nanmedian(a, axis=0, out=b)"])
def test_calls_that_end_numpy_are_not_generated(text: str) -> None:
    draft = audit_parameters.Draft(random.Random(3), "small")
    draft.new((7,), "f2", "C")
    assert not audit_calls.avoided(draft, text)
    draft.new((), "O", "C")
    assert audit_calls.avoided(draft, text)
    assert audit_calls.avoided(draft, "b.put(1<<40, c, mode='wrap')")


@pytest.mark.parametrize("command", ["numpy_suite", "scipy_suite", "fuzz_ranks", "block_programs"])
def test_commands_tell_how_they_are_called(command: str) -> None:
    words = [sys.executable, str(Path(__file__).with_name(f"{command}.py")), "--help"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=120,
                          env={**os.environ, "PYTHONPATH": str(Path(__file__).parent.parent)})
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"usage: {command}.py")


def told(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return [told(v) for v in value]
    if isinstance(value, (dnp.ndarray, numpy.ndarray)):
        return str(value.dtype), value.shape, value.strides, repr(value.tolist())
    return (type(value).__name__, repr(value)) if not isinstance(value, numpy.generic) else (str(value.dtype),
                                                                                             repr(value))


def outcome(np: Any, code: str) -> Any:
    """The result of the expression behind the last semicolon, or the error; and the warnings."""
    scope: dict[str, Any] = {"np": np, "numpy": numpy, "diffuse": diffuse}
    before, _, last = code.rpartition(";")
    with warned() as caught:
        try:
            exec(before, scope)
            found = told(eval(last.strip(), scope))
        except Exception as error:
            found = type(error).__name__, str(error)
        diffuse.fence()
    return found, sorted({(w.category.__name__, str(w.message)) for w in caught})


FOUND = """
x=np.arange(200.); x.copy(order=x)
x=np.arange(200.); x.reshape(-1, order=x)
x=np.arange(200.); np.ravel(x, x)
x=np.arange(200.); np.add(x, x, order=x)
x=np.arange(200.); np.add(x, x, casting=x)
x=np.arange(200.); x.astype("f4", casting=x)
x=np.arange(200.); x.astype("f4", subok=10**30)
x=np.arange(20000.); x.astype("f4", subok=10**30)
x=np.arange(20000.); np.zeros_like(x, subok=10**30)
x=np.arange(20000.); np.broadcast_to(x, (2, 20000), subok=x)
x=np.arange(200.); np.concatenate((x, x), casting=x)
x=np.arange(20000.); np.repeat(x, 10**30)
x=np.arange(20000.); np.tile(x, 10**30)
x=np.arange(200.); x.resize(x)
np.zeros(300, order=np.array([1, 2]))
np.ones(3, order=np.array("C"))
np.array(np.arange(200.), order=np.array("C"))
np.eye(3, k=np.arange(5.))
np.eye(3, k=5.5)
np.eye(3, k=2.5)
np.eye(3, order=np.arange(5.))
x=np.arange(130.); np.subtract.at(x, np.arange(130), numpy.ma.array(x)); x
x=np.arange(130.); np.add.at(x, np.arange(130), range(130)); x
x=np.arange(130.); np.add.at(x, x, range(3))
np.require(np.bool_(True), complex, ["A", "W"], like=np.arange(9).sum())
x=np.arange(400.).reshape(20, 20); x[:, [3, 1, 1]]
x=np.arange(400.).reshape(20, 20); i=np.arange(19)[::-1]; y=x[:, i]; y[0]=7; y, x
x=np.arange(800.).reshape(2, 20, 20); i=np.arange(19); x[1:, i], x[:, :, i], x[..., i], x[::-1, i, 2:]
x=np.arange(800.).reshape(2, 20, 20); i=np.arange(19); x[np.int64(1):, i], x[:99, i, ::-3]
x=np.arange(200.); z=np.zeros(200); np.copyto(z, x, where=x > 3); z
x=np.arange(200.); z=np.zeros(200, "i4"); np.copyto(z, x, where=x > 3)
x=np.arange(200.); z=np.zeros(200, "i4"); np.copyto(z, x, casting="unsafe", where=[True]); z
x=np.arange(200.); np.copyto(x[1:], x[:-1], where=x[1:] > 3); x
x=np.arange(200.); np.put(x, [1, 300], -1, mode="wrap"); x
x=np.arange(200.); x.fill(np.array(3)); x
x=np.arange(200.); x.fill([1])
x=np.arange(200.); x.fill("a")
x=np.arange(200.); x.flags.writeable=False; x.fill(2)
x=np.arange(200, dtype="u1"); x.fill(300)
x=np.arange(200.)*2; y=x[::3]; y.fill(1); x
x=np.arange(200.); np.c_[x, x[::-1]], np.r_[x, x[:3]], np.r_["0,2", x, x], np.r_[x, 1, [2]]
x=np.arange(200.); y=np.r_[x]; y[0]=5; x[0]
x=np.arange(20000, dtype="f4"); (x * np.array(2.5)).dtype, np.add(x, numpy.array(2, "i8")).dtype
x=np.arange(20000); c=numpy.array(3); y=x * c; c[...]=9; y
x=np.arange(40) % 10; c=[np.arange(40000)[k:k + 40] for k in range(10)]; x.choose(*c)
x=np.arange(40) % 10; c=[np.broadcast_to(np.arange(40000)[k:k + 1], 40) for k in range(10)]; x.choose(*c)
x=np.arange(12.).reshape(4, 3); np.cross(x, x[::-1], axisc=(0,))
x=np.arange(12.).reshape(4, 3); np.cross(x, x[::-1], axisc=2)
x=np.arange(12.).reshape(4, 3); np.cross(x, x[::-1] * 2, axisc=0)
x=np.arange(12.).reshape(4, 3); np.cross(x, x, axisa=None)
np.unstack(np.arange(3))
np.unstack(np.arange(20000))[19999]
np.multiply.outer(np.arange(3,dtype="f4"), 2.5)
np.add.outer(numpy.arange(2,dtype=">f8"), numpy.arange(3,dtype=">f8"))
np.sqrt.outer(np.arange(3.), 1)
np.sin.outer(np.arange(3.))
x=np.arange(3.)+1; np.add(x, 1, where=x>1).shape
x=np.arange(3.)+1; np.add(x, 1, where=x>1, out=None).shape
x=np.arange(3.)+1; o=np.zeros(3); np.add(x, 1, where=x>1, out=o)
np.add(np.arange(3.)+1, 1, subok=None)
np.add(np.arange(3.)+1, np.ones((2,2)), order="Q")
np.add(np.arange(3)+1j, 1, dtype="f8", casting="unsafe")
np.add(np.arange(3,dtype="u1")+1, 1, casting="equiv")
x=np.arange(6.).reshape(2,3).T+1; m=np.arange(6).reshape(3,2)>1; np.negative(x, where=m, out=None).strides
x=np.ones((5,1))+1; np.add(x, np.asfortranarray(x), order="A").strides
x=np.arange(4.)+1; np.power(x, 2.0, out=(x,))
np.arctanh(np.array([1.0, 0.5, 0.0]))
np.arctanh(np.array([2.0, numpy.nan]))
np.squeeze(numpy.float32(1.5))
np.iscomplex(np.asfortranarray(np.ones((2,3)))+0).strides
(np.asfortranarray(np.ones((2,3))+1j)+0).dot(True).strides
np.dot(np.ones((2,3))+0, np.ones((2,3)))
np.linalg.outer(np.ones((2,3))+0, np.ones(3))
(np.arange(4)+1).mean(dtype=">f8")
(np.arange(4.)+1).all(keepdims=None)
(np.arange(4.)+1).argmax(keepdims=None)
np.ones_like(np.arange(4)+1, subok=None)
(np.arange(4.)+1).astype("f4", casting="x")
(np.arange(4)+1).view(None).dtype
(np.arange(4)+1).view("i4", None)
x=np.arange(4)+1; x.T=3; x
x=np.arange(4)+1; x.size=3; x
x=np.arange(4)+1; x.ndim=3; x
x=(np.arange(4)+1)[::2]; x.resize(-1); x
x=np.arange(4)+1; x.resize((2,-1)); x
x=np.arange(4)+1; x.resize((2,2.5)); x
x=(np.ones((2,3))+1).T; x.resize((2,3)); x.strides
np.append(np.ones((2,2))+0, np.ones((2,2)), axis=(0,1))
x=np.ones(4,"u1")+1; x.real=-3; x
x=np.ones(4)+1; y=x.view(); x.setflags(write=False); y[:]-=1; (x, y, x.flags.writeable)
x=np.zeros(4); y=x.reshape(-1); y.tolist(); x.setflags(write=False); y[:]-=1; y
np.copyto(np.ones((2,3))+1, [1,2])
x=np.zeros((1,0),"u1"); np.copyto(x, -3, where=x>1, casting="unsafe")
x=np.ones(4)+1; np.putmask(x, x>1, np.ones(4)+1j); x
x=np.ones(4,"i4")+1; np.putmask(x, x>1, np.ones(4)); x
x=np.ones(4,"i4")+1; np.putmask(x, x>1, 2.5); x
x=np.zeros(17,"u1")[1:].view("f8"); np.nan_to_num(x)
x=np.zeros(17,"u1")[1:].view("f8"); (x.any(where=np.ones(2,bool)), x.sum(where=np.ones(2,bool)))
x=np.zeros(17,"u1")[1:].view("i8"); y=np.ones(2,"i8")+1; np.putmask(y, y>1, x); y
x=np.array([-2.09, 1.26, 3.0]); np.round(x, 1, out=np.zeros(3,"c8"))
x=np.arange(20000).astype("m8[s]"); np.digitize(x, np.arange(4.))
x=np.arange(20000).astype("M8[s]"); np.searchsorted(np.arange(4.), x)
x=np.ma.array([None]*2); x[0]=np.eye(20); x[0]=np.ma.masked; (type(x[0]).__name__, x[0].mask.shape)
x=np.arange(200.); numpy.frexp(x, out=(x, None))
x=np.arange(200.); (numpy.equal(x, None).any(), numpy.not_equal(None, x).all())
d=numpy.dtype("i4",metadata={"a":1}); x=np.zeros((19999,1),d); np.zeros((19999,1),"i4").dtype.metadata
d=numpy.dtype("i4",metadata={"a":1}); x=np.zeros((1,19999),"i4"); np.zeros((1,19999),d).dtype.metadata["a"]
d=numpy.dtype("i4",metadata={"a":1}); np.asarray(np.zeros(20000,"i4"), d).dtype.metadata["a"]
d=numpy.dtype("i4",metadata={"a":1}); np.asarray(numpy.zeros(20001,d)).dtype.metadata["a"]
d=numpy.dtype("f8",metadata={"a":1}); (np.ones(200)+1).astype(d).dtype.metadata["a"]
d=numpy.dtype("f8",metadata={"a":1}); (np.ones(200)+1).view(d).dtype.metadata["a"]
x=np.arange(16.).reshape(2,2,2,2).T+1; ((np.ones(2)@x).strides, (x@np.ones(2)).strides, (x@x).strides)
x=np.zeros(200,"u1"); x[[1,2]]=[300,-300]; x
x=np.zeros(200,"u1"); x[:2]=(300,-300); x
x=np.zeros(20000,"i4"); x[np.arange(20000)<2]=[1.5,np.nan]; x[:3]
x=np.zeros(200,"f8"); x[x<1]=[1j]; x
x=np.zeros(200,"i2"); np.put_along_axis(x, np.array([1,2]), (70000,1), 0); x
np.full((3,2), [300,-300], "u1")
np.full_like(np.zeros((100,2),"u1")+1, [300,-300])
x=np.zeros(200,"u1"); x.put([1,2], range(299,301)); x
np.full((3,2), range(299,301), "u1")
x=np.zeros(200,"?"); x.fill([0,1]); x.all()
x=np.broadcast_to(np.ones((1,3,4))+1, (2,3,4)); np.count_nonzero(x, axis=(1,0), keepdims=True).strides
x=np.array([0,np.nan,1j,-0.0])+0; (np.count_nonzero(x, axis=0), np.count_nonzero(x, keepdims=True))
np.nan_to_num(np.inf, False, neginf=-300)
x=np.ones(20000); x[3]=np.inf; np.nan_to_num(x.tolist(), copy=False)
x=np.ones(200)+0; x[3]=np.inf; np.nan_to_num(x, copy=None, posinf=7.); x[3]
np.isneginf(None)
x=np.arange(3.); np.isneginf(x+1, out=(x>1,))
np.triu(1.5)
np.apply_over_axes(np.sum, np.ones((2,3))+1, (0,1))
np.trace(np.ones((2,2),"i2")+1, out=np.zeros((),object))
x=np.arange(4,dtype="i1")+1; x[x>2]=numpy.uint8(200); x
x=np.arange(4,dtype="i1")+1; x[x>2]=300; x
x=np.arange(4,dtype="i1")+1; x[x>2]=numpy.float64(300); x
x=np.zeros(5,"u1")[1:].view("f4").reshape(()); (np.std(x), np.mean(x))
x=np.zeros(7,dtype="c8"); y=np.ones(1,"c8")+1; x[...,0]=y; x
np.ravel(np.broadcast_to(np.arange(3.)+1, (2,3)), "K")
np.broadcast_to(np.arange(3.)+1, (2,3)).flatten("K")
np.ravel(np.broadcast_to((np.arange(6.)+1).reshape(3,1,2).T, (2,4,3)), "K")
type(np.meshgrid(np.arange(3)+1, 2, copy=False, sparse=True)).__name__
np.around(np.array(3))
np.nan_to_num(np.array(3.0))
np.round(np.ones((2,3))+1, out=np.zeros((3,2)))
np.round(np.ones((2,3))+1, out=np.zeros((2,2)))
np.block([0,])
np.empty_like(np.ones(3)+1, order=None, shape=2).shape
np.logical_and.reduce(np.ones(3)+1, out=...).shape
np.count_nonzero(np.ones(3)+1, keepdims=None)
np.ones_like(np.ones(3)+1, "x9", shape=(2,-1), device="gpu")
np.inner(np.ones(3)+1, np.ones(1))
(np.asfortranarray(np.ones((2,3),"i4"))+1).dot(300).strides
x=np.ones(3)+1; m=x>1; x.flags.writeable=False; np.putmask(x, m, 3.0)
x=np.arange(3.)/4; o=np.zeros(3); np.arctanh(x, where=x>0, out=o)
np.linalg.outer(np.ones(3), np.ones((2,2))+1)
x=np.ones(1,"u2")+1; x.flags.writeable=False; x.resize(1); x.flags.writeable
np.array([True,False]).astype("f4", subok=True)
np.add(np.array([True,False]), 1j, casting="unsafe", dtype=int)
x=np.full(200,3.); x.tolist(); y=x.view(); x.setflags(write=False); y[:]=4; (x, y, x.flags.writeable)
x=np.arange(20000.); x[[True]*20000]=x[::-1]; x
x=np.arange(20000.); x[x>=0]=x[::-1]; x
x=np.arange(20000)%4==0; x[x]=x[:5000]; x
x=np.arange(20002)%3==0; x[x[::-1]]=False; x
x=np.arange(200)%4; x.tolist(); y=x[40:4:-1]; x.shape=(-1,); y[:]=7; x
x=np.zeros(2); x[::2]=3; x[::2][[True]]
x=np.zeros(0)+1; y=x[:]; x.resize(3); (x,y)
np.linspace(-2, 1<<70)
np.arange(-2, np.float16(.1))
x=np.array([1.,np.nan]*9000)+0; diffuse.fence(); np.minimum(x, 1, casting="unsafe", dtype="i2")[:1]
np.block([[np.ones((1,20000))+1, 0, np.ones((1,3))]]).shape
import pickle; x=np.broadcast_to(np.arange(200), (2,200)); pickle.loads(pickle.dumps(x)).strides
import pickle; x=np.ones((30,40,20)).diagonal(); pickle.loads(pickle.dumps(x,5)).strides
x=np.arange(20000)+(1<<60)+1; np.copysign(x[::-1], 2, out=x, where=x%2==0, casting="unsafe"); x
x=np.zeros((),"i8"); type(np.argmin(np.int8(3), out=x)).__name__
x=np.zeros((),"?"); type(np.all(np.int8(3), keepdims=True, out=x)).__name__
x=np.zeros(1); type(np.cumsum(np.float64(3), out=x)).__name__
x=np.zeros(()); type(np.clip(np.float64(3), 0, 1, out=x)).__name__
np.arange(0, np.complex64(1+1j), 1)
np.tile(np.broadcast_to(np.zeros((0,1),"u4"), (0,3)), 2).flags.writeable
x=np.ones(5)+1; x.astype("f4", subok=None)
x=np.arange(20000.); x[3]=numpy.nan; np.prod(x, dtype="i4")
x=np.arange(20000.)*1e300; np.cumsum(x, dtype="i4")[-1]
x=(np.arange(20000)%7).astype("f2"); np.std(x)
x=np.array([0,1,2]*7000); y=divmod(9, x); (y[0].sum(), y[1].sum())
x=np.arange(20000.)%3-1; diffuse.fence(); np.float_power(x, -2).max()
x=np.broadcast_to(np.ones((1,4),"?"), (3,4)); x.dot(2).strides
x=np.ones((3,4,2,2),order="F")+1; y=np.ones((4,3,2,2)).transpose(1,0,2,3)+1; np.matmul(y,x).strides
x=np.broadcast_to(np.arange(12,dtype="i1").reshape(1,3,4),(2,3,4)); np.mod(x, True, dtype=object).strides
x=np.ones(3)+1; y=np.logical_and(x, 1); np.logical_and(x, 1<<70)
x=np.zeros(3); np.sqrt(4, out=x); np.sqrt(1<<70, out=x)
np.linalg.norm(np.array(3.)+1, None, 0)
np.choose(np.array(0), (np.array(3.), np.array(2.)))
type(np.reshape(np.float64(2), ()))
x=np.arange(4.)+1; np.nan_to_num(x, copy=False, neginf=1j)
x=np.arange(3.)+1; np.isneginf(x, out=...)
np.inner(np.ones((1,1,1),object), np.uint8(200))
np.full_like(np.ones((3,0),"u4"), np.nan)
x=np.arange(20000.); np.maximum.at(x, np.arange(20000)%7, np.ones((1,20000))*3); x
x=np.arange(130,dtype="i2")+1; np.logical_or.outer(x, np.ones(1,"i2")+1, order="A").strides
x=np.arange(40)+1; np.mod(x, 0, where=x<0, out=np.zeros(40,int))
x=np.ones((1,1,1),"i8")[::-1]; x.resize((1,1,1)); x.strides
x=np.zeros((0,3),"u1"); x-=-3
x=np.zeros((0,3),"u1"); y=x-3; x-(-3)
x=np.broadcast_to(np.ones((1,2,2,2))+1, (2,2,2,2)); np.sum(x, axis=()).strides
np.trace(np.ones((3,2),"u4"), dtype=">f8")
x=np.ones((2,3,4),order="F")+1; np.sum(x, 0, keepdims=True, initial=3).strides
np.mod(np.arange(7,dtype="i1")[::-1]+1, [[1],[2]], order="A").strides
np.full((0,), None, dtype="u1")
np.full(3, 1j, "g")
x=np.zeros(3,"i1"); np.copyto(x, 300.5, casting="unsafe", where=np.array([True,False,True])); x
x=np.arange(12.).reshape(3,4)+1; x.reshape((12,1),order="A",copy=True)
x=np.arange(40)*(1<<40); np.radians(x, casting="same_kind", dtype="f2")
x=np.zeros(97,"u1")[1:].view("f8").reshape(3,4); x[...]=np.ones((3,4)); np.shares_memory(x, x[1:])
x=np.arange(7); x[0,...]=[1.5]; x
np.minimum.accumulate(np.arange(9).reshape(3,3)+1, out=...)
x=np.arange(9,dtype="i4"); np.put_along_axis(x, np.argsort(x, axis=0), np.inf, 0); x
x=np.broadcast_to(np.arange(5.)+1,(4,5)); np.nanprod(x,-1,keepdims=True).strides
np.modf(np.ones((1,5),order="F")+1, order="A")[0].strides
np.fmax.reduce(np.ones((5,1),"?"), axis=-2, dtype="c16")
x=np.ones((3,0),"i4"); np.power(x, -300)
x=np.array(numpy.ones((150,130))).T; np.minimum.reduce(x, keepdims=True).strides
x=np.broadcast_to(np.ones((1,3,4),"i1"),(2,3,4)); np.full_like(x, 3, order=None).strides
x=np.zeros((3,4),"?"); x.setflags(write=False); np.clip(np.arange(12).reshape(3,4)+0, 0, 5, out=x[...])
x=np.arange(7)+1; x.setflags(write=True, align=False); x.flags.aligned
x=np.array(7)+1; y=np.clip(x, 2, 5); (y, np.clip(x, 2, 5))
x=np.zeros((2,2,2,2),"u2").T; np.diff(x).strides
a=np.broadcast_to(np.arange(5)+1,(4,5)); np.modf(a, out=(np.zeros((4,5),order="F"), None))[1].strides
x=np.arange(6.)-3; (np.clip(x, -0.0, np.zeros(6,"?")), np.clip(x, np.zeros(6), -np.zeros(6)))
x=np.arange(6.)-3; np.clip(x, -0.0, 0.0)
x=np.zeros((2,2,1),"u2",order="F"); (np.clip(x, 0, 1).strides, x.copy("K").strides, np.zeros_like(x).strides)
x=np.zeros((2,2,1),order="F"); y=x.astype(int); ((x+x).strides, (x+y).strides, np.sqrt(y).strides)
x=-np.array([np.inf,0.,-4.]); np.power(x, 0.5, dtype=float)
x=-np.array([np.inf,0.,-4.]); np.power(x, 0.5, dtype="f2", casting="unsafe")
x=-np.array([np.inf,0.,-4.]); np.power(x, np.float64(0.5))
x=-np.array([np.inf,0.,-4.],"f4"); x ** np.float64(0.5)
x=-np.array([np.inf,0.,-4.]); np.power(x, np.array(0.5))
x=-np.array([np.inf,0.,-4.],"f2"); np.power(x, 0.5)
x=-np.array([np.inf,0.,-4.],"f2"); (np.power(x, np.float16(0.5)), np.power(x, np.float64(0.5)))
x=np.arange(4)*30000+0; o=np.zeros(4,"f2"); diffuse.fence(); np.positive(x, out=o)
x=np.arange(4.)*30000+0; o=np.zeros(4,"f2"); diffuse.fence(); np.negative(x, out=o)
x=np.arange(4.)*30000+0; m=x>1; o=np.zeros(4,"f2"); diffuse.fence(); np.maximum(x, x, out=o, where=m)
x=np.zeros(0,"u1")+0; (x.dot([]), np.dot([], x), np.dot(3, []), np.dot(np.ones((1,1),"u1")+0, [[]]))
np.take_along_axis(np.zeros(2)+1, [0])
np.take_along_axis([1, 2], np.zeros(1,int)+0)
np.put_along_axis(np.zeros(2)+1, [0], 5, 0)
x=np.arange(3.); y=np.array(2, object); x ** y
np.nan_to_num(np.nan, None)
np.flatnonzero(np.zeros((), "c16"))
x=np.arange(5)[:,None]+1; np.roll(x, 0, [0])
np.zeros_like(None, "f8", device="gpu")
x=np.asfortranarray(np.arange(6.).reshape(2,3)+1); (x.reshape(-1, order=None), np.reshape(x, 6, order=None))
x=np.array([np.inf,-1.,2.]); (x.dot(False), x.dot(-1.), np.dot(0., x), x[:,None].dot(np.float32(2)))
np.log2(-0.0, where=np.zeros((), "?"), out=None).shape
x=np.arange(7); i=np.zeros(29,"u1")[1:].view("i4"); x[i]
type(np.dot(numpy.arange(3).astype(object), np.float64(2))[0])
x=np.broadcast_to(np.ones((1,3,4),"g"),(2,3,4)); (np.nanprod(x, axis=-1).strides, np.nansum(x, 1).strides)
x=np.arange(200.)+0; o=numpy.zeros(200); numpy.minimum(x, 1., out=o); o
x=np.arange(200.)+0; o=numpy.zeros(200,">f8"); numpy.maximum(x, x, out=(o,)); o
np.prod(None, axis=0, keepdims=None)
np.argmax(numpy.matrix([[1,2]]), keepdims=None)
np.full_like(numpy.matrix([[1,2]]), 3, subok=None)
np.sum(None, where=None)
np.linalg.norm(np.complex64(1+1j), keepdims=True)
x=np.arange(200)+1; f,a,s=x.__reduce__(); y=f(*a); y.__setstate__(s); (y, len(s), s[:4])
x=np.arange(20000).reshape(200,100).T+1; y=np.zeros(200); y.__setstate__(x.__reduce__()[2]); y
x=np.arange(20000.); a=np.zeros(20001); np.modf(x, out=(a[1:],a[:-1])); a
x=np.full(20000,1e300); o=np.zeros(20000,"f4"); diffuse.fence(); np.modf(x, out=(np.zeros(20000),o)); o
x=np.full(20000,60000,"f2"); np.vdot(x, x)
x=np.full(20000,1e300)+0j; diffuse.fence(); np.vdot(x, x)
x=(np.arange(20000)%7).astype("f2"); np.sum(x, where=x>3)
x=np.ones((20000,2),"f2"); (x.sum(0), x.sum(), x.T.sum(0)[:3], x[::2].sum(0))
x=np.concatenate([np.full(10000,.5),np.full(10000,2.)]); (np.prod(x), np.nanprod(x), np.multiply.reduce(x+0))
x=np.concatenate([np.full(1000,.25),np.full(1000,4.)])[:,None]+np.zeros(20); (x.prod(0), x.T.prod(1))
x=np.concatenate([np.full(10,1e-60),np.full(10,1e60)]); x=x+np.zeros((2000,1)); x.prod(1)[:3]
np.indices(3)
np.fromfunction(lambda i: i, 3)
x=np.arange(5,dtype="i1")+0; x ** -300
x=np.broadcast_to(np.array(numpy.ones((1,2,2,2),"?")),(2,2,2,2)); x[...,...]=-1
x=np.broadcast_to(np.array(numpy.ones((1,200))),(2,200)); x[9]=-1
x=np.asfortranarray(np.arange(9.).reshape(3,3)); [f(x,1,keepdims=True).strides for f in (np.mean,np.std)]
x=(np.arange(156.)+1).reshape(12,13).T; (x.__array__("f4").strides, x.__array__("f4",copy=True).strides)
np.concatenate([np.arange(20000,dtype="u1")%7, -1], None)
np.concatenate([1<<40, np.arange(200,dtype="u1")%7], None, casting="no", out=np.zeros(201,"u1"))
x=np.arange(20000)+1; y=np.asarray(np.ma.array(x)); (y.flags.owndata, y.base is None)
x=numpy.arange(20000); y=np.asarray(x[1:]); (y.flags.owndata, np.asarray(x).flags.owndata)
np.unstack([[1,2],[3,4]])
np.rollaxis([1], 0)
np.arange(np.array(4), numpy.timedelta64(3,"D"), device="cpu")
x=np.ones((12,13))+1; x.resize({})
x=np.ones((2,9000),order="F"); m=numpy.ones((4,3),"?")[::2,1:2]; np.square(x, where=m, order="A").strides
x=np.ones((2,3))+1; np.concatenate((x,x), True)
x=np.ones((3,0))+1; (np.tril(x).strides, np.where(x>0, x, 0).strides)
np.einsum()
np.einsum(optimize=True)
x=np.ones((2,3))+1; np.append(x, x, True)
x=np.ones((2,3))+1; np.repeat(x, 2, True)
x=np.ones((2,3))+1; np.cumsum(x, np.True_)
x=np.ones((2,3))+1; np.argmax(x, True)
x=np.ones((2,3))+1; np.sum(x, True)
x=np.ones((2,3))+1; (np.stack((x,x), True), np.linalg.norm(x, axis=True))
x=np.asfortranarray(np.ones((2,9000))); np.add(x, np.ones(18000)[::2], order="A").strides
x=np.ones((2,20000))+1; np.add.accumulate(x, axis=True)
x=np.ones((2,20000))+1; np.add.accumulate(x, np.int64(1))
x=np.ones((2,20000))+1; np.sum(x, (True,))
x=np.ones((2,20000))+1; np.any(x, np.True_)
x=np.ones((2,20000))+1; np.linalg.norm(x, axis=(True,))
x=np.ones((2,20000))+1; np.linalg.norm(x, 1, np.int64(1))
x=np.ones((2,20000))+1; np.linalg.norm(x, 1)
x=np.ones((2,20000))+1; np.linalg.norm(x, axis="a")
x=np.ones((2,20000))+1; np.mean(x, 1.0)
x=np.ones((2,20000))+1; np.std(x, np.True_)
x=np.ones((2,20000))+1; np.argsort(x, True)
x=np.ones((2,20000))+1; np.roll(x, 1, np.True_)
x=np.ones((2,20000))+1; np.roll(x, 1, 1.0)
x=np.ones((2,20000))+1; np.stack((x,x), (0,))
x=np.ones((2,3))+1; np.stack((x,x), [0])
x=np.full(20000,1e300)+0; float(x.max()); np.multiply.at(x, np.arange(3), numpy.full(3, 1e38, "f4")); x[:5]
x=np.full(20000,1e300)+0; float(x.max()); np.multiply.at(x, (..., np.arange(20000)), 1e308); x[:5]
x=np.full((9000,2),1e300)+0; float(x.max()); np.multiply.at(x, np.arange(9000), 1e308); x[:5]
x=np.full((9000,2),1e300)+0; float(x.max()); i=np.arange(9000); np.multiply.at(x, (i,i%2), 1e308); x[:5]
np.outer(np.arange(130.), [1.], out=...)
np.matmul.outer(np.arange(130.), [1.])
x=np.arange(20000.)+1; setattr(x, "strides", (16,))
x=np.arange(20000.)+1; delattr(x, "strides")
x=np.arange(20000.)+1; delattr(x, "flags")
np.ndarray.__doc__[:200]
np.full_like(np.arange(300), np.datetime64("2020-01-01"))[:2]
np.full(20000, np.datetime64("2020-01-01"), "f8")[:2]
np.full_like(np.arange(300.), "abc")
np.full(300, b"abc", "i4")
np.full(300, "3.5", "f4")[:2]
np.full_like(np.arange(300.), np.zeros(1,"i4,f4")[0])
np.array([1,2,3], ndmax=0, dtype=object).shape
np.array([1,2,3], ndmax=0)
np.asarray(np.arange(20000.)+1, "f4", copy=False)
np.matmul(np.arange(20000.), np.arange(20000.), where=False)
str(__import__("inspect").signature(np.ma.add))
x=np.arange(20.)+1; s=x.max(); np.add(s, 1, s)
x=np.arange(20.)+1; s=x.max(); np.matmul(x, x, out=s)
x=np.arange(20.)+1; s=x.any(); np.true_divide(s, s, out=(s,), casting="unsafe")
x=np.arange(20.)+1; s=x.max(); np.cumsum(x[:1], out=s)
x=np.arange(20.)+1; s=x.max(); ((2+1j)*s, 1j+s, 1j-s, 1j/s, 1j**s)
x=np.arange(20.)+0; 1j/x.min()
x=np.arange(200.)+1; y=x[1:]; x.resize(x.shape, refcheck=False); x+=1; (x, y, x.flags.owndata)
x=np.arange(200.)+1; y=x[1:]; w=numpy.asarray(x); x.resize((20,10)); x*=2; y+=1; (x, y, w.sum())
x=np.ones((3,70),order="F")+1; y=x.T; x.resize((7,30)); x[0]=9; (x, y, x.strides)
"""
"""What the two found, as it was mended: a line each."""


@pytest.mark.parametrize("small", [0, 16384])
@pytest.mark.parametrize("code", FOUND.strip().splitlines())
def test_what_was_found(code: str, small: int) -> None:
    config.small = small
    assert outcome(dnp, code) == outcome(numpy, code)


@pytest.mark.local_only("NumPy's views of the memory are copies there")
@pytest.mark.parametrize("kind", ["f2", "f8"])
@pytest.mark.parametrize("view", [
    "np.ma.array(x)", "np.ma.array(x).data", "np.ma.masked_where(x > 3, x, copy=False)", "np.asmatrix(x)",
    *["numpy.frombuffer(x, x.dtype)", "np.frombuffer(x, x.dtype)", "numpy.ndarray(x.shape, x.dtype, x)"
      ] * stateful.BUFFERS])
def test_what_shows_the_memory_of_an_array_stays_up_to_date(view: str, kind: str) -> None:
    x = dnp.array((numpy.arange(20000) % 5).astype(kind))
    shown = eval(view, {"np": dnp, "numpy": numpy, "x": x})
    x += 1
    assert numpy.array(numpy.asarray(shown)).ravel()[:7].tolist() == [1, 2, 3, 4, 5, 1, 2]


@pytest.mark.local_only("NumPy's views of the memory are copies there")
@pytest.mark.parametrize("size", [200, 5000, 20000])
@pytest.mark.parametrize("view", [
    "np.ma.array(x)", "np.ma.array(x[1:])", "np.ma.masked_where(x > 3, x, copy=False)", "np.asmatrix(x)",
    "np.asmatrix(x[1:])", "np.ma.fix_invalid(x, copy=False)", "np.ma.getdata(np.ma.array(x))"])
def test_tasks_read_an_array_before_what_shows_its_memory_is_written(view: str, size: int) -> None:
    x, rows = dnp.array(numpy.arange(size) * 1.0), dnp.ones((40000 // size + 1, size))
    shown = eval(view, {"np": dnp, "numpy": numpy, "x": x})
    pending = rows * 2.0 + x
    shown[...] = 7.0
    assert numpy.array_equal(pending[0], numpy.arange(size) + 2.0)
    assert float((rows * 0.0 + x)[0, 3]) == 7.0


@pytest.mark.local_only("NumPy's views of the memory are copies there")
def test_an_address_that_is_a_number_shows_what_was_computed_since() -> None:
    x = dnp.array(numpy.arange(20000.0))
    address = x.ctypes.data
    for k in range(1, 4):
        x += 1
        dnp.add(x, 1, out=x)
        assert list((ctypes.c_double * 3).from_address(address)) == [2 * k, 2 * k + 1, 2 * k + 2]


@pytest.mark.parametrize("code", ["np.prod(np.float32(2.5), axis=0)", "np.any(0)", "np.max(3, initial=5)"])
def test_a_reduction_of_a_number_is_a_number_at_once(code: str) -> None:
    config.small = 0
    found, expected = eval(code, {"np": dnp}), eval(code, {"np": numpy})
    assert type(found) is type(expected) and found == expected


def test_small_products_of_one_element_have_numpys_bits_whatever_their_dimensions() -> None:
    x, y = numpy.array([-1.1 + 0.7j]), numpy.array([[2.6 + 1.9j]])
    for a, b in ((x, y), (y, x), (x, y[0]), (y, y), (x[0, ...], y[0, 0, ...])):
        assert dnp.multiply(a, b).tobytes() == numpy.multiply(a, b).tobytes()


def test_one_small_element_read_backwards_has_numpys_bits() -> None:
    for value in numpy.linspace(1.1, 9.0, 60):
        x = numpy.array([value])[::-1]
        for name in ("arccosh", "sinh", "log10", "cbrt", "tan"):
            assert getattr(dnp, name)(x).tobytes() == getattr(numpy, name)(x).tobytes()


def test_views_that_are_equal_for_one_row_are_not_for_more() -> None:
    config.small = 0
    for rows in (1, 6):
        plain = numpy.arange(5.0 * rows).reshape(rows, 5)
        x = dnp.array(plain)
        assert (x - x[::-1]).tolist() == (plain - plain[::-1]).tolist()
