"""`NUTS` and `HMC`: trajectories that follow the gradient, and tune themselves.

    H(u, p) = -log p(u) + ½ pᵀM⁻¹p,    leapfrog steps of length ε along u' = M⁻¹p, p' = ∇log p(u)

M⁻¹ is the covariance of u, as far as it is known: one, or Pathfinder's, at first, from the draws of widening windows of
the warm-up then; dense where that is affordable. ε is tuned for the acceptance that is asked for.
Hoffman & Gelman (2014), "The No-U-Turn sampler"; Betancourt (2017), "A conceptual introduction to HMC".
"""

import dataclasses
from abc import abstractmethod
from typing import Any, Literal

import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from credo.core.arrays import put
from credo.core.checks import check_count
from credo.core.errors import DataError
from credo.infer.mcmc.chains import Info, Sampler
from credo.infer.mcmc.trajectory import Chance, State, Steps, Trajectory, hmc, nuts
from credo.infer.mcmc.warmup import warm_up
from credo.infer.target import Target

DENSE_UP_TO = 64
"""The largest dimension in which the metric is dense unless the user says otherwise."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Hamiltonian(Sampler):
    target_acceptance: Any = 0.8
    metric: Literal["auto", "dense", "diagonal"] = "auto"

    def _dense(self, k: int) -> bool:
        if self.metric not in ("auto", "dense", "diagonal"):
            raise DataError(f"metric must be 'auto', 'dense' or 'diagonal', found {self.metric!r}")
        return self.metric == "dense" or (self.metric == "auto" and k <= DENSE_UP_TO)

    def prepare(self, target: Target, u: np.ndarray, seed: int) -> tuple[Any, Float[np.ndarray, "c k"]]:
        """The root of the covariance with which the metric begins, and starting points."""
        k = target.space.size
        dense = self._dense(k)
        starts, law = self.starts(target, u, seed)
        if law is None:
            return put(np.eye(k) if dense else np.ones(k)), starts
        return (law.root if dense else jnp.sqrt(jnp.sum(law.root**2, axis=1))), starts

    def chance(self, target: Target, key: PRNGKeyArray) -> Chance:
        """The random numbers of a trajectory."""
        return Chance.draw(key, target.space.size, self._room())

    def tune(self, target: Target, key: PRNGKeyArray, u: Float[Array, " k"], hint: Any) -> tuple[Array, Steps]:
        """Windows in which the step length and the metric are learned."""
        if self.warmup == 0:
            return u, Steps(jnp.asarray(0.1), hint)

        def move(state: State, steps: Steps, chance: Chance, deepest: Array) -> tuple[State, Array]:
            state, about = self._trajectory(target, state, steps, chance, deepest)
            return state, about.acceptance

        def at(u: Array, steps: Steps) -> State:
            return State.at(target, u, steps)

        chances = self.chances(target, jr.split(key, self.warmup))
        aim = float(self.target_acceptance)
        state, steps = warm_up(move, at, u, hint, chances, aim, self._room())
        return state.position, steps

    def begin(self, target: Target, u: Float[Array, " k"], tuning: Steps) -> State:
        """Position, density and gradient."""
        return State.at(target, u, tuning)

    def step(self, target: Target, chance: Chance, state: State, tuning: Steps) -> tuple[State, Info]:
        """One trajectory."""
        state, about = self._trajectory(target, state, tuning, chance, self._room())
        return state, Info(about.acceptance, about.divergent, about.energy, self._cut(about))

    def _room(self) -> int:
        return 1

    def _cut(self, about: Trajectory) -> Array:
        """Whether the trajectory was as long as it may be."""
        return jnp.asarray(False)

    @abstractmethod
    def _trajectory(
        self, target: Target, state: State, steps: Steps, chance: Chance, deepest: Any
    ) -> tuple[State, Trajectory]: ...


@dataclasses.dataclass(frozen=True, kw_only=True)
class NUTS(_Hamiltonian):
    """The No-U-Turn sampler: trajectories that end where they would turn back.

    Args:
        target_acceptance: higher is slower and safer; raise it where trajectories diverge.
        metric: "dense" learns all correlations, "diagonal" scales only; "auto" is dense up to 64 numbers.
        max_depth: a trajectory has at most 2^max_depth steps.
        chains, draws, warmup, thin, keep, memory, start, spread, cores, progress: see `Sampler`.
    """

    max_depth: int = 10

    def _room(self) -> int:
        return self.max_depth

    def _cut(self, about: Trajectory) -> Array:
        return about.depth >= self.max_depth

    def _trajectory(
        self, target: Target, state: State, steps: Steps, chance: Chance, deepest: Any
    ) -> tuple[State, Trajectory]:
        return nuts(target, state, steps, chance, deepest)


@dataclasses.dataclass(frozen=True, kw_only=True)
class HMC(_Hamiltonian):
    """Hamiltonian Monte Carlo: trajectories of a fixed number of steps, of a length that varies by ± `jitter`.

    With trajectories of one length a chain can return to where it was, for ever. Neal (2011), §5.4.2.2.

    Args:
        steps: of a trajectory.
        jitter: the largest relative change of the step length, drawn anew for every trajectory.
        target_acceptance, metric: see `NUTS`.
        chains, draws, warmup, thin, keep, memory, start, spread, cores, progress: see `Sampler`.
    """

    steps: int = 10
    jitter: Any = 0.2

    def prepare(self, target: Target, u: np.ndarray, seed: int) -> tuple[Any, Float[np.ndarray, "c k"]]:
        """As for all trajectories, once their settings make sense."""
        check_count(self.steps, "steps")
        if not 0 <= self.jitter < 1:
            raise DataError(f"jitter must be in [0, 1), found {self.jitter!r}")
        return super().prepare(target, u, seed)

    def _trajectory(
        self, target: Target, state: State, steps: Steps, chance: Chance, deepest: Any
    ) -> tuple[State, Trajectory]:
        jitter = 1 + self.jitter * (2 * chance.uniform[0, 1] - 1)
        return hmc(target, state, steps._replace(length=jitter * steps.length), chance, self.steps)
