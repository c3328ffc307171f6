"""Gaussian sites of the softmax: the variational posterior of several functions, independent of each other.

    q(f) = Π_c N(f_c | μ_c, V_c),   τ_c = E[p_c(1 - p_c)],   ν_c = 1[y = c] - E[p_c] + τ_cμ_c,   p = softmax(f)

the fixed point of natural gradient ascent on the ELBO with a site for each row and class, as in `sites.py`.
Expectations are over quasi-random nodes of the functions at a row. What the functions have in common the softmax does
not see: the posterior couples them there, and q does not (mean field), so its variances are rather too small than too
large.
Khan & Lin (2017), "Conjugate-computation variational inference"; Girolami & Rogers (2006) for probit classes.
"""

import warnings
from collections.abc import Mapping
from typing import Any

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Float

from credo.core import params
from credo.core.arrays import Array, held, host, is_traced, namespace
from credo.core.device import blas_threads
from credo.core.errors import NotConvergedWarning
from credo.core.linalg import log_determinant, solve_lower
from credo.models.glm.predictions import class_nodes
from credo.models.gp.data import Rows, pack
from credo.models.gp.evidence import CompiledModel, choose_model
from credo.models.gp.sites import LEAST, MAX_STEPS, Found, Marginals, Problem, cavities, settle, speak_up
from credo.models.gp.sites import posterior as posterior_of_one

NODES = 256
LOOSE, SETTLED = 1e-3, 1e-4
"""How far sites have settled, in standard deviations of f, while hyperparameters are sought and at last: the nodes are
exact to about 1e-3."""


class SoftmaxSites(eqx.Module):
    """The sites of each class, and what predictions need of its posterior."""

    nu: Float[Array, "k n"]
    tau: Float[Array, "k n"]
    alpha: Float[Array, "k n"]
    root: Float[Array, "k n n"]

    def told(self, cross: Float[Array, "n m"]) -> Float[Array, "k m"]:
        """By how much the rows reduce the variance of each function at queries: k*ᵀRk*."""
        xp = namespace(self.tau, cross)
        reach = [
            solve_lower(root, xp.sqrt(tau)[:, None] * cross) for root, tau in zip(self.root, self.tau, strict=True)
        ]
        return xp.stack([(half * half).sum(0) for half in reach])


def find(problem: Problem, start: tuple[Array, Array] | None = None, tolerance: float = SETTLED) -> Found:
    """The sites of all classes, with axes of classes and rows."""
    xp = namespace(problem)
    k = problem.likelihood.width + 1
    mine = (problem.y == np.arange(k)[:, None]).astype(float)
    least = LEAST / problem.k.diagonal()

    def posterior(nu: Array, tau: Array) -> Marginals:
        each = [posterior_of_one(problem, *sites) for sites in zip(nu, tau, strict=True)]
        return Marginals(*(xp.stack(parts) for parts in zip(*each, strict=True)))

    def turn(nu: Array, tau: Array, now: Marginals) -> tuple[Array, Array, Array]:
        value, p, curvature = expected_softmax(now.mean, now.variance, mine)
        new = xp.maximum(curvature, least)
        return mine - p + new * now.mean, new, value

    if start is None:
        tau = xp.broadcast_to(xp.asarray((1 / k) * (1 - 1 / k)), mine.shape)
        start = mine - 1 / k + tau * problem.mean, tau
    return settle(posterior, turn, start, tolerance, MAX_STEPS["variational"])


def expected_softmax(
    mean: Float[Array, "k n"], variance: Float[Array, "k n"], mine: Array
) -> tuple[Array, Array, Array]:
    """E[log p_y] of each row, E[p_c], and E[p_c(1 - p_c)] = E[p_c z_c]/σ_c at f_c = μ_c + σ_cz_c.

    The second form is the derivative of the sum over the nodes itself: the bound then has the gradient that is climbed.
    A row's likeliest class takes the last coordinate of the nodes, whichever class it is.
    """
    xp = namespace(mean, variance)
    weights, nodes = class_nodes(NODES, len(mean))
    rank = mean.argsort(0).argsort(0)
    z, std = xp.asarray(nodes)[:, rank], xp.sqrt(variance)
    f = mean + std * z
    top = f.max(1, keepdims=True)
    shares = xp.exp(f - top)
    total = shares.sum(1, keepdims=True)
    p = shares / total
    log_p = ((f - top) * mine).sum(1) - xp.log(total[:, 0])
    return weights @ log_p, xp.tensordot(weights, p, 1), xp.tensordot(weights, p * z, 1) / std


def elbo(problem: Problem, found: Found) -> Float[Array, ""]:
    """Σ E[log p(y | f)] - Σ_c KL."""
    now, tau = found.now, found.tau
    volume = sum(log_determinant(root) for root in now.root)
    return found.fit.sum() - 0.5 * ((now.alpha * (now.mean - problem.mean)).sum() - (tau * now.variance).sum() + volume)


def bound(problem: Problem) -> Float[Array, ""]:
    """The highest ELBO; traceable, its gradient that at fixed sites."""
    found = find(jax.tree.map(held, problem))
    if not is_traced(problem):
        return elbo(problem, found)
    xp, k = namespace(problem), problem.likelihood.width + 1
    each = [posterior_of_one(problem, *sites) for sites in zip(found.nu, found.tau, strict=True)]
    now = Marginals(*(xp.stack(parts) for parts in zip(*each, strict=True)))
    fit = expected_softmax(now.mean, now.variance, (problem.y == np.arange(k)[:, None]).astype(float))[0]
    return elbo(problem, found._replace(now=now, fit=fit))


def posterior_after(problem: Problem, start: tuple[Array, Array] | None = None) -> SoftmaxSites:
    """The sites after the rows, with a warning where they have not settled."""
    with blas_threads(0 if is_traced(problem) else len(problem.y)):
        found = find(problem, start)
    speak_up(found, "the variational approximation")
    return host(SoftmaxSites(found.nu, found.tau, found.now.alpha, found.now.root))


def cavities_of(problem: Problem, solved: SoftmaxSites) -> tuple[Float[Array, "k n"], Float[Array, "k n"]]:
    """Mean and variance of every function at each row, without the row's sites."""
    each = [
        cavities(posterior_of_one(problem, nu, tau), nu, tau) for nu, tau in zip(solved.nu, solved.tau, strict=True)
    ]
    mean, variance = (np.stack(parts) for parts in zip(*each, strict=True))
    return mean, variance


class SoftmaxObjective:
    """The ELBO + log p(θ) of the unconstrained vector, with its gradient."""

    def __init__(self, belief: Any, slots: params.Layout, rows: Rows, priors: Mapping[str, Any]):
        nothing = pack(rows.x, np.zeros(rows.n), np.ones(rows.n), np.zeros(rows.n))
        self._model = choose_model(belief, slots, nothing, priors)
        self._belief, self._rows = belief, rows
        self._covariance = np.zeros((rows.n, rows.n))
        self._sites: tuple[Array, Array] | None = None

    def value(self, vector: np.ndarray) -> float:
        """The objective."""
        return self.value_and_grad(vector)[0]

    def value_and_grad(self, vector: np.ndarray) -> tuple[float, np.ndarray]:
        """The objective and its gradient; (-inf, 0) where it is not finite."""
        from credo.models.gp.latent_evidence import by_covariance

        with blas_threads(self._rows.n), warnings.catch_warnings():
            warnings.simplefilter("ignore", NotConvergedWarning)  # of a place that may not be the last
            below_zero, _, more, pull = self._model.forward(vector, self._covariance)
            k: Array = self._covariance
            if isinstance(self._model, CompiledModel):  # which writes the lower triangle
                k = np.tril(k) + np.tril(k, -1).T
            problem = Problem(self._belief.likelihood, self._rows.y, self._rows.extra, -below_zero, k)
            if not np.all(np.isfinite(k)):
                return -np.inf, np.zeros_like(vector)
            found = find(problem, self._sites, LOOSE)
            value = float(elbo(problem, found))
            if not np.isfinite(value):
                return -np.inf, np.zeros_like(vector)
            self._sites = found.nu, found.tau
            lower, by_residual = np.zeros_like(k), np.zeros(len(k))
            for c, tau in enumerate(found.tau):
                now = Marginals(*(part[c] for part in found.now))
                of_one = by_covariance("variational", problem, found._replace(tau=tau, now=now))
                lower, by_residual = lower + of_one[0], by_residual + of_one[1]
            return value + more, pull(lower, by_residual, np.ones(len(k)))
