"""What Diffuse is known to do otherwise than NumPy: patterns of the audit's calls and of differences."""

from __future__ import annotations

import re

from tests.audit_calls import Call

PRODUCTS = "|".join("""
    multiply divide true_divide reciprocal square pow power float_power sinc prod nanprod cumprod nancumprod
    cumulative_prod dot vdot vecdot matvec vecmat inner outer matmul multi_dot matrix_power einsum tensordot
    kron cross convolve correlate polyval poly polymul polydiv roots vander corrcoef cov mean nanmean average
    var nanvar std nanstd norm vector_norm matrix_norm interp trapezoid gradient linspace logspace geomspace
    linalg fft""".split())
"""Calls that multiply or divide complex numbers, as a pattern."""

SEVERAL = "which of several wrong arguments is named"
KNOWN = {
    "no flag of NaN in comparisons of complex numbers": r"NumPy's .*encountered in (less|greater)(_equal)?'",
    "no flag of NaN in logaddexp, at the poles of arctan, in spacing":
        r"NumPy's .*(logaddexp2?|arctan|spacing)'\)",
    "which NaN and infinities meet first in sums and products goes by their order":
        r"^(?!.*dtype=(np\.dtype\()?.?[iu]).*=> warnings: .*invalid value .*"
        r" in ([a-z_ ]* or )?(reduce|accumulate|dot|matmul)",
    "overflows and NaN of complex products, powers, moments":
        rf"^(?=.*(c(8|16)'|complex|1j)).*(\b({PRODUCTS})\b|[*/@]).*warnings: .*(invalid value|overflow)",
    "products of many complex numbers overflow or vanish by their order":
        r"c(8|16)'.*(prod\(|multiply\.reduce).*=> result.*nan",
    "NumPy's scalars tell of overflows of integers, those that tasks compute do not":
        r"'[iu][1248]'.*np\.polyval\(.*=> "
        r"warnings: \[\], NumPy's \[\('RuntimeWarning', 'overflow encountered in scalar (add|multiply)'\)\]$",
    "warnings of casts that a task makes on its way": r"NumPy's .*(in cast'|discards the imaginary)",
    "0 to the power of -inf divides by zero on some processors, with NumPy":
        r"('f[248]'|np\.(inf|nan|float)).*(\bpow(er)?\b|\*\*).*=> "
        r"warnings: \[(\('RuntimeWarning', 'invalid value [^]]*'\))?\], "
        r"NumPy's \[\('RuntimeWarning', 'divide by zero encountered in power'\)"
        r"(, \('RuntimeWarning', 'invalid value [^]]*'\))?\]$",
    "NumPy's tests of numbers write other elements where their output has strides":
        r"('back'|'step'|'flip'|'[FT]', \d+\); np|::-1|::2).*(signbit|is(nan|inf|finite))\(.*elements"
        r"|signbit\(.*::-1.*elements",
    "NumPy takes other libraries' masks without elements for integers":
        r"'(g|G|M8|m8|U3|O|S2|i4,f8|>)[^']*'.*\((\d, )*0(, \d|,)*\), '\?'.*(a\[[a-h]\]|assign\(a, "
        r"numpy\.s_\[[a-h]\].*) => (result|error: None, NumPy's \('IndexError', '(too many|boolean) ind)",
    "NumPy warns of what it converts where a mask is off": r"where=.*NumPy's .*encountered in",
    "views that NumPy lets programs write, with a warning": r"(broadcast_arrays|meshgrid|atleast).*flags: ",
    "an array that changed its type or strides in place does not own its memory":
        r"setattr\(\w, '(dtype|strides)'.*flags: ",
    "NumPy's array over the memory of one of Diffuse's does not own it": r"__array__\(.*flags: ",
    "types that Diffuse leaves to NumPy are none for `x.dtype = `":
        r"setattr\(\w, 'dtype'.*(in place|\w\.dtype|\w\.shape)",
    "the last bits of magnitudes of complex numbers, read as the first ones":
        r"c(8|16)'.*\babs(olute)?\(.*\.view\('>.*=> result.elements",
    "NumPy raises no proper error itself": r"SystemError",
    "arrays of NumPy's own types lie in memory elsewhere":
        r"'(g|G|M8|m8|U3|O|S2|i4,f8|>)[^']*'.*(place: |a\.base => result)",
    "some bytes of long doubles say nothing":
        r"'[gG]'.*(tobytes\(|byteswap\(|getfield\(|setattr\(\w, '(dtype|strides)'|= a\.view\()",
    "a method of NumPy's own array takes no numbers of Diffuse's for truth values":
        r"\b\w\.compress\(.*Cannot cast array data from .* to dtype\('bool'\)",
    "NumPy leaves the new elements of a locked array as they were": r"'locked'.*resize\(.*a.elements",
    "a method of NumPy's own array takes element types from Diffuse's arrays, which it refuses from NumPy's":
        r"(dtype=|\.\w+\([^,()]*, |getfield\()np\.\w+\(.*=> error: None, "
        r"NumPy's \('TypeError', 'Cannot construct a dtype from an array'\)",
    "the square root that a method of NumPy's own array writes into an output of Diffuse's is cast":
        r"\.std\(out=.*=> error: None, NumPy's \('UFuncTypeError', .Cannot cast ufunc 'sqrt' output",
    "an array without elements has no place, so that a locked one cannot be told to be copied to itself":
        r"\((0|3, 0|0, 3)(,|\)).*'locked'.*copyto\(.*destination is read-only'\), NumPy's None",
    "a vector that was rolled owns its memory, while NumPy's is a view of such an array":
        r"= np\.roll\(.*b\.base => result: \['NoneType'",
    "correlations of equal numbers are quotients of what sums round":
        r"corrcoef\(.*(warnings: .*invalid value|result: .*nan)",
    "NumPy writes parts of locked arrays": r"setattr\(\w, 'real'.*is read-only",
    "NumPy reads beyond operands without elements": r"\((0|3, 0|0, 3)(,|\)).*(fft[2n]?|unpackbits)\(",
    "NumPy leaves results of complex matvec, vecmat and their like unwritten where outputs are operands":
        r"'c(8|16)'.*np\.(vecmat|matvec|vecdot)\(.*out=.*elements",
    "NumPy's casts of floats beyond uint32 come to two things, by the layout":
        r"^(?=.*'u4')(?=.*('unsafe'.*where=|where=.*'unsafe'|'(f[48]|c16|c8)'.*assign\(a)).*elements: ",
    "NumPy's casts of NaN to uint32 come to 0 or 2147483648, by the layout":
        r"^(?=.*'u4')(?=.*'unsafe')(?=.*out=).*elements: .*\[[^]]*(2147483648[^]]*\], NumPy's \[[^]]*\b0"
        r"|\b0[^]]*\], NumPy's \[[^]]*2147483648)",
    "which of two zeros of different signs NumPy's fmin and fmax give goes by their place in the array":
        r"\b(fmin|fmax)\(.*elements: \d+ of \d+, at .*: \[[^]]*-0[^]]*\], NumPy's \[[^]1-9]*\]",
    "errors in results that are overwritten before anybody reads them are not reported":
        r"after\(.*out=.*=> warnings: \[\], NumPy's \[\('RuntimeWarning', '[^,]*'\)\]$",
    "NumPy's dispatchers refuse what its functions would take":
        r"dispatcher for __array_function__ did not return",
    "a flag that is not used is not asked for its truth":
        r"(np|numpy)\.(array\(\[0,1\]\)|zeros\(300\)|arange\(9\.\)).*error: None, "
        r"NumPy's \('ValueError', 'The truth value of an",
    SEVERAL:
        r"error: \('(TypeError|ValueError|IndexError|AxisError|OverflowError|UFuncTypeError)'.*, NumPy's \('",
}
"""Known differences: what they are, and the pattern of a call and, behind ` => `, the difference."""

WRONG = {
    "a special method that is called by its name, with more or fewer arguments than Python gives it":
        r"(\.__\w+__|\w\(x\))\(.*error: \('TypeError', .*NumPy's \('TypeError'",
    "pickles are put together by functions of Diffuse's": r"__reduce_ex__\(",
    "NumPy's own short arrays do not know that an index of Diffuse's is an array":
        r"'only integers, slices.*NumPy's \('IndexError', 'arrays used as indices must be",
    "seeds and bit generators are of classes of Diffuse's": r"numpy.random.PCG64 object",
    "NumPy's classes take element types from Diffuse's arrays, which they refuse from NumPy's":
        r"np\.(iinfo|finfo|dtype|matrix|poly1d|nditer|vectorize)\(",
}
"""The same of the calls that are wrong in one way (audit_wrong.py)."""

FOREIGN = r"np\.(as\w*array\w*|array|require)\(.*(flags|place|strides): |np\.array\(.*ndmax=.*too deep" \
          r"|out=\(?(\.\.\.|None).*'where' used without 'out'" \
          r"|out=\(?\.\.\..*=> result: \['number'.*NumPy's \['array'" \
          r"|\.(reduce|reduceat|accumulate)\(.*out=\(None,\)\)(, \w\))? => (error: None|\w\.elements)"
"""What NumPy's own functions do otherwise with Diffuse's arrays: they convert them to NumPy's, count the
dimensions of what is no array of NumPy's, and do not hand on that an output was `...`."""

LONG = 1000
"""How many letters of a difference are looked at from each end."""


def known(call: Call, difference: str) -> str:
    """Which known difference it is, or nothing."""
    called = re.sub(r"\bnumpy\.(?!zeros|s_|arange)", "np.", call.text)
    if len(difference) > 2 * LONG:  # patterns would take minutes for all bytes of an array
        difference = difference[:LONG] + difference[-LONG:]
    text = f"{'; '.join(call.lines)}; {called} => {difference}"
    if called != call.text and re.search(FOREIGN, text):
        return "NumPy's own functions do not know that Diffuse's arrays are arrays"
    wrong = call.mode.startswith("wrong")
    patterns = {**WRONG, **KNOWN, SEVERAL: "$^"} if wrong else KNOWN
    return next((what for what, pattern in patterns.items() if re.search(pattern, text)), "")
