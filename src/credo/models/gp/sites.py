"""Gaussian sites: one form for Laplace's approximation, expectation propagation and variational inference.

Each likelihood term is replaced by a site exp(νf - ½τf²), so that f ~ N(m, K) has the posterior N(μ, V) with

    B = I + S^½KS^½ = LLᵀ,   S = diag(τ),   R = S^½B⁻¹S^½
    V = K - KRK,   diag(V) = (1 - diag(B⁻¹))/τ,   α = K⁻¹(μ - m) = ν - τμ = b - RKb,   b = ν - τm

and at new inputs the mean m* + k*ᵀα and the variance k** - k*ᵀRk*. The methods differ in what the sites are:

    Laplace        τ = -∂² log p, ν = τf̂ + ∂ log p at the mode f̂
    EP             what makes the moments of site × cavity those of p(y | f) × cavity
    variational    τ = -2 ∂E[log p]/∂v, ν = ∂E[log p]/∂μ + τμ, the fixed point of natural gradient ascent on the ELBO

and in how they measure log p(y). By K the derivative of that measure is ½(ααᵀ - R), at fixed sites, for the last two;
Laplace's mode moves with K, which adds the symmetric part of uαᵀ, u = (I - RK)s, s = ½ diag(V) ∂³ log p.

Rasmussen & Williams (2006), algorithms 3.1 and 3.5, §5.5; Opper & Archambeau (2009), "The variational Gaussian
approximation revisited"; Khan & Lin (2017), "Conjugate-computation variational inference".
"""

import warnings
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import equinox as eqx
import numpy as np
from jaxtyping import Float

from credo.core.arrays import Array, is_traced, namespace
from credo.core.errors import NotConvergedWarning
from credo.core.linalg import factorize_whitened, inverse_root, log_determinant, solve
from credo.core.loops import quiet, while_loop
from credo.models.likelihoods import Likelihood
from credo.models.likelihoods.expectations import expected, tilted

TOLERANCE = 1e-6
"""Sites have settled when none moves μ or log V by more than this many standard deviations of f."""
LOOSELY = 1e-2
"""As far as Laplace's mode need be found to start another method's sites from."""
MAX_STEPS = {"laplace": 100, "ep": 200, "variational": 300}
DAMPING = 1.0
"""The share of a step that is taken at first; where steps grow it is halved."""
LEAST = 1e-8
"""The least precision of a site, in units of 1/diag(K): far below what a row could be told by, and large enough for
diag(V) to be read off diag(B⁻¹)."""


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
    inverse_root: Float[Array, "n n"]


class Start(NamedTuple):
    """Where to look for sites: those of other hyperparameters, or of some of the rows."""

    nu: Float[Array, " n"]
    tau: Float[Array, " n"]
    alpha: Float[Array, " n"]


class Found(NamedTuple):
    """The sites of a method, their posterior, and whether they had settled."""

    nu: Float[Array, " n"]
    tau: Float[Array, " n"]
    now: Marginals
    fit: Float[Array, " n"]
    """What each row adds to the method's measure of log p(y): log p at the mode, log Z, or E[log p]."""
    change: Float[Array, ""]
    """What still moved at the last step, in the units of `TOLERANCE`."""
    steps: Float[Array, ""]


def posterior(problem: Problem, nu: Array, tau: Array) -> Marginals:
    """μ, diag(V), α, L and L⁻¹."""
    k, mean, xp = problem.k, problem.mean, namespace(problem, nu, tau)
    half = xp.sqrt(tau)
    root = factorize_whitened(k, half).root
    inverse = inverse_root(root)
    b = nu - tau * mean
    alpha = b - half * (inverse.T @ (inverse @ (half * (k @ b))))
    variance = (1 - (inverse * inverse).sum(0)) / tau
    prior = xp.diagonal(k)
    return Marginals(mean + k @ alpha, xp.clip(variance, 1e-12 * prior, prior), alpha, root, inverse)


# -- Laplace ---------------------------------------------------------------------------------------------------------


@quiet
def laplace(problem: Problem, start: Array | None = None, tolerance: float = TOLERANCE) -> Found:
    """Newton's method for the mode of p(y | f) p(f), from α, with steps halved until they climb.

    It ends with a step whose Newton decrement, (dᵀ(K⁻¹ + W)d)^½ of a step d of f, is below the tolerance: then no value
    moved by more standard deviations.
    """
    likelihood, y, offset, mean, k = problem
    xp = namespace(problem)
    State = tuple[Array, Array, Array, Array]

    def height(alpha: Array) -> Array:
        f = mean + k @ alpha
        value = likelihood.log_prob(f + offset, y).sum() - 0.5 * alpha @ (f - mean)
        return xp.where(xp.isfinite(value), value, -np.inf)

    def unfinished(state: State) -> Array:
        _, _, change, step = state
        return (change > tolerance) & (step < MAX_STEPS["laplace"])

    def turn(state: State) -> State:
        alpha, value, _, step = state
        nu, tau = laplace_sites(problem, mean + k @ alpha)
        half, b = xp.sqrt(tau), nu - tau * mean
        direction = b - half * solve(factorize_whitened(k, half).root, half * (k @ b)) - alpha
        moved = k @ direction
        size = xp.sqrt(xp.maximum(direction @ moved + tau @ moved**2, 0.0))

        def lower(trial: tuple[Array, Array]) -> Array:
            return (trial[1] < value - 1e-12 * xp.abs(value)) & (trial[0] > 1e-6)

        def shorter(trial: tuple[Array, Array]) -> tuple[Array, Array]:
            return trial[0] / 2, height(alpha + trial[0] / 2 * direction)

        share, new = while_loop(lower, shorter, (xp.asarray(1.0), height(alpha + direction)))
        return alpha + share * direction, new, size, step + 1

    zero = xp.zeros(len(y)) if start is None else start
    alpha, _, change, steps = while_loop(unfinished, turn, (zero, height(zero), xp.asarray(np.inf), xp.asarray(0)))
    nu, tau = laplace_sites(problem, mean + k @ alpha)
    now = posterior(problem, nu, tau)
    return Found(nu, tau, now, likelihood.log_prob(now.mean + offset, y), change, steps)


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

    def turn(nu: Array, tau: Array, now: Marginals) -> tuple[Array, Array, Array]:
        mean, variance = cavities(now, nu, tau)
        found = tilted(problem.likelihood, problem.y, problem.offset, mean, variance)
        least = LEAST / problem.k.diagonal()
        new = namespace(problem, nu).maximum(1 / found.variance - 1 / variance, least)
        return found.mean * (new + 1 / variance) - mean / variance, new, found.log_z

    return settle(partial(posterior, problem), turn, start, tolerance, MAX_STEPS["ep"])


# -- variational -----------------------------------------------------------------------------------------------------


def variational(problem: Problem, start: tuple[Array, Array], tolerance: float = TOLERANCE) -> Found:
    """Natural gradient steps of the ELBO in the dual parametrization, each of which is a fixed-point step."""

    def turn(nu: Array, tau: Array, now: Marginals) -> tuple[Array, Array, Array]:
        found = expected(problem.likelihood, problem.y, problem.offset, now.mean, now.variance)
        new = namespace(problem, nu).maximum(-2 * found.by_variance, LEAST / problem.k.diagonal())
        return found.by_mean + new * now.mean, new, found.value

    return settle(partial(posterior, problem), turn, start, tolerance, MAX_STEPS["variational"])


Turn = Callable[[Array, Array, Marginals], tuple[Array, Array, Array]]
"""From sites and their posterior to better sites, and what each row adds to log p(y)."""


class _Look(NamedTuple):
    """Sites with their posterior, and where they would move."""

    nu: Array
    tau: Array
    now: Marginals
    fit: Array
    nu_step: Array
    tau_step: Array
    scaled: Float[Array, " 2n"]
    """The step in standard deviations of f, of means and of log variances."""
    change: Array


@quiet
def settle(
    posterior_of: Callable[[Array, Array], Marginals],
    turn: Turn,
    start: tuple[Array, Array],
    tolerance: float,
    most: int,
) -> Found:
    """Damped steps from ν, τ to what `turn` makes of them, extrapolated; where they grow instead, shorter ones.

    Steps that shrink by a common factor are extrapolated to where they would end, by Anderson's acceleration with one
    step remembered: Walker & Ni (2011), "Anderson acceleration for fixed-point iterations".
    """
    first = posterior_of(*start)
    xp = namespace(first, start)
    State = tuple[_Look, Array, Array, Array, Array]

    def look(nu: Array, tau: Array, now: Marginals) -> _Look:
        new_nu, new_tau, fit = turn(nu, tau, now)
        nu_step, tau_step = new_nu - nu, new_tau - tau
        by_mean, by_variance = (nu_step - tau_step * now.mean) * xp.sqrt(now.variance), tau_step * now.variance
        scaled = xp.concatenate([by_mean, by_variance]).reshape(-1)
        return _Look(nu, tau, now, fit, nu_step, tau_step, scaled, xp.max(xp.abs(scaled)))

    def unfinished(state: State) -> Array:
        at, *_, step = state
        return (at.change > tolerance) & (step < most)

    def advance(state: State) -> State:
        at, nu_step, tau_step, share, step = state
        nu, tau = at.nu + share * nu_step, at.tau + share * tau_step
        new = look(nu, tau, posterior_of(nu, tau))
        grew = new.change > at.change
        share = xp.where(grew, xp.maximum(share / 2, 0.05), xp.minimum(1.1 * share, DAMPING))
        difference = new.scaled - at.scaled
        back = xp.where(grew, 0.0, new.scaled @ difference / xp.maximum(difference @ difference, 1e-300))
        onward = [
            step - back * (after - before + step - earlier)
            for step, after, before, earlier in (
                (new.nu_step, new.nu, at.nu, at.nu_step),
                (new.tau_step, new.tau, at.tau, at.tau_step),
            )
        ]
        safe = xp.all(new.tau + onward[1] > 0.1 * (new.tau + new.tau_step))
        nu_step, tau_step = (
            xp.where(safe, far, near) for far, near in zip(onward, (new.nu_step, new.tau_step), strict=True)
        )
        return new, nu_step, tau_step, share, step + 1

    begin = look(*start, first)
    state = (begin, begin.nu_step, begin.tau_step, xp.asarray(DAMPING), xp.asarray(1))
    at, *_, steps = while_loop(unfinished, advance, state)
    return Found(at.nu, at.tau, at.now, at.fit, at.change, steps)


# -- the method's ----------------------------------------------------------------------------------------------------


def find_sites(
    method: str, problem: Problem, start: Start | None = None, tolerance: float = TOLERANCE
) -> tuple[str, Found]:
    """The method's sites; where EP does not settle, the variational ones. Which they are is the first of the answer."""
    if method == "laplace":
        found = laplace(problem, None if start is None else start.alpha, tolerance)
        speak_up(found, "Laplace's mode")
        return method, found
    nu, tau = laplace(problem, None, LOOSELY)[:2] if start is None else (start.nu, start.tau)
    if method == "ep":
        found = expectation_propagation(problem, (nu, tau), tolerance)
        if is_traced(found) or float(found.change) <= tolerance:
            return method, found
        warnings.warn(
            f"expectation propagation did not settle in {int(found.steps)} steps; the variational approximation is "
            "used instead (using=Variational() asks for it)",
            NotConvergedWarning,
            stacklevel=4,
        )
        nu, tau = laplace(problem, None, LOOSELY)[:2]
    found = variational(problem, (nu, tau), tolerance)
    speak_up(found, "the variational approximation")
    return "variational", found


def speak_up(found: Found, what: str) -> None:
    """A warning where sites have not settled."""
    if not is_traced(found) and float(found.change) > 1e3 * TOLERANCE:
        warnings.warn(
            f"{what} had not settled after {int(found.steps)} steps (still moving by {float(found.change):.1g} "
            "standard deviations); look at the lengthscale and the variance of the kernel, or use another method",
            NotConvergedWarning,
            stacklevel=4,
        )


# -- how probable the data are ---------------------------------------------------------------------------------------


def measure(method: str, problem: Problem, nu: Array, tau: Array, now: Marginals) -> Float[Array, " n"]:
    """What each row adds to the method's measure of log p(y)."""
    likelihood, y, offset, *_ = problem
    if method == "laplace":
        return likelihood.log_prob(now.mean + offset, y)
    if method == "variational":
        return expected(likelihood, y, offset, now.mean, now.variance).value
    return tilted(likelihood, y, offset, *cavities(now, nu, tau)).log_z


def moving(method: str, problem: Problem, found: Found) -> Found:
    """The same of a problem that moves: the sites stay where they were found, but Laplace's are those of its mode."""
    nu, tau = found.nu, found.tau
    if method == "laplace":
        nu, tau = laplace_sites(problem, posterior(problem, nu, tau).mean)
    now = posterior(problem, nu, tau)
    return found._replace(nu=nu, tau=tau, now=now, fit=measure(method, problem, nu, tau, now))


def log_evidence(method: str, problem: Problem, found: Found) -> Float[Array, ""]:
    """The method's measure of log p(y) at these sites and their posterior."""
    mean, (nu, tau, now, fit, *_), xp = problem.mean, found, namespace(problem, found)
    occam = fit.sum() - 0.5 * log_determinant(now.root)
    if method == "laplace":
        return occam - 0.5 * now.alpha @ (now.mean - mean)
    if method == "variational":
        return occam - 0.5 * (now.alpha @ (now.mean - mean) - tau @ now.variance)
    center, spread = cavities(now, nu, tau)
    b = nu - tau * mean
    whole = nu @ mean - 0.5 * tau @ mean**2 + 0.5 * b @ (now.mean - mean)
    parts = now.mean**2 / now.variance - center**2 / spread + xp.log(now.variance / spread)
    return occam + whole - 0.5 * parts.sum()
