"""Many tracks followed by Kalman filters at once: batches of small matrices, one observation a step."""

import numpy as np
from common import check, chosen, finish, show

tracks, times = chosen(tiny=(5, 10), small=(100, 1500), medium=(3_000, 200), large=(70_000, 25))
rng = np.random.default_rng(25)
dt, noise = 0.1, 0.5
motion = np.array([[1.0, 0.0, dt, 0.0], [0.0, 1.0, 0.0, dt], [0.0, 0.0, 1.0, 0.0], [0.0, 0.0, 0.0, 1.0]])
drift = 1e-3 * np.eye(4)
truth = rng.standard_normal((tracks, 4))
state = np.zeros((tracks, 4))
cover = np.repeat(10.0 * np.eye(4)[None], tracks, axis=0)
raw = smooth = 0.0
for step in range(times):
    truth = truth @ motion.T
    seen = truth[:, :2] + noise * rng.standard_normal((tracks, 2))
    state = state @ motion.T
    cover = motion @ cover @ motion.T + drift
    innovation = cover[:, :2, :2] + noise**2 * np.eye(2)
    gain = cover[:, :, :2] @ np.linalg.inv(innovation)
    state = state + (gain @ (seen - state[:, :2])[:, :, None])[:, :, 0]
    cover = cover - gain @ cover[:, :2, :]
    if step >= times // 2:
        raw += float(((seen - truth[:, :2]) ** 2).mean())
        smooth += float(((state[:, :2] - truth[:, :2]) ** 2).mean())

check(smooth < raw, f"the filter's error {smooth} is no better than the observations' {raw}")
check(np.all(np.linalg.eigvalsh(cover) > 0.0), "a covariance is not positive")
show("error", smooth / raw, 1e-9)
show("spread", np.trace(cover, axis1=1, axis2=2).mean(), 1e-9)
finish()
