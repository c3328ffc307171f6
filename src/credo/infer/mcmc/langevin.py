"""`MALA` and `ULA`: a step up the gradient and a random one.

    v = u + ε S² ∇log p(u) + √(2ε) S z,    z ~ N(0, I)

the Langevin diffusion in steps of length ε. MALA accepts or refuses the step, and is exact; ULA takes it as it is.
Roberts & Tweedie (1996), "Exponential convergence of Langevin distributions and their discrete approximations".
"""

import dataclasses
from typing import Any, ClassVar, Literal, NamedTuple

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, ArrayLike, Float, PRNGKeyArray

from credo.core.arrays import put
from credo.core.errors import DataError
from credo.infer.mcmc.adaptation import WALKS, Pace, StepSizeAndMetric
from credo.infer.mcmc.chains import Hint, Info, Sampler, Tuning
from credo.infer.mcmc.hmc import Hamiltonian, RandomNumbers, State, Trajectory, hmc
from credo.infer.target import Target

AIM = 0.574
"""The acceptance at which MALA moves fastest. Roberts & Rosenthal (1998)."""


class Slope(NamedTuple):
    """A position, its log density and the gradient there."""

    position: Float[Array, " k"]
    density: Float[Array, ""]
    gradient: Float[Array, " k"]


@dataclasses.dataclass(frozen=True)
class MALA(Hamiltonian):
    """The Metropolis-adjusted Langevin algorithm: ε tuned to accept 57 %, S the deviations seen in the warm-up.

    It is `HMC` with one leapfrog step of length √(2ε).

    Args:
        step_size: an ε that is not tuned, with S = I.
        target_acceptance, metric: see `NUTS`.
        chains, draws, warmup, thin, keep, memory, start, spread, cores, progress: see `Sampler`.
    """

    pace: ClassVar[Pace] = WALKS
    step_size: Any = None
    target_acceptance: float = dataclasses.field(default=AIM, kw_only=True)
    metric: Literal["auto", "dense", "diagonal"] = dataclasses.field(default="diagonal", kw_only=True)

    def prepare(self, target: Target, u: np.ndarray, seed: int) -> tuple[Hint, Float[np.ndarray, "c k"]]:
        """The step size, where one is given, and starting points."""
        hint, starts = super().prepare(target, u, seed)
        if self.step_size is None:
            return hint, starts
        step = put(np.asarray(np.sqrt(2 * check_step(self.step_size))))
        return StepSizeAndMetric(step, put(np.ones(target.space.size))), starts

    def tune(
        self, target: Target, key: PRNGKeyArray, u: Float[Array, " k"], hint: Hint
    ) -> tuple[Array, StepSizeAndMetric]:
        """Step size and deviations; burn-in where the step size is given."""
        if isinstance(hint, StepSizeAndMetric):
            return self.burn(target, key, u, hint), hint
        return super().tune(target, key, u, hint)

    def step(
        self, target: Target, random: RandomNumbers, state: State, tuning: StepSizeAndMetric
    ) -> tuple[State, Info]:
        """One leapfrog step."""
        state, about = self._trajectory(target, state, tuning, random, 1)
        return state, Info.plain(about.acceptance)

    def _first_step(self, k: int) -> float:
        return float(k ** (-1 / 6))  # of the optimal order

    def _trajectory(
        self, target: Target, state: State, tuning: StepSizeAndMetric, random: RandomNumbers, deepest: ArrayLike
    ) -> tuple[State, Trajectory]:
        return hmc(target, state, tuning, random, 1)

    def _program(self) -> Sampler:
        return _any_step(super()._program(), self.step_size)


@dataclasses.dataclass(frozen=True)
class ULA(Sampler):
    """The unadjusted Langevin algorithm: every step is taken, so the draws have a bias that shrinks with ε.

    For N(0, s²) the variance of the draws is s²/(1 - ε/2s²), and for ε ≥ 2s² they run away. Where that matters use
    `MALA`. A step to where the density is not finite is not taken.

    Args:
        step_size: ε, in squared unconstrained units; a tenth of the smallest posterior variance costs 5 % there.
        chains, draws, warmup, thin, keep, memory, start, spread, cores, progress: see `Sampler`.
    """

    step_size: Any

    def begin(self, target: Target, u: Float[Array, " k"], tuning: Tuning) -> Slope:
        """Position, density and gradient."""
        return Slope(u, *jax.value_and_grad(target)(u))

    def prepare(self, target: Target, u: np.ndarray, seed: int) -> tuple[Array, Float[np.ndarray, "c k"]]:
        """The step size and starting points."""
        return put(np.asarray(check_step(self.step_size))), super().prepare(target, u, seed)[1]

    def _program(self) -> Sampler:
        return _any_step(super()._program(), self.step_size)

    def tune(self, target: Target, key: PRNGKeyArray, u: Float[Array, " k"], hint: Hint) -> tuple[Array, Tuning]:
        """Burn-in."""
        return self.burn(target, key, u, hint), hint

    def step(self, target: Target, key: PRNGKeyArray, state: Slope, tuning: Array) -> tuple[Slope, Info]:
        """One step; its acceptance is 0 where it led nowhere."""
        noise = jnp.sqrt(2 * tuning) * jr.normal(key, state.position.shape)
        new = self.begin(target, state.position + tuning * state.gradient + noise, tuning)
        ok = jnp.isfinite(new.density) & jnp.all(jnp.isfinite(new.gradient))
        state = jax.tree.map(lambda a, b: jnp.where(ok, a, b), new, state)
        return state, Info.plain(jnp.where(ok, 1.0, 0.0))

    def run(self, target: Target, seed: int = 0) -> Any:
        """The draws, with a word on their bias."""
        found = super().run(target, seed)
        notes = [
            f"ULA takes every step: these draws have a bias of the order of step_size = {float(self.step_size):.3g}. "
            "Halve it and compare, or use MALA()."
        ]
        taken = getattr(found, "acceptance", None)
        if taken is not None and float(taken.mean()) < 1:
            lost = 1 - float(taken.mean())
            notes.append(f"{lost:.1%} of the steps led to where the density is not finite: lower step_size.")
        return dataclasses.replace(found, notes=(*notes, *found.notes))


def _any_step(sampler: Sampler, given: object) -> Sampler:
    """The sampler as compiled code sees it: whether a step size is given, but not which."""
    changed: dict[str, Any] = {"step_size": None if given is None else 1.0}
    return dataclasses.replace(sampler, **changed)


def check_step(value: Any) -> float:
    """ε as a positive number."""
    try:
        step = float(value)
    except (TypeError, ValueError):
        step = float("nan")
    if not (step > 0 and np.isfinite(step)):
        raise DataError(f"step_size must be a positive number, found {value!r}")
    return step
