"""NumPy's own tests with Diffuse in NumPy's place: how many of those that pass under NumPy pass.

    python tests/numpy_suite.py                     all test files, first under NumPy, then under Diffuse
    python tests/numpy_suite.py lib/test_io.py -k loadtxt   some of them; options are pytest's
    python tests/numpy_suite.py --failing           also list the tests that fail under Diffuse alone, each
                                                    with its reason if `REASONS` knows one
    python tests/numpy_suite.py --real              NumPy alone, for comparison
    python tests/numpy_suite.py --keep=FOLDER       keep the outcomes in FOLDER, where another run takes up
                                                    what this one did not come to

The files come from the installed wheel.  Their imports of NumPy's public modules are rewritten; what they
take from private ones (`numpy._core.multiarray`) stays NumPy's, but for its core in C, the functions that
test its interface and the files that implement `numpy.lib`: these functions get NumPy's arrays for ours, as
all functions that Diffuse has not.  Each file runs in a process of its own.  A test that crashes it or takes
too long counts as failed, and another process takes up the file behind it.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import numpy

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from tests import suites

ROOT = Path(numpy.__file__).parent
PACKAGES = ("_core", "lib", "ma", "linalg", "fft", "random", "matrixlib", "polynomial", "testing", "tests")
"""Where the tests are that concern arrays and functions; f2py, distutils and typing have nothing of it."""

LEFT_OUT = {
    "_core/test_cython.py", "_core/test_limited_api.py", "random/test_extending.py",  # build C extensions
    "_core/test_simd.py", "_core/test_simd_module.py", "_core/test_cpu_features.py",
    "_core/test_cpu_dispatcher.py", "_core/test_mem_policy.py", "_core/test_hashtable.py",
    "_core/test_argparse.py", "_core/test_extint128.py",  # the inside of NumPy's library
    "tests/test_configtool.py", "tests/test_scripts.py", "tests/test_public_api.py", "tests/test_warnings.py",
    "tests/test_reloading.py", "tests/test_lazyloading.py", "tests/test_numpy_config.py",
    "tests/test_numpy_version.py",  # NumPy as a package
}
SECONDS = 300
"""How long one test may take: many times as long as any does on an idle machine."""
REASONS = {
    r"<class 'numpy\.ndarray'> (DESIRED: |is )<class '(diffuse|numpy\.ndarray)":
        "the class of a short array is NumPy's",
    r"::(test_real_imag|test_test_zero_rank|test_compressed|test_n|test_return_type|test_ensure_array"
    r"|test_squeeze_type|test_attributes|test_for_object_scalar_creation|test_priority|test__nan_mask\S*"
    r"|test_ufunc_override_where|TestSubclasses::test_basic|TestSqueeze::test_basic|test_subclasses"
    r"|test_instance_methods|test_returntype|test_iter_allocate_output_subtype|test_kron_matrix|test_getitem"
    r"|test_ufunc_return_ndarray|test_matrix_properties|test_nep35_functions_as_array_functions) "
    r"|<LinalgCase|::TestQR\w*::test_stacked_inputs|::test_recarray|::TestKron|::TestNanToNum"
    r"|::TestNDArrayArrayFunction": "the class of a short array is NumPy's",
    r"test_broadcast_(single_arg|error_kwargs|in_args)|test_iter_copy_if_overlap|test_iter_refcount"
    r"|test_old_ma\.py::TestMa::test_test(CopySize|Put) ":
        "NumPy's iterators and masked arrays hold NumPy's arrays over the memory",
    r"test_for_reference_leak|test___array___refcount|test_scalar_interface|test_small_regressions":
        "tables of shapes and types keep references, too",
    r"test_arg_locking": "lists are read in several steps, and in between other threads may change them",
    r"test_scalar_return_type": "NumPy's array of objects asks an object that gives an array of Diffuse's",
    r"TestFloatExceptions::test_warnings": "what nobody looks at is not computed, and does not warn",
    r"test_segmentation_fault": "the memory of an array outlives the array",
    r"::test_order_mismatch|::test_array_interfaces|::test_dtype_identity":
        "the object behind a buffer is NumPy's array over the memory",
    r"::test_warnonwrite|_warn_on_write|TestUfunc::test_broadcast .*read-only"
    r"|test_stride_tricks\.py::test_writeable":
        "the flag that warned of NumPy 1.9's views is not kept",
    r"Matmul\w*::test_result_types|test_ufunc_binop_interaction"
    r"|ACTUAL: <class 'diffuse\.numpy\.arrays\.scalar":
        "a result without dimensions is a pending number",
    r"TestWritebackIfCopy::test_view": "copies that C code writes back to NumPy's arrays",
    r"test_error_if_stored_buffer_info": "NumPy's own record of the buffers that it gave",
    r"TestMaskedArrayArithmetic::test_(basic_ufuncs|addsumprod)|test_masked_unary_operations"
    r"|test_validate_transcendentals|test_ufunc_noncontiguous\[(arc)?(cos|exp|log|sin|tan)":
        "transcendental functions and folds of Diffuse's have other bits in the last place than NumPy's",
    r"TestSubarray::test_shape_sequence":
        "`numpy.dtype` asks a shape for its `dtype` before it takes it for a sequence",
    r"test_set_stridesattr|test_internal_overlap": "strides that reach beyond the array and its memory",
    r"test_output_ellipsis_errors": "whether `out=...` was given by position is not known",
    r"test_pickle_withstring|assert <ufunc '\w+'> (==|is) <ufunc":
        "NumPy's own ufunc, from a private module or an old pickle",
    r"'diffuse\.numpy\.ma' == 'numpy\.ma|test_set_module": "the name of the module that a function is from",
    r"assert <function (\w+) .* is <function \1|test_function_like":
        "NumPy's own function object, from a private module",
    r"must be numpy\.ndarray, not (numpy\.)?ndarray|Cannot convert (numpy\.)?ndarray to numpy\.ndarray"
    r"|test_void_via_length|__array__ method not producing an array|TestSFloat::test_flatiter_index"
    r"|TestNdpointer::test_flags|TestStringDiscovery::test_unpack_first_level|test_replace_0d_array":
        "code in C that looks for NumPy's own array, or for the memory as its own",
    r"exact instance of the bound DType class": "the C type `long long` is kept as the int64 that it equals",
    r"test_dunder_dlpack_refcount": "the capsule holds the array's store, not the array",
    r"TestEmptyField::test_assign": "a type that Diffuse leaves to NumPy is not taken in place: TypeError",
    r"docstring|_add_newdoc_ufunc|__text_signature__": "documentation attached to NumPy's objects in C",
    r"Can't pickle <class 'numpy\._Scaled": "a name that the test adds to the module is looked up in NumPy's",
    r"assert <module 'numpy' from": "the namespace of a NumPy array is NumPy's",
}
"""Why tests fail that are right to pass under NumPy: a pattern of name and message, and the reason."""
CRASHES = 5
"""How often a file is taken up again behind a test that ended its process."""


def prepared(room: Path, real: bool) -> None:
    """Copy the tests into `room`, one folder a package of NumPy."""
    # tests are made of all ufuncs of private modules: these have to be NumPy's, and seen as such
    private = (r"\bnp\.(_core|core)\b", r"__import__('numpy').\1")
    # private functions that the tests hand arrays to
    files = r"\._core\._multiarray_(?:tests|umath)|\.lib\._\w+_impl"
    called = (rf"^( *(?:import|from)) numpy({files}) (as|import)", r"\1 diffuse.numpy\2 \3")
    elsewhere = (r"from numpy\.(lib|linalg)\.tests\.(\w+) import", r"from own.\1.\2 import")
    for package in PACKAGES:
        suites.copied(folder_of(package), room / "own" / package,
                      (elsewhere, *(() if real else (*suites.NUMPY, private, called))))
    (room / "own" / "__init__.py").touch()
    (room / "conftest.py").write_text((ROOT / "conftest.py").read_text())


def folder_of(package: str) -> Path:
    """The tests of a package, as NumPy is installed."""
    return ROOT / package if package == "tests" else ROOT / package / "tests"


def all_files() -> list[str]:
    """The test files that run unless some are named, the largest first."""
    found = {f"{package}/{path.name}": path.stat().st_size
             for package in PACKAGES for path in folder_of(package).glob("test_*.py")}
    return sorted(found.keys() - LEFT_OUT, key=lambda file: -found[file])


def file_run(room: Path, file: str, options: list[str]) -> suites.Outcomes:
    """Run one file in a process of its own, and in another one what comes after a test that ended it."""
    notes = room / (file.replace("/", "-") + ".json")
    words = [sys.executable, __file__, "--one", str(room), str(notes), str(room / "own" / file), *options]
    environment = {"DIFFUSE_FALLBACK": "silent", "NPY_AVAILABLE_MEM": "1 GB", **os.environ}
    for _ in range(CRASHES):
        done = subprocess.Popen(words, env=environment, cwd=room, stdin=subprocess.DEVNULL,
                                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        if ended(done, notes) >= 0:
            break
    return suites.Outcomes(notes)


def ended(process: subprocess.Popen[bytes], notes: Path) -> int:
    """Wait for a process, and kill it where a test takes too long; return its exit status."""
    noted, since = -1, time.monotonic()
    while True:
        with suppress(subprocess.TimeoutExpired):
            return process.wait(1)
        size = notes.stat().st_size if notes.exists() else 0
        if size != noted:
            noted, since = size, time.monotonic()
        elif time.monotonic() - since > SECONDS:
            process.kill()


def compared(real: suites.Outcomes, ours: suites.Outcomes | None) -> tuple[int, dict[str, str]]:
    """How many tests pass under NumPy, and why each of these fails that does under Diffuse."""
    passing = [test for test, outcome in real.of.items() if outcome == "passed"]
    if ours is None:
        return len(passing), {}
    # the name of a test may have that of a module in it
    found = {test.replace("diffuse.numpy", "numpy"): (outcome, ours.reasons.get(test, ""))
             for test, outcome in ours.of.items()}
    failed = {test: ": ".join(found.get(test, ("not run", "")))
              for test in passing if found.get(test, ("", ""))[0] != "passed"}
    return len(passing), failed


def reason(test: str, why: str) -> str:
    """What `REASONS` says of a test that failed."""
    found = next((text for pattern, text in REASONS.items() if re.search(pattern, f"{test} {why}")), None)
    return "no reason is known" if found is None else found


def both(rooms: list[Path], file: str, options: list[str]) -> tuple[int, dict[str, str]]:
    """One file under NumPy and then, if there is a second room, under Diffuse."""
    found = [file_run(room, file, options) for room in rooms]
    return compared(found[0], found[1] if len(found) > 1 else None)


def main() -> None:
    parser = suites.parser(__doc__)
    parser.add_argument("--failing", action="store_true", help="list the tests that fail under Diffuse alone")
    parser.add_argument("--keep", metavar="FOLDER", help="where outcomes are kept for another run")
    parser.add_argument("--one", nargs=2, type=Path, help=argparse.SUPPRESS)
    given, files, options = suites.parsed(parser)
    if given.one:
        room, notes = given.one
        suites.run(room, [*options, *files], notes)
        return
    options += ["-m", "not slow"]
    files = files or all_files()
    passing = 0
    failed: dict[str, str] = {}
    with tempfile.TemporaryDirectory(prefix="numpy-suite-") as name, ThreadPoolExecutor(2) as pool:
        place = Path(given.keep or name).resolve()
        rooms = [place / "real", *([] if given.real else [place / "ours"])]
        for room in rooms:
            if not (room / "own").exists():
                prepared(room, room.name == "real")
        runs = pool.map(lambda file: both(rooms, file, options), files)
        for file, (number, reasons) in zip(files, runs, strict=True):
            passing += number
            failed.update(reasons)
            print(f"{number - len(reasons):6} of {number:6}  {file}", flush=True)
            if given.failing:
                print(*(f"    {test}  {why}  ({reason(test, why)})" for test, why in reasons.items()),
                      sep="\n", flush=True)
    for why, n in Counter(failed.values()).most_common(40):
        print(f"{n:5}  {why}")
    for text, n in Counter(reason(test, why) for test, why in failed.items()).most_common():
        print(f"{n:5}  {text}")
    print(f"{passing} pass under NumPy, {passing - len(failed)} of these under Diffuse: "
          f"{100 * (1 - len(failed) / max(1, passing)):.2f} %")


if __name__ == "__main__":
    main()
