"""The gate of a mixture of experts: a softmax model learned from shares instead of labels, by Newton's method."""

import numpy as np
from jaxtyping import Float

from credo.core.arrays import Array, special
from credo.core.pytrees import plain_methods
from credo.models.glm.newton import GaussianPrior, Rows, ascend, height
from credo.models.likelihoods.base import Terms
from credo.models.likelihoods.classes import Categorical, _logits

SHORT = 1e-3
"""The gate has arrived with a step of so few standard deviations: the next E-step moves it by more."""


class Shares(Categorical):
    """Σₖ yₖ log softmax(η)ₖ for shares y (n, k) of the classes, rather than one label."""

    __getattribute__ = plain_methods

    def log_prob(self, eta: Float[Array, "..."], y: Float[Array, "..."]) -> Float[Array, "..."]:
        """Σ yₖηₖ - (Σ yₖ) log Σ e^ηⱼ."""
        return (y * _logits(eta)).sum(-1) - y.sum(-1) * special(eta, y).logsumexp(_logits(eta), axis=-1)

    def terms(self, z: Float[Array, "..."], y: Float[Array, "..."]) -> Terms:
        """y - (Σy)p and (Σy)(diag(p) - ppᵀ)."""
        p, total = self.mean(z)[..., :-1], y.sum(-1)
        curvature = np.eye(z.shape[-1]) * p[..., None] - p[..., None] * p[..., None, :]
        return self.log_prob(z, y), y[..., :-1] - total[..., None] * p, total[..., None, None] * curvature


def gate_prior(q: int, k: int, precision: float) -> GaussianPrior:
    """Weights of all k experts ~ N(0, 1/precision), seen as differences to the last; the constant has a tenth of it."""
    each = np.full(q, precision)
    each[0] *= 0.1
    return GaussianPrior(np.zeros(q * (k - 1)), np.kron(np.diag(each), np.eye(k - 1) - 1 / k), np.zeros(()), False)


def gate_step(
    design: Float[np.ndarray, "n q"], shares: Float[np.ndarray, "n k"], gate: Float[np.ndarray, "q c"], precision: float
) -> Float[np.ndarray, "q c"]:
    """argmax Σ shares · log gate(x) + log p(gate), from where the gate is: it is concave, and no step loses."""
    k, n = shares.shape[1], len(design)
    rows = Rows(design, shares, np.ones(n), np.zeros(n), Shares(tuple(range(k))))
    prior = gate_prior(design.shape[1], k, precision)
    return np.asarray(ascend(lambda u: height(prior, rows, u), gate.ravel(), SHORT).u).reshape(gate.shape)
