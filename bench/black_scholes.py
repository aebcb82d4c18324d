"""Black-Scholes under NumPy, numexpr, Numba, JAX and Diffuse: one pass over four arrays, compute bound."""

from __future__ import annotations

import argparse
import math
from typing import Any

import harness
from case import Case, Goal, Peer, application, fused, plain

NORMAL = math.sqrt(2.0 * math.pi)


def numexpr_peer(args: argparse.Namespace) -> Peer:
    import numexpr
    import numpy as np

    app = application("black_scholes")
    state = app.setup(args)
    market: dict[str, Any] = {"S": state.spot, "X": state.strike, "T": state.expiry, "V": state.volatility}
    real = np.dtype(args.dtype).type
    market |= {f"a{i}": real(a) for i, a in enumerate(app.COEFFICIENTS, 1)}
    market |= {"R": real(app.RATE), "half": real(0.5), "one": real(1.0), "zero": real(0.0),
               "slope": real(0.2316419), "norm": real(1.0 / NORMAL)}

    def normal(x: np.ndarray) -> Any:
        k = numexpr.evaluate("one / (one + slope * abs(x))", market | {"x": x})
        tail = "exp(-half * x * x) * norm * (k * (a1 + k * (a2 + k * (a3 + k * (a4 + k * a5)))))"
        tail = numexpr.evaluate(tail, market | {"x": x, "k": k})
        return numexpr.evaluate("where(x > zero, one - t, t)", {"x": x, "t": tail, "one": market["one"],
                                                               "zero": market["zero"]})

    def step() -> None:
        d1 = numexpr.evaluate("(log(S / X) + (R + half * V * V) * T) / (V * sqrt(T))", market)
        d2 = numexpr.evaluate("d1 - V * sqrt(T)", market | {"d1": d1})
        both = market | {"n1": normal(d1), "n2": normal(d2)}
        numexpr.evaluate("S * n1 - X * exp(-R * T) * n2", both, out=state.call)
        numexpr.evaluate("X * exp(-R * T) * (one - n2) - S * (one - n1)", both, out=state.put)

    return Peer(step, lambda: app.results(state))


def numba_peer(args: argparse.Namespace) -> Peer:
    import numba
    import numpy as np

    app = application("black_scholes")
    state = app.setup(args)
    real = np.dtype(args.dtype).type
    a1, a2, a3, a4, a5 = (real(a) for a in app.COEFFICIENTS)
    rate, half, one, slope, norm = real(app.RATE), real(0.5), real(1.0), real(0.2316419), real(1.0 / NORMAL)

    @numba.njit(error_model="numpy", inline="always")
    def normal(x):  # type: ignore[no-untyped-def]
        k = one / (one + slope * abs(x))
        tail = math.exp(-half * x * x) * norm * (k * (a1 + k * (a2 + k * (a3 + k * (a4 + k * a5)))))
        return one - tail if x > 0 else tail

    @numba.njit(error_model="numpy", parallel=True)
    def prices(spot, strike, expiry, volatility, call, put):  # type: ignore[no-untyped-def]
        for i in numba.prange(len(spot)):
            s, x, t, v = spot[i], strike[i], expiry[i], volatility[i]
            spread = v * math.sqrt(t)
            d1 = (math.log(s / x) + (rate + half * v * v) * t) / spread
            n1, n2 = normal(d1), normal(d1 - spread)
            discounted = x * math.exp(-rate * t)
            call[i] = s * n1 - discounted * n2
            put[i] = discounted * (one - n2) - s * (one - n1)

    columns = state.spot, state.strike, state.expiry, state.volatility, state.call, state.put
    return Peer(lambda: prices(*columns), lambda: app.results(state))


def jax_peer(args: argparse.Namespace) -> Peer:
    import jax
    import jax.numpy as jnp

    app = application("black_scholes")
    state = app.setup(args)
    setattr(app, "np", jnp)
    columns = [jnp.asarray(c) for c in (state.spot, state.strike, state.expiry, state.volatility)]
    compiled = jax.jit(app.prices)

    def step() -> None:
        state.call, state.put = jax.block_until_ready(compiled(*columns))

    return Peer(step, lambda: app.results(state))


CASE = Case(
    name="black_scholes", size=10_000_000, quick=20_000, batch=3,
    elements=lambda n: 6 * n,
    contenders={"numpy": plain("black_scholes"), "numexpr": numexpr_peer, "numba": numba_peer,
                "jax": jax_peer, "diffuse": fused("black_scholes")},
    goals=(Goal("numpy", 15.0), Goal("jax", 3.5), Goal("numba", 1 / 1.1)),
    most_tasks=1,
    notes=("bytes: four arrays read, two written; Numba: one loop; JAX: the same functions, jitted",),
)

if __name__ == "__main__":
    harness.main(CASE)
