"""`SMC`: particles carried from a wide normal law to the posterior, for densities with several modes.

    log pₗ(u) = (1 - l) log q(u) + l log p(u),    l from 0 to 1

each new l is as large as the effective number of particles allows; then they are resampled and moved by steps that
leave pₗ as it is. The mean weights multiply to an estimate of the evidence.
Del Moral, Doucet & Jasra (2006), "Sequential Monte Carlo samplers"; Jasra et al. (2011) for the choice of l.
"""

import dataclasses
from collections.abc import Callable
from functools import partial
from typing import NamedTuple, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jax.scipy.special import logsumexp
from jaxtyping import ArrayLike, Float, Int, PRNGKeyArray

from credo.core.arrays import Array, put
from credo.core.checks import check_count
from credo.core.errors import DataError, NotConverged
from credo.core.linalg import factorize
from credo.infer.mcmc.adaptation import StepSizeAndMetric
from credo.infer.mcmc.draws import Draws
from credo.infer.mcmc.hmc import Density, RandomNumbers, State, hmc
from credo.infer.mcmc.metropolis import Walk, accept
from credo.infer.method import Approximation
from credo.infer.posterior import NormalApproximation
from credo.infer.resampling import systematic
from credo.infer.target import Target

T = TypeVar("T")

BISECTIONS = 60
LOWEST = -1e30
"""Instead of minus infinity, so that zero times it is zero."""
BATCH = 256
"""Particles whose densities are computed at a time."""
AIMS = {"walk": 0.234, "hmc": 0.8}
LEAPFROGS = 5
FEW_FAMILIES = 0.01
LEAST_ACCEPTANCE = 0.05


class Particles(Draws):
    """Equally weighted particles, in no order, and the evidence they saw on their way."""

    log_evidence: Float[Array, ""] = eqx.field(default_factory=lambda: put(np.asarray(np.nan)))
    """log ∫ p(u) du, estimated: log p(data) where the density is likelihood times normalized prior."""
    temperatures: Float[Array, " s"] = eqx.field(default_factory=lambda: put(np.ones(1)))
    """The values of l, the last is 1."""


class Tempered(NamedTuple):
    """The particles at one temperature."""

    position: Float[Array, "n k"]
    density: Float[Array, " n"]
    reference: Float[Array, " n"]
    """log q."""
    ancestor: Int[Array, " n"]
    """From which of the first particles each descends."""
    temperature: Float[Array, ""]
    log_evidence: Float[Array, ""]
    log_scale: Float[Array, ""]
    acceptance: Float[Array, ""]


@dataclasses.dataclass(frozen=True)
class SMC(Approximation):
    """Sequential Monte Carlo by adaptive tempering.

    Args:
        particles: how many.
        ess: the share of them that must be effective at the next temperature; higher is slower and safer.
        moves: steps at each temperature.
        move: "walk", random walks as wide as the cloud of particles, or "hmc", short trajectories in its metric.
        spread: standard deviation of the first particles around the start, in unconstrained units: as wide as modes
            may be apart.
        most: temperatures after which it gives up.
    """

    particles: int = 2000
    ess: float | int = 0.5
    moves: int = 10
    move: str = "walk"
    spread: float | int = 5.0
    most: int = 500

    def run(self, target: Target, seed: int = 0, start: NormalApproximation | None = None) -> Particles:
        """The particles; `start` is the first law where N(init, spread²) will not do, e.g. from `Laplace`."""
        self._check()
        u = target.check()
        k = target.space.size
        nan = put(np.asarray(np.nan))
        law = start or NormalApproximation(target.space, put(u), put(float(self.spread) * np.eye(k)), nan)
        key, k_begin = jr.split(jr.key(seed))
        first = put(np.asarray(np.log((2.38 if self.move == "walk" else 1.0) / k**0.5)))
        now = _begin(target, law, k_begin, self.particles, first)
        if not np.isfinite(now.log_evidence):
            raise DataError(f"the log density is finite at none of {self.particles} particles: lower spread")
        temperatures = [0.0]
        while temperatures[-1] < 1:
            if len(temperatures) > self.most:
                raise NotConverged(f"SMC reached temperature {temperatures[-1]:.3g} of 1 after {self.most} stages")
            key, k_stage = jr.split(key)
            now = _stage(target, law, k_stage, now, put(np.asarray(float(self.ess))), self.moves, self.move)
            temperatures.append(float(now.temperature))
        return self._collect(target, now, temperatures[1:], seed)

    def _collect(self, target: Target, now: Tempered, temperatures: list[float], seed: int) -> Particles:
        n, acceptance = self.particles, float(now.acceptance)
        families = len(np.unique(np.asarray(now.ancestor)))
        notes = []
        if families < FEW_FAMILIES * n:
            notes.append(
                f"The {n} particles descend from {families} of the first ones: raise particles, or start with a spread "
                "nearer to the posterior."
            )
        if acceptance < LEAST_ACCEPTANCE:
            notes.append(f"Only {acceptance:.1%} of the last moves were accepted: raise moves, or use move='hmc'.")
        order = np.random.default_rng(seed).permutation(n)  # resampling leaves brothers side by side
        flags = put(np.zeros((1, n), dtype=bool))
        return Particles(
            space=target.space,
            chains=put(np.asarray(now.position)[order][None]),
            acceptance=put(np.full((1, n), acceptance)),
            divergent=flags,
            energy=put(np.full((1, n), np.nan)),
            at_depth=flags,
            notes=tuple(notes),
            log_evidence=now.log_evidence,
            temperatures=put(np.asarray(temperatures)),
        )

    def _check(self) -> None:
        for name in ("particles", "moves"):
            check_count(getattr(self, name), name)
        if not 0 < self.ess < 1:
            raise DataError(f"ess must be a share between 0 and 1, found {self.ess!r}")
        if self.move not in AIMS:
            raise DataError(f"move must be 'walk' or 'hmc', found {self.move!r}")
        if not (self.spread > 0 and np.isfinite(self.spread)):
            raise DataError(f"spread must be a positive number, found {self.spread!r}")


def _each(function: Callable[..., T], *arrays: Array) -> T:
    """The function of every particle, some at a time so that memory is bounded."""
    n = arrays[0].shape[0]
    batch = max(b for b in range(1, min(n, BATCH) + 1) if n % b == 0)
    if batch < 16:
        return jax.vmap(function)(*arrays)
    return jax.lax.map(lambda row: function(*row), arrays, batch_size=batch)


def _finite(density: Array) -> Array:
    return jnp.where(jnp.isfinite(density), density, LOWEST)


@eqx.filter_jit
def _begin(target: Target, law: NormalApproximation, key: PRNGKeyArray, n: int, log_scale: Array) -> Tempered:
    """Particles from the first law; those where the density is zero are replaced, at the cost of evidence."""
    k_draw, k_replace = jr.split(key)
    u = law.vectors(n, k_draw)
    density = _finite(_each(target, u))
    alive = density > LOWEST
    substitute = jr.choice(k_replace, n, (n,), p=alive / jnp.maximum(alive.sum(), 1))
    index = jnp.where(alive, jnp.arange(n), substitute)
    reference = jax.vmap(law.log_prob)(u)
    zero = jnp.zeros(())
    return Tempered(u[index], density[index], reference[index], index, zero, jnp.log(alive.sum() / n), log_scale, zero)


def next_temperature(gain: Float[Array, " n"], now: Array, share: Array) -> Array:
    """The largest l ≤ 1 at which the weights exp((l - now) gain) leave the share of effective particles."""

    def effective(step: Array) -> Array:
        log_weights = step * gain
        return jnp.exp(2 * logsumexp(log_weights) - logsumexp(2 * log_weights)) / gain.shape[0]

    def halve(_: ArrayLike, bounds: tuple[Array, Array]) -> tuple[Array, Array]:
        low, high = bounds
        middle = 0.5 * (low + high)
        enough = effective(middle) >= share
        return jnp.where(enough, middle, low), jnp.where(enough, high, middle)

    room = 1.0 - now
    _, high = jax.lax.fori_loop(0, BISECTIONS, halve, (jnp.zeros_like(room), room))
    return jnp.where(effective(room) >= share, 1.0, now + high)


@eqx.filter_jit
def _stage(
    target: Target, law: NormalApproximation, key: PRNGKeyArray, now: Tempered, share: Array, moves: int, kind: str
) -> Tempered:
    """To the next temperature: weigh, resample, move."""
    k_resample, k_move = jr.split(key)
    n = now.density.shape[0]
    gain = now.density - now.reference
    temperature = next_temperature(gain, now.temperature, share)
    log_weights = (temperature - now.temperature) * gain
    evidence = now.log_evidence + logsumexp(log_weights) - jnp.log(n)
    index = systematic(k_resample, jax.nn.softmax(log_weights))
    u = now.position[index]
    centered = u - u.mean(0)
    covariance = centered.T @ centered / n
    covariance = covariance + 1e-9 * jnp.diag(jnp.diagonal(covariance))

    def tempered(v: Array) -> Array:
        return (1 - temperature) * law.log_prob(v) + temperature * _finite(target(v))

    tuning = StepSizeAndMetric(jnp.exp(now.log_scale), factorize(covariance).root)

    def several(key: PRNGKeyArray, v: Array) -> tuple[Array, Array]:
        """Where some moves lead from v, and their mean acceptance."""
        first = Walk(v, tempered(v)) if kind == "walk" else State.at(tempered, v, tuning)
        step = partial(_walk if kind == "walk" else _trajectory, tempered, tuning)
        end, alphas = jax.lax.scan(step, first, jr.split(key, moves))
        return end.position, alphas.mean()

    u, alpha = _each(several, jr.split(k_move, n), u)
    acceptance = alpha.mean()
    return Tempered(
        u,
        _finite(_each(target, u)),
        jax.vmap(law.log_prob)(u),
        now.ancestor[index],
        temperature,
        evidence,
        now.log_scale + 2 * (acceptance - AIMS[kind]),
        acceptance,
    )


def _walk(density: Density, tuning: StepSizeAndMetric, here: Walk, key: PRNGKeyArray) -> tuple[Walk, Array]:
    """A step of a random walk, and its acceptance."""
    k_move, k_accept = jr.split(key)
    proposal = here.position + tuning.step_size * tuning.out(jr.normal(k_move, here.position.shape))
    return accept(k_accept, here, Walk(proposal, density(proposal)))


def _trajectory(density: Density, tuning: StepSizeAndMetric, state: State, key: PRNGKeyArray) -> tuple[State, Array]:
    """A short Hamiltonian trajectory, and its acceptance."""
    random = RandomNumbers.draw(key, state.position.shape[0])
    jitter = 0.8 + 0.4 * random.uniform[0, 1]
    state, about = hmc(density, state, tuning._replace(step_size=jitter * tuning.step_size), random, LEAPFROGS)
    return state, about.acceptance
