"""Programs written for MPI: processes compute what NumPy does, and the words are those of the closed form."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse

from diffuse.spec import describe, einsum
from diffuse.spmd import Program, attention, matmul, of_spec, softmax, spmv, write
from diffuse.spmd.program import words
from tests.jobs import ROOT, diffuse, job

CUBE = 8192

Arrays = dict[str, Any]


def numpy_softmax(X: Any) -> Any:
    e = np.exp(X - X.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def numpy_attention(X: Any, WQ: Any, WK: Any, WV: Any, WO: Any) -> Any:
    q, k, v = [np.einsum("bse,ehd->bhsd", X, w) for w in (WQ, WK, WV)]
    weights = numpy_softmax(np.einsum("bhsd,bhtd->bhst", q, k) / np.sqrt(q.shape[-1]))
    return np.einsum("bhst,bhtd,hdf->bsf", weights, v, WO)


def product(subscripts: str, *shapes: tuple[int, ...]) -> tuple[Program, Any]:
    return of_spec(einsum(subscripts, *shapes)), lambda *given: np.einsum(subscripts, *given)


SIDES, LONG = (13, 10, 7), ((5, 4, 6), (4, 6, 3))
MATMUL = matmul(*SIDES), np.matmul
SOFTMAX = softmax(3, 2, 5, 6), numpy_softmax
ATTENTION = attention(3, 5, 6, 4, 2), numpy_attention
BATCHES = product("bik,bkj->bij", (3, 4, 5), (3, 5, 6))
CASES: dict[int, list[tuple[tuple[Program, Any], dict[str, int]]]] = {
    2: [(MATMUL, {"m": 2}), (MATMUL, {"k": 2}), (MATMUL, {"n": 2}), (SOFTMAX, {"t": 2}),
        (ATTENTION, {"h": 2}),
        (product("i,i->", (7,), (7,)), {"i": 2}), (product("ki,kj->ij", (5, 4), (5, 3)), {"k": 2})],
    4: [(MATMUL, {"m": 2, "k": 2}), (MATMUL, {"n": 2, "m": 2}), (MATMUL, {"k": 4}),
        (SOFTMAX, {"b": 2, "t": 2}), ((softmax(1, 1, 2, 5), numpy_softmax), {"t": 4}),
        (ATTENTION, {"h": 2, "t": 2}), (ATTENTION, {"b": 2, "e": 2}),
        (ATTENTION, {"d": 2, "s": 2}), (ATTENTION, {"f": 4}), (BATCHES, {"b": 4}),
        (BATCHES, {"k": 2, "j": 2}),
        (product("bij,ijc->cb", *LONG), {"i": 2, "c": 2}), (product("ij->j", (9, 4)), {"i": 4}),
        (product("i,j->ij", (2,), (5,)), {"i": 4}),
        (product("ij,jk,kl->il", (3, 4), (4, 5), (5, 6)), {"j": 2, "k": 2})],
}
DRIVER = """
import os, runpy, sys
for folder in sys.argv[1:]:
    os.chdir(folder)
    sys.argv = open("words").read().split()
    runpy.run_path("program.py", run_name="__main__")
"""


@pytest.mark.ranks("mpi")
@pytest.mark.parametrize("ranks", CASES)
def test_written_programs_compute_what_numpy_does(ranks: int, tmp_path: Path) -> None:
    """All of them in one job: on the real processes, from files to a file."""
    random = np.random.default_rng(5)
    expected = []
    for number, ((program, function), grid) in enumerate(CASES[ranks]):
        folder = tmp_path / str(number)
        folder.mkdir()
        (folder / "program.py").write_text(write(program, grid))
        given = [random.standard_normal([program.extents[name] for name in one.loops])
                 for one in program.sources]
        for one, array in zip(program.sources, given, strict=True):
            np.save(folder / f"{one.name}.npy", array)
        names = [f"{one.name}.npy" for one in program.sources]
        (folder / "words").write_text(" ".join(["program.py", *names, "found.npy"]))
        expected.append(function(*given))
    for folder, wanted, (_, grid) in zip(ran(ranks, tmp_path), expected, CASES[ranks], strict=True):
        found = np.load(folder / "found.npy")
        assert found.shape == np.shape(wanted)
        np.testing.assert_allclose(found, wanted, rtol=1e-12, atol=1e-12, err_msg=f"{folder} {grid}")


def ran(ranks: int, path: Path) -> list[Path]:
    """The folders below this path, after the programs in them have run in one job."""
    folders = sorted([each for each in path.iterdir() if each.is_dir()], key=lambda each: int(each.name))
    driver = path / "driver.py"
    driver.write_text(DRIVER)
    done = job(str(Path(sys.prefix, "bin", "mpirun")), "-n", str(ranks), "--oversubscribe", "--bind-to",
               "none", sys.executable, str(driver), *map(str, folders), cwd=ROOT, seconds=120,
               OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1", OMPI_MCA_pml="ob1",
               OMPI_MCA_btl="self,sm", OPENBLAS_NUM_THREADS="1", LD_LIBRARY_PATH=str(Path(sys.prefix, "lib")))
    assert done.returncode == 0, done.tail
    return folders


def matrices() -> Iterator[scipy.sparse.csr_array]:
    """Square, wide and high ones, with rows and columns without entries, entries twice and out of order."""
    random = np.random.default_rng(6)
    for shape, density, dtype in (((40, 40), 0.2, "f8"), ((7, 90), 0.3, "f4"), ((90, 5), 0.4, "c16"),
                                  ((3, 3), 1.0, "f8"), ((11, 30), 0.0, "f8"), ((200, 200), 0.02, "i8")):
        made = scipy.sparse.random_array(shape, density=density, rng=random, format="csr")
        made.data = (100 * random.standard_normal(made.nnz)).astype(dtype)
        yield made
        kept = np.argsort(random.random(made.nnz)) if made.nnz == 9 else np.arange(made.nnz)
        yield scipy.sparse.csr_array((made.data[kept], made.indices[::-1] // 2, made.indptr), shape)


@pytest.mark.ranks("mpi")
@pytest.mark.parametrize("ranks", [2, 4])
def test_a_sparse_product_has_the_bits_of_scipy(ranks: int, tmp_path: Path) -> None:
    expected = []
    for number, A in enumerate(matrices()):
        folder = tmp_path / str(number)
        folder.mkdir()
        (folder / "program.py").write_text(write(spmv(*A.shape), {"m": ranks}))
        x = np.random.default_rng(number).standard_normal(A.shape[1]).astype(A.dtype)
        arrays = {"indptr": A.indptr, "indices": A.indices, "data": A.data, "x": x}
        for name, array in arrays.items():
            np.save(folder / f"{name}.npy", array)
        (folder / "words").write_text(" ".join(["program.py", *[f"{name}.npy" for name in arrays], "y.npy"]))
        expected.append(A @ x)
    for folder, wanted in zip(ran(ranks, tmp_path), expected, strict=True):
        found = np.load(folder / "y.npy")
        assert (found.dtype, found.shape, found.tobytes()) == (wanted.dtype, wanted.shape, wanted.tobytes())


@pytest.mark.parametrize("grid, total", [
    ({"m": 4, "k": 4, "n": 4}, 603_979_776), ({"m": 2, "k": 4, "n": 8}, 738_197_504),
    ({"m": 64}, 4_227_858_432), ({"k": 64}, 4_227_858_432), ({"m": 4, "k": 4, "n": 8}, 872_415_232),
    ({"n": 128}, 8_522_825_728)])
def test_words_of_a_product(grid: dict[str, int], total: int) -> None:
    assert words(matmul(CUBE, CUBE, CUBE), grid) == total


def test_attention_by_heads_moves_the_operand_and_the_result_alone() -> None:
    """Everything between is on the process that has the head (papers/000)."""
    b, s, e, p = 8, 512, 1024, 4
    one = b * s * e
    assert words(attention(b, s, e, 16, 64), {"h": p}) == (p - 1) * one + (p - 1) * one
    assert words(softmax(8, 16, 512, 512), {"b": 2, "h": 2, "s": 2}) == 0


def test_a_program_has_what_it_needs_and_no_more() -> None:
    rows = write(softmax(8, 4, 16, 16), {"b": 2, "h": 2})
    assert "Sub(" not in rows and "Allreduce" not in rows and "gathered" not in rows
    split = write(matmul(64, 64, 64), {"m": 2, "k": 2})
    assert re.findall(r"grid.Sub\(.*", split) == ["grid.Sub([True, False])  # share B",
                                                  "grid.Sub([False, True])  # fold C"]
    assert "C = A @ B\n" in split and "Reduce_scatter" in split and "Allreduce" not in split
    heads = write(attention(2, 8, 16, 4, 4), {"h": 2})
    assert "XT" not in heads and heads.count("load_piece(sys") == 1 and "Q @ K.swapaxes(-1, -2)" in heads
    for text in (rows, split, heads):
        compile(text, "program.py", "exec")
        assert max(map(len, text.splitlines())) <= 110


def test_a_written_program_refuses_files_of_other_shapes(tmp_path: Path) -> None:
    text = write(matmul(8, 4, 6), {"m": 2})
    space: dict[str, Any] = {"np": np, "sys": sys}
    exec(text[text.index("def opened"):text.index("def load(")], space)
    path, opened = str(tmp_path / "A.npy"), space["opened"]
    np.save(path, np.ones((16, 4)))
    with pytest.raises(SystemExit, match=re.escape("A.npy: expected an array of shape (8, 4), not (16, 4)")):
        opened(path, (8, 4))
    assert opened(path, (16, 4)).sum() == 64.0 and "load(sys.argv[1], (8, 4), np.s_[m])" in text


@pytest.mark.parametrize("program, grid, said", [
    (MATMUL[0], {"x": 2}, "no loop 'x'; the loops are m, k, n"), (MATMUL[0], {"m": 0}, "give at least 1")])
def test_grids_that_are_none(program: Program, grid: dict[str, int], said: str) -> None:
    with pytest.raises(ValueError, match=re.escape(said)):
        write(program, grid)


@pytest.mark.parametrize("grid, said", [
    ({"k": 2}, "no loop 'k'; the loops are m, n"), ({"m": 0}, "give at least 1"),
    ({"m": 2, "n": 2}, "cut the rows m of a sparse matrix alone")])
def test_grids_of_a_sparse_product(grid: dict[str, int], said: str) -> None:
    with pytest.raises(ValueError, match=re.escape(said)):
        write(spmv(8, 8), grid)


def test_arrays_that_are_cut_otherwise_than_they_are_read() -> None:
    one, two = [of_spec(einsum(text, (8, 8), (8, 8))).operations[0] for text in ("ij,jk->ik", "ab,bc->ac")]
    chain = Program("chain", "", (), (one, two._replace(reads=("C", "B"), makes="D")))
    with pytest.raises(ValueError, match="C is made in blocks of k and read in blocks of b"):
        write(chain, {"k": 2})


@pytest.mark.parametrize("spec", [einsum("ii->i", (4, 4)), einsum("IJ->I", (4, 4)),
                                  describe(lambda x: lambda i: x[i], (8,))])
def test_descriptions_that_do_not_say_what_is_computed(spec: Any) -> None:
    with pytest.raises(ValueError):
        of_spec(spec)


def test_the_command(tmp_path: Path) -> None:
    path = tmp_path / "x.py"
    asked = ("export", "--spmd", "matmul", "--sizes", "m=8,k=8,n=8")
    done = diffuse(*asked, "--grid", "m=2", "-o", str(path))
    assert (done.returncode, path.read_text()) == (0, write(matmul(8, 8, 8), {"m": 2}))
    done = diffuse("export", "--spmd", "spmv", "--sizes", "m=8,n=9", "--grid", "m=3")
    assert (done.returncode, done.stdout) == (0, write(spmv(8, 9), {"m": 3})), done.tail
    assert max(map(len, done.stdout.splitlines())) <= 110
    for more, said in ((("--grid", "q=2"), "no loop 'q'"), (("--grid", "m"), "expected each loop once"),
                       (("--grid", "m=2", "--sizes", "m=8"), "expected the extents of the loops m, k, n")):
        done = diffuse(*asked, *more)
        assert done.returncode == 2 and said in done.stderr, done.tail
