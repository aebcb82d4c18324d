"""The wrong calls of the audit: calls that are right but for one argument, one index or one value.

The right calls are those of numpy_calls.py and the lists below.  Each is changed in every way that this
module knows: an argument more or less, an unknown keyword, a value of another type, an axis out of range, a
mode that does not exist, an output of another shape.  What NumPy accepts all the same is compared like any
call.
"""

from __future__ import annotations

import ast
import inspect
import random
import re
from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy

from tests import numpy_calls
from tests.audit_calls import GROWING, Call

OPERANDS = {"wrong-few": (40, (8, 5), (2, 4, 5), (6, 6)), "wrong-small": (200, (20, 16), (4, 8, 9), (13, 13)),
            "wrong-recorded": (200, (20, 16), (4, 8, 9), (13, 13)),
            "wrong-large": (20000, (150, 134), (30, 30, 24), (130, 130))}
"""The modes, with the shapes of their vectors, matrix, stack and square."""

ANY = """None 'x' thing {} float [] () 1.5 -1 99 1<<70 np.nan ... [[1,2],[3]] b'x' 1j slice(1)
np.zeros((7,3)) np.array(['a','b']) np.array([None,1]) True len {1} [None] ['a']
np.datetime64('2020') np.zeros(2,'i4,f8') np.timedelta64(3,'D')""".split()
"""What any argument is replaced by."""
ARRAYS = """x[:3] m[:,:0] x[:0] m[:3,:4] t c q x[0] i b np.zeros(20001) np.ones((2,3,4,5))
np.array('2020','M8[D]')""".split()
"""What an argument that is an array is also replaced by."""

AXES = """99 -99 (0,0) 1.5 'x' None (0,99) [0] thing (0,1.5) True (True,) 1<<70 np.array([0])
(0,-2) 0.0""".split()
TYPES = "'x9' 'S3' 'U3' 'M8[s]' 'V' 'i4,f8' thing 3 'f8,' 'i4' 'c16' '?' object 'x' [] float str".split()
SPECIFIC: dict[str, list[str]] = {
    "axis": AXES, "axes": [*AXES, "(0,1,2,3)", "(1,1)", "(0,0,0)", "((0,),(0,1))", "(0,1)"],
    **dict.fromkeys("axis1 axis2 source destination axisa axisb axisc".split(), AXES),
    "dtype": TYPES, "type1": TYPES, "type2": TYPES, "from_": TYPES, "to": TYPES, "sig": TYPES,
    "signature": "'x' 'dd->d' 'll->l' 'd' 'x->x' 3 () (None,) ('d',) ('d','d','d','d') thing".split(),
    "out": """3 [] [1.] 'x' () (None,None,None) np.zeros(3) np.zeros((7,3)) np.zeros(x.shape,'i4') float
np.zeros(x.shape,'?') np.zeros(m.shape,'i8') locked lockedm np.zeros(x.shape,'U3') x[:3] {}
np.array(1) (np.zeros(3),) [np.zeros(3)] np.zeros(()) np.zeros((),'i4') np.zeros(20001)
np.zeros(m.shape[0],'i4') np.zeros(x.shape,'c8') np.zeros(m.shape[::-1]) (np.zeros(3),np.zeros(3))
... True""".split(),
    "order": "'Q' 'cf' 3 None '' b'C' 'K' 'A' thing".split(),
    "casting": "'x' 3 None 'no' 'equiv' 'safe' '' thing".split(),
    "where": "'x' None 3.5 np.zeros((7,3)) x [] np.zeros(3,'?') thing [True,False] b[:3] m i".split(),
    "keepdims": "None 'x' 2 x thing np.nan 1.5 [] m>1".split(),
    "initial": "'x' None x 1j thing [] [1,2] m np.nan 1.5 -1 1<<70".split(),
    "subok": "None 'x' x thing []".split(), "ndmin": "-1 99 'x' None 1.5".split(),
    "mode": "'x' 3 None '' 'clip' 'wrap' thing b'raise' 'valid' 'edge' 'complete' 'same' 1.5".split(),
    **dict.fromkeys("kind side method norm indexing bitorder trim UPLO ord".split(),
                    "'x' 3 None '' thing b'left' 1.5 [] 'linear' 'sort' 'fro' 'L' -5".split()),
    "like": "3 'x' x thing [1] None".split(), "device": "'gpu' 3 None 'cpu' thing".split(),
    "copy": "'x' None 3 x thing False".split(), "ddof": "'x' None x 99 1j thing 1<<70 [] m".split(),
    "correction": "'x' None x 99 1j thing".split(),
}
"""Wrong values of a parameter with this name; of others, `ANY`."""
HANGS = {"diff", "polyder", "polyint", "matrix_power", "base_repr", "binary_repr", "vander", "spawn", "cond"}
"""Functions that turn as often as a number says, which are given no large ones."""
CRASHES = {"cumsum", "cumprod", "cumulative_sum", "cumulative_prod", "nancumsum", "nancumprod", "accumulate"}
"""Functions of NumPy that write beyond an output without dimensions, which are given none."""

METHODS = """x.sum() m.sum(0) m.sum(axis=1,dtype='f8') m.prod(0) m.mean(1) m.std(0) m.var(1) m.min(0) m.max(1)
x.argmin() m.argmax(0) m.all(0) b.any() m.cumsum(0) m.cumprod(1) x.clip(1,2) x.round(1)
x.astype('i8') x.reshape(2,-1) m.reshape((-1,)) m.transpose(1,0) t.transpose((2,0,1))
m.swapaxes(0,1) m.ravel() m.ravel('F') m.flatten('C') x.repeat(2) m.repeat(2,axis=0) x.take(3)
m.take([0,1],axis=1) x.put(3,1.5) x.fill(3.) x.searchsorted(1.) x.sort() m.sort(0) m.argsort(1)
x.partition(3) m.argpartition(2,axis=1) x.nonzero() m.diagonal(0) t.diagonal(0,1,2) m.trace()
x.compress(b) i.choose([x,x]) x.dot(x) m.dot(m.T) x.item(0) m.item(1,2) x.tolist() x.tobytes()
x.view('i8') x.copy() x.squeeze() m.conj() x.byteswap() x.getfield('i4') x.setfield(1,'i4')
x.setflags(write=True) x.resize((3,),refcheck=False) x.__array__() x.__array__('f4') x.__copy__()
m.ptp(0) x.conjugate() i.__index__() x.__setstate__((1,)) x.__reduce_ex__(2) x.to_device('cpu')
x.__array_namespace__() x.__array_wrap__(x) x.__dlpack__() x.__contains__(1) x.dumps()
x.__deepcopy__({}) x.flat.__getitem__(3) x.flat.__setitem__(3,1.) x.__getitem__(3)
x.__setitem__(3,1.) x.__add__(1) x.__iadd__(1) x.__pow__(2) x.__len__() x.__complex__()
x.__format__('') x.__matmul__(x) x.__divmod__(2) np.add.reduce(m,0) np.add.reduce(x)
np.multiply.reduce(m,axis=1) np.add.accumulate(m,0) np.add.reduceat(x,[0,3])
np.add.outer(x[:9],x[:5]) np.add.at(x,[0,1],1.) np.maximum.reduce(m,1) np.maximum.at(x,i,2.)
np.negative.at(x,[0]) np.subtract.reduce(x) np.subtract.accumulate(x) np.logical_and.reduce(m,0)
np.bitwise_or.reduce(i) np.minimum.accumulate(x) np.multiply.outer(x[:9],m[:2]) np.sqrt.reduce(x)
np.sqrt.at(x,[0]) np.sqrt.outer(x,x) np.modf.reduce(x) np.divmod.reduce(x) np.matmul.reduce(m)
np.power.reduce(x) np.greater.reduce(x) np.divmod.at(x,[0],2) np.modf.accumulate(x)
np.arctan2.reduce(m,0) np.gcd.reduce(i) np.less.accumulate(b)
np.add.resolve_dtypes((np.dtype('f8'),np.dtype('f8'),None)) np.frompyfunc(len,1,1)(x)
np.copyto(x,1.) np.copyto(m,m[0],where=m>1) np.put(x,[0,1],[1.,2.]) np.putmask(x,b,x)
np.place(x,b,[1.]) np.fill_diagonal(q,3.) np.put_along_axis(m,np.zeros(m.shape,int),1.,1)
np.ndarray((3,)) np.ndarray((3,),'f8',bytes(24)) np.dtype('f8') np.broadcast(x,x) np.nditer(x)
np.flatiter(x) np.ndenumerate(m) np.ndindex(3,4) np.finfo('f4') np.iinfo('i4') np.vectorize(len)
np.poly1d([1,2]) np.matrix([[1,2]]) np.ma.array(x) np.rec.array(x) np.errstate(all='warn')
np.char.upper(x) np.float64(3.) np.int8(3) np.bool_(1) np.complex64(1) np.datetime64('2020')
np.float32(x[0]) np.result_type(x,m) np.load('/nowhere') np.loadtxt('/nowhere')
np.fromfile('/nowhere') np.asmatrix(m) np.bmat([[m,m]]) np.linalg.LinAlgError('x')
np.printoptions(precision=3) np.array_api_version() int(x) float(x) complex(x) bool(x) len(x)
hash(x) iter(x[0]) abs(x) divmod(x,2) pow(x,2) round(x) sum(m) max(x) range(x) list(m) str(x)
bytes(x[0]) isinstance(x,3) issubclass(x,int) getattr(x,'nothing') delattr(x,'shape')
delattr(x,'nothing') setattr(x,'nothing',1) setattr(x,'shape',(3,)) setattr(x,'dtype','i4')
setattr(x,'strides',8) setattr(x,'real',1.) setattr(x,'imag',1.) setattr(c,'imag',1.)
setattr(x,'flat',1.) setattr(x,'T',1) setattr(x,'size',1) setattr(x,'ndim',1) setattr(x,'data',1)
setattr(x,'base',1) setattr(x,'flags',1) setattr(x.flags,'writeable',True) setattr(x,'itemsize',1)
setattr(x,'ctypes',1) setattr(x,'__class__',float) getattr(np,'nothing')
getattr(np.linalg,'nothing') getattr(np.random,'nothing') getattr(np.fft,'nothing')
int(np.array([np.nan])[0]) int(n[0]) memoryview(x) bytearray(m)""".split()
"""Further calls, most of them wrong: of methods and attributes of arrays, of classes, and of Python's own
functions on arrays."""

RNG, STATE = "np.random.default_rng(3)", "np.random.RandomState(3)"
RANDOM = [f"{RNG}.{call}" for call in """random(5) normal(0.,1.,5) uniform(0.,1.,5) integers(0,9,5)
choice(9,4)
choice(x,4) choice(x,4,replace=False) permutation(x) permutation(9) permuted(m,axis=0) shuffle(x)
shuffle(m,axis=1) standard_normal(5) exponential(1.,5) poisson(2.,5) binomial(9,.5,5) gamma(1.,1.,5)
beta(1.,1.,5) chisquare(2.,5) multinomial(9,[.5,.5],5)
multivariate_normal([0.,0.],[[1.,0.],[0.,1.]],5) dirichlet([1.,2.],5) geometric(.5,5)
hypergeometric(5,5,3,5) standard_gamma(1.,5) standard_exponential(5) triangular(0.,1.,2.,5) bytes(5)
spawn(1) zipf(2.,5) laplace(0.,1.,5) lognormal(0.,1.,5) negative_binomial(9,.5,5) weibull(1.,5)
random(out=x) multivariate_hypergeometric([3,4],2) f(1.,2.,5) vonmises(0.,1.,5) wald(1.,1.,5)
logistic(0.,1.,5)""".split()]
RANDOM += [f"{STATE}.{call}" for call in """rand(5) randn(5) randint(0,9,5) random_sample(5) choice(9,4)
shuffle(x)
permutation(x) normal(0.,1.,5) uniform(0.,1.,5) seed(3) set_state(3) tomaxint(3) binomial(9,.5,5)
multinomial(9,[.5,.5]) poisson(2.,5)""".split()]
RANDOM += """np.random.default_rng(3) np.random.RandomState(3) np.random.Generator(3) np.random.PCG64(3)
np.random.SeedSequence(3) np.random.seed(3) np.random.rand(5) np.random.randint(0,9,5)
np.random.normal(0.,1.,5) np.random.choice(9,4) np.random.shuffle(x) np.random.permutation(9)
np.random.uniform(0.,1.,5)""".split()

SIGNS = "+ - * / // % ** @ & | ^ << >> < <= == != > >=".split()
RIGHT = """None 'x' thing {} float [] (1,2) [1,2,3] x[:3] m m.T t np.zeros((7,3)) np.array(['a','b']) c b i
np.array([None,1]) b'x' 1j 1<<70 -1 1.5 ... np.datetime64('2020') np.timedelta64(3,'D')
np.zeros(2,'i4,f8') np.zeros(20001) x[:0] [[1,2],[3]] np.nan slice(1) {1} np.array('2020','M8[D]')
np.float64(2) np.uint8(3) i8 -i np.zeros((0,3)) np.longdouble(2)""".split()
"""The right operands of operators."""

INDICES = """99999 -99999 1.5 'x' None 1j thing {} float (0,0,0,0) (99999,) (0,99999) (...,...) [1.5] ['x']
[None] [[1,2],[3]] b[:3] (b,b) (b,0) np.zeros((7,3),'?') np.zeros(3,'?') np.zeros(20001,'?')
[True,False] [99999] [0,-99999] ([0,1],[0,1,2]) (slice(None),99999) (slice(None),b) np.array([0.5])
np.array(1.5) x m t c np.array(['a']) np.array([0],object) slice('x') slice(1.5) slice(None,None,0)
slice(None,None,1.5) (None,99999) 1<<70 -(1<<70) [1<<70] np.nan (1.5,0) (0,1.5) (True,0,0) np.True_
np.array(True) () [] [[]] (0,[0,99999]) ([99999],0) (np.array([0]),np.array([99999]))
np.array([99999]) i*9999 -i-99999 m>1 m[0]>1 (Ellipsis,99999) np.array([0,99999],'u8')
np.array([0,-99999],'i4') np.float64(1) range(3) (range(2),range(3)) [[0],[99999]]
np.array([],float) np.zeros((2,0)) np.datetime64('2020') len slice(x) slice(None,None,None) b""".split()
VALUES = """None 'x' thing {} float [] [1,2,3] [[1,2],[3]] np.nan np.inf 1j 1<<70 300 -1 np.zeros((7,3)) x[:3]
m t 'abc' b'x' c ... np.array(['a','b']) np.array([None,1]) np.datetime64('2020') np.zeros(2,'i4,f8')
[None] ['a'] [1j] [np.nan] np.zeros(20001) np.nan*x -x 1e300 np.float32(1e30) np.int64(-5) True len
{1:2} np.array('2020','M8[D]') x[:0] '3' '1e5' np.array([1e300,np.nan])""".split()
PLACES = "0 ... :3 b [0,1] (0,) -1 ::2 i".split()
TARGETS = "x m i c b i1 u8 f4 h t".split()
"""Arrays that are indexed and assigned to, of all kinds."""


class _Qualified(ast.NodeTransformer):
    """Writes `np.` before NumPy's names."""

    def visit_Name(self, node: ast.Name) -> ast.AST:
        if node.id == "N":
            return ast.parse("len(x)", mode="eval").body
        if node.id not in numpy.__all__:
            return node
        return ast.Attribute(ast.Name("np", ast.Load()), node.id, ast.Load())


def _call(text: str, qualified: bool) -> ast.Call | None:
    """The call in an expression, without what is done with its result."""
    node: ast.AST = ast.parse(text, mode="eval").body
    while isinstance(node, (ast.Attribute, ast.Subscript)):
        node = node.value
    if not isinstance(node, ast.Call):
        return None
    return node if qualified else _Qualified().visit(node)


@cache
def right() -> list[ast.Call]:
    """The right calls."""
    ufuncs = []
    for name in sorted(n for n in numpy.__all__ if isinstance(getattr(numpy, n), numpy.ufunc)):
        real = getattr(numpy, name)
        if real.signature is None:
            whole = not any(kind[0] in "dD" for kind in real.types)
            ufuncs += [f"np.{name}({', '.join([operand] * real.nin)})"
                       for operand in (("i",) if whole else ("x", "m"))]
    found = [_call(text, False) for text in numpy_calls.lines()]
    found += [_call(text, True) for text in (*ufuncs, *METHODS, *RANDOM)]
    return [call for call in found if call is not None]


def _parameters(call: ast.Call) -> list[str]:
    """The names of the parameters of what is called, if it tells them."""
    scope: dict[str, Any] = {"np": numpy, **{name: numpy.zeros((2, 2)) for name in "xmtbicqn"}}
    try:
        called = eval(ast.unparse(call.func), scope)
        kinds = inspect.signature(called).parameters.values()
    except Exception:
        return []
    return [p.name for p in kinds if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY, p.POSITIONAL_ONLY)]


def _changed(call: ast.Call) -> Iterator[str]:
    """All wrong forms of a call."""
    func, given = ast.unparse(call.func), [ast.unparse(a) for a in call.args]
    named = {k.arg: ast.unparse(k.value) for k in call.keywords if k.arg}
    name, known = func.rpartition(".")[2], _parameters(call)

    def text(words: list[str], keywords: dict[str, str]) -> str:
        return f"{func}({', '.join([*words, *[f'{k}={v}' for k, v in keywords.items()]])})"

    yield text([], {})
    yield text(given, {**named, "wrong": "1"})
    for extra in ("None", "3", "'x'", "x"):
        yield text([*given, extra], named)
    yield text([*given, *["None"] * 12], named)
    for k, word in enumerate(given):
        yield text(given[:k] + given[k + 1:], named)
        if k < len(known):
            yield text(given, {**named, known[k]: word})
            yield text(given[:k], {**dict(zip(known[k:], given[k:], strict=False)), **named})
        special = SPECIFIC.get(known[k] if k < len(known) else "", ANY)
        for value in [*special, *(ARRAYS if word[0] in "xmtbicqn" else ())]:
            yield text([*given[:k], value, *given[k + 1:]], named)
    whole = {**dict(zip(known, given, strict=False)), **named}
    if len(known) >= len(given):  # right, unless arguments have no names
        yield text([], dict(reversed(whole.items())))
    for keyword in dict.fromkeys([*known[len(given):], *named]):
        for value in SPECIFIC.get(keyword, ANY):
            if not (name in CRASHES and keyword == "out"):
                yield text(given, {**named, keyword: value})


def _operators() -> Iterator[str]:
    for left in TARGETS:
        for sign in SIGNS:
            for value in RIGHT:
                yield f"{left} {sign} {value}"
                yield f"{value} {sign} {left}"
                if sign[0] not in "=!" and sign not in ("<", "<=", ">", ">="):
                    yield f"update({left}, '{sign}=', {value})"
        yield from (f"-{left}", f"~{left}", f"+{left}", f"update(locked, '+=', {left})", f"not {left}",
                    f"{left} if {left} else 0", f"[*{left}[0][0]]", f"{left}()", f"{left}.nothing",
                    f"{left} in {left}", f"{left} and 1", f"'%d' % {left}", f"'{{:.3f}}'.format({left})")


def _elements() -> Iterator[str]:
    for target in [*TARGETS, "m[0]", "x[3:]", "t[1]", "locked", "np.broadcast_to(x, (2, len(x)))"]:
        for index in INDICES:
            yield f"{target}[{index}]"
            yield f"assign({target}, {index}, 1)"
            yield f"assign({target}, {index}, x[:3])"
            yield f"{target}.__delitem__({index})"
        for place in PLACES:
            for value in VALUES:
                yield f"assign({target}, numpy.s_[{place}], {value})"


def allowed(text: str) -> bool:
    """Is a call one that NumPy itself ends, in a time that one waits for?"""
    name = text.partition("(")[0].rpartition(".")[2]
    if "default_rng" in text and re.search(r"out=(?!x)", text):  # it takes anything for an array
        return False
    if name in GROWING and "20001" in text:  # their results would be too large
        return False
    if name in HANGS and ("1<<70" in text or "99" in text):
        return False
    if re.search(r"as_strided\((?!x,|m,)", text) or re.search(
            r"(PCG64|SeedSequence|default_rng|RandomState|seed)\((seed=)?(None)?\)", text):
        return False  # reads memory that is none, or draws a seed
    object_ = "object" in text or "[None" in text
    if name in CRASHES and ("dtype" in text or "out" in text) or name == "choose" and "mode=" in text:
        return False
    return not (object_ and ("out=" in text or "np.matrix" in text)) and "frombuffer(" not in text


@cache
def texts() -> list[str]:
    """All wrong calls, in an order that mixes them."""
    found = dict.fromkeys(text for call in right() for text in _changed(call))
    found.update(dict.fromkeys((*_operators(), *_elements())))
    listed = [text for text in found if allowed(text)]
    random.Random(7).shuffle(listed)
    return listed


def generate(number: int, mode: str) -> Call:
    """The wrong call of this number, on the arrays of its mode."""
    text = texts()[number % len(texts())]
    path = text.partition("(")[0]
    sign = next((s for s in SIGNS if f" {s} " in text and not path.endswith(("update", "assign"))), "")
    name = sign or (path.partition("np.")[2] if path.startswith("np.") else path.rpartition(".")[2])
    grows = name.rpartition(".")[2] in GROWING or re.search("kron|outer|meshgrid", text)
    small = mode == "wrong-large" and grows
    vector, matrix, stack, square = OPERANDS["wrong-small" if small else mode]
    lines = [f"x = array(({vector},), 'f8', 'C', 3)", f"n = array(({vector},), 'f8', 'C', 8)",
             f"m = array({matrix}, 'f8', 'C', 4)", f"t = array({stack}, 'f8', 'C', 5)",
             f"b = array(({vector},), '?', 'C', 6)", f"i = abs(array(({vector},), 'i8', 'C', 7))",
             f"c = array(({vector},), 'c16', 'C', 2)", f"q = array({square}, 'f8', 'C', 10)",
             f"i1 = array(({vector},), 'i1', 'C', 3)", f"u8 = array(({vector},), 'u8', 'C', 3)",
             f"i8 = array(({vector},), 'i8', 'C', 3)", f"f4 = array(({vector},), 'f4', 'pending', 3)",
             f"h = array({matrix}, 'f8', 'step', 5)", f"locked = array(({vector},), 'f8', 'locked', 3)",
             f"lockedm = array({matrix}, 'f8', 'locked', 3)"]
    words = set(ast.walk(ast.parse(text, mode="eval")))
    used = {node.id for node in words if isinstance(node, ast.Name)}
    return Call(mode, number, name, tuple(line for line in lines if line.partition(" ")[0] in used), text)
