"""Partitions chosen by search, beside what the papers report: grids, training graphs, discovery.

    python bench/partition.py [--quick] [--problems 1000] [--json FILE]

Beside the chosen partitions stand those that one would write by hand: data-parallel training, and the tensor
parallelism of Megatron-LM.  Nothing runs on ranks here: words are counted by the model of `diffuse.planning`,
which a test holds against counting what each rank needs and holds.  Searches are measured in processor time,
on one core.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import discovered
import networks
import redistribution
import report
import table

from diffuse.planning import Graph, GraphPlan, plan
from diffuse.planning.layouts import Layout, choices
from diffuse.planning.problem import build
from diffuse.spec import einsum
from diffuse.spec.opspec import Indexing, Loop, OpSpec, plain

Measures = dict[str, Any]
MESH = (2, 2, 2)
SIZE = 8192
"""Rows and columns of the matrices whose product is cut."""
ITEM = 4
GRID_RATIOS = {64: 7.0, 128: 9.8}
"""How many times fewer words the best grid moves than rows or columns alone, for so many ranks."""
PAPER_SECONDS = {"WResNet-152": 8.3, "RNN-10": 66.6}
"""What the search of papers/002 took for eight workers (table 1)."""
PAPER_SIZES = {"WResNet-50-4": 4.2, "WResNet-101-8": 30.6, "WResNet-152-4": 10.5, "WResNet-152-10": 65.1,
               "RNN-6": 33.0, "RNN-8": 45.3, "RNN-10": 57.0}
"""GB of weights, gradients and history (table 2; the networks of recurrent layers with 8,192 units)."""
NETWORKS: dict[str, Callable[[], networks.Training]] = {
    "WResNet-50-4": lambda: networks.residual(50, 4, 128),
    "WResNet-101-8": lambda: networks.residual(101, 8, 16),
    "WResNet-152-4": lambda: networks.residual(152, 4, 32),
    "WResNet-152-10": lambda: networks.residual(152, 10, 8),
    "RNN-6": lambda: networks.recurrent(6, 8192, 512),
    "RNN-8": lambda: networks.recurrent(8, 8192, 512),
    "RNN-10": lambda: networks.recurrent(10, 8192, 512),
    "GPT, 4 layers": lambda: networks.transformer(4, 14336, 8 * 1024),
    "GPT, 96 layers": lambda: networks.transformer(96, 12288, 8 * 1024),
}
QUICK = ("WResNet-50-4", "RNN-6", "GPT, 4 layers")
TABLE_2 = {
    **{f"WResNet-{layers}-{width}": size for width, sizes in (
        (4, (4.2, 7.8, 10.5)), (6, (9.6, 17.1, 23.4)), (8, (17.1, 30.6, 41.7)), (10, (26.7, 47.7, 65.1)))
       for layers, size in zip((50, 101, 152), sizes, strict=True)},
    **{f"RNN-{layers} of {hidden}": size for hidden, sizes in (
        (4096, (8.4, 11.4, 14.4)), (6144, (18.6, 28.5, 32.1)), (8192, (33.0, 45.3, 57.0)))
       for layers, size in zip((6, 8, 10), sizes, strict=True)}}
"""The networks of papers/002, table 2, and their GB of weights, gradients and history."""
MISPRINT = "RNN-8 of 6144"
"""Its size stands out among its neighbours' in the table, which grow with layers and units."""
METADIST: dict[str, tuple[int, float, Callable[[], networks.Training]]] = {
    "GPT": (8, 10.07, lambda: networks.transformer(4, 14336, 8 * 1024)),
    "GPT on 2": (2, 2.52, lambda: networks.transformer(2, 10240, 8 * 1024)),
    "wide ResNet": (8, 1.23, lambda: networks.residual(50, 7, 256)),
    "wide ResNet on 2": (2, 0.63, lambda: networks.residual(50, 5, 128)),
    "GAT": (8, 4.83, lambda: networks.graph_attention(8, 1024, 24576)),
    "GAT on 2": (2, 1.21, lambda: networks.graph_attention(2, 1024, 24576))}
"""The networks of papers/004: ranks, 10^9 weights as the paper counts them, graph."""
PAPERS_MESH = next(iter(redistribution.MESHES))
"""The kind of problem of papers/001."""
UNKNOWNS = 1 << 17
"""The most unknowns of an integer program that is solved here."""


def product() -> Graph:
    """The product of two square matrices."""
    graph = Graph()
    arrays = [graph.array(name, SIZE, SIZE) for name in "ABC"]
    graph.add("product", einsum("mk,kn->mn", (SIZE, SIZE), (SIZE, SIZE)), *arrays)
    return graph


def grids(most: int) -> list[Measures]:
    """The words of a matrix product on the grid that is chosen, and on those of one dimension."""
    found = []
    for axes in range(1, most.bit_length()):
        mesh = (2,) * axes
        best = plan(product(), mesh)
        rows, terms, columns = [plan(product(), mesh, run={0: [(loop,) * axes]}).words for loop in (0, 2, 1)]
        found.append({"ranks": 1 << axes, "grid": best.grid(0), "best": best.words, "rows": rows,
                      "columns": columns, "terms": terms})
    return found


def all_rows(graph: Graph) -> GraphPlan:
    """The plan that cuts every array into rows; each operator takes the strategy that then moves least."""
    return plan(graph, MESH, held={k: [(0,) * len(MESH)] for k in range(len(graph.shapes))})


def equal_chops(graph: Graph) -> GraphPlan:
    """Every array and every operator cut along one dimension, or loop, by all ranks."""
    def alike(extents: Sequence[int]) -> list[Layout]:
        return [layout for layout in choices(tuple(extents), MESH, False) if len(set(layout)) == 1]

    cut = graph.cut()
    return plan(graph, MESH,
                held={k: [s for s in alike(shape) if s[0] in cut[k]] for k, shape in enumerate(graph.shapes)},
                run={k: alike(operator.spec.shape) for k, operator in enumerate(graph.operators)})


def data_parallel(net: networks.Training) -> GraphPlan:
    """Every value cut into parts of the batch, and every operator along it; weights lie where is best."""
    names, batch = net.graph.names, net.batch
    along = {k: [(0,) * len(MESH)] for k, shape in enumerate(net.graph.shapes)
             if not names[k].startswith("w") and shape[0] == batch}
    run = {k: [tuple([operator.spec.loop("b")] * len(MESH))] for k, operator in
           enumerate(net.graph.operators) if any(loop.name == "b" for loop in operator.spec.loops)}
    return plan(net.graph, MESH, held=along, run=run)


def megatron(net: networks.Training, sums: bool = False) -> GraphPlan:
    """A transformer as in Megatron-LM: weights before heads and the wide layer are cut into columns, those
    after them into rows, and values between them into channels; `sums` lets sums stay pending."""
    columns, rows = (1,) * len(MESH), (0,) * len(MESH)
    held: dict[int, Sequence[Layout]] = {}
    for k, name in enumerate(net.graph.names):
        kind = name.lstrip("d").rstrip("0123456789")
        if kind in ("wq", "wk", "wv", "wu", "q", "k", "v", "o", "m"):
            held[k] = [columns]
        elif kind in ("wo", "w") or name.startswith("wd"):
            held[k] = [rows]
    return plan(net.graph, MESH, held=held, sums=[
        k for k, name in enumerate(net.graph.names) if not name.startswith("w") and k not in held]
        if sums else ())


def by_hand(name: str, net: networks.Training, best: GraphPlan) -> Measures:
    """The words of partitions that one would write by hand, over those of the chosen one."""
    found: Measures = {"data parallel": None, "Megatron": None, "Megatron, sums pending": None}
    if not name.startswith("RNN"):
        found["data parallel"] = data_parallel(net).words / best.words
    if name.startswith("GPT"):
        found["Megatron"] = megatron(net).words / best.words
        found["Megatron, sums pending"] = megatron(net, sums=True).words / best.words
    return found


def training(name: str) -> Measures:
    """The words of a training step under each search, and the processor time of the exact one."""
    network = NETWORKS[name]()
    begin = time.process_time()
    best = plan(network.graph, MESH)
    seconds = time.process_time() - begin
    return {"name": name, "operators": len(network.graph.operators), "seconds": seconds,
            "bytes": ITEM * best.words, "weights": 3 * ITEM * network.weights,
            "recursion": plan(network.graph, MESH, "recursive").words / best.words,
            "beam": plan(network.graph, MESH, "beam").words / best.words,
            "rows": all_rows(network.graph).words / best.words,
            "one dimension": equal_chops(network.graph).words / best.words,
            **by_hand(name, network, best)}


def sizes() -> list[Measures]:
    """GB of weights, gradients and history of each network of table 2."""
    found = []
    for name, paper in TABLE_2.items():
        kind, layers, size = name.replace(" of ", "-").split("-")
        network = (networks.residual(int(layers), int(size), 8) if kind == "WResNet"
                   else networks.recurrent(int(layers), int(size), 512))
        found.append({"name": name, "GB": 3 * ITEM * network.weights / 2**30, "paper": paper})
    return found


def compared(name: str) -> Measures:
    """The exact search, an integer program and a beam on a network of papers/004."""
    ranks, weights, make = METADIST[name]
    network, mesh = make(), (2,) * (ranks.bit_length() - 1)
    begin = time.process_time()
    best = plan(network.graph, mesh)
    row = {"name": name, "ranks": ranks, "weights": network.weights, "paper": weights,
           "operators": len(network.graph.operators), "seconds": time.process_time() - begin,
           "bytes": ITEM * best.words, "beam": plan(network.graph, mesh, "beam").words / best.words,
           "integer": None, "integer seconds": None}
    if sum(costs.size for _, costs in build(network.graph, mesh).problem.tables) <= UNKNOWNS:
        begin = time.process_time()
        row["integer"] = plan(network.graph, mesh, "integer").words / best.words
        row["integer seconds"] = time.process_time() - begin
    return row


def after_attention() -> Measures:
    """The words of the product after attention on 4 ranks that have heads each: the chosen ones, and those of
    an all-reduce, with the matrix on all ranks (BERT-large, papers/000)."""
    batch, places, heads, features, mesh = 8, 512, 16, 1024, (2, 2)
    graph = networks.heads_to_features(batch, places, heads, features)
    best = plan(graph, mesh, held={0: [(2, 2)], 1: [(-1, -1)]})
    return {"grid": best.grid(0), "words": best.words, "all-reduce": 2.0 * 3 * batch * places * features}


def thesis() -> list[Measures]:
    """Softmax and a sparse product of papers/000: the words that ranks receive under the best partition.
    There a sparse product has all columns and values on every rank; here a rank has those of its rows."""
    shape = (8, 16, 512, 512)
    graph = Graph()
    lines = OpSpec(tuple([Loop(name, n) for name, n in zip("bhq", shape, strict=False)]),
                   (plain(0, (0, 1, 2, None)),), (plain(1, (0, 1, 2, None)),))
    graph.add("softmax", lines, graph.array("x", *shape), graph.array("y", *shape))
    found = [{"name": "softmax (8, 16, 512, 512)", "ranks": 8, "words": plan(graph, MESH).words}]
    rows, entries = 1 << 16, 16
    for name, whole in (("all entries everywhere", True), ("entries of a rank's rows", False)):
        graph = Graph()
        own = plain(0, (None, None)) if whole else plain(0, (0, None))
        spec = OpSpec((Loop("r", rows),), (own, Indexing(1, own.map), plain(2, (None,))), (plain(3, (0,)),))
        arrays = [graph.array(each, rows, entries) for each in ("columns", "values")]
        graph.add("product", spec, *arrays, graph.array("x", rows), graph.array("y", rows))
        words = plan(graph, (2,), held={k: [(0,)] for k in range(4)}).words
        found.append({"name": f"sparse product, {name}", "ranks": 2, "words": words})
    return found


def goals(result: Measures) -> list[Measures]:
    found = [report.goal(f"product on {row['ranks']} ranks: rows / chosen grid",
                         GRID_RATIOS[row["ranks"]] - 0.05, row["rows"] / row["best"])
             for row in result["grids"] if row["ranks"] in GRID_RATIOS]
    for row in result["training"]:
        found.append(report.goal(f"{row['name']}: seconds to the exact choice", 2.0, row["seconds"],
                                 at_least=False))
        found += [report.goal(f"{row['name']}: words of {other} / exact", 1.0, row[other])
                  for other in ("recursion", "beam", "rows", "one dimension", "data parallel", "Megatron")
                  if row[other] is not None]
    for row in result["compared"]:
        found.append(report.goal(f"{row['name']}: words of a beam / exact", 1.0, row["beam"]))
        if row["integer"] is not None:
            found.append(report.goal(f"{row['name']}: words of the integer program / exact", 1.01,
                                     row["integer"], at_least=False))
    off = max(abs(row["GB"] / row["paper"] - 1.0) for row in result["sizes"] if row["name"] != MISPRINT)
    found.append(report.goal("sizes of table 2: the most that one is off", 0.03, off, at_least=False))
    longest = max(max(row["searched"]) for row in result["redistributions"].values())
    found.append(report.goal("redistribution: seconds to the sequence, the longest", redistribution.ASKED,
                             longest, at_least=False))
    after = result["after attention"]
    found.append(report.goal("product after attention on 4 ranks: all-reduce / chosen", 8.0,
                             after["all-reduce"] / after["words"]))
    return found + discovered.goals(result["discovery"], result["networks"])


def text(result: Measures) -> str:
    lines = [table.render(
        f"words received for a product of {SIZE} x {SIZE} matrices (papers/000)",
        ("ranks", "chosen grid", "words", "rows", "columns", "terms", "rows / chosen"),
        [(str(row["ranks"]), " ".join(f"{k}:{n}" for k, n in row["grid"].items()),
          *[f"{row[k]:,.0f}" for k in ("best", "rows", "columns", "terms")],
          table.ratio(row["rows"] / row["best"])) for row in result["grids"]])]
    lines.append(table.render(
        "training steps on 8 ranks (papers/002, papers/004): words over those of the exact choice",
        ("network", "weights GB", "the paper's", "operators", "search", "the paper's", "moved GB",
         "recursion", "beam", "rows", "one dimension", "data parallel", "Megatron", "sums pending"),
        [(row["name"], f"{row['weights'] / 2**30:.1f}", str(PAPER_SIZES.get(row["name"], "")),
          str(row["operators"]), table.seconds(row["seconds"]),
          next((f"{s} s" for name, s in PAPER_SECONDS.items() if row["name"].startswith(name)), ""),
          f"{row['bytes'] / 1e9:.2f}",
          *["" if row[k] is None else f"{row[k]:.4f}" for k in (
              "recursion", "beam", "rows", "one dimension", "data parallel", "Megatron",
              "Megatron, sums pending")])
         for row in result["training"]]))
    lines.append(table.render(
        "GB of weights, gradients and history (papers/002, table 2)", ("network", "GB", "the paper's"),
        [(row["name"], f"{row['GB']:.1f}", str(row["paper"])) for row in result["sizes"]]))
    lines.append(table.render(
        "the networks of papers/004: words over those of the exact choice",
        ("network", "ranks", "10^9 weights", "the paper's", "operators", "search", "moved GB", "beam",
         "integer program", "its search"),
        [(row["name"], str(row["ranks"]), f"{row['weights'] / 1e9:.2f}", str(row["paper"]),
          str(row["operators"]), table.seconds(row["seconds"]), f"{row['bytes'] / 1e9:.2f}",
          f"{row['beam']:.4f}", "-" if row["integer"] is None else f"{row['integer']:.4f}",
          "-" if row["integer"] is None else table.seconds(row["integer seconds"]))
         for row in result["compared"]]))
    after = result["after attention"]
    lines.append(f"the product after attention on 4 ranks goes by {after['grid']}: {after['words']:,.0f} "
                 f"words; an all-reduce moves {after['all-reduce']:,.0f}")
    lines += discovered.tables(result["discovery"], result["networks"])
    lines.append(table.render("programs of papers/000: words received",
                              ("program", "ranks", "words"),
                              [(row["name"], str(row["ranks"]), f"{row['words']:,.0f}")
                               for row in result["thesis"]]))
    lines.append(redistribution.synthesis_table(result["redistributions"]))
    return "\n".join([*lines, report.goal_table(result["goals"])])


def main() -> None:
    parser = argparse.ArgumentParser(description="partitions chosen by search")
    parser.add_argument("--quick", action="store_true", help="three networks, three operators, few ranks")
    parser.add_argument("--problems", type=int, default=1000, help="random redistributions (papers/001)")
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    first = 3 if asked.quick else None
    result: Measures = {"grids": grids(8 if asked.quick else 128),
                        "training": [training(name) for name in (QUICK if asked.quick else NETWORKS)],
                        "thesis": thesis(), "redistributions": {PAPERS_MESH: redistribution.synthesis(
                            PAPERS_MESH, 20 if asked.quick else asked.problems)},
                        "sizes": sizes(), "after attention": after_attention(),
                        "compared": [compared(name) for name in (list(METADIST)[1::2] if asked.quick
                                                                 else METADIST)],
                        "discovery": discovered.catalogue(first), "networks": discovered.of_networks(first)}
    result["goals"] = goals(result)
    print(text(result))
    if asked.json:
        asked.json.write_text(json.dumps(result))


if __name__ == "__main__":
    main()
