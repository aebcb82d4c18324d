"""The same line of code with NumPy and with Diffuse: values, types, errors, and what became of the arguments.

Each line ends in an expression; what stands before the last semicolon runs first.
"""

from __future__ import annotations

import pickle
from typing import Any

import numpy
import pytest

import diffuse.numpy as dnp
from tests.each import for_each
from tests.outcomes import warned

pytestmark = [pytest.mark.usefixtures("threshold"),
              pytest.mark.filterwarnings("ignore::RuntimeWarning", "ignore::DeprecationWarning",
                                         "ignore::PendingDeprecationWarning")]


def shown(value: Any) -> Any:
    """A result as something that can be compared."""
    if isinstance(value, dnp.ndarray):
        memory = numpy.asarray(value)
        return type(value).__name__, str(memory.dtype), memory.shape, repr(memory.tolist())
    if type(value) in (list, tuple):
        return [shown(v) for v in value]
    return (str(value.dtype), repr(value)) if isinstance(value, numpy.generic) else repr(value)


def outcome(code: str, np: Any, **names: Any) -> Any:
    scope = {"np": np, "numpy": numpy, "pickle": pickle, **names}
    before, _, last = code.rpartition(";")
    try:
        exec(before, scope)
        return shown(eval(last.strip(), scope))
    except Exception as error:
        return type(error).__name__


IN_PLACE = """
l=list(range(10)); np.random.seed(0); np.random.shuffle(l); l
l=list(range(10)); np.random.RandomState(0).shuffle(l); l
l=list(range(10)); np.random.default_rng(0).shuffle(l); l
l=list(range(10)); np.random.default_rng(0).shuffle(x=l); l
l=[np.arange(3), np.arange(3)+5, np.arange(3)+8]; np.random.default_rng(0).shuffle(l); l
x=np.arange(9.); np.random.default_rng(0).shuffle(x); x
l=[]; np.apply_along_axis(lambda v, l: (l.append(1), v.sum())[1], 0, np.ones((2,2)), l); l
l=[]; np.piecewise(np.ones(3), [np.ones(3)>0], [lambda v, l: (l.append(1), v)[1]], l); l
x=np.array([True,False,True,False]); np.putmask(x[1:4], x[:3], [True,False,True]); x
x=np.array([True,False,True,False]); np.putmask(x[1:4], [True,True,True], x[:3]); x
x=np.arange(20000)%3>1; np.putmask(x[1:], x[:-1], np.arange(19999)%2>0); x
np.putmask([1,2,3], [True,False,True], [9])
x=np.ones(3); np.putmask(a=x, mask=[True]*3, values=4); x
"""

METHODS = """
a=np.array([0,1,0,1]); o=np.zeros(4,int); r=a.choose(np.array([[1,2,3,4],[5,6,7,8]]),o); (o, r is o)
a=np.array([0,1,0,1]); c=[np.arange(4),np.arange(4)+9]; o=np.zeros(4,int); r=a.choose(c,out=o); (o, r is o, c)
a=np.array([0,1,0,1]); a.choose(1,2)
a=np.array([0,1,0,5]); a.choose([1,2],None,"wrap")
a=np.array([0,1,0,5]); a.choose([1,2],mode="wrap")
a=np.array([0,1,0,5]); a.choose(choices=[1,2],mode="wrap")
a=np.arange(6).reshape(2,3); a.compress([0,1],0)
a=np.arange(6).reshape(2,3); a.compress([0,1,1])
a=np.arange(6).reshape(2,3); a.compress(condition=[0,1,1],axis=1)
a=np.arange(6).reshape(2,3); o=np.zeros((1,3),int); r=a.compress([0,1],0,o); (o, r is o)
a=np.arange(6.); a.clip(3)
a=np.arange(6.); a.clip(max=3)
a=np.arange(6.); o=np.zeros(6); r=a.clip(1,out=o); (o, r is o)
a=np.arange(6.); a.clip(a_min=1,a_max=2)
a=np.arange(6.)+1j; o=np.zeros(6,complex); r=a.conjugate(o); (o, r is o)
a=np.arange(6.)+1j; o=np.zeros(6,complex); r=a.conj(o); (o, r is o)
a=np.arange(6.); o=np.zeros(6); r=a.conjugate(o); (o, r is o, a.conj() is a)
a=np.arange(0.); a.item(5)
a=np.arange(1.); a.reshape()
a=np.ones((2,2)); a.ptp(0)
a=np.ones((2,2)); a.swapaxes(axis1=0,axis2=1)
a=np.ones((2,2)); a.fill(value=3)
a=np.ones((2,2)); a.to_device("cpu",stream=1)
a=np.arange(4.); a.view("i8",type=np.ndarray)
a=np.arange(4.); a.view(np.ndarray)
a=np.arange(4.); a.view(int,int)
a=np.arange(4.); a.view(None,"f4")
a=np.ones((2,2)); a.fill([1,2])
a=np.ones((2,2)); a.fill(np.zeros(2))
a=np.ones((2,2)); a.fill(np.zeros(())); a
a=np.ones((2,2)); a.copy(0)
a=np.ones((2,2)); a.sum(0,np.zeros(2))
a=np.ones((2,2)); a.mean(0,np.zeros(2))
a=np.ones((2,2)); a.var(0,np.zeros(2))
a=np.ones((2,2)); a.cumsum(0,np.zeros(2))
a=np.ones((2,2)); a.astype(np.zeros(2))
a=np.ones((2,2)); a.view(np.zeros(2))
np.zeros(2,np.zeros(2))
"""

FLAGS = """
x.setflags(write=False); x.flags.writeable
x.setflags(False); x.flags.writeable
x.setflags(0); x.fill(1)
x.setflags(False); x.setflags(True); x[0]=1; x
v=x[1:]; v.setflags(write=False); (v.flags.writeable, x.flags.writeable)
x.setflags(write=False); v=x[1:]; v[0]=1
x.setflags(write=False); v=x[1:]; v.setflags(write=True)
x.setflags(write=False); [v.flags.writeable for v in (x.T, x.reshape(2,3), x.real, x.view("i8"), x.ravel())]
x.setflags(write=False); np.asarray(x).flags.writeable
x.setflags(write=False); numpy.asarray(x).flags.writeable
x.setflags(write=False); x.copy().flags.writeable
x.setflags(align=False); x.flags.aligned
x.setflags(uic=True)
x.setflags(bogus=True)
d=np.ones((3,3)).diagonal(); d.setflags(write=True); d[0]=7; d
y=np.broadcast_to(x,(2,6)); y.setflags(write=True); y.flags.writeable
y=np.frombuffer(b"12345678"); y.setflags(write=True)
x.flags["ALIGNED"]=False; x.flags["A"]
f=x.flags; x.flags.writeable=False; f.writeable
f=x.flags; f.writeable=False; (f.writeable, x.flags.writeable)
y=x+1; v=x[1:]; (x.flags==y.flags, x.flags!=y.flags, x.flags==v.flags, x.flags!=v.flags, x.flags==1)
hash(x.flags)
repr(x.flags), str(x[1:].flags)
[getattr(y.flags, k) for y in (x, x[::2], x.reshape(2,3).T) for k in ("num", "fnc", "forc", "carray")]
i=x.__array_interface__; i["data"] == (x.ctypes.data, False)
i=x.__array_interface__; sorted((k, v) for k, v in i.items() if k != "data")
x.setflags(write=False); x.__array_interface__["data"][1]
"""

WRITES = """x[0]=9 | x[()]=3 | x[[0,1]]=3 | x[x>1]=3 | x+=1 | x**=2 | x/=2 | x*=x | x.fill(1) |
x.sort() | x.partition(2) | x.put(0,1) | x.byteswap(True) | x.setfield(1,"i4") | x.flat[0]=1 |
x.flat=1 | x.real=1 | x.T[0]=1 | x.view("i8")[0]=1 | np.add(x,1,out=x) | np.add(x,1,x) |
np.divmod(x,2,x,None) | np.copyto(x,1) | np.put(x,0,1) | np.place(x,x>1,1) | np.putmask(x,x>1,1) |
np.ones((2,6)).sum(0,out=x) | np.mean(np.ones((2,6)),0,out=x) | np.var(np.ones((2,6)),0,out=x) |
np.cumsum(np.arange(6.),out=x) | np.clip(x,0,1,out=x) | np.round(x,1,out=x) | np.take(x,[1]*6,out=x) |
np.nan_to_num(x,copy=False) | np.random.default_rng(0).random(out=x) |
np.random.default_rng(0).shuffle(x) | numpy.copyto(x,1) | numpy.add(x,1,out=x) |
numpy.asarray(x)[0]=1"""

RESIZED = """
x.resize(8); x
x.resize(np.array(8)); x
x.resize(2,2); x
x.resize((2,3)); x
x.resize(); x
x.resize(None); x
x.resize(-8)
x.resize([True])
x.resize(True, 3)
x.resize(True)
x.resize([numpy.True_])
x.resize(8, bogus=1)
v=x[1:]; x.resize(8)
v=x[1:]; x.resize(3,2); x
v=x[1:]; v.resize(8)
v=x[1:]; del v; x.resize(8); x
v=x[1:]; x.resize(8, refcheck=False); x[1]=9; x
y=x; x.resize(8)
y=x; x.resize(8, refcheck=False); y
grow=x.resize; grow(8); x
x.resize(*(2, 4)); x
y=numpy.asarray(x); x.resize(8)
y=numpy.asarray(x); del y; x.resize(8); x
y=np.asfortranarray(np.arange(6.).reshape(2,3)); y.resize(2,2); y
"""

RETYPED = """
x.dtype="i8"; x
x.dtype="f4"; x
x.dtype="c16"; x
x.dtype=np.int64; x[0]=3; x+1
y=x.reshape(2,3).T; y.dtype="f4"
x=x[:3]; x.dtype="c16"
v=x[1:]; v.dtype=np.int64; v[0]=0; (x, v)
v=x[1:]; x.dtype=np.int64; x[1]=0; (x, v, v+1)
x.strides=(16,)
x.strides=(8,8)
x.strides=(4,); x
x.strides=(0,); x+1
v=x[:3]; v.strides=(16,); (v, v+1)
v=x[:3]; v.strides=(16,); v[1]=9; x
v=x[1:3]; v.strides=(40,)
v=x[::-1]; v.strides=(8,)
v=x[::-1]; v.strides=(-8,); v
v=x[2:]; x.strides=(-8,)
v=x[2:]; x.strides=(0,); v[0]=7; (v, v+1, x)
"""

TYPES = """
a=np.unstack(np.arange(3.)); (a, [(type(v).__name__, v.shape) for v in a])
a=np.unstack(np.arange(20000)*2); (a[7], type(a[7]).__name__, len(a))
np.unstack(np.arange(6.).reshape(2,3), axis=1)
x=np.arange(3,dtype="f4")+numpy.float32(.1); np.isclose(x,1.1,atol=0,rtol=0)
x=np.arange(3,dtype="f4")+numpy.float32(.1); np.isclose(1.1,x,atol=0,rtol=0)
x=np.arange(3,dtype="f4")+numpy.float32(.1); np.isclose(x,numpy.float64(1.1),atol=0,rtol=0)
x=np.arange(3,dtype="i1"); np.isclose(x,300)
x=np.arange(3,dtype="f4"); np.isclose(x,x+1e-3,rtol=[1e-3,1e-2,1])
x=np.arange(3.)+np.nan; np.isclose(np.nan,x,equal_nan=True)
np.concatenate([np.zeros(2,"f4"),1.0],axis=None)
np.concatenate([np.zeros(2,"f4"),1j],axis=None)
np.concatenate([np.zeros(2,"i1"),300],axis=None)
np.concatenate([np.zeros(2,"i1"),numpy.int64(3)],axis=None)
np.concatenate([np.zeros(20000,"f4"),1.0],axis=None)
np.zeros(2,dtype=np.dtypes.StrDType)
np.zeros(2,dtype=np.dtypes.Float32DType)
np.zeros(2,dtype=np.dtypes.DateTime64DType)
np.ones(2,dtype=np.dtypes.StrDType)
np.array(np.arange(2.),dtype=np.dtypes.StrDType)
np.asarray(np.arange(2.),dtype=np.dtypes.StrDType)
np.arange(4.).astype(np.dtypes.StrDType)
np.arange(np.array(3,"i1")).dtype
np.arange(np.array([3]))
np.linspace(np.array(0,"f4"),np.array(1,"f4"),5)
np.linspace(np.array(0,"f4"),np.array(1,"f4"),20000).dtype
np.array([np.arange(3.).sum(), 2])
np.clip(np.zeros(3,"i1"),-300,None)
np.copyto(np.ones(2,int),1.5)
np.copyto(np.ones(2,bool),3)
np.copyto(np.ones(2,"i1"),numpy.float64(3))
x=np.ones(2,"i1"); np.copyto(x,3.5,"unsafe"); x
np.tri(2.5)
np.tri(1j, k=2)
np.tri(3, k=1j)
np.tri('a')
np.zeros(numpy.array(3))
np.tile(np.arange(3),2.5)
np.tile(np.arange(3),np.array([2,2]))
np.add(np.arange(4.),1,where=[1,0,1,0],out=np.zeros(4))
np.add(np.arange(4.),1,where=[True,False,True,False],out=np.zeros(4))
np.add(np.arange(20000.),1,where=[1,0]*10000,out=np.zeros(20000))
"""

KEYWORDS = """
np.arange(start=3)
np.arange(3,bogus=1)
np.arange(1,9,2,"f4",dtype="f4")
np.arange(start=0,stop=5,step=2,dtype=float)
np.array([[1,2],[3,4]],ndmax=1)
np.array([[1,2],[3,4]],object,ndmax=1).shape
np.array([np.ones(2),np.ones(2)],object,ndmax=1).shape
np.array(np.ones((2,2)),object,ndmax=1)
np.array([1,2],ndmin=70)
np.array([1,2],like=[1])
np.array([1,2],like=np.arange(2))
np.eye(2,like=3)
np.arange(2,like=3)
np.tri(2,like=3)
np.full(2,1,like=3)
np.copy(numpy.matrix([1,2]),subok=True)
np.copy(numpy.matrix([1,2]))
np.broadcast_to(numpy.matrix([1,2]),(2,2),subok=True)
np.reshape(np.arange(4),newshape=(2,2))
np.reshape(np.arange(4),None)
np.linspace(0,1,20001,axis=1)
np.stack((x for x in [np.arange(2)]))
np.vstack((x for x in [np.arange(2)]))
np.concatenate((x for x in [np.arange(2)]))
"""

DEVICES = """zeros(2 | ones(2 | empty(2 | full(2,1 | arange(2 | eye(2 | linspace(0,1,5 | asarray([1,2] |
asarray(x | asarray(numpy.arange(2) | asanyarray(x | zeros_like(x | ones_like(x | empty_like(x |
full_like(x,1 | astype(x,int"""

ORDERS = """np.array(m,order=%) | np.asarray(m,order=%) | m.copy(%) | m.astype(int,%) | m.ravel(%) |
m.flatten(%) | m.T.ravel(%) | m.T.flatten(%) | m.reshape(-1,order=%) | np.zeros_like(m,order=%) |
np.add(m,1,order=%)"""

OTHERS = """
x.flat[x>2]
x.flat[x>2]=np.array([7,8]); x
x.flat[np.array([1,2])]=np.array([7,8]); x
x.flat=np.arange(2); x
y=x*2; x.flat[0]=9; (x, y)
f=x.flat; next(f); (f.index, f.coords, len(f), f.base is x, isinstance(f, np.flatiter), list(f))
f=x.flat; (f==x, f<3, f.copy(), np.asarray(f), np.sum(f), np.add(f, 1))
np.flip(np.array(3.)*1)
np.flip(np.array(3.)*1, 0)
np.random.default_rng(np.arange(3)).random()
np.random.default_rng(np.arange(3).sum()).random()
m=np.matrix([[1,2]]); m.view(np.ndarray)
m=np.matrix([[1,2]]); v=m.view(type=np.ndarray); v[0,0]=5; m
m=np.ma.array([1,2],mask=[0,1]); m.view(np.ndarray)
m=np.rec.array([(1,2.)],dtype=[("a",int),("b",float)]); m.view(np.ndarray)
A=type("A",(np.ndarray,),{}); a=x.view(A); (a.view(np.ndarray), type(a).__name__, type(a.view()).__name__)
A=type("A",(np.ndarray,),{}); a=np.ndarray.__new__(A,(2,)); (type(a).__name__, a.shape)
C=type("C",(),dict(f=np.array,z=np.zeros,e=np.asarray)); c=C(); (c.f([1,2]), c.z(2), C.z(2), c.e([1]))
C=type("C",(),dict(r=np.random.rand,h=np.fromiter)); c=C(); (c.r(2).shape, c.h([1,2],int))
C=type("C",(),dict(f=np.sum)); C().f([1,2])
[pickle.loads(pickle.dumps(f)) is f for f in (np.array, np.zeros, np.fromiter, np.sum)]
"""


def lines(text: str) -> list[str]:
    return text.strip().splitlines()


@for_each("code", lines(IN_PLACE + METHODS + TYPES + KEYWORDS))
def test_calls(code: str) -> None:
    assert outcome(code, dnp) == outcome(code, numpy)


@for_each("code", lines(FLAGS + RESIZED + RETYPED + OTHERS))
def test_calls_on_an_array(code: str) -> None:
    make = "x=np.arange(6.)*2; "
    assert outcome(make + code, dnp) == outcome(make + code, numpy)


@for_each("code", [part.strip() for part in WRITES.split("|")])
def test_read_only_arrays_cannot_be_written(code: str) -> None:
    for forbid in ("x.setflags(write=False)", "x.flags.writeable=False", "x.flags['W']=False"):
        made = f"x=np.arange(6.)*2; {forbid}; {code}; 0"
        assert outcome(made, numpy) == "ValueError" == outcome(made, dnp)


def test_every_device_but_the_processor_is_an_error() -> None:
    for part in DEVICES.split("|"):
        for device in ("'gpu'", "'cpu'", "None"):
            code = f"x=np.arange(3.)*2; np.{part.strip()}, device={device})"
            if "empty" in code:
                code += ".shape"
            assert outcome(code, dnp) == outcome(code, numpy), code


@for_each("code", [part.strip() for part in ORDERS.split("|")])
def test_orders_in_small_letters_and_wrong_ones(code: str) -> None:
    for order in ("'f'", "'c'", "'a'", "'k'", "None", "'Q'", "'CF'"):
        line = f"m=np.arange(6).reshape(2,3)*1; y={code.replace('%', order)}; (y*1, y.strides)"
        if "zeros_like" in line and order == "None":
            continue  # an error in NumPy only
        assert outcome(line, dnp) == outcome(line, numpy), line


def test_strides_warn_where_they_are_set() -> None:
    x = dnp.arange(6.0) * 2
    with warned() as caught:
        x.strides = (8,)
    assert [w.filename for w in caught if w.category is DeprecationWarning] in ([__file__], [])


def test_views_of_an_array_that_was_resized_keep_its_memory() -> None:
    x = dnp.arange(600.0) * 2
    v = x[400:]
    x.resize(800, refcheck=False)
    x[:] = -1.0
    assert v.tolist() == [2.0 * k for k in range(400, 600)]
    assert (v + 1).tolist() == [2.0 * k + 1.0 for k in range(400, 600)]
    with pytest.raises(ValueError, match="references or is referenced"):
        v.base.resize(9)
