"""The bootstrap particle filter: many guesses of the state, moved at random and weighted by what they explain.

    zₜⁱ ~ p(zₜ | zₜ₋₁ⁱ, uₜ),    wₜⁱ ∝ wₜ₋₁ⁱ p(xₜ | zₜⁱ, uₜ),    p(xₜ | x₁…xₜ₋₁) ≈ Σᵢ wₜ₋₁ⁱ p(xₜ | zₜⁱ, uₜ)

Where few weights hold most of the mass, the particles are resampled before they move. The product of the last estimates
is unbiased for p(x₁…x_T), whatever the number of particles. Gordon, Salmond & Smith (1993); Del Moral (2004);
Chopin & Papaspiliopoulos (2020), chapter 10.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jax.scipy.special import logsumexp
from jaxtyping import Bool, Float, Int, PRNGKeyArray

from credo.core.arrays import Array, host
from credo.core.checks import check_count
from credo.core.errors import DataError
from credo.core.gaussian import Gaussian
from credo.core.predictive import Mixture, Normal, Predictive
from credo.infer.resampling import SCHEMES
from credo.models.nonlinear.laws import Cloud, ParticleFiltered, effective, moments
from credo.models.nonlinear.method import COVARIANCE, FINE, LOST, OBSERVE, STEP, StateMethod
from credo.models.nonlinear.model import Dynamics
from credo.models.sequences import Sequences
from credo.models.state_laws import FilteredStates

Told = tuple[Array, Array, tuple[Array, ...] | None]
"""The increment of a row, what was wrong with it, and its particles, if asked."""


class Particles(StateMethod[Cloud]):
    """Weighted particles: right for any functions and any noise as their number grows.

    Args:
        n: how many; the error of what they say falls as 1/√n.
        resample: "systematic" and "stratified" add less noise than "multinomial".
        threshold: resample where the effective number of particles falls below this share of n; 1 is always, 0 never.
        seed: of all random numbers; the same seed gives the same answer, all rows at once or one by one.
    """

    n: int = eqx.field(static=True)
    resample: str = eqx.field(static=True)
    threshold: float = eqx.field(static=True)
    seed: int = eqx.field(static=True)

    def __init__(
        self, n: int = 1000, resample: str = "systematic", threshold: float | int = 0.5, seed: int = 0
    ) -> None:
        check_count(n, "n", 2)
        if resample not in SCHEMES:
            raise DataError(f"resample must be one of {', '.join(SCHEMES)}, found {resample!r}")
        if not 0 <= threshold <= 1:
            raise DataError(f"threshold must be a share between 0 and 1, found {threshold!r}")
        self.n, self.resample, self.threshold, self.seed = int(n), resample, float(threshold), int(seed)

    def blank(self, model: Dynamics) -> Cloud:
        """As many particles, not yet drawn."""
        key = jr.key_data(jr.key(self.seed))
        return Cloud(np.zeros((self.n, model.states)), self._even, host(key))

    def adopt(self, law: Gaussian | Cloud) -> Cloud:
        """A cloud of n particles that are draws from the law."""
        if isinstance(law, Cloud) and law.log_weights.shape == (self.n,):
            return law
        key = jr.key_data(jr.fold_in(jr.key(self.seed), 1))
        return Cloud(host(law.sample(self.n, seed=self.seed)), self._even, host(key))

    @property
    def _even(self) -> Float[np.ndarray, " k"]:
        """Equal log weights."""
        return np.full(self.n, -np.log(self.n))

    def run(self, model: Dynamics, before: Cloud, rows: Sequences) -> tuple[Cloud, Array, Array]:
        """The particles after the last row, the estimates of log p(xₜ | x₁…xₜ₋₁) and what was wrong with each row."""
        cloud, (increments, status, _) = host(_run(self._program(), model, before, rows, False))
        return cloud, increments, status

    def filter(self, model: Dynamics, before: Cloud, rows: Sequences) -> tuple[FilteredStates, Array]:
        """The particles of each row, with their ancestors."""
        _, (_, status, kept) = host(_run(self._program(), model, before, rows, True))
        return ParticleFiltered(*(kept or ())), status

    def smooth(self, model: Dynamics, before: Cloud, rows: Sequences) -> tuple[FilteredStates, Array]:
        """Not for particles, whose `filter` has paths."""
        raise DataError("smooth is for Extended() and Unscented(); for particles draw filter(x, using=…).paths(n)")

    def forecast(
        self, model: Dynamics, before: Cloud, first: Bool[Array, " s"], inputs: Float[Array, "s c"] | None
    ) -> tuple[Predictive, Array]:
        """What each particle goes on to show, mixed by their weights."""
        parts, weights, status = host(_forecast(model, before, first, inputs))
        return Mixture(weights, (parts,)), status

    def _program(self) -> "Particles":
        """Without the seed, which is in the key: another one needs no other program."""
        return Particles(self.n, self.resample, self.threshold)


def advance(
    method: Particles, model: Dynamics, key: PRNGKeyArray, cloud: tuple[Array, Array], row: Sequences
) -> tuple[tuple[Array, Array], Int[Array, " k"]]:
    """p(zₜ | x₁…xₜ₋₁): resampled where few are effective, then moved; and where each came from."""
    k_resample, k_move = jr.split(key)
    n = method.n
    same = jnp.arange(n)
    even = jnp.full(n, -jnp.log(n))

    def begin() -> tuple[tuple[Array, Array], Array]:
        return (model.draw_start(k_move, n, row.inputs), even), same

    def choose() -> tuple[Array, Array]:
        return SCHEMES[method.resample](k_resample, jnp.exp(cloud[1])).astype(same.dtype), even

    def move() -> tuple[tuple[Array, Array], Array]:
        few = (effective(cloud[1]) < method.threshold * n) | (method.threshold == 1)
        ancestors, log_weights = jax.lax.cond(few, choose, lambda: (same, cloud[1]))
        return (model.move(k_move, cloud[0][ancestors], row.inputs), log_weights), ancestors

    return jax.lax.cond(row.first, begin, move)


@eqx.filter_jit
def _run(method: Particles, model: Dynamics, before: Cloud, rows: Sequences, keep: bool) -> tuple[Cloud, Told]:
    """The last cloud; increments, status and, if asked, all clouds."""

    def update(cloud: Cloud, row: Sequences) -> tuple[Cloud, Told]:
        key, k_move = jr.split(cloud.key)
        (particles, log_weights), ancestors = advance(method, model, k_move, (cloud.particles, cloud.log_weights), row)
        density, definite = model.log_probs(row.x, row.seen, particles, row.inputs)
        joint = log_weights + density
        increment = logsumexp(joint)
        finite = jnp.isfinite(particles).all()
        looks = ~jnp.any(jnp.isnan(density) | (density == jnp.inf))
        possible = increment > -jnp.inf
        status = jnp.where(possible, FINE, LOST)
        for good, code in ((definite, COVARIANCE), (looks, OBSERVE), (finite, STEP)):
            status = jnp.where(good, status, code)
        log_weights = jnp.where(possible, joint - jnp.where(possible, increment, 0.0), log_weights)
        new = Cloud(particles, log_weights, jr.key_data(key))
        return new, (increment, status, kept(new, increment, ancestors, row))

    def nothing(cloud: Cloud, row: Sequences) -> tuple[Cloud, Told]:
        none = jnp.zeros(())
        return cloud, (none, jnp.asarray(FINE), kept(cloud, none, jnp.arange(method.n), row))

    def kept(cloud: Cloud, increment: Array, ancestors: Array, row: Sequences) -> tuple[Array, ...] | None:
        law = (*moments(cloud.particles, cloud.log_weights), increment)
        own = (cloud.particles, cloud.log_weights, ancestors, cloud.ess, row.first)
        return (*law, *own) if keep else None

    return jax.lax.scan(lambda cloud, row: jax.lax.cond(row.real, update, nothing, cloud, row), before, rows)


@eqx.filter_jit
def _forecast(
    model: Dynamics, before: Cloud, first: Bool[Array, " s"], inputs: Float[Array, "s c"] | None
) -> tuple[Predictive, Array, Array]:
    """The outcomes of each particle, its path drawn; the weights; the status of each step."""

    def ahead(
        z: Float[Array, "k n"], row: tuple[jax.Array, Array, Array | None]
    ) -> tuple[Array, tuple[Array | Predictive, Array]]:
        key, fresh, u = row
        z = jax.lax.cond(fresh, lambda: model.draw_start(key, z.shape[0], u), lambda: model.move(key, z, u))
        shown = jax.vmap(lambda state: model.shown(state, u))(z)
        numbers = jnp.stack([jnp.isfinite(leaf).all() for leaf in jax.tree.leaves(shown)]).all()
        status = jnp.where(~jnp.isfinite(z).all(), STEP, jnp.where(numbers, FINE, OBSERVE))
        return z, (shown, status)

    keys = jr.split(jr.fold_in(before.key, 1), first.shape[0])
    _, (shown, status) = jax.lax.scan(ahead, before.particles, (keys, first, inputs))
    shown = jax.tree.map(lambda leaf: jnp.swapaxes(leaf, 0, 1), shown)
    if isinstance(shown, Predictive):
        return shown, before.weights, status
    noise = jnp.diagonal(model.noise_for("predict"))
    noise = jnp.broadcast_to(noise if shown.ndim == 3 else noise[0], shown.shape)
    return Normal(shown, noise, jnp.zeros_like(shown)), before.weights, status
