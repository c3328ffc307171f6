"""`RandomWalk`, `ComponentWise`, `MetropolisHastings`: propose, then accept or stay.

    α(u → v) = min{1, p(v) q(v → u) / (p(u) q(u → v))}

with which p(u) q(u → v) α(u → v) is the same in both directions, so that p is stationary.
Metropolis et al. (1953); Hastings (1970); Robert & Casella (2004), "Monte Carlo statistical methods", ch. 7.
"""

import dataclasses
from collections.abc import Callable
from functools import partial
from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import ArrayLike, Float, PRNGKeyArray

from credo.core import params
from credo.core.arrays import Array, put
from credo.core.errors import DataError
from credo.infer.mcmc.adaptation import WALKS, DualAveraging, StepSizeAndMetric, adapt, check_scale
from credo.infer.mcmc.chains import Hint, Info, Prepared, Sampler, Tuning, Vector
from credo.infer.target import ParameterSpace, Target

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


def accept(key: PRNGKeyArray, here: Walk, there: Walk, correction: ArrayLike = 0.0) -> tuple[Walk, Array]:
    """Where the walk is after the proposal, and the probability with which it moved."""
    log_alpha = log_acceptance(here.density, there.density, correction)
    moves = jnp.log(jr.uniform(key)) < log_alpha
    return jax.tree.map(lambda a, b: jnp.where(moves, a, b), there, here), jnp.exp(log_alpha)


class _Metropolis(Sampler):
    def begin(self, target: Target, u: Vector, tuning: Tuning) -> Walk:
        """Position and log density."""
        return Walk(u, target(u))


@dataclasses.dataclass(frozen=True)
class _Scaled(_Metropolis):
    """A sampler with a `scale` that is tuned where it is None."""

    given: ClassVar[str | None] = "scale"
    scale: object = None

    def prepare(self, target: Target, u: np.ndarray, seed: int) -> Prepared:
        """The scale, where one is given, and starting points."""
        hint = None if self.scale is None else put(check_scale(self.scale, "scale", target.space.size))
        return hint, super().prepare(target, u, seed)[1]


@dataclasses.dataclass(frozen=True)
class RandomWalk(_Scaled):
    """v ~ N(u, s²Σ) on the unconstrained scale: Σ is learned in the warm-up, s tuned to accept 23 % (44 % in 1-D).

    Needs no gradient. Haario, Saksman & Tamminen (2001).

    Args:
        scale: standard deviations of a proposal that is not tuned: one number, or one for each coordinate.
        chains, draws, warmup, thin, keep, memory, start, spread, cores, progress: see `Sampler`.
    """

    def tune(self, target: Target, key: PRNGKeyArray, u: Vector, hint: Hint) -> tuple[Array, Tuning]:
        """Covariance and length of the proposal."""
        if hint is not None:
            return super().tune(target, key, u, StepSizeAndMetric(jnp.ones(()), hint))
        k = u.shape[0]
        first = StepSizeAndMetric(jnp.asarray(2.38 / np.sqrt(k)), jnp.eye(k))

        def move(state: Walk, tuning: StepSizeAndMetric, key: PRNGKeyArray) -> tuple[Walk, Array]:
            state, info = self.step(target, key, state, tuning)
            return state, info.acceptance

        keys, aim = jr.split(key, self.warmup), AIM if k > 1 else AIM_ONE
        state, tuning = adapt(partial(self.begin, target), move, u, first, keys, aim, WALKS)
        return state.position, tuning

    def step(self, target: Target, key: PRNGKeyArray, state: Walk, tuning: StepSizeAndMetric) -> tuple[Walk, Info]:
        """One proposal."""
        k_move, k_accept = jr.split(key)
        proposal = state.position + tuning.step_size * tuning.out(jr.normal(k_move, state.position.shape))
        state, alpha = accept(k_accept, state, Walk(proposal, target(proposal)))
        return state, Info.plain(alpha)


@dataclasses.dataclass(frozen=True)
class ComponentWise(_Scaled):
    """One coordinate after another by a random walk, each with a scale of its own, tuned to accept 44 %.

    A step is a sweep: as many evaluations of the density as there are coordinates.

    Args:
        scale: standard deviations of proposals that are not tuned: one number, or one for each coordinate.
        chains, draws, warmup, thin, keep, memory, start, spread, cores, progress: see `Sampler`.
    """

    def tune(self, target: Target, key: PRNGKeyArray, u: Vector, hint: Hint) -> tuple[Array, Tuning]:
        """The scales, by dual averaging of each."""
        if hint is not None:
            return super().tune(target, key, u, jnp.log(hint))

        def one(carry: tuple[Walk, DualAveraging], key: PRNGKeyArray) -> tuple[tuple[Walk, DualAveraging], None]:
            state, scales = carry
            state, alphas = self._sweep(target, key, state, scales.log_step)
            return (state, scales.after(alphas, AIM_ONE, WALKS)), None

        carry = (self.begin(target, u, None), DualAveraging.around(jnp.ones_like(u), WALKS))
        (state, scales), _ = jax.lax.scan(one, carry, jr.split(key, self.warmup))
        return state.position, scales.log_average

    def step(self, target: Target, key: PRNGKeyArray, state: Walk, tuning: Array) -> tuple[Walk, Info]:
        """One sweep."""
        state, alphas = self._sweep(target, key, state, tuning)
        return state, Info.plain(alphas.mean())

    def _sweep(self, target: Target, key: PRNGKeyArray, state: Walk, scales: Array) -> tuple[Walk, Array]:
        k = state.position.shape[0]
        k_move, k_accept = jr.split(key)
        moves = jnp.exp(scales) * jr.normal(k_move, (k,))

        def one(walk: Walk, inputs: tuple[Array, Array, PRNGKeyArray]) -> tuple[Walk, Array]:
            i, by, key = inputs
            proposal = walk.position.at[i].add(by)
            return accept(key, walk, Walk(proposal, target(proposal)))

        return jax.lax.scan(one, state, (jnp.arange(k), moves, jr.split(k_accept, k)))


@dataclasses.dataclass(frozen=True)
class MetropolisHastings(_Metropolis):
    """Any proposal, in natural units.

        α = min{1, p(θ') q(θ' → θ) / (p(θ) q(θ → θ'))}

    The densities are those of θ itself, without the Jacobian of the unconstrained scale, as is q. A proposal that
    breaks a constraint is refused. Nothing is tuned: the warm-up is burn-in.

    Args:
        propose: propose(key, θ) -> θ', a pytree like θ, traceable by JAX.
        log_ratio: log_ratio(θ, θ') = log q(θ' → θ) - log q(θ → θ'); None where the proposal is symmetric.
        chains, draws, warmup, thin, keep, memory, start, spread, cores, progress: see `Sampler`.
    """

    propose: Callable[..., object]
    log_ratio: Callable[..., Array] | None = None

    def prepare(self, target: Target, u: np.ndarray, seed: int) -> Prepared:
        """Starting points, once the proposal was seen to have the right structure."""
        space = target.space
        check_like(space, jax.eval_shape(self.propose, jr.key(0), space.template), "propose")
        return super().prepare(target, u, seed)

    def step(self, target: Target, key: PRNGKeyArray, state: Walk, tuning: Tuning) -> tuple[Walk, Info]:
        """One proposal."""
        k_move, k_accept = jr.split(key)
        space = target.space
        theta = self.propose(k_move, space.tree(state.position))
        u = space.vector(theta)
        # Outside its constraint a number has no place on the unconstrained scale, or one that leads elsewhere.
        pairs = zip(jax.tree.leaves(theta), jax.tree.leaves(space.tree(u)), strict=True)
        inside = jnp.all(jnp.stack([jnp.all(jnp.abs(a - b) <= INSIDE * (1 + jnp.abs(b))) for a, b in pairs]))
        u = jnp.where(inside, u, state.position)
        there = Walk(u, jnp.where(inside, target(u), -jnp.inf))
        state, alpha = accept(k_accept, state, there, self.correction(space, state.position, u))
        return state, Info.plain(alpha)

    def correction(self, space: ParameterSpace, u: Vector, v: Vector) -> Array:
        """log q(v → u) - log q(u → v), in terms of densities on the unconstrained scale."""
        slopes = params.log_jacobian(space.slots, u) - params.log_jacobian(space.slots, v)
        ratio = 0.0 if self.log_ratio is None else self.log_ratio(space.tree(u), space.tree(v))
        return slopes + ratio


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
