"""Two chemicals that react and diffuse (Gray and Scott): a square of one of them grows into spots."""

import numpy as np
from common import check, chosen, finish, show

n, steps = chosen(tiny=(24, 20), small=(80, 2000), medium=(256, 400), large=(1024, 50))
feed, kill, du, dv = 0.0367, 0.0649, 0.16, 0.08
u, v = np.ones((n + 2, n + 2)), np.zeros((n + 2, n + 2))
middle = slice(n // 2 + 1 - n // 8, n // 2 + 1 + n // 8)
u[middle, middle], v[middle, middle] = 0.5, 0.25


def wrap(f):
    f[0, :], f[-1, :] = f[-2, :], f[1, :]
    f[:, 0], f[:, -1] = f[:, -2], f[:, 1]


def laplacian(f):
    return f[:-2, 1:-1] + f[2:, 1:-1] + f[1:-1, :-2] + f[1:-1, 2:] - 4.0 * f[1:-1, 1:-1]


for _ in range(steps):
    wrap(u)
    wrap(v)
    inner_u, inner_v = u[1:-1, 1:-1], v[1:-1, 1:-1]
    reaction = inner_u * inner_v**2
    change_u = du * laplacian(u) - reaction + feed * (1.0 - inner_u)
    change_v = dv * laplacian(v) + reaction - (feed + kill) * inner_v
    inner_u += change_u
    inner_v += change_v

inside = v[1:-1, 1:-1]
check(0.0 <= inside.min() and inside.max() < 1.0, "a concentration is out of range")
check(np.abs(inside - inside[::-1, :]).max() < 1e-9, "the picture has lost its symmetry")
show("u", u[1:-1, 1:-1].mean(), 1e-9)
show("v", inside.mean(), 1e-9)
finish()
