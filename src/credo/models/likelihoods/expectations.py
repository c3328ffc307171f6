"""Expectations of a likelihood under a Gaussian belief about its predictor, η = f + offset with f ~ N(m, v).

    tilted     log Z = log ∫ p(y | f) N(f | m, v) df, and the mean and variance of p(y | f) N(f | m, v)/Z
    expected   E[log p(y | f)] and its derivatives by m and v

The first has a closed form for the probit, and for the logit but where an outcome surprises (below); else it is by
Gauss-Hermite nodes around the mode of the integrand, and then by evenly spaced ones where those find
its mass: a trapezoidal rule is exact to many digits for what is smooth and falls off on both sides, lopsided or not
(Trefethen & Weideman, 2014). The second has closed forms for counts (Poisson) and for the logit, whose function is a
mixture of normal distribution functions, σ(x) ≈ Σ pₖ Φ(sₖx) to 2e-9: Monahan & Stefanski (1989), "Normal scale mixture
approximations to F*(z) and computation of the logistic-normal integral". Nodes would have to resolve the bend of log σ
under a wide v.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from credo.core.arrays import Array, held, is_traced, namespace, special
from credo.core.loops import quiet, while_loop
from credo.core.special import LOG_2PI
from credo.models.likelihoods.base import EtaTerms, Likelihood
from credo.models.likelihoods.classes import Bernoulli, Probit, mills
from credo.models.likelihoods.numbers import Poisson

NODES, WEIGHTS = np.polynomial.hermite_e.hermegauss(32)
WEIGHTS = WEIGHTS / WEIGHTS.sum()
WIDE_NODES, WIDE_WEIGHTS = np.polynomial.hermite_e.hermegauss(64)
WIDE_WEIGHTS = WIDE_WEIGHTS / WIDE_WEIGHTS.sum()
EVEN = np.linspace(-8.0, 8.0, 97)
"""Nodes in standard deviations of the integrand."""
NEWTON = 20
"""The most steps to the mode of one row's integrand, each of at most `STRIDE` standard deviations of f."""
STRIDE = 3.0
NEAR = 0.1
"""Nodes need not be around the mode itself: within so many standard deviations of it they are as good."""
SURPRISING = 1e-4
"""Outcomes less probable than this have their moments by nodes: the mixture's error is 2e-9 whatever they are."""
SHARES = np.array(
    [
        *(0.003246343272134, 0.051517477033972, 0.195077912673858, 0.315569823632818),
        *(0.274149576158423, 0.131076880695470, 0.027912418727972, 0.001449567805354),
    ]
)
SLOPES = np.array(
    [
        *(1.365340806296348, 1.059523971016916, 0.830791313765644, 0.650732166639391),
        *(0.508135425366489, 0.396313345166341, 0.308904252267995, 0.238212616409306),
    ]
)


class Tilted(NamedTuple):
    """The moments of p(y | f) N(f | m, v)."""

    log_z: Float[Array, " n"]
    mean: Float[Array, " n"]
    variance: Float[Array, " n"]


class Expected(NamedTuple):
    """E[log p(y | f)] and its derivatives by the mean and the variance of f."""

    value: Float[Array, " n"]
    by_mean: Float[Array, " n"]
    by_variance: Float[Array, " n"]


@quiet
def tilted(
    likelihood: Likelihood, y: Float[Array, " n"], offset: Float[Array, " n"], mean: Array, variance: Array
) -> Tilted:
    """Zeroth to second moment, for every row."""
    if isinstance(likelihood, Probit):
        return _tilted_probit(y, offset, mean, variance)
    if not isinstance(likelihood, Bernoulli) or is_traced(y, mean, variance):  # which would need both, compiled
        return _tilted_by_nodes(likelihood, y, offset, mean, variance)
    closed, surprised = _tilted_logit(y, offset, mean, variance)
    if surprised.any():
        few = _tilted_by_nodes(likelihood, y[surprised], offset[surprised], mean[surprised], variance[surprised])
        for whole, part in zip(closed, few, strict=True):
            whole[surprised] = part
    return closed


def _tilted_probit(y: Array, offset: Array, mean: Array, variance: Array) -> Tilted:
    """Rasmussen & Williams (2006), eq. 3.58."""
    xp, sign = namespace(y, mean, variance), 2 * y - 1
    root = xp.sqrt(1 + variance)
    log_z, ratio, curvature = mills(sign * (mean + offset) / root)
    share = variance / (1 + variance)
    return Tilted(log_z, mean + sign * ratio * variance / root, variance * (1 - share * curvature))


def _tilted_logit(y: Array, offset: Array, mean: Array, variance: Array) -> tuple[Tilted, Array]:
    """From Z = Σ pₖΦ(zₖ) and its derivatives by m; and where Z is so small that the mixture's error would show."""
    xp, sign = namespace(y, mean, variance), 2 * y - 1
    steep = SLOPES / xp.sqrt(1 + SLOPES**2 * variance[:, None])
    z = (sign * (mean + offset))[:, None] * steep
    mass = special(z).ndtr(z) @ SHARES
    density = xp.exp(-0.5 * (z * z + LOG_2PI)) * steep
    slope = sign * (density @ SHARES) / mass
    bend = -((density * z * steep) @ SHARES) / mass - slope**2
    return Tilted(xp.log(mass), mean + variance * slope, variance + variance**2 * bend), mass < SURPRISING


def _tilted_by_nodes(likelihood: Likelihood, y: Array, offset: Array, mean: Array, variance: Array) -> Tilted:
    xp = namespace(likelihood, y, mean, variance)
    terms, at_rest = likelihood.eta_terms(), [held(v) for v in (mean, variance)]  # nodes do not move with θ
    center, scale = _near_mode(terms, y, offset, *at_rest)

    def moments(center: Array, scale: Array, z: np.ndarray, log_weights: np.ndarray) -> Tilted:
        f = center[:, None] + scale[:, None] * z
        height = likelihood.log_prob(f + offset[:, None], y[:, None])
        height = height - 0.5 * ((f - mean[:, None]) ** 2 / variance[:, None] + LOG_2PI) + log_weights
        top = held(height.max(1))
        share = xp.exp(height - top[:, None])
        total = share.sum(1)
        first = (share * f).sum(1) / total
        second = (share * (f - first[:, None]) ** 2).sum(1) / total
        return Tilted(xp.log(total) + top + xp.log(scale) - 0.5 * xp.log(variance), first, second)

    rough = held(moments(center, scale, NODES, np.log(WEIGHTS) + 0.5 * (NODES**2 + LOG_2PI)))
    return moments(rough.mean, xp.sqrt(rough.variance), EVEN, np.full(len(EVEN), np.log(EVEN[1] - EVEN[0])))


def _near_mode(terms: EtaTerms, y: Array, offset: Array, mean: Array, variance: Array) -> tuple[Array, Array]:
    """Where each integrand is about highest, and how wide it is there."""
    xp = namespace(y, mean, variance)
    std = xp.sqrt(variance)
    State = tuple[Array, Array, Array, Array]

    def unfinished(state: State) -> Array:
        _, _, far, step = state
        return (far > NEAR) & (step < NEWTON)

    def advance(state: State) -> State:
        f, _, _, step = state
        _, slope, bend = terms(f + offset, y)
        scale = 1 / xp.sqrt(1 / variance + xp.maximum(-bend, 0.0))
        stride = xp.clip((slope - (f - mean) / variance) * scale**2, -STRIDE * std, STRIDE * std)
        return f + stride, scale, xp.max(xp.abs(stride) / scale), step + 1

    f, scale, *_ = while_loop(unfinished, advance, (mean, std, xp.asarray(np.inf), xp.asarray(0)))
    return f, scale


def expected(
    likelihood: Likelihood, y: Float[Array, " n"], offset: Float[Array, " n"], mean: Array, variance: Array
) -> Expected:
    """The expected log likelihood of every row."""
    xp, m = namespace(likelihood, y, mean, variance), mean + offset
    if isinstance(likelihood, Poisson):
        rate = xp.exp(m + 0.5 * variance)
        return Expected(y * m - rate - special(y).gammaln(y + 1), y - rate, -0.5 * rate)
    if isinstance(likelihood, Bernoulli) and not isinstance(likelihood, Probit):
        return _logit(y, m, variance)
    at = m[:, None] + xp.sqrt(variance)[:, None] * WIDE_NODES
    value, slope, bend = likelihood.eta_terms()(at, xp.broadcast_to(y[:, None], at.shape))
    return Expected(value @ WIDE_WEIGHTS, slope @ WIDE_WEIGHTS, 0.5 * bend @ WIDE_WEIGHTS)


def _logit(y: Array, m: Array, variance: Array) -> Expected:
    """log p = yη - log(1 + e^η), with E of the second term, of σ and of σ' from the mixture."""
    xp = namespace(y, m, variance)
    root = xp.sqrt(1 + SLOPES**2 * variance[:, None])
    z = SLOPES * m[:, None] / root
    below, density = special(z).ndtr(z), xp.exp(-0.5 * (z * z + LOG_2PI))
    soft = (z * below + density) * root / SLOPES
    return Expected(y * m - soft @ SHARES, y - below @ SHARES, -0.5 * (density * SLOPES / root) @ SHARES)


def class_probability(mean: Float[Array, " m"], variance: Float[Array, " m"]) -> Float[Array, " m"]:
    """E[σ(η)] for η ~ N(mean, variance)."""
    z = SLOPES * mean[:, None] / namespace(mean, variance).sqrt(1 + SLOPES**2 * variance[:, None])
    return special(z).ndtr(z) @ SHARES
