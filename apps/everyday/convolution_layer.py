"""A convolution of many pictures with many filters, window by window, as a layer of a network."""

import numpy as np
from common import check, chosen, finish, show

images, n, channels, filters, rounds = chosen(tiny=(2, 8, 2, 2, 1), small=(4, 26, 3, 8, 30),
                                              medium=(8, 60, 4, 8, 6), large=(16, 140, 4, 6, 3))
size = 3
rng = np.random.default_rng(17)
pictures = rng.random((images, n, n, channels)).astype(np.float32)
weights = rng.standard_normal((size, size, channels, filters)).astype(np.float32)
bias = rng.standard_normal(filters).astype(np.float32)
m = n - size + 1

for _ in range(rounds):
    out = np.empty((images, m, m, filters), dtype=np.float32)
    for i in range(m):
        for j in range(m):
            window = pictures[:, i:i + size, j:j + size, :, None]
            out[:, i, j, :] = np.sum(window * weights, axis=(1, 2, 3))
    out = np.maximum(out + bias, 0)

again = sum(pictures[:, i:i + m, j:j + m, :] @ weights[i, j] for i in range(size) for j in range(size))
error = np.abs(out - np.maximum(again + bias, 0)).max()
check(error < 1e-4, f"windows and shifted pictures differ by {error}")
show("mean", out.mean(dtype=np.float64), 1e-6)
show("active", np.mean(out > 0), 1e-3)
finish()
