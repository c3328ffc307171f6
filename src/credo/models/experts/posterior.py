"""What the rows say of all parameters of a mixture of experts: Louis's identity, and draws by importance weights.

    -∂² log p(y, θ)/∂θ² = Σₙ Σⱼ rₙⱼ(Hₙⱼ - sₙⱼsₙⱼᵀ) + Σₙ s̄ₙs̄ₙᵀ + the prior's,    s̄ₙ = Σⱼ rₙⱼsₙⱼ

with the score s and the curvature H of the complete data, were row n expert j's: what is known, less what is not known
of whose each row was. θ = (the numbers of each expert, one after the other, the gate). The inverse is the covariance of
the normal law at the mode (Laplace); where the gate is hardly known it has the experts changed over, which the rows
exclude, and draws around the mode are weighed by p(θ | y). Louis (1982), "Finding the observed information matrix when
using the EM algorithm"; Vehtari et al. (2024), "Pareto smoothed importance sampling".
"""

from collections.abc import Callable

import numpy as np
from jaxtyping import Float

from credo.infer.importance_sampling import pareto_smooth, students
from credo.infer.quasi_random import latin_hypercube
from credo.models.experts.family import ExpertFamily, ExpertRows

DRAWS, CANDIDATES = 32, 512
"""Of the parameters, over which predictions average; and those from which they are chosen by importance weights."""


def observed_information(
    family: ExpertFamily,
    rows: ExpertRows,
    shares: Float[np.ndarray, "n k"],
    regions: Float[np.ndarray, "n k"],
    gate_precision: Float[np.ndarray, "qc qc"],
) -> Float[np.ndarray, "s s"]:
    """-∂² log p(y, θ)/∂θ² for responsibilities `shares` and the gate's probabilities `regions`."""
    (n, k), c, q = shares.shape, shares.shape[1] - 1, rows.gate.shape[1]
    scores, counts = np.asarray(family.scores(rows)), shares * rows.weights[:, None]
    a = scores.shape[2]
    gate = slice(k * a, k * a + q * c)
    out, mean = np.zeros((k * a + q * c,) * 2), np.zeros((n, k * a + q * c))
    for j, own_curvature in enumerate(family.curvature(rows, counts)):
        own, r = slice(j * a, (j + 1) * a), counts[:, j : j + 1]
        shown = np.eye(k)[j, :c] - regions[:, :c]
        by_gate = (rows.gate[:, :, None] * shown[:, None, :]).reshape(n, q * c)
        out[own, own] = own_curvature - (r * scores[:, j]).T @ scores[:, j]
        cross = (r * scores[:, j]).T @ by_gate
        out[own, gate], out[gate, own] = -cross, -cross.T
        out[gate, gate] -= (r * by_gate).T @ by_gate
        mean[:, own] = shares[:, j : j + 1] * scores[:, j]
        mean[:, gate] += shares[:, j : j + 1] * by_gate
    bend = np.eye(c) * regions[:, :c, None] - regions[:, :c, None] * regions[:, None, :c]
    both = np.einsum("n,nq,nr,nab->qarb", rows.weights, rows.gate, rows.gate, bend, optimize=True)
    out[gate, gate] += both.reshape(q * c, q * c) + gate_precision
    return out + (mean * rows.weights[:, None]).T @ mean


def parameter_draws(
    center: Float[np.ndarray, " s"],
    root: Float[np.ndarray, "s s"],
    log_posterior: Callable[[Float[np.ndarray, "n s"]], Float[np.ndarray, " n"]] | None,
) -> Float[np.ndarray, "t s"]:
    """Equally probable draws of the normal law, in pairs around the mode; by log p(θ | y) where it is given."""
    rng = np.random.default_rng(0)
    if log_posterior is not None:
        z, log_q = students(latin_hypercube(CANDIDATES // 2, len(center) + 1, rng))
        theta = center + z @ root.T
        with np.errstate(all="ignore"):  # numbers far from the mode
            log_weights, khat, _ = pareto_smooth(log_posterior(theta) - log_q)
        if np.isfinite(khat):
            order = np.argsort(z[:, 0])  # neighbours in one direction: systematic draws then are spread along it
            weights = np.exp(log_weights)
            total = weights[order].cumsum()
            drawn = theta[order[np.searchsorted(total, total[-1] * (np.arange(DRAWS) + 0.5) / DRAWS)]]
            return drawn + (weights @ theta / total[-1] - drawn.mean(0))  # few draws have not quite the mean of all
    z = rng.normal(size=(DRAWS // 2, len(center))) @ root.T
    return center + np.concatenate([z, -z])
