"""Photographs of bytes: grey by weights, a curve by table, blur and edges in float32, and bytes again."""

import numpy as np
from common import check, chosen, finish, show

n, rounds = chosen(tiny=(24, 1), small=(60, 250), medium=(240, 60), large=(1000, 14))
rng = np.random.default_rng(16)
y, x = np.indices((n, n))
curve = np.round(255.0 * (np.arange(256) / 255.0) ** 0.45).astype(np.uint8)
kernel = np.array([1, 4, 6, 4, 1], dtype=np.float32) / 16


def blur(f):
    padded = np.pad(f, 2, mode="edge")
    rows = sum(kernel[i] * padded[i:i + n, :] for i in range(5))
    return sum(kernel[i] * rows[:, i:i + n] for i in range(5))


for _ in range(rounds):
    disc = ((x - n / 2) ** 2 + (y - n / 2) ** 2 < (n / 3) ** 2)[:, :, None] * np.array([120, 60, 30])
    image = (disc + rng.integers(0, 40, (n, n, 3))).astype(np.uint8)
    bright = curve[image]
    grey = bright.astype(np.float32) @ np.array([0.299, 0.587, 0.114], dtype=np.float32)
    smooth = blur(grey)
    across = smooth[1:-1, 2:] - smooth[1:-1, :-2]
    down = smooth[2:, 1:-1] - smooth[:-2, 1:-1]
    edges = np.sqrt(across * across + down * down)
    low, high = np.percentile(smooth, [2, 98]).astype(np.float32)
    stretched = np.clip((smooth - low) * (255 / (high - low)), 0, 255).astype(np.uint8)
    negative = 255 - stretched
    mixed = np.where(edges > 20, 0, negative[1:-1, 1:-1])

flat = np.full((n, n), 7, dtype=np.float32)
check(np.abs(blur(flat) - 7).max() < 1e-4, "blurring changes an even picture")
check(mixed.dtype == np.uint8 and smooth.dtype == np.float32, f"types {mixed.dtype} and {smooth.dtype}")
check(np.all(negative + stretched == 255), "a picture and its negative are not white together")
show("bright", bright.mean(), 0)
show("smooth", smooth.mean(dtype=float), 1e-6)
show("edges", np.mean(edges > 20), 1e-3)
show("mixed", mixed.mean(), 1e-3)
finish()
