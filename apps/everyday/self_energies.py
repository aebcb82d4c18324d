"""Electrons scattered by vibrations: self-energies from slices of Green's functions, loop within loop.

For each momentum k, energy shift w and atom: Sigma(k, E) += G(k - q, E - w) times the coupling D(q, w).
"""

import numpy as np
from common import check, chosen, finish, show

momenta, energies, shifts, atoms, orbitals = chosen(tiny=(2, 6, 2, 2, 2), small=(6, 16, 8, 8, 3),
                                                    medium=(4, 60, 12, 20, 5), large=(4, 120, 10, 40, 8))
rng = np.random.default_rng(24)
shape = (momenta, energies, atoms, orbitals, orbitals)
green = rng.standard_normal(shape) + 1j * rng.standard_normal(shape)
coupling = rng.standard_normal((momenta, shifts, atoms, orbitals, orbitals))
neighbours = np.stack([(np.arange(atoms) + 1) % atoms, (np.arange(atoms) - 1) % atoms], axis=1)
sigma = np.zeros(shape, dtype=complex)

for k in range(momenta):
    for q in range(momenta):
        for w in range(shifts):
            for atom in range(atoms):
                for other in neighbours[atom]:
                    half = green[(k - q) % momenta, :energies - w, other] @ coupling[q, w, atom]
                    sigma[k, w:, atom] += half @ coupling[q, w, other]

piece = np.zeros((orbitals, orbitals), dtype=complex)
for q in range(momenta):
    for w in range(shifts):
        for other in neighbours[0]:
            half = green[(1 - q) % momenta, energies - 1 - w, other] @ coupling[q, w, 0]
            piece += half @ coupling[q, w, other]
check(np.allclose(sigma[1, energies - 1, 0], piece), "one atom's energies are not the sum over its slices")
show("total", np.abs(sigma).sum(), 1e-9)
show("trace", np.trace(sigma[0, -1, 0]).real, 1e-9)
finish()
