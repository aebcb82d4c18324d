"""Partitions that are chosen: words counted by definition, searches against trying everything."""

from __future__ import annotations

import importlib
import random
import sys
from itertools import product
from math import prod
from pathlib import Path

import numpy as np
import pytest

from diffuse.planning import Graph, Problem, TooWide, beam, eliminate, integer_program, plan, words
from diffuse.planning.eliminate import solve
from diffuse.planning.forecast import Turn
from diffuse.planning.layouts import PENDING, Layout, Mesh, choices, of_terms, seen
from diffuse.planning.windows import preferred
from diffuse.spec import einsum
from diffuse.spec.opspec import OpSpec

ROOT = Path(__file__).resolve().parent.parent
sys.path.append(str(ROOT / "bench"))        # its files are scripts that import each other by name
networks = importlib.import_module("networks")


def chain(m: int, k: int, n: int, q: int) -> Graph:
    """C = A B, E = C D."""
    graph = Graph()
    a, b, c, d, e = (graph.array(*each) for each in (("A", m, k), ("B", k, n), ("C", m, n), ("D", n, q),
                                                     ("E", m, q)))
    graph.add("C = A B", einsum("mk,kn->mn", (m, k), (k, n)), a, b, c)
    graph.add("E = C D", einsum("mn,nq->mq", (m, n), (n, q)), c, d, e)
    return graph


def block(layout: Layout, mesh: Mesh, shape: tuple[int, ...], rank: tuple[int, ...]) -> set[tuple[int, ...]]:
    """The elements of an array that a rank has: along each axis of the mesh a digit of an index tells whose
    it is, the same digit whichever other axes cut the dimension."""
    found = []
    for d, extent in enumerate(shape):
        kept = []
        for index in range(extent):
            rest, digits = index, []
            for size in mesh:
                rest, digit = divmod(rest, size)
                digits.append(digit)
            if all(digits[a] == rank[a] for a, cut in enumerate(layout) if cut == d):
                kept.append(index)
        found.append(kept)
    return set(product(*found))


@pytest.mark.parametrize("subscripts", ["ij,jk->ik", "ij,j->i", "ij->ji", "ij->", "bij,bjk->bik"])
def test_words_are_those_that_ranks_would_receive(subscripts: str) -> None:
    mesh, rng = (2, 3), random.Random(subscripts)
    terms = subscripts.split("->")[0].split(",")
    shapes = [(6,) * len(term) for term in terms]
    spec = einsum(subscripts, *shapes)
    ranks = list(product(*map(range, mesh)))
    for _ in range(12):
        (run,) = rng.sample(choices(spec.shape, mesh), 1)
        for use in spec.reads:
            shape = shapes[use.operand]
            (held,) = rng.sample(choices(shape, mesh), 1)
            counted = sum(len(block(seen(use, run), mesh, shape, r) - block(held, mesh, shape, r))
                          for r in ranks)
            assert words.read(spec, use, shape, [run], [held], mesh)[0, 0] == pytest.approx(counted)
        (use,) = spec.writes
        shape = (6,) * len(use.map.rows)
        (held,) = rng.sample(choices(shape, mesh), 1)
        assert words.written(use, shape, [run], [held], mesh)[0, 0] == pytest.approx(
            sent(run, seen(use, run), held, mesh, shape))


def sent(run: Layout, made: Layout, held: Layout, mesh: Mesh, shape: tuple[int, ...]) -> int:
    """Elements of a result, or terms of one, that come from other ranks; what several ranks compute alike
    counts once."""
    ranks, total = list(product(*map(range, mesh))), 0
    for owner in ranks:
        mine = block(held, mesh, shape, owner)
        makers = [r for r in ranks if all(r[a] == owner[a] for a, loop in enumerate(run) if loop < 0)]
        total += sum(len(mine & block(made, mesh, shape, r)) for r in makers if r != owner)
    return total


def test_the_chain_on_which_recursion_is_not_the_best() -> None:
    """Two products over two axes of two (papers/002 claims that deciding axis by axis is optimal)."""
    graph = chain(136, 56, 184, 232)
    assert plan(graph, (2, 2), "recursive").words == 79424
    assert plan(graph, (2, 2)).words == 74496


def test_the_best_grid_of_a_matrix_product() -> None:
    graph = Graph()
    arrays = [graph.array(name, 8192, 8192) for name in "ABC"]
    graph.add("product", einsum("mk,kn->mn", (8192, 8192), (8192, 8192)), *arrays)
    best = plan(graph, (2,) * 6)
    assert best.words == 603979776 and best.grid(0) == {"m": 4, "n": 4, "k": 4}
    (rows,) = [plan(graph, (2,) * 6, run={0: [(0,) * 6]})]
    assert rows.words == 4227858432


def test_training_graphs_have_the_sizes_that_were_published() -> None:
    """Table 2 of papers/002: weights, gradients and history in GB, at 12 bytes for each element."""
    published = {(50, 4): 4.2, (101, 4): 7.8, (152, 4): 10.5, (50, 10): 26.7, (152, 10): 65.1}
    for (layers, width), size in published.items():
        assert 12 * networks.residual(layers, width, 8).weights / 2**30 == pytest.approx(size, rel=0.035)
    assert 12 * networks.recurrent(10, 8192, 8).weights / 2**30 == pytest.approx(57.0)


def test_joint_choice_is_never_worse_than_recursion_or_a_beam() -> None:
    net = networks.residual(50, 4, 128)
    best, steps, kept = (plan(net.graph, (2, 2, 2), method).words
                         for method in ("auto", "recursive", "beam"))
    assert best <= steps <= 1.05 * best and best <= kept
    assert 4 * best / 1e9 == pytest.approx(20.440, abs=1e-3)
    assert 4 * steps / 1e9 == pytest.approx(20.491, abs=1e-3)


def drawn(rng: random.Random) -> Problem:
    """A small random problem: some tables of one, two or three variables."""
    sizes = [rng.randint(1, 4) for _ in range(rng.randint(1, 7))]
    numbers = np.random.default_rng(rng.randrange(1 << 30))
    tables = []
    for _ in range(rng.randint(1, 10)):
        variables = tuple(rng.sample(range(len(sizes)), rng.randint(1, min(3, len(sizes)))))
        tables.append((variables, numbers.integers(0, 20, [sizes[v] for v in variables]).astype(float)))
    return Problem(sizes, tables)


def test_a_variable_beside_many_that_have_one_state_each() -> None:
    """An array has at most 64 dimensions; these need none."""
    table = np.array([2.0, 1.0])
    problem = Problem([2] + [1] * 100, [((0, k), table.reshape(2, 1)) for k in range(1, 101)])
    assert eliminate(problem) == [1] + [0] * 100


def test_elimination_finds_what_trying_everything_finds() -> None:
    rng = random.Random(1)
    for number in range(120):
        problem = drawn(rng)
        best = min(map(problem.cost, product(*map(range, problem.sizes))))
        assert problem.cost(eliminate(problem)) == best
        assert problem.cost(beam(problem, 3)) >= best
        if number % 12 == 0:
            assert problem.cost(integer_program(problem)) == pytest.approx(best)


def test_the_integer_program_is_exact_for_large_costs() -> None:
    """Its solver's tolerances are absolute: costs of 10^10 elements were solved to 1.5 times the optimum."""
    net = networks.transformer(2, 14336, 8 * 1024)
    best, found = (plan(net.graph, (2, 2, 2), method).words for method in ("eliminate", "integer"))
    assert found == pytest.approx(best, rel=1e-6)


def backward(sums: bool) -> tuple[Graph, dict[int, list[Layout]], list[int]]:
    """The gradient that three products add up, and a product that reads it, with arrays that are cut as in
    Megatron-LM: by columns, and the next weights by rows."""
    graph, held = Graph(), dict[int, list[Layout]]()
    gradient, out = graph.array("dx", 64, 256), graph.array("y", 64, 256)
    for name in "qkv":
        one, weight = graph.array(f"d{name}", 64, 256), graph.array(f"w{name}", 256, 256)
        graph.add(f"dx {name}", einsum("bo,io->bi", (64, 256), (256, 256)), one, weight, gradient)
        held |= {one: [(1,)], weight: [(1,)]}
    weight = graph.array("w", 256, 256)
    graph.add("next", einsum("bi,io->bo", (64, 256), (256, 256)), gradient, weight, out)
    return graph, {**held, weight: [(0,)], out: [(1,)]}, [gradient] if sums else []


def test_a_sum_that_stays_pending_is_added_up_once() -> None:
    """Three products write terms of one gradient: added up at once they move three times, and later once."""
    found = []
    for sums in (False, True):
        graph, held, arrays = backward(sums)
        found.append(plan(graph, (4,), held=held, sums=arrays))
    once = 3 * 64 * 256                                     # a reduce-scatter over 4 ranks
    assert [each.words for each in found] == [3 * once + once, once + once]
    assert found[1].layouts[0] == (PENDING,)
    assert "dx[+4]" in str(found[1])


@pytest.mark.parametrize("product, work, passed", [(False, 0.125, True), (True, 0.125, False),
                                                   (True, 0.0, True)])
def test_terms_pass_through_operators_where_that_pays(product: bool, work: float, passed: bool) -> None:
    """s = f(x w) + f(y v) needs one reduction instead of two if f takes terms, which repeats its work on each
    rank: little for a transpose, too much for a product of matrices unless work costs nothing."""
    graph, held = Graph(), dict[int, list[Layout]]()
    total, out = graph.array("s", 64, 64), graph.array("out", 64, 64)
    sums = [total]
    for name in "xy":
        one, weight, made = (graph.array(name + each, *shape) for each, shape in (
            ("", (64, 512)), ("w", (512, 64)), ("m", (64, 64))))
        graph.add(f"{name} w", einsum("mk,kn->mn", (64, 512), (512, 64)), one, weight, made)
        held |= {one: [(1,)], weight: [(0,)]}
        sums.append(made)
        if product:
            matrix = graph.array(f"{name}v", 64, 64)
            held[matrix] = [(-1,)]
            graph.add(f"f {name}", einsum("mn,nq->mq", (64, 64), (64, 64)), made, matrix, total)
        else:
            graph.add(f"f {name}", einsum("mn->nm", (64, 64)), made, total)
    graph.add("read", einsum("mq->mq", (64, 64)), total, out)
    found = plan(graph, (4,), held={**held, out: [(0,)]}, sums=sums, work=work)
    once = 3 * 64 * 64                                      # a reduce-scatter over 4 ranks
    through = [of_terms(0) in found.assignments[k] for k in (1, 3)]
    assert through == [passed, passed]
    assert (found.words < 2 * once) == passed


@pytest.mark.parametrize("subscripts", ["ij,jk->ik", "ij->ji", "bij,bjk->bik"])
def test_words_of_terms_are_those_that_ranks_would_receive(subscripts: str) -> None:
    """Terms of a result cost nothing where they stay; all terms of what a rank needs come to it otherwise, or
    ranks add up parts first, which is never more."""
    mesh, rng = (2, 3), random.Random(subscripts)
    terms = subscripts.split("->")[0].split(",")
    shapes = [(6,) * len(term) for term in terms]
    spec, ranks = einsum(subscripts, *shapes), list(product(*map(range, mesh)))
    for _ in range(40):
        (run,) = rng.sample(choices(spec.shape, mesh), 1)
        use = rng.choice(spec.reads)
        (held,) = rng.sample(choices(shapes[use.operand], mesh, terms=(PENDING,)), 1)
        pending = [a for a, cut in enumerate(held) if cut == PENDING]
        counted = sum(len(block(seen(use, run), mesh, shapes[use.operand], r)
                          - (block(held, mesh, shapes[use.operand], r) if all(
                              r[a] == t for a, t in zip(pending, term, strict=True)) else set()))
                      for r in ranks for term in product(*[range(mesh[a]) for a in pending]))
        found = words.read(spec, use, shapes[use.operand], [run], [held], mesh)[0, 0]
        assert found <= counted + 1e-6 and (pending or found == pytest.approx(counted))
        own = tuple([of_terms(use.operand) if cut == PENDING else -1 for cut in held])
        assert words.read(spec, use, shapes[use.operand], [own], [held], mesh)[0, 0] == pytest.approx(
            sum(len(block((-1, -1), mesh, shapes[use.operand], r) - block(held, mesh, shapes[use.operand], r))
                for r in ranks))


def test_a_problem_that_is_too_wide_is_left_to_the_integer_program() -> None:
    sizes = [3] * 5
    rng = np.random.default_rng(3)
    problem = Problem(sizes, [((a, b), rng.integers(0, 9, (3, 3)).astype(float))
                              for a in range(5) for b in range(a)])
    with pytest.raises(TooWide, match="integer program"):
        eliminate(problem, widest=10)
    best = problem.cost(eliminate(problem))
    assert best == problem.cost(integer_program(problem)) == problem.cost(solve(problem, widest=10))


def test_states_that_others_dominate_are_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    """The reduced problem has the same optimum, also as an integer program; and a problem whose tables would
    be too wide may need none."""
    monkeypatch.setattr(sys.modules["diffuse.planning.eliminate"], "NARROW", 1)
    rng = random.Random(2)
    for number in range(60):
        problem = drawn(rng)
        best = min(map(problem.cost, product(*map(range, problem.sizes))))
        assert problem.cost(eliminate(problem)) == best
        if number % 6 == 0:
            assert problem.cost(solve(problem, widest=1)) == pytest.approx(best)
    apart = np.array([[0.0, 2.0, 3.0], [2.0, 0.5, 3.0], [3.0, 3.0, 1.0]])
    worse = np.array([0.0, 20.0, 20.0])
    problem = Problem([3] * 6, [*[((a, b), apart) for a in range(6) for b in range(a)],
                                *[((v,), worse) for v in range(6)]])
    assert eliminate(problem, widest=1) == [0] * 6


def test_bad_input_is_refused() -> None:
    graph = chain(8, 8, 8, 8)
    with pytest.raises(ValueError, match="choose one of auto, eliminate"):
        plan(graph, (2,), "greedy")
    with pytest.raises(ValueError, match="each of at least 2 ranks"):
        plan(graph, (2, 1))
    with pytest.raises(ValueError, match="array v has shape \\(8,\\)"):
        spec: OpSpec = einsum("ij->ji", (8, 8))
        graph.add("transpose", spec, graph.array("v", 8), 0)


def test_a_plan_prints_the_grids_and_the_tiles() -> None:
    assert str(plan(chain(1024, 16, 16, 16), (2, 2))) == (
        "1,536 words over 2x2 ranks\n"
        "  C = A B  m:4  on A[4, 1], B[4, 1], C[4, 1]\n"
        "  E = C D  m:4  on C[4, 1], D[4, 1], E[4, 1]")
    assert prod(plan(chain(8, 8, 8, 8), (2, 2)).grid(0).values()) == 4


def test_a_plan_has_to_save_more_than_the_model_errs_by_and_more_if_it_moves_more() -> None:
    usual = Turn((0,), bytes=100.0, moving=0.2, seconds=1.0)
    lean, fast, faster = (Turn((1,), 50.0, 0.1, 0.97), Turn((2,), 200.0, 0.3, 0.9),
                          Turn((3,), 200.0, 0.3, 0.87))
    assert preferred(usual, [fast]) is usual and preferred(usual, [faster]) is faster
    assert preferred(usual, [lean, fast]) is lean and preferred(usual, [lean, faster]) is faster
    assert preferred(usual, [faster, Turn((4,), 150.0, 0.3, 0.875)]).states == (4,), "as fast, moves less"
    assert preferred(usual, [Turn((5,), 50.0, 0.1, 0.99)]) is usual, "too little, though far fewer bytes move"
    assert preferred(usual, [Turn((6,), 95.0, 0.2, 0.93)]) is usual, "too little for about as many bytes"
    assert preferred(usual, [Turn((7,), 95.0, 0.2, 0.91)]).states == (7,)
