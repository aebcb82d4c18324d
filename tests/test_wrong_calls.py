"""Calls that are wrong in one way each: a sample of the audit's (audit_wrong.py), and what it found."""

from __future__ import annotations

import inspect
from typing import Any

import numpy
import pytest

import diffuse.numpy as dnp
from diffuse import settings
from diffuse.numpy.small import native
from tests import audit, audit_compare, audit_wrong
from tests.around import around
from tests.audit_calls import Call
from tests.each import for_each

pytestmark = pytest.mark.skipif(native is None, reason="Python words these errors otherwise")


quiet = around(settings.using, fallback="silent", compile="off", small=settings.config.small)
"""Without warnings about functions that NumPy computes, and without compiling."""


@pytest.mark.local_only("arrays are in memory of their own there, and NumPy's view of them a copy")
@pytest.mark.parametrize(("mode", "count"), [
    ("wrong-few", 200), ("wrong-small", 500), ("wrong-recorded", 600), ("wrong-large", 150)])
def test_generated_calls(mode: str, count: int) -> None:
    for number in range(count):
        text, differences = audit.checked(mode, number)
        assert not [d for d in differences if d[0] != "["], text + "\n" + "\n".join(differences)


def test_the_calls_are_wrong() -> None:
    """Two of three of them raise an error with NumPy itself."""
    calls = [audit_wrong.generate(number, "wrong-small") for number in range(300)]
    assert len(audit_wrong.texts()) > 100_000
    assert sum(audit_compare.Outcome(numpy, call).error is not None for call in calls) > 200


FOUND = """
np.inner(m,m,'x')
np.shares_memory(x[:4],x[4:],b=x)
np.dot(m)
np.dot(x,x,b=x)
np.lib.stride_tricks.as_strided(x,(4,3),(16,8),x=x)
np.where(condition=b)
np.negative.at(x,[0],b=True)
m.swapaxes(axis1=0,axis2=1)
np.add.reduce(x,None,None,None,None,None,None,None,None,None,None,None,None)
np.add(x)
np.add(x,x,x,x)
np.add(x,x,wrong=1)
np.add()
np.linalg.solve(m)
np.fft.fft()
np.linalg.inv(m,m)
np.median()
np.sort(x,1,2,3,4,5,6)
np.flip(axis=0, m=m)
np.transpose(axes=(1,0), a=m)
np.moveaxis(source=0, a=m, destination=1)
x.put(3)
x.put(3,1,2,3,4)
x.put(v=3)
x.resize((3,),wrong=1)
x.setflags(1,2,3,4)
x.setflags(wrong=1)
x.to_device()
x.to_device('cpu',3)
x.tobytes(1,2)
x.__array__(1,2,3,4)
x.__array__('f4',wrong=1)
x.__array_wrap__(x,wrong=1)
x.__array_wrap__()
x.__contains__()
x.__contains__(1,2)
x.__copy__(wrong=1)
x.__copy__(1)
x.__deepcopy__()
x.__format__()
x.__format__(1.5)
x.__setstate__(1,2)
x.__setstate__(state=1)
x.__array_namespace__(wrong=1)
np.amin(m,1,None,None,None,None,None,None,None,None,None)
np.around(x,1,2,3,4)
np.amin(m,1)
np.around(m*1.234,1)[0]
np.ndarray((3,),offset=1j)
np.ndarray((3,),'f8',bytes(24))
np.ndarray((3,),'f8',bytes(24),wrong=1)
np.ndarray()
np.ndarray(3).shape
np.ndarray((200,3),float).strides
np.ndarray((200,3),float,order='F').strides
np.ndarray(shape=(3,200)).shape
np.tri('x')
np.tri(7,k=[])
np.tri(7,5,2)
np.tril(m,k=np.timedelta64(3,'D'))
np.tril(m,k=slice(1))
np.triu(m,k={1})
np.triu(m,np.datetime64('2020'))
np.triu(m,2)[3]
np.tril(m,np.int64(2))[3]
np.ones_like(m,order=b'C')
np.select(99,[x,-x])
np.select([b],[x])[:3]
np.choose(i%2,1<<70)
i.choose(1<<70)
i.choose(...)
np.choose(i%2,[x,-x])[:3]
m.__setitem__(b,[[1,2],[3]])
b.__setitem__(slice(None,None,2),[[1,2],[3]])
m.__setitem__(b,[1j])
m.conj(x)
x.conjugate('x')
np.gradient(m,edge_order=np.array(['a','b']))
np.gradient(x,edge_order=np.array([None,1]))
np.repeat(i,np.timedelta64(3,'D'))
np.tile(m,np.timedelta64(3,'D'))
x.resize(np.timedelta64(3,'D'),refcheck=False)
np.fromfunction(lambda a,b:a+b,{1})
np.fromfunction(lambda a,b:a+b,(4,5))
np.array([x,x],ndmax=np.array(['a','b']))
np.unique_counts(x=i)
np.unique_inverse(x=i)
np.lib.stride_tricks.sliding_window_view(window_shape=5, x=x)[0]
np.lib.stride_tricks.sliding_window_view(window_shape=5)
np.flip(axis=0)
np.tri(np.timedelta64(3,'D'),7,1)
np.tri(5,7,1<<70)
np.tri(5,7,np.int64(1))
x.__dlpack__(3)
np.matrix_transpose(x=m)
np.transpose(a=m)
np.trace(m,axis2=1.5)
np.trace(m,np.int64(1))
np.trace(m,1)
np.flip(m=m)
np.moveaxis(a=m,source=0,destination=1)
b.__setitem__(0,[[1,2],[3]])
x.__setitem__(0,[[1,2],[3]])
x.__setitem__(0,[1.5])
x.__setitem__(0,(1,2))
x.__setitem__(0,[])
np.arange(None,9.,.5)
np.arange(3,None,.5)
np.array([x,x],x)
np.array(x,x)
np.concatenate({},axis=1)
np.concatenate({1})
np.concatenate(3)
np.concatenate(range(3))
np.concatenate((y for y in [x]))
np.concatenate(m)[:3]
np.copy(m,subok=x)
np.copy(m,subok=1)[0]
np.insert(x,1,5.,x)
np.mask_indices(3,np.triu,3)
np.may_share_memory(x,x+1,max_work=1<<70)
np.pad(m,((1,2),(3,4)),x,constant_values=5.)
np.ravel_multi_index((i%2,i%4),(2,4),x)
np.unique(i,axis=np.array([0]))
x.__array__(x)
np.tri(5,np.timedelta64(3,'D'),1)
m.all(0,3)
m.any(0,None,None,True)
m.all(0,bool)
(m>0).all(0).shape
np.arange(np.array(['a','b']))
np.arange(np.zeros(2,'i4,f8'))
np.arange(3)
np.put(x,[0,1],[1.,2.],x)
x.resize((3,),refcheck=1<<70)
np.unravel_index(i%8,(2,4),x)
np.arange(1.,9.,.5,step=.5)
np.sort(x,stable=np.zeros(2,"i4,f8"))
x.resize((3,),refcheck='x')
x.resize((3,),refcheck=0)
np.ndarray('f8',bytes(24))
"""
"""What the audit found, as it was mended: a line each, some of them right calls beside the wrong ones."""

OPERANDS = ("x = np.arange(200.)", "i = np.arange(200) % 4", "m = np.ones((20, 16))",
            "b = np.arange(200.) > 2")


@pytest.mark.parametrize("small", [0, 16384])
@for_each("code", FOUND.strip().splitlines())
def test_what_was_found(code: str, small: int) -> None:
    settings.config.small = small
    call = Call("wrong", 0, code, OPERANDS, code)
    theirs, ours = audit_compare.Outcome(numpy, call), audit_compare.Outcome(dnp, call)
    assert (ours.error, ours.warnings) == (theirs.error, theirs.warnings)
    if theirs.error is None and not audit_compare.undefined(call):
        assert repr(ours.shown["result"]) == repr(theirs.shown["result"])


def test_a_choice_of_a_random_state_is_a_number() -> None:
    for small in 0, 16384:
        with settings.using(small=small):
            found: Any = dnp.random.RandomState(3).choice(9)
            assert type(found) is int and found == numpy.random.RandomState(3).choice(9)
            assert dnp.random.RandomState(3).choice(9, ()).shape == ()


@pytest.mark.parametrize("name", ["amin", "amax", "around"])
def test_an_alias_has_its_own_name(name: str) -> None:
    assert getattr(dnp, name).__name__ == name
    assert str(inspect.signature(getattr(dnp, name))) == str(inspect.signature(getattr(numpy, name)))
