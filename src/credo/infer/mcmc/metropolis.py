"""`RandomWalk`, `ComponentWise`, `MetropolisHastings`: propose, then accept or stay.

    α(u → v) = min{1, p(v) q(v → u) / (p(u) q(u → v))}

with which p(u) q(u → v) α(u → v) is the same in both directions, so that p is stationary.
Metropolis et al. (1953); Hastings (1970); Robert & Casella (2004), "Monte Carlo statistical methods", ch. 7.
"""

import dataclasses
from collections.abc import Callable
from typing import ClassVar, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import ArrayLike, Float, PRNGKeyArray, UInt32

from credo.core import params
from credo.core.arrays import Array
from credo.core.errors import DataError
from credo.infer.mcmc.adaptation import WALKS, Pace, StepSizeAndMetric, check_scale
from credo.infer.mcmc.chains import Info, Prepared, R, Sampler, Vector
from credo.infer.mcmc.hmc import Density, RandomNumbers, pick
from credo.infer.target import ParameterSpace, Target

KeyData: TypeAlias = UInt32[jax.Array | np.ndarray, "*n 2"]
AIM, AIM_ONE = 0.234, 0.44
"""The acceptance that moves fastest in many dimensions and in one. Roberts, Gelman & Gilks (1997)."""
INSIDE = 1e-6
"""A proposal is inside its constraint where going to the unconstrained scale and back changes it by no more."""


class Walk(NamedTuple):
    """A position and its log density."""

    position: Vector
    density: Float[Array, ""]


def log_acceptance(before: Array, after: Array, correction: ArrayLike = 0.0) -> Array:
    """log α from the log densities at u and v and log q(v → u) - log q(u → v); what is not a number is refused."""
    ratio = after - before + correction
    return jnp.minimum(0.0, jnp.where(jnp.isnan(ratio), -jnp.inf, ratio))


def accept(uniform: Array, here: Walk, there: Walk, correction: ArrayLike = 0.0) -> tuple[Walk, Array]:
    """Where the walk is after the proposal, and the probability with which it moved."""
    log_alpha = log_acceptance(here.density, there.density, correction)
    return pick(jnp.log(uniform) < log_alpha, there, here), jnp.exp(log_alpha)


def random_walk(density: Density, random: RandomNumbers, here: Walk, tuning: StepSizeAndMetric) -> tuple[Walk, Array]:
    """A step of a random walk, and its acceptance."""
    proposal = here.position + tuning.step_size * tuning.out(random.q)
    return accept(random.uniform[0, 0], here, Walk(proposal, density(proposal)))


class _Metropolis(Sampler[Walk, R]):
    def begin(self, target: Target, u: Vector, tuning: StepSizeAndMetric) -> Walk:
        """Position and log density."""
        return Walk(u, target(u))


@dataclasses.dataclass(frozen=True)
class _Scaled(_Metropolis[RandomNumbers]):
    """A sampler with a `scale` that is tuned where it is None."""

    pace: ClassVar[Pace] = WALKS
    scale: object = None

    def random_numbers(self, rng: np.random.Generator, n: int, k: int, exploring: bool = False) -> RandomNumbers:
        """Those of proposals."""
        return RandomNumbers.draw(rng, n, k)


@dataclasses.dataclass(frozen=True)
class RandomWalk(_Scaled):
    """v ~ N(u, s²Σ) on the unconstrained scale: Σ is learned in the warm-up, s tuned to accept 23 % (44 % in 1-D).

    Needs no gradient. Haario, Saksman & Tamminen (2001).

    Args:
        scale: standard deviations of a proposal that is not tuned: one number, or one for each coordinate.
        chains, draws, warmup, thin, keep, memory, start, spread, cores, progress: see `Sampler`.
    """

    def prepare(self, target: Target, u: np.ndarray, seed: int) -> Prepared:
        """Starting points; the scale that is given, or covariance and length of the proposal to begin with."""
        (starts, tuning, _), k = super().prepare(target, u, seed), target.space.size
        if self.scale is not None:
            return Prepared(starts, tuning._replace(inverse_mass_matrix_root=check_scale(self.scale, "scale", k)))
        first = StepSizeAndMetric(np.asarray(2.38 / np.sqrt(k)), np.eye(k))
        return Prepared(starts, first, AIM if k > 1 else AIM_ONE)

    def step(self, target: Target, random: RandomNumbers, state: Walk, tuning: StepSizeAndMetric) -> tuple[Walk, Info]:
        """One proposal."""
        state, alpha = random_walk(target, random, state, tuning)
        return state, Info.plain(alpha)


@dataclasses.dataclass(frozen=True)
class ComponentWise(_Scaled):
    """One coordinate after another by a random walk, each with a scale of its own, tuned to accept 44 %.

    A step is a sweep: as many evaluations of the density as there are coordinates.

    Args:
        scale: standard deviations of proposals that are not tuned: one number, or one for each coordinate.
        chains, draws, warmup, thin, keep, memory, start, spread, cores, progress: see `Sampler`.
    """

    learns_metric: ClassVar[bool] = False

    def prepare(self, target: Target, u: np.ndarray, seed: int) -> Prepared:
        """Starting points, and the scales that are given or to begin with."""
        (starts, tuning, _), k = super().prepare(target, u, seed), target.space.size
        scales = np.ones(k) if self.scale is None else check_scale(self.scale, "scale", k)
        return Prepared(starts, tuning._replace(step_size=scales), AIM_ONE if self.scale is None else np.nan)

    def random_numbers(self, rng: np.random.Generator, n: int, k: int, exploring: bool = False) -> RandomNumbers:
        """Those of sweeps: a uniform number for each coordinate, too."""
        return RandomNumbers.draw(rng, n, k, room=k)

    def step(self, target: Target, random: RandomNumbers, state: Walk, tuning: StepSizeAndMetric) -> tuple[Walk, Info]:
        """One sweep."""

        def one(walk: Walk, inputs: tuple[Array, Array, Array]) -> tuple[Walk, Array]:
            i, by, uniform = inputs
            proposal = walk.position + jnp.where(where == i, by, 0.0)
            return accept(uniform, walk, Walk(proposal, target(proposal)))

        where = jnp.arange(random.q.shape[0])
        moves = (where, tuning.step_size * random.q, random.uniform[:, 0])
        state, alphas = jax.lax.scan(one, state, moves)
        return state, Info.plain(alphas)


@dataclasses.dataclass(frozen=True)
class MetropolisHastings(_Metropolis[KeyData]):
    """Any proposal, in natural units.

        α = min{1, p(θ') q(θ' → θ) / (p(θ) q(θ → θ'))}

    The densities are those of θ itself, without the Jacobian of the unconstrained scale, as is q. A proposal that
    breaks a constraint is refused. Nothing is tuned: the warm-up is burn-in.

    Args:
        propose: propose(key, θ) -> θ', a pytree like θ, traceable by JAX.
        log_ratio: log_ratio(θ, θ') = log q(θ' → θ) - log q(θ → θ'); None where the proposal is symmetric.
        chains, draws, warmup, thin, keep, memory, start, spread, cores, progress: see `Sampler`.
    """

    compiled: ClassVar[tuple[str, ...]] = ("propose", "log_ratio")
    propose: Callable[..., object]
    log_ratio: Callable[..., Array] | None = None

    def prepare(self, target: Target, u: np.ndarray, seed: int) -> Prepared:
        """Starting points, once the proposal was seen to have the right structure."""
        space = target.space
        check_like(space, jax.eval_shape(self.propose, jr.key(0), space.template), "propose")
        return super().prepare(target, u, seed)

    def random_numbers(self, rng: np.random.Generator, n: int, k: int, exploring: bool = False) -> KeyData:
        """The keys of steps."""
        return key_data(rng, n)

    def step(self, target: Target, random: KeyData, state: Walk, tuning: StepSizeAndMetric) -> tuple[Walk, Info]:
        """One proposal."""
        k_move, k_accept = jr.split(key_of(random))
        space = target.space
        theta = self.propose(k_move, space.tree(state.position))
        u = space.vector(theta)
        # Outside its constraint a number has no place on the unconstrained scale, or one that leads elsewhere.
        pairs = zip(jax.tree.leaves(theta), jax.tree.leaves(space.tree(u)), strict=True)
        inside = jnp.all(jnp.stack([jnp.all(jnp.abs(a - b) <= INSIDE * (1 + jnp.abs(b))) for a, b in pairs]))
        u = jnp.where(inside, u, state.position)
        there = Walk(u, jnp.where(inside, target(u), -jnp.inf))
        state, alpha = accept(jr.uniform(k_accept), state, there, self.correction(space, state.position, u))
        return state, Info.plain(alpha)

    def correction(self, space: ParameterSpace, u: Vector, v: Vector) -> Array:
        """log q(v → u) - log q(u → v), in terms of densities on the unconstrained scale."""
        slopes = params.log_jacobian(space.slots, u) - params.log_jacobian(space.slots, v)
        ratio = 0.0 if self.log_ratio is None else self.log_ratio(space.tree(u), space.tree(v))
        return slopes + ratio


def key_data(rng: np.random.Generator, n: int) -> KeyData:
    """The numbers of n keys of JAX, for what users write."""
    return rng.integers(2**32, size=(n, 2), dtype=np.uint32)


def key_of(data: KeyData) -> PRNGKeyArray:
    """A key from its numbers. Traced."""
    return jr.wrap_key_data(jnp.asarray(data))


def check_like(space: ParameterSpace, found: object, who: str, paths: list[str] | None = None) -> None:
    """`DataError` where `found` has not the leaves of the space (those at `paths`), or one has another shape."""
    slots = [(s.path, leaf) for s, leaf in zip(space.slots, jax.tree.leaves(space.template), strict=True)]
    wanted = [(path, leaf) for path, leaf in slots if paths is None or path in paths]
    leaves = jax.tree.leaves(found)
    if len(leaves) != len(wanted):
        names = ", ".join(path or "(one number)" for path, _ in wanted)
        raise DataError(f"{who} must return the {len(wanted)} parts {names}, found {len(leaves)} parts")
    for (path, leaf), new in zip(wanted, leaves, strict=True):
        if jnp.shape(new) != jnp.shape(leaf):
            name = repr(path) if path else "the number"
            raise DataError(f"{who} must return {name} of shape {jnp.shape(leaf)}, found shape {jnp.shape(new)}")
    like: object = jax.tree.structure(space.template)
    if paths is None and jax.tree.structure(found) != like:
        raise DataError(f"{who} must return a pytree like θ, {like}, found {jax.tree.structure(found)}")
