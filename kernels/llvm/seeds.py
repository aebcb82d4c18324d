"""Quotients and square roots of float64 without branches, from what a GPU approximates.

NVIDIA's assembler writes these instructions for ordinary operands, and a branch to a function for the others.
Both round correctly.  Here whoever writes code for ordinary operands alone provides for the others
(`Code.doubts`), once for a whole iteration.
"""

from __future__ import annotations

from collections.abc import Callable

from diffuse.kernels.llvm.code import Code, literal, with_lanes
from diffuse.kernels.llvm.math.fused import multiply_add
from diffuse.kernels.llvm.ops.lanes import extract, insert

FLOAT = "float64"
SMALL, TINY = 6.5827683646048100446e-37, 1.469367938527859385e-39
"""The upper halves of the bits of the least dividend and of the least quotient that are ordinary, as
float32."""
LEAST, SPAN = 0x03500000, 0x7CA00000
"""The upper half of the bits of the least number whose root is ordinary, and how far up such numbers go."""
MANTISSA = 52


def there(code: Code) -> bool:
    """Does the machine approximate quotients and roots?"""
    return code.module.target.seeds and code.lanes == 1


def quotient(code: Code, dtype: str, a: str, b: str) -> str:
    """Divide floats."""
    if not _hasty(code, dtype):
        return code.let(f"fdiv {code.type(dtype)} {a}, {b}")
    return _each_lane(code, _doubted_quotient, a, b)


def root(code: Code, dtype: str, a: str) -> str:
    """Return a square root."""
    if not _hasty(code, dtype):
        return code.intrinsic("llvm.sqrt", dtype, a)
    return _each_lane(code, _doubted_root, a)


def ordinary_quotient(code: Code, a: str, b: str) -> str:
    """Divide numbers, where these and the quotient are normal numbers, or the dividend is +0."""
    return _quotient(code, a, b)[-1]


def _quotient(code: Code, a: str, b: str) -> tuple[str, str, str]:
    """The approximation of 1 / b, by its bits, that of the quotient, and the quotient."""
    seed = _approximated(code, "rcp", b)
    r = code.let(f"bitcast i64 {code.let(f'or i64 {seed}, 1')} to double")
    less, one = code.let(f"fneg double {b}"), code.const(FLOAT, 1.0)
    e = _fma(code, r, less, one)
    r = _fma(code, r, _fma(code, e, e, e), r)
    r = _fma(code, r, _fma(code, r, less, one), r)
    q = code.let(f"fmul double {a}, {r}")
    return seed, q, _fma(code, r, _fma(code, less, q, a), q)


def _doubted_quotient(code: Code, a: str, b: str) -> str:
    """Divide numbers, and note whether that was right: the assembler's test, or a dividend of zero."""
    seed, q, found = _quotient(code, a, b)
    above, below, result = (_as_single(code, _upper(code, _bits(code, x))) for x in (a, b, found))
    code.declare("declare float @llvm.fma.f32(float, float, float)")
    # 0 b: NaN where b is large, infinite or NaN
    result = code.let(f"call float @llvm.fma.f32(float 0.0, float {below}, float {result})")
    large = code.let(f"fcmp uge float {_size(code, above)}, {literal('float32', SMALL)}")
    right = code.let(f"and i1 {large}, {_beyond_tiny(code, result)}")
    none = code.let(f"icmp eq i64 {code.let(f'shl i64 {_bits(code, a)}, 1')}, 0")
    inverse = _beyond_tiny(code, _as_single(code, _upper(code, seed)))
    _doubt(code, code.let(f"or i1 {right}, {code.let(f'and i1 {none}, {inverse}')}"))
    return code.intrinsic("llvm.copysign", FLOAT, found, q)  # -0.0 has lost its sign


def _doubted_root(code: Code, a: str) -> str:
    """Return a square root, and note whether that was right."""
    above = code.let(f"sub i32 {_upper(code, _bits(code, a))}, {LEAST}")
    _doubt(code, code.let(f"icmp ult i32 {above}, {SPAN}"))
    seed = code.let(f"or i64 {_approximated(code, 'rsqrt', a)}, {code.let(f'zext i32 {above} to i64')}")
    y = code.let(f"bitcast i64 {seed} to double")
    less = code.let(f"fneg double {code.let(f'fmul double {y}, {y}')}")
    e = _fma(code, a, less, code.const(FLOAT, 1.0))
    more = _fma(code, e, code.const(FLOAT, 0.375), code.const(FLOAT, 0.5))
    y = _fma(code, more, code.let(f"fmul double {y}, {e}"), y)
    s = code.let(f"fmul double {a}, {y}")
    half = code.let(f"sub i64 {_bits(code, y)}, {1 << MANTISSA}")
    rest = _fma(code, s, code.let(f"fneg double {s}"), a)
    return _fma(code, rest, code.let(f"bitcast i64 {half} to double"), s)


def _hasty(code: Code, dtype: str) -> bool:
    """Is code for ordinary operands alone being written, for a machine that approximates?"""
    return code.doubts is not None and dtype == FLOAT and code.module.target.seeds


def _each_lane(code: Code, function: Callable[..., str], *operands: str) -> str:
    """Apply a function of one lane to all lanes."""
    found, lanes = "poison", code.lanes
    if lanes == 1:
        return function(code, *operands)
    for lane in range(lanes):
        given = [extract(code, FLOAT, x, lane) for x in operands]
        with with_lanes(code, 1):
            one = function(code, *given)
        found = insert(code, FLOAT, found, one, lane)
    return found


def _doubt(code: Code, right: str) -> None:
    assert code.doubts is not None
    code.doubts.append(code.let(f"xor i1 {right}, true"))


def _approximated(code: Code, name: str, a: str) -> str:
    """The bits of an approximation, of which the lower half is zero."""
    name = f"llvm.nvvm.{name}.approx.ftz.d"
    code.declare(f"declare double @{name}(double)")
    return _bits(code, code.let(f"call double @{name}(double {a})"))


def _fma(code: Code, a: str, b: str, c: str) -> str:
    return multiply_add(code, FLOAT, a, b, c)


def _bits(code: Code, a: str) -> str:
    return code.let(f"bitcast double {a} to i64")


def _upper(code: Code, bits: str) -> str:
    """The upper half of the bits of a float64."""
    return code.let(f"trunc i64 {code.let(f'lshr i64 {bits}, 32')} to i32")


def _as_single(code: Code, bits: str) -> str:
    return code.let(f"bitcast i32 {bits} to float")


def _size(code: Code, value: str) -> str:
    code.declare("declare float @llvm.fabs.f32(float)")
    return code.let(f"call float @llvm.fabs.f32(float {value})")


def _beyond_tiny(code: Code, value: str) -> str:
    """Is the upper half of a float64, as a float32, that of an ordinary number?"""
    return code.let(f"fcmp ogt float {_size(code, value)}, {literal('float32', TINY)}")
