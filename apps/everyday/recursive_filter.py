"""A picture smoothed by a recursive filter, forward and backward along its columns, then along its rows."""

import numpy as np
from common import check, chosen, finish, show

n, rounds = chosen(tiny=(24, 1), small=(96, 100), medium=(400, 30), large=(1200, 12))
a = np.float32(0.4)


def smooth(image):
    """Exponential smoothing along the second axis, in both directions."""
    rows, columns = image.shape
    forward = np.zeros_like(image)
    backward = np.zeros_like(image)
    forward[:, 0] = a * image[:, 0]
    for j in range(1, columns):
        forward[:, j] = a * image[:, j] + (1 - a) * forward[:, j - 1]
    for j in range(columns - 2, -1, -1):
        backward[:, j] = (1 - a) * (a * image[:, j + 1] + backward[:, j + 1])
    return (forward + backward) / (2 - a)


point = np.zeros((n, n), dtype=np.float32)
point[n // 2, n // 2] = 1.0
answer = smooth(smooth(point).T).T
distance = np.abs(np.arange(n) - n // 2)
shape = a / (2 - a) * (1 - a) ** distance.astype(np.float32)
check(np.abs(answer - shape[:, None] * shape[None, :]).max() < 1e-6, "the answer to a point is not its shape")

image = np.random.default_rng(10).random((n, n)).astype(np.float32)
for _ in range(rounds):
    image = smooth(smooth(image).T).T
check(image.dtype == np.float32 and 0.0 < float(image[n // 2].mean()) < 1.0, "the picture is out of range")
show("mean", image.mean(dtype=np.float64), 1e-5)
show("middle", image[n // 2, n // 2], 1e-4)
finish()
