"""How far a normal approximation can be trusted, and its correction by importance weights.

    u_i ~ t(center, root rootᵀ),    w_i ∝ p(u_i) / t(u_i),    E[f] ≈ Σ w_i f(u_i),    p(data) ≈ mean of the w_i

The draws are of Student's t around the approximation: a normal law has thinner tails than most posteriors, and the
weights would have no variance however close it is. The largest weights are replaced by quantiles of a generalized
Pareto law that is fitted to them (PSIS); its shape k̂ says how heavy their tail is: below 0.5 all is well, up to 0.7
the weighted answers are usable, beyond that they are not. A mode that no draw has seen is not noticed: tempering
(`SMC`) looks for those. Vehtari, Simpson, Gelman, Yao & Gabry (2024), "Pareto smoothed importance sampling", JMLR 25;
Yao, Vehtari, Simpson & Gelman (2018), "Yes, but did it work?".
"""

from collections.abc import Callable, Sequence
from functools import partial

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Float, PyTree
from scipy.special import gammaincinv, gammaln, logsumexp

from credo.core.arrays import Array, namespace
from credo.core.checks import check_count
from credo.infer.posterior import NormalApproximation, Posterior
from credo.infer.quasi_random import latin_hypercube, normals_at, sobol
from credo.infer.resampling import chosen
from credo.infer.target import ParameterSpace, Target

LogDensities = Callable[[Array], Array]
"""log p(u) at many points."""

GOOD, USABLE = 0.5, 0.7
BLOCK = 256
"""Draws that are evaluated by one call of a compiled program, however many there are."""
AT_A_TIME = 32
"""Of these, how many at once: their intermediate results should fit into the cache."""
LEAST_ESS = 200
ROUGH = 0.2
"""An approximation is called rough from this error on, in standard deviations (means) or logarithms (deviations)."""
MISSES = "The approximation misses part of the posterior (Pareto k-hat {:.2f}, should be below 0.7): use NUTS()."


class WeightedDraws(Posterior):
    """Draws of the unconstrained vector with importance weights."""

    space: ParameterSpace
    draws: Float[Array, "n k"]
    log_weights: Float[Array, " n"]
    """Their logarithms; the weights sum to one."""
    khat: Float[Array, ""]
    log_evidence: Float[Array, ""]
    """The importance-sampling estimate of log p(data)."""
    notes: tuple[str, ...] = eqx.field(static=True, default=())

    @property
    def ess(self) -> Float[Array, ""]:
        """1 / Σ wᵢ²: how many independent draws of the posterior these are worth."""
        return 1.0 / namespace(self.log_weights).exp(2 * self.log_weights).sum()

    def vectors(self, n: int, rng: np.random.Generator) -> Float[Array, "n k"]:
        """n of the draws, by their weights."""
        weights = np.exp(self.log_weights)
        return np.asarray(self.draws)[rng.choice(len(weights), n, p=weights / weights.sum())]

    def kept(self) -> Float[Array, "n k"]:
        """As many equally weighted ones, by systematic resampling."""
        return self.draws[chosen(namespace(self.log_weights).exp(self.log_weights), np.asarray(0.5))]

    @property
    def mean(self) -> PyTree:
        """E[θ | data] = Σ wᵢ θᵢ, as a pytree."""
        weights = np.exp(self.log_weights)
        return jax.tree.map(lambda v: np.tensordot(weights, v, axes=1), self.space.tree(self.draws))

    @property
    def std(self) -> PyTree:
        """The posterior standard deviations, as a pytree."""
        weights = np.exp(self.log_weights)
        spread = lambda v, m: np.sqrt(np.tensordot(weights, np.square(v - m), axes=1))  # noqa: E731
        return jax.tree.map(spread, self.space.tree(self.draws), self.mean)


def importance(posterior: NormalApproximation, target: Target, draws: int = 4000, seed: int = 0) -> WeightedDraws:
    """A normal approximation of `target` (by Laplace, variational), corrected by smoothed importance weights.

    `khat` says whether that works, `verdict` in words; `log_evidence` is the estimate that goes with it.
    """
    check_count(draws, "draws", 50)
    points = sobol_points(int(draws) + int(draws) % 2, len(posterior.root), [seed, int(draws)])
    u, log_weights, khat, evidence = _weigh(posterior, partial(log_densities, target), points)
    notes = [MISSES.format(khat)] if khat >= USABLE else []
    ess = 1.0 / np.exp(2 * log_weights).sum()
    if ess < min(LEAST_ESS, draws / 4):
        notes.append(f"The weights leave {ess:.0f} effective draws of {draws}: raise draws, or use NUTS().")
    return WeightedDraws(posterior.space, u, log_weights, np.asarray(khat), np.asarray(evidence), tuple(notes))


def check_by_psis(posterior: NormalApproximation, target: Target, draws: int = 1024, seed: int = 0) -> tuple[str, ...]:
    """What importance weights say about a normal approximation, in words; nothing where it is good."""
    return psis_notes(posterior, partial(log_densities, target), draws, seed)


def psis_notes(
    posterior: NormalApproximation, density: LogDensities, draws: int = 1024, seed: int = 0
) -> tuple[str, ...]:
    """`check_by_psis` of a density by its values at many points."""
    # Not Sobol points: `scipy.stats` takes half a second to import, and this is on the way of a first fit.
    points = latin_hypercube(draws // 2, len(posterior.root) + 1, np.random.default_rng([seed, draws]))
    u, log_weights, khat, _ = _weigh(posterior, density, points)
    if khat >= USABLE:
        return (MISSES.format(khat),)
    weights = np.exp(log_weights)
    mean = weights @ u
    sd = np.sqrt(weights @ (u - mean) ** 2)
    own = np.sqrt(np.square(np.asarray(posterior.root)).sum(1))
    off, ratio = np.abs(mean - np.asarray(posterior.center)) / sd, own / sd
    remedy = "Correct it with importance(posterior, target), or use NUTS()."
    names = [name or "θ" for name in posterior.space.names]
    rough, notes = ROUGH + 2.0 * np.sqrt(np.sum(weights**2)), []
    if off.max() > rough:
        i = int(off.argmax())
        notes.append(f"The mean of {names[i]} is off by {off[i]:.2g} standard deviations. {remedy}")
    if np.abs(np.log(ratio)).max() > rough:
        i = int(np.abs(np.log(ratio)).argmax())
        notes.append(f"The standard deviation of {names[i]} is {ratio[i]:.2g} of what it should be. {remedy}")
    if khat >= GOOD and not notes:
        notes.append(f"The tails of the approximation are doubtful (Pareto k-hat {khat:.2f}). {remedy}")
    return tuple(notes)


def _weigh(
    posterior: NormalApproximation, density: LogDensities, points: Float[np.ndarray, "h c"]
) -> tuple[Float[np.ndarray, "n k"], Float[np.ndarray, " n"], float, float]:
    """Draws around the approximation, their log weights, k̂ and the log evidence."""
    root = np.asarray(posterior.root)
    z, log_q = students(points)
    u = np.asarray(posterior.center) + z @ root.T
    return u, *pareto_smooth(density(u) - log_q + np.log(np.diagonal(root)).sum())


def sobol_points(n: int, k: int, seed: int | Sequence[int]) -> Float[np.ndarray, "h c"]:
    """The points for n (an even number) quasi-random draws of k columns."""
    rng = np.random.default_rng(seed)
    return np.hstack([latin_hypercube(n // 2, 1, rng), sobol(n // 2, k, rng)])


def students(
    points: Float[np.ndarray, "h c"], degrees: float | None = None
) -> tuple[Float[np.ndarray, "n k"], Float[np.ndarray, " n"]]:
    """2h draws of a standard t with k = c - 1 columns, and their log densities; None is 5 + k degrees of freedom.

    They come from points of the unit cube, whose first column says how far a draw is stretched.
    """
    k = points.shape[1] - 1
    degrees = 5.0 + k if degrees is None else degrees
    stretch = np.sqrt(0.5 * degrees / gammaincinv(0.5 * degrees, points[:, 0]))
    z = normals_at(points[:, 1:]) * np.tile(stretch, 2)[:, None]
    return z, log_student(z, degrees)


def log_student(z: Float[np.ndarray, "n k"], degrees: float) -> Float[np.ndarray, " n"]:
    """The log density of a standard t of k columns."""
    k = z.shape[1]
    constant = gammaln(0.5 * (degrees + k)) - gammaln(0.5 * degrees) - 0.5 * k * np.log(np.pi * degrees)
    return constant - 0.5 * (degrees + k) * np.log1p((z**2).sum(1) / degrees)


def pareto_smooth(log_ratios: Float[Array, " n"]) -> tuple[Float[np.ndarray, " n"], float, float]:
    """Normalized log weights smoothed by PSIS, k̂, and the log of the mean ratio.

    A ratio that is not finite has no weight; ratios that are all equal up to rounding have no tail, k̂ = 0.
    """
    log_ratios = np.where(np.isfinite(log_ratios), log_ratios, -np.inf)
    log_ratios = np.where(log_ratios > log_ratios.max() - 700.0, log_ratios, -np.inf)
    finite = log_ratios[np.isfinite(log_ratios)]
    n = len(log_ratios)
    if len(finite) < 25:
        return np.full(n, -np.log(n)), float("inf"), float("-inf")
    if np.ptp(log_ratios) < 1e-8:
        return np.full(n, -np.log(n)), 0.0, float(finite.mean())
    with np.errstate(divide="ignore", invalid="ignore"):
        log_weights, khat = psis(log_ratios)
    if not np.all(np.isfinite(log_weights[np.isfinite(log_ratios)])) or not np.isfinite(khat):
        top = log_ratios.max()
        total = top + np.log(np.exp(log_ratios - top).sum())
        return log_ratios - total, float("inf"), float(total - np.log(n))
    # The smallest weight is not in the tail: it was only normalized, by the sum of all ratios.
    low = int(np.flatnonzero(log_ratios == finite.min())[0])
    return log_weights, float(khat), float(log_ratios[low] - log_weights[low] - np.log(n))


def psis(log_ratios: Float[np.ndarray, " n"]) -> tuple[Float[np.ndarray, " n"], float]:
    """Normalized log weights, the M = min(3√n, n/5) largest by quantiles of a fitted Pareto law, and its shape k̂.

    Tails with k̂ < 1/3 are left as they are. Vehtari et al. (2024), algorithm 1.
    """
    n = len(log_ratios)
    m = min(max(int(3.0 * np.sqrt(n)), 5), n // 5)
    order = np.argsort(log_ratios, kind="stable")
    log_weights = log_ratios - log_ratios.max()
    tail, below = order[n - m :], np.exp(log_weights[order[n - m - 1]])
    ratios = np.exp(log_weights[tail])
    shape, scale = pareto_fit(ratios - below)
    if shape >= 1 / 3:
        levels = (np.arange(m) + 0.5) / m
        quantiles = below + scale * np.expm1(-shape * np.log1p(-levels)) / shape
        log_weights[tail] = np.log(np.minimum(quantiles, ratios[-1]))
    return log_weights - logsumexp(log_weights), float(shape)


def pareto_fit(excess: Float[np.ndarray, " m"]) -> tuple[float, float]:
    """Shape and scale of a generalized Pareto law for ascending excesses over a threshold, by empirical Bayes.

    The shape has a weak prior around ½, worth ten draws. Zhang & Stephens (2009), "A new and efficient estimation
    method for the generalized Pareto distribution".
    """
    m = len(excess)
    if excess[-1] < np.finfo(float).tiny:
        return 0.0, 0.0
    points = 30 + int(np.sqrt(m))
    rates = 1.0 - np.sqrt(points / (np.arange(1, points + 1) - 0.5))
    rates = rates / (3 * excess[int(m / 4 + 0.5) - 1]) + 1.0 / excess[-1]
    shapes = np.log1p(-rates[:, None] * excess).mean(1)
    heights = m * (np.log(-rates / shapes) - shapes - 1.0)
    rate = rates @ np.exp(heights - logsumexp(heights))
    shape = np.log1p(-rate * excess).mean()
    return float((m * shape + 5.0) / (m + 10.0)), float(-shape / rate)


def log_densities(target: Target, u: Float[Array, "n k"]) -> Float[np.ndarray, " n"]:
    """log p(u) at many points."""
    return _in_blocks(target, u, slope=False)[0]


def scores(target: Target, u: Float[Array, "n k"]) -> tuple[Float[np.ndarray, " n"], Float[np.ndarray, "n k"]]:
    """log p(u) and its gradient at many points."""
    values, gradients = _in_blocks(target, u, slope=True)
    return values, gradients


def _in_blocks(target: Target, u: Float[Array, "n k"], slope: bool) -> list[np.ndarray]:
    """Blocks of one size, the last filled up with copies of a point."""
    filled = np.concatenate([u, np.repeat(u[-1:], -len(u) % BLOCK, axis=0)])
    parts = [_block(target, filled[i : i + BLOCK], slope) for i in range(0, len(u), BLOCK)]
    return [np.concatenate([np.asarray(v) for v in each])[: len(u)] for each in zip(*parts, strict=True)]


@eqx.filter_jit
def _block(target: Target, u: Float[Array, "n k"], slope: bool) -> tuple[Array, ...]:
    function = jax.value_and_grad(target) if slope else lambda v: (target(v),)
    return jax.lax.map(function, u, batch_size=AT_A_TIME)
