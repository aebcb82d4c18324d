"""Scalar functions from LLVM's text, without Numba, and what their branches and loops become in vectors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from diffuse.kernels.body.user import UserFunction, declare
from diffuse.kernels.build import jit, routines, scalar_ir
from diffuse.kernels.build.routines import Routine
from diffuse.kernels.build.scalar_ir import Refused
from diffuse.kernels.llvm import nest
from tests.test_llvm import MACHINE

GUARD = """void @f(double %x, double %y) {
entry:
  %some = fcmp une double %y, 0.000000e+00
  br i1 %some, label %"divide here", label %otherwise

"divide here":                                    ; preds = %entry
  %q = fdiv double %x, %y
  br label %end

otherwise:                                        ; preds = %entry
  %less = fcmp ult double %x, 1.000000e+00
  %z = select i1 %less, double %x, double -1.000000e+00, !prof !0
  br label %end

end:                                              ; preds = %"divide here", %otherwise
  %r = phi double [ %q, %"divide here" ], [ %z, %otherwise ]
  call void @diffuse.result(double %r)
  ret void
}"""

LOOPS = """void @f(double %x, i64 %n) {
entry:
  br label %outer

outer:                                            ; preds = %next, %entry
  %i = phi i64 [ 0, %entry ], [ %i1, %next ]
  %s = phi double [ 0.000000e+00, %entry ], [ %t.end, %next ]
  %more = icmp slt i64 %i, %n
  br i1 %more, label %inner, label %done

inner:                                            ; preds = %outer, %again
  %j = phi i64 [ 0, %outer ], [ %j1, %again ]
  %t = phi double [ %s, %outer ], [ %t1, %again ]
  %t1 = fadd double %t, %x
  %large = fcmp ogt double %t1, 9.000000e+00
  br i1 %large, label %left, label %again

again:                                            ; preds = %inner
  %j1 = add nuw nsw i64 %j, 1
  %last = icmp samesign ult i64 %j1, %n
  br i1 %last, label %inner, label %next

next:                                             ; preds = %again
  %t.end = phi double [ %t1, %again ]
  %i1 = add i64 %i, 1
  br label %outer

left:                                             ; preds = %inner
  %t.left = phi double [ %t1, %inner ]
  %negative = fneg double %t.left
  br label %end

done:                                             ; preds = %outer
  %s.end = phi double [ %s, %outer ]
  br label %end

end:                                              ; preds = %done, %left
  %r = phi double [ %negative, %left ], [ %s.end, %done ]
  call void @diffuse.result(double %r)
  ret void
}"""

IRREDUCIBLE = """void @f(double %x) {
entry:
  %c = fcmp ogt double %x, 1.000000e+00
  br i1 %c, label %a, label %b

a:                                                ; preds = %b, %entry
  %d = fcmp ogt double %x, 2.000000e+00
  br i1 %d, label %b, label %end

b:                                                ; preds = %a, %entry
  %e = fcmp ogt double %x, 3.000000e+00
  br i1 %e, label %a, label %end

end:                                              ; preds = %b, %a
  call void @diffuse.result(double %x)
  ret void
}"""


def loops(x: float, n: int) -> float:
    s = 0.0
    for _ in range(n):
        for _ in range(n):
            s += x
            if s > 9.0:
                return -s
    return s


def function(text: str, parameters: tuple[str, ...], name: str = "f") -> UserFunction:
    found = UserFunction(name, parameters, "float64", scalar_ir.blocks(text, len(parameters)))
    declare(found)
    return found


def routine(f: UserFunction) -> Routine:
    return Routine(f.name, f.parameters, f.result)


@pytest.mark.parametrize("size", [1, 7, 8, 203])
def test_a_branch_and_its_flags(size: int) -> None:
    x = np.linspace(-2.0, 3.0, size)
    y = np.where(np.arange(size) % 3 == 0, 0.0, x + 10)
    out = np.empty(size)
    routines.flags().clear()
    routine(function(GUARD, ("float64", "float64")))(x, y, out=out)
    assert not routines.flags().raised()
    with np.errstate(all="ignore"):
        assert out.tolist() == np.where(y != 0, x / y, np.where(x < 1, x, -1.0)).tolist()


def test_loops_that_lanes_leave_at_different_times_and_places() -> None:
    x, n = np.round(np.linspace(-1.0, 2.0, 61), 2).repeat(5), np.tile(np.arange(5), 61)
    out = np.empty(x.size)
    routine(function(LOOPS, ("float64", "int64")))(x, n, out=out)
    assert out.tolist() == [loops(*pair) for pair in zip(x.tolist(), n.tolist(), strict=True)]


def test_what_lanes_that_are_off_compute_raises_no_flag() -> None:
    text = LOOPS.replace("%t1 = fadd double %t, %x", "%u = fadd double %t, %x\n  %t1 = fdiv double %u, %x")
    x, n = np.tile([0.0, 0.5], 20), np.tile([0, 3], 20)
    routines.flags().clear()
    routine(function(text, ("float64", "int64")))(x, n, out=np.empty(x.size))
    assert not routines.flags().raised()
    routine(function(text, ("float64", "int64")))(x, n + 1, out=np.empty(x.size))
    assert routines.flags().raised() == ["invalid value"]


def test_equal_programs_are_one_operation_however_their_values_are_named() -> None:
    renamed = GUARD.replace("%q", "%other").replace("%some", '%"a b"').replace("otherwise", "x.1")
    f, g = (function(text, ("float64", "float64")) for text in (GUARD, renamed))
    assert f.name == g.name and jit.key_of(body(f)) == jit.key_of(body(g))
    for old, new in (("1.000000e+00", "2.000000e+00"), ("fcmp ult", "fcmp olt"), ("fdiv", "fmul")):
        h = function(GUARD.replace(old, new), ("float64", "float64"))
        assert h.name != f.name and jit.key_of(body(h)) != jit.key_of(body(f))


def body(f: UserFunction) -> Any:
    return routines.body(f.name, f.parameters, f.result)


def test_a_loop_with_two_entries_is_refused() -> None:
    with pytest.raises(NotImplementedError, match="more than one entry"):
        nest.emit(body(function(IRREDUCIBLE, ("float64",))), MACHINE)


def test_text(golden: Callable[[str], None]) -> None:
    """The lanes with a divisor of zero divide by one, and take the other value."""
    golden(nest.emit(body(function(GUARD, ("float64", "float64"))), MACHINE))


@pytest.mark.parametrize("line, reason", [
    ("%q = call double @sqrtl(double %x)", "calls sqrtl, which Diffuse has no vector code for"),
    ("%q = call ptr @NRT_Allocate(i64 8)", "allocates memory"),
    ("%q = call double @PyFloat_AsDouble(double %x)", "calls Python"),
    ("%q = load double, ptr @table", "works on memory"),
    ("store double %x, ptr @table", "has an effect"),
    ("call void @print(double %x)", "has an effect"),
    ("call void @diffuse.raises()", "may raise an exception"),
    ("%q = fadd <2 x double> %x, %x", "an instruction that is not translated"),
    ("%q = extractvalue { i64, i1 } %x, 0", "an instruction that is not translated"),
])
def test_what_is_refused(line: str, reason: str) -> None:
    head, end = "void @f(double %x) {\nentry:\n  ", "\n  call void @diffuse.result(double %x)\n  ret void\n}"
    with pytest.raises(Refused, match=reason):
        scalar_ir.blocks(head + line + end, 1)


def test_a_function_that_does_not_return_is_refused() -> None:
    with pytest.raises(Refused, match="does not always return"):
        scalar_ir.blocks("void @f(double %x) {\nentry:\n  unreachable\n}", 1)


def test_what_cannot_be_reached_is_left_out() -> None:
    text = GUARD.replace("br i1 %some,", "br i1 false,").replace("%q = fdiv double", "store ptr")
    assert len(scalar_ir.blocks(text, 2)) == 3
