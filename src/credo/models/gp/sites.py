"""Gaussian sites: one form for Laplace's approximation, expectation propagation and variational inference.

Each likelihood term is replaced by a site exp(νf - ½τf²), so that f ~ N(m, K) has the posterior N(μ, V) with

    B = I + S^½KS^½ = LLᵀ,   S = diag(τ),   R = S^½B⁻¹S^½
    V = K - KRK,   α = K⁻¹(μ - m) = ν - τμ,   μ = m + K(b - RKb),   b = ν - τm

and at new inputs the mean m* + k*ᵀα and the variance k** - k*ᵀRk*. The methods differ in what the sites are:

    Laplace        τ = -∂² log p, ν = τf̂ + ∂ log p at the mode f̂
    EP             what makes the moments of site × cavity those of p(y | f) × cavity
    variational    τ = -2 ∂E[log p]/∂v, ν = ∂E[log p]/∂μ + τμ, the fixed point of natural gradient ascent on the ELBO

and in how they measure log p(y). By K the derivative of that measure is ½(ααᵀ - R), at fixed sites, for the last two;
Laplace's mode moves with K, which adds the symmetric part of uαᵀ, u = (I - RK)s, s = ½ diag(V) ∂³ log p.

Rasmussen & Williams (2006), algorithms 3.1 and 3.5, §5.5; Opper & Archambeau (2009), "The variational Gaussian
approximation revisited"; Khan & Lin (2017), "Conjugate-computation variational inference".
"""

from collections.abc import Callable
from typing import NamedTuple

import equinox as eqx
import numpy as np
from jaxtyping import Float

from credo.core.arrays import Array, namespace
from credo.core.linalg import factorize, inverse, log_determinant, plus_diagonal, solve_lower
from credo.core.loops import quiet, while_loop
from credo.models.likelihoods import Likelihood
from credo.models.likelihoods.expectations import expected, tilted

TOLERANCE = 1e-6
"""Sites have settled when none moves μ or log V by more than this many standard deviations of f."""
MAX_STEPS = {"laplace": 100, "ep": 200, "variational": 300}
DAMPING = 1.0
"""The share of a step that is taken at first; where steps grow it is halved."""
LEAST = 1e-10
"""The least precision of a site, in units of 1/diag(K)."""


class Sites(eqx.Module):
    """The sites, and what predictions need of the posterior."""

    nu: Float[Array, " n"]
    tau: Float[Array, " n"]
    alpha: Float[Array, " n"]
    root: Float[Array, "n n"]
    """L."""


class Problem(NamedTuple):
    """What is known: p(y | f + offset) and f ~ N(mean, k)."""

    likelihood: Likelihood
    y: Float[Array, " n"]
    offset: Float[Array, " n"]
    mean: Float[Array, " n"]
    k: Float[Array, "n n"]


class Marginals(NamedTuple):
    """The posterior that belongs to the sites."""

    mean: Float[Array, " n"]
    variance: Float[Array, " n"]
    alpha: Float[Array, " n"]
    root: Float[Array, "n n"]


class Found(NamedTuple):
    """The sites of a method, and whether they had settled."""

    nu: Float[Array, " n"]
    tau: Float[Array, " n"]
    change: Float[Array, ""]
    """What still moved at the last step, in the units of `TOLERANCE`."""
    steps: Float[Array, ""]


def posterior(problem: Problem, nu: Array, tau: Array) -> Marginals:
    """μ, diag(V), α and L."""
    k, mean, xp = problem.k, problem.mean, namespace(problem, nu, tau)
    half = xp.sqrt(tau)
    root = factorize(plus_diagonal(half[:, None] * k * half, xp.ones(len(tau)))).root
    reach = solve_lower(root, half[:, None] * k)
    b = nu - tau * mean
    at = mean + k @ b - reach.T @ (reach @ b)
    variance = xp.maximum(xp.diagonal(k) - (reach * reach).sum(0), 1e-12 * xp.diagonal(k))
    return Marginals(at, variance, nu - tau * at, root)


def precision(tau: Array, root: Array) -> Float[Array, "n n"]:
    """R = S^½B⁻¹S^½."""
    half = namespace(tau).sqrt(tau)
    return half[:, None] * inverse(root) * half


# -- Laplace ---------------------------------------------------------------------------------------------------------


@quiet
def laplace(problem: Problem, start: tuple[Array, Array] | None = None) -> Found:
    """Newton's method for the mode of p(y | f) p(f), with steps halved until they climb."""
    likelihood, y, offset, mean, k = problem
    xp = namespace(problem)
    State = tuple[Array, Array, Array, Array]

    def height(alpha: Array) -> Array:
        f = mean + k @ alpha
        value = likelihood.log_prob(f + offset, y).sum() - 0.5 * alpha @ (f - mean)
        return xp.where(xp.isfinite(value), value, -np.inf)

    def unfinished(state: State) -> Array:
        _, _, change, step = state
        return (change > TOLERANCE) & (step < MAX_STEPS["laplace"])

    def turn(state: State) -> State:
        alpha, value, _, step = state
        nu, tau = laplace_sites(problem, mean + k @ alpha)
        now = posterior(problem, nu, tau)
        direction = now.alpha - alpha
        size = xp.max(xp.abs(k @ direction) / xp.sqrt(now.variance))

        def lower(trial: tuple[Array, Array]) -> Array:
            return (trial[1] < value - 1e-12 * xp.abs(value)) & (trial[0] > 1e-6)

        def shorter(trial: tuple[Array, Array]) -> tuple[Array, Array]:
            return trial[0] / 2, height(alpha + trial[0] / 2 * direction)

        share, new = while_loop(lower, shorter, (xp.asarray(1.0), height(alpha + direction)))
        return alpha + share * direction, new, size, step + 1

    zero = xp.zeros(len(y)) if start is None else posterior(problem, *start).alpha
    alpha, _, change, steps = while_loop(unfinished, turn, (zero, height(zero), xp.asarray(np.inf), xp.asarray(0)))
    return Found(*laplace_sites(problem, mean + k @ alpha), change, steps)


def laplace_sites(problem: Problem, f: Array) -> tuple[Array, Array]:
    """ν and τ at f."""
    _, slope, bend = problem.likelihood.eta_terms()(f + problem.offset, problem.y)
    tau = namespace(problem, f).maximum(-bend, LEAST / problem.k.diagonal())
    return tau * f + slope, tau


# -- expectation propagation -----------------------------------------------------------------------------------------


def cavities(now: Marginals, nu: Array, tau: Array) -> tuple[Array, Array]:
    """Mean and variance of each value of f without its own site."""
    variance = 1 / namespace(now, tau).maximum(1 / now.variance - tau, 1e-10 / now.variance)
    return variance * (now.mean / now.variance - nu), variance


def expectation_propagation(problem: Problem, start: tuple[Array, Array], tolerance: float = TOLERANCE) -> Found:
    """All sites at once, damped, until none moves."""

    def turn(nu: Array, tau: Array, now: Marginals) -> tuple[Array, Array]:
        mean, variance = cavities(now, nu, tau)
        found = tilted(problem.likelihood, problem.y, problem.offset, mean, variance)
        least = LEAST / problem.k.diagonal()
        new = namespace(problem, nu).maximum(1 / found.variance - 1 / variance, least)
        return found.mean * (new + 1 / variance) - mean / variance, new

    return _settle(problem, turn, start, tolerance, MAX_STEPS["ep"])


# -- variational -----------------------------------------------------------------------------------------------------


def variational(problem: Problem, start: tuple[Array, Array], tolerance: float = TOLERANCE) -> Found:
    """Natural gradient steps of the ELBO in the dual parametrization, each of which is a fixed-point step."""

    def turn(nu: Array, tau: Array, now: Marginals) -> tuple[Array, Array]:
        found = expected(problem.likelihood, problem.y, problem.offset, now.mean, now.variance)
        new = namespace(problem, nu).maximum(-2 * found.by_variance, LEAST / problem.k.diagonal())
        return found.by_mean + new * now.mean, new

    return _settle(problem, turn, start, tolerance, MAX_STEPS["variational"])


Turn = Callable[[Array, Array, Marginals], tuple[Array, Array]]


@quiet
def _settle(problem: Problem, turn: Turn, start: tuple[Array, Array], tolerance: float, most: int) -> Found:
    """Damped steps from ν, τ to what `turn` makes of them; where they grow instead, shorter ones."""
    xp = namespace(problem, start)
    State = tuple[Array, Array, Array, Array, Array]

    def unfinished(state: State) -> Array:
        _, _, _, change, step = state
        return (change > tolerance) & (step < most)

    def advance(state: State) -> State:
        nu, tau, share, last, step = state
        now = posterior(problem, nu, tau)
        new_nu, new_tau = turn(nu, tau, now)
        by_mean = xp.abs(new_nu - nu - (new_tau - tau) * now.mean) * xp.sqrt(now.variance)
        change = xp.max(xp.maximum(by_mean, xp.abs(new_tau - tau) * now.variance))
        share = xp.where(change > last, xp.maximum(share / 2, 0.05), xp.minimum(1.1 * share, DAMPING))
        return nu + share * (new_nu - nu), tau + share * (new_tau - tau), share, change, step + 1

    first = (*start, xp.asarray(DAMPING), xp.asarray(np.inf), xp.asarray(0))
    nu, tau, _, change, steps = while_loop(unfinished, advance, first)
    return Found(nu, tau, change, steps)


# -- how probable the data are ---------------------------------------------------------------------------------------


def log_evidence(method: str, problem: Problem, nu: Array, tau: Array, now: Marginals) -> Float[Array, ""]:
    """The method's measure of log p(y) at these sites and their posterior."""
    likelihood, y, offset, mean, k = problem
    xp = namespace(problem, nu, tau)
    occam = -0.5 * log_determinant(now.root)
    if method == "laplace":
        fit = likelihood.log_prob(now.mean + offset, y).sum()
        return fit - 0.5 * now.alpha @ (now.mean - mean) + occam
    if method == "variational":
        fit = expected(likelihood, y, offset, now.mean, now.variance).value.sum()
        explained = (precision(tau, now.root) * k).sum()
        return fit - 0.5 * (now.alpha @ (now.mean - mean) - explained) + occam
    center, spread = cavities(now, nu, tau)
    b = nu - tau * mean
    whole = nu @ mean - 0.5 * tau @ mean**2 + 0.5 * b @ (now.mean - mean) + occam
    each = tilted(likelihood, y, offset, center, spread).log_z
    parts = now.mean**2 / now.variance - center**2 / spread + xp.log(now.variance / spread)
    return whole + (each - 0.5 * parts).sum()
