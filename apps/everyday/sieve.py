"""Prime numbers by the sieve of Eratosthenes, and how they lie: gaps, twins and last digits."""

import numpy as np
from common import check, chosen, finish, show

n, rounds = chosen(tiny=(1_000, 1), small=(10_000, 3000), medium=(200_000, 500), large=(10_000_000, 40))
known = {1_000: 168, 10_000: 1229, 200_000: 17984, 10_000_000: 664579}
for _ in range(rounds):
    prime = np.ones(n + 1, dtype=bool)
    prime[:2] = False
    prime[4::2] = False
    for i in range(3, int(n**0.5) + 1, 2):
        if prime[i]:
            prime[i * i::2 * i] = False
    primes = np.flatnonzero(prime)
    gaps = np.diff(primes)
    twins = np.count_nonzero(gaps == 2)
    digits = np.bincount(primes % 10, minlength=10)

check(len(primes) == known[n], f"{len(primes)} primes up to {n}")
check(int(digits[[0, 4, 6, 8]].sum()) == 0, "an even number is prime")
show("primes", len(primes), 0)
show("twins", twins, 0)
show("widest gap", gaps.max(), 0)
finish()
