"""The training graphs of papers/002 (residual and recurrent networks) and papers/004 (transformers, graph
attention).

Each convolution or product has its forward operator and the two of its gradients; what goes through arrays
element by element shares their partition and is left out.  Images and filter windows are never cut.
"""

from __future__ import annotations

from diffuse.planning import Graph
from diffuse.spec.opspec import Loop, OpSpec, plain

BLOCKS = {50: (3, 4, 6, 3), 101: (3, 4, 23, 3), 152: (3, 8, 36, 3)}
"""Bottleneck blocks of each stage of a residual network of so many layers."""


def product(batch: int, inputs: int, outputs: int, rank: int) -> OpSpec:
    """A product, or a convolution whose image and window (one more dimension each) are not cut."""
    whole = (None,) * (rank - 2)
    loops = (Loop("b", batch), Loop("o", outputs), Loop("i", inputs, True))
    return OpSpec(loops, (plain(0, (0, 2, *whole)), plain(1, (2, 1, *whole))), (plain(2, (0, 1, *whole)),),
                  "sum", frozenset({0, 1}))


def moved(first: int, second: int, rank: int) -> OpSpec:
    """The sum of two arrays of one shape, which moves only elements that lie elsewhere."""
    loops = (Loop("b", first), Loop("c", second))
    whole = (None,) * (rank - 2)
    return OpSpec(loops, (plain(0, (0, 1, *whole)),), (plain(1, (0, 1, *whole)),), None, frozenset({0}))


class Training:
    """A training graph in the making: values with their gradients, and weights with theirs."""

    def __init__(self, batch: int) -> None:
        self.graph, self.batch = Graph(), batch
        self.weights = 0
        """Elements of all weights."""

    def value(self, name: str, channels: int, pixels: int = 0) -> tuple[int, int]:
        """A value and its gradient."""
        shape = (self.batch, channels, *([pixels] if pixels else []))
        return self.graph.array(name, *shape), self.graph.array(f"d{name}", *shape)

    def weight(self, name: str, inputs: int, outputs: int, taps: int = 0) -> int:
        """A weight, whose gradient and optimiser state have its partition."""
        self.weights += inputs * outputs * max(1, taps)
        return self.graph.array(name, inputs, outputs, *([taps] if taps else []))

    def multiply(self, name: str, x: tuple[int, int], weight: int, y: tuple[int, int]) -> None:
        """Multiply a value by a weight, with the gradients of the product: dx = dy w', dw = x' dy."""
        shapes = self.graph.shapes
        (_, inputs, *rest), (_, outputs, *_) = shapes[x[0]], shapes[y[0]]
        rank = 2 + len(rest)
        forward = product(self.batch, inputs, outputs, rank)
        self.graph.add(name, forward, x[0], weight, y[0])
        whole = (None,) * len(rest)
        b, o, i = forward.loops
        self.graph.add(f"{name} dx", OpSpec(
            (b, i._replace(reduced=False), o._replace(reduced=True)),
            (plain(0, (0, 2, *whole)), plain(1, (1, 2, *whole))), (plain(2, (0, 1, *whole)),), "sum"),
            y[1], weight, x[1])
        self.graph.add(f"{name} dw", OpSpec(
            (i._replace(reduced=False), o, b._replace(reduced=True)),
            (plain(0, (2, 0, *whole)), plain(1, (2, 1, *whole))), (plain(2, (0, 1, *whole)),), "sum"),
            x[0], y[1], weight)

    def add(self, name: str, x: tuple[int, int], y: tuple[int, int]) -> None:
        """Add a value to another one; its gradient passes through unchanged."""
        batch, channels, *rest = self.graph.shapes[x[0]]
        spec = moved(batch, channels, 2 + len(rest))
        self.graph.add(name, spec, x[0], y[0])
        self.graph.add(f"{name} back", spec, y[1], x[1])

    def apply(self, name: str, inputs: tuple[tuple[int, int], ...], y: tuple[int, int]) -> None:
        """Some function of values that is independent along the batch and the channels, as attention is along
        heads, and its gradients."""
        batch, channels, *rest = self.graph.shapes[y[0]]
        whole = (None,) * len(rest)
        count = len(inputs)
        loops = (Loop("b", batch), Loop("c", channels))
        uses = [plain(k, (0, 1, *whole)) for k in range(2 * count + 1)]
        values, gradients = [x[0] for x in inputs], [x[1] for x in inputs]
        self.graph.add(name, OpSpec(loops, tuple(uses[:count]), (uses[count],)), *values, y[0])
        self.graph.add(f"{name} back", OpSpec(loops, tuple(uses[:count + 1]), tuple(uses[count + 1:])),
                       *values, y[1], *gradients)


def residual(layers: int, width: int, batch: int) -> Training:
    """A wide residual network on images of 224 x 224, without its first convolution and its classifier."""
    net = Training(batch)
    x = net.value("x", 64 * width, 56 * 56)
    channels = 64 * width
    for stage, blocks in enumerate(BLOCKS[layers]):
        inner, side = 64 * width << stage, 56 >> stage
        for block in range(blocks):
            name, before = f"{stage}.{block}", (side if block or not stage else 2 * side)
            one = net.value(f"{name}a", inner, before * before)
            two = net.value(f"{name}b", inner, side * side)
            out = net.value(f"{name}c", 4 * inner, side * side)
            net.multiply(f"{name}.1", x, net.weight(f"w{name}.1", channels, inner, 1), one)
            net.multiply(f"{name}.2", one, net.weight(f"w{name}.2", inner, inner, 9), two)
            net.multiply(f"{name}.3", two, net.weight(f"w{name}.3", inner, 4 * inner, 1), out)
            if block:
                net.add(f"{name}.skip", x, out)
            else:
                net.multiply(f"{name}.skip", x, net.weight(f"w{name}.skip", channels, 4 * inner, 1), out)
            x, channels = out, 4 * inner
    return net


def recurrent(layers: int, hidden: int, batch: int, steps: int = 20) -> Training:
    """Layers of long short-term memory.  All steps of a layer have one partition and are one operator here:
    the batch is that of all steps."""
    net = Training(batch * steps)
    x = net.value("x", hidden)
    for layer in range(layers):
        gates, out = net.value(f"gates{layer}", 4 * hidden), net.value(f"h{layer}", hidden)
        if layer:
            net.multiply(f"input{layer}", x, net.weight(f"w{layer}", hidden, 4 * hidden), gates)
        net.multiply(f"state{layer}", out, net.weight(f"u{layer}", hidden, 4 * hidden), gates)
        x = out
    return net


def transformer(layers: int, hidden: int, tokens: int) -> Training:
    """Blocks of attention and two products, with residual sums: 12 hidden^2 weights a block.  Attention is
    one operator, independent along batch and heads; its heads are the indices of a channel."""
    net = Training(tokens)
    x = net.value("x", hidden)
    for layer in range(layers):
        parts = tuple(net.value(f"{name}{layer}", hidden) for name in "qkv")
        mixed, sum1 = net.value(f"o{layer}", hidden), net.value(f"s{layer}", hidden)
        inner, sum2 = net.value(f"m{layer}", 4 * hidden), net.value(f"x{layer + 1}", hidden)
        for name, part in zip("qkv", parts, strict=True):
            net.multiply(f"{name}{layer}", x, net.weight(f"w{name}{layer}", hidden, hidden), part)
        net.apply(f"attention{layer}", parts, mixed)
        net.multiply(f"o{layer}", mixed, net.weight(f"wo{layer}", hidden, hidden), sum1)
        net.add(f"sum{layer}", x, sum1)
        net.multiply(f"up{layer}", sum1, net.weight(f"wu{layer}", hidden, 4 * hidden), inner)
        net.multiply(f"down{layer}", inner, net.weight(f"wd{layer}", 4 * hidden, hidden), sum2)
        net.add(f"skip{layer}", sum1, sum2)
        x = sum2
    return net


def graph_attention(heads: int, nodes: int, hidden: int) -> Training:
    """A layer of graph attention: each head looks from every node at every other, and the heads' results are
    added up.  The weights of a node are one operator, which reads the nodes' features as a whole."""
    net = Training(nodes)
    x, out = net.value("x", hidden), net.value("y", hidden)
    looks = OpSpec((Loop("n", nodes),), (plain(0, (0, None)), plain(1, (None, None))), (plain(2, (0, None)),))
    back = OpSpec((Loop("n", nodes),), (plain(0, (0, None)), plain(1, (0, None))), (plain(2, (0, None)),))
    for head in range(heads):
        h, a, one = net.value(f"h{head}", hidden), net.value(f"a{head}", nodes), net.value(f"o{head}", hidden)
        net.multiply(f"features{head}", x, net.weight(f"w{head}", hidden, hidden), h)
        net.graph.add(f"weights{head}", looks, h[0], h[0], a[0])
        net.graph.add(f"weights{head} back", back, a[1], h[0], h[1])
        net.graph.add(f"mix{head}", product(nodes, nodes, hidden, 2), a[0], h[0], one[0])
        m, c = Loop("m", nodes), Loop("c", hidden)
        net.graph.add(f"mix{head} da", OpSpec((Loop("n", nodes), m, c._replace(reduced=True)), (
            plain(0, (0, 2)), plain(1, (1, 2))), (plain(2, (0, 1)),), "sum"), one[1], h[0], a[1])
        net.graph.add(f"mix{head} dh", OpSpec((m, c, Loop("n", nodes, True)), (
            plain(0, (2, 0)), plain(1, (2, 1))), (plain(2, (0, 1)),), "sum"), a[0], one[1], h[1])
        net.add(f"sum{head}", one, out)
    return net


def heads_to_features(batch: int, places: int, heads: int, features: int) -> Graph:
    """The last product of attention, after which no head stands by itself: y[b,s,f] = sum over heads and
    their features of x[b,s,h,d] w[h,d,f]."""
    graph = Graph()
    each = features // heads
    names = [Loop("b", batch), Loop("s", places), Loop("f", features), Loop("h", heads, True),
             Loop("d", each, True)]
    spec = OpSpec(tuple(names), (plain(0, (0, 1, 3, 4)), plain(1, (3, 4, 2))), (plain(2, (0, 1, 2)),), "sum")
    arrays = [graph.array("x", batch, places, heads, each), graph.array("w", heads, each, features),
              graph.array("y", batch, places, features)]
    graph.add("output", spec, *arrays)
    return graph
