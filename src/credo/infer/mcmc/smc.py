"""`SMC`: particles carried from a wide normal law to the posterior, for densities with several modes.

    log pₗ(u) = (1 - l) log q(u) + l log p(u),    l from 0 to 1

each new l is as large as the effective number of particles allows; then they are resampled and moved by steps that
leave pₗ as it is. The mean weights multiply to an estimate of the evidence.
Del Moral, Doucet & Jasra (2006), "Sequential Monte Carlo samplers"; Jasra et al. (2011) for the choice of l.
"""

import dataclasses
from collections.abc import Callable
from typing import NamedTuple, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import logsumexp
from jaxtyping import ArrayLike, Float, Int, PyTree

from credo.core.arrays import Array
from credo.core.errors import DataError, NotConverged
from credo.core.linalg import factorize
from credo.infer.mcmc.adaptation import StepSizeAndMetric
from credo.infer.mcmc.draws import Draws
from credo.infer.mcmc.hmc import Density, RandomNumbers, State, hmc
from credo.infer.mcmc.metropolis import Walk, random_walk
from credo.infer.method import Approximation
from credo.infer.posterior import NormalApproximation
from credo.infer.progress import Progress
from credo.infer.resampling import chosen
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
GROWN = 0.15
"""How much wider the particles may become by moves at the last temperature, beside chance."""
UNSEEN = (
    "What no particle has reached, a narrow mode or the neck of a funnel, goes unseen: raise particles and compare the "
    "log_evidence, or reparametrize."
)


class Particles(Draws):
    """Equally weighted particles, in no order, and the evidence they saw on their way."""

    log_evidence: Float[Array, ""] = eqx.field(default_factory=lambda: np.asarray(np.nan))
    """log ∫ p(u) du, estimated: log p(data) where the density is likelihood times normalized prior."""
    temperatures: Float[Array, " s"] = eqx.field(default_factory=lambda: np.ones(1))
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
        u = target.check()
        n, k, rng = self.particles, target.space.size, np.random.default_rng(seed)
        law = start or NormalApproximation(target.space, u, float(self.spread) * np.eye(k), np.asarray(np.nan))
        first = np.asarray(np.log((2.38 if self.move == "walk" else 1.0) / k**0.5))
        now = _begin(target, law, law.vectors(n, rng), rng.random(n), first)
        if not np.isfinite(now.log_evidence):
            raise DataError(f"the log density is finite at none of {self.particles} particles: lower spread")
        temperatures = [0.0]
        with Progress(None, "tempering") as say:
            while temperatures[-1] < 1:
                say(temperatures[-1], f"tempering, stage {len(temperatures)}")
                if len(temperatures) > self.most:
                    raise NotConverged(f"SMC reached temperature {temperatures[-1]:.3g} of 1 after {self.most} stages")
                now = self._advance(target, law, now, rng)
                temperatures.append(float(now.temperature))
        before, now = now, self._advance(target, law, now, rng)  # the target alone: does it hold the particles?
        return self._collect(target, before, now, temperatures[1:], seed)

    def _advance(self, target: Target, law: NormalApproximation, now: Tempered, rng: np.random.Generator) -> Tempered:
        """The particles at the next temperature."""
        random = RandomNumbers.draw(rng, (self.particles, self.moves), target.space.size)
        return _stage(target, law, now, np.asarray(float(self.ess)), np.asarray(rng.random()), random, self.move)

    def _collect(
        self, target: Target, before: Tempered, now: Tempered, temperatures: list[float], seed: int
    ) -> Particles:
        n, acceptance = self.particles, float(now.acceptance)
        families = len(np.unique(np.asarray(now.ancestor)))
        notes = []
        widths = [np.ptp(np.quantile(each.position, [0.05, 0.95], axis=0), axis=0) for each in (before, now)]
        grown = widths[1] / np.maximum(widths[0], np.finfo(float).tiny)
        if grown.max() > 1 + GROWN + 5 / n**0.5:
            notes.append(
                f"The particles still spread: {self.moves} moves more made {target.space.names[int(grown.argmax())]} "
                f"{grown.max():.2g} times as wide. The density may have no end (is it that of a proper posterior?), or "
                "moves are too few: raise moves."
            )
        if families < FEW_FAMILIES * n:
            notes.append(
                f"The {n} particles descend from {families} of the first ones: raise particles, or start with a spread "
                "nearer to the posterior."
            )
        if acceptance < LEAST_ACCEPTANCE:
            notes.append(f"Only {acceptance:.1%} of the last moves were accepted: raise moves, or use move='hmc'.")
        order = np.random.default_rng(seed).permutation(n)  # resampling leaves brothers side by side
        flags = np.zeros((1, n), dtype=bool)
        return Particles(
            space=target.space,
            chains=np.asarray(now.position)[order][None],
            acceptance=np.full((1, n), acceptance),
            divergent=flags,
            energy=np.full((1, n), np.nan),
            at_depth=flags,
            notes=tuple(notes),
            caution=UNSEEN,
            log_evidence=np.asarray(now.log_evidence),
            temperatures=np.asarray(temperatures),
        )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.move not in AIMS:
            raise DataError(f"move must be 'walk' or 'hmc', found {self.move!r}")
        if not self.spread > 0:
            raise DataError(f"spread must be a positive number, found {self.spread!r}")


def _each(function: Callable[..., T], u: Float[Array, "n k"], *more: PyTree) -> T:
    """The function of every particle, some at a time so that memory is bounded."""
    arrays, n = (u, *more), len(u)
    batch = max(b for b in range(1, min(n, BATCH) + 1) if n % b == 0)
    if batch < 16:
        return jax.vmap(function)(*arrays)
    return jax.lax.map(lambda row: function(*row), arrays, batch_size=batch)


def _finite(density: Array) -> Array:
    return jnp.where(jnp.isfinite(density), density, LOWEST)


@eqx.filter_jit
def _begin(
    target: Target, law: NormalApproximation, u: Float[Array, "n k"], uniform: Float[Array, " n"], log_scale: Array
) -> Tempered:
    """Particles at draws of the first law; those where the density is zero are replaced, at the cost of evidence."""
    n = len(u)
    density = _finite(_each(target, u))
    alive = density > LOWEST
    substitute = jnp.searchsorted(jnp.cumsum(alive), uniform * alive.sum(), side="right")
    index = jnp.where(alive, jnp.arange(n), jnp.minimum(substitute, n - 1))
    reference = law.log_prob(u)
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
    target: Target,
    law: NormalApproximation,
    now: Tempered,
    share: Array,
    uniform: Array,
    random: RandomNumbers,
    kind: str,
) -> Tempered:
    """To the next temperature: weigh, resample, move."""
    n = now.density.shape[0]
    gain = now.density - now.reference
    temperature = next_temperature(gain, now.temperature, share)
    log_weights = (temperature - now.temperature) * gain
    evidence = now.log_evidence + logsumexp(log_weights) - jnp.log(n)
    index = chosen(jax.nn.softmax(log_weights), uniform)
    u = now.position[index]
    centered = u - u.mean(0)
    covariance = centered.T @ centered / n
    covariance = covariance + 1e-9 * jnp.diag(jnp.diagonal(covariance))

    def tempered(v: Array) -> Array:
        return (1 - temperature) * law.log_prob(v) + temperature * _finite(target(v))

    tuning = StepSizeAndMetric(jnp.exp(now.log_scale), factorize(covariance).root)

    def several(v: Array, random: RandomNumbers) -> tuple[Array, Array]:
        """Where some moves lead from v, and their mean acceptance."""
        if kind == "walk":
            walk = Walk(v, tempered(v))
            end, alphas = jax.lax.scan(lambda here, each: random_walk(tempered, each, here, tuning), walk, random)
            return end.position, alphas.mean()
        state = State.at(tempered, v, tuning)
        last, alphas = jax.lax.scan(lambda here, each: _trajectory(tempered, each, here, tuning), state, random)
        return last.position, alphas.mean()

    u, alpha = _each(several, u, random)
    acceptance = alpha.mean()
    return Tempered(
        u,
        _finite(_each(target, u)),
        law.log_prob(u),
        now.ancestor[index],
        temperature,
        evidence,
        now.log_scale + 2 * (acceptance - AIMS[kind]),
        acceptance,
    )


def _trajectory(
    density: Density, random: RandomNumbers, state: State, tuning: StepSizeAndMetric
) -> tuple[State, Array]:
    """A short Hamiltonian trajectory, and its acceptance."""
    jitter = 0.8 + 0.4 * random.uniform[0, 1]
    state, about = hmc(density, state, tuning._replace(step_size=jitter * tuning.step_size), random, LEAPFROGS)
    return state, about.acceptance
