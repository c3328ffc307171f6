"""`MALA` and `ULA`: a step up the gradient and a random one.

    v = u + ε S² ∇log p(u) + √(2ε) S z,    z ~ N(0, I)

the Langevin diffusion in steps of length ε. MALA accepts or refuses the step, and is exact; ULA takes it as it is.
Roberts & Tweedie (1996), "Exponential convergence of Langevin distributions and their discrete approximations".
"""

import dataclasses
from typing import Any, ClassVar, Literal

import jax
import jax.numpy as jnp
import numpy as np

from credo.infer.mcmc.adaptation import WALKS, Pace, StepSizeAndMetric
from credo.infer.mcmc.chains import Info, Prepared, Sampler, Vector
from credo.infer.mcmc.draws import Draws
from credo.infer.mcmc.hmc import Hamiltonian, Moved, RandomNumbers, State, hmc, pick
from credo.infer.posterior import NormalApproximation
from credo.infer.target import Target

AIM = 0.574
"""The acceptance at which MALA moves fastest. Roberts & Rosenthal (1998)."""


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

    def prepare(self, target: Target, u: np.ndarray, seed: int) -> Prepared:
        """The step size, where one is given, and starting points."""
        prepared = super().prepare(target, u, seed)
        if self.step_size is None:
            return prepared
        step = np.asarray(np.sqrt(2 * float(self.step_size)))
        return Prepared(prepared.starts, StepSizeAndMetric(step, np.ones(target.space.size)))

    def step(
        self, target: Target, random: RandomNumbers, state: State, tuning: StepSizeAndMetric
    ) -> tuple[State, Info]:
        """One leapfrog step."""
        state, info = super().step(target, random, state, tuning)
        return state, Info.plain(info.acceptance)

    def _trajectory(self, target: Target, state: State, tuning: StepSizeAndMetric, random: RandomNumbers) -> Moved:
        return hmc(target, state, tuning, random, 1)

    def _first_step(self, k: int) -> float:
        return float(k ** (-1 / 6))  # of the optimal order


@dataclasses.dataclass(frozen=True)
class ULA(Sampler[State, RandomNumbers]):
    """The unadjusted Langevin algorithm: every step is taken, so the draws have a bias that shrinks with ε.

    For N(0, s²) the variance of the draws is s²/(1 - ε/2s²), and for ε ≥ 2s² they run away. Where that matters use
    `MALA`. A step to where the density is not finite is not taken.

    Args:
        step_size: ε, in squared unconstrained units; a tenth of the smallest posterior variance costs 5 % there.
        chains, draws, warmup, thin, keep, memory, start, spread, cores, progress: see `Sampler`.
    """

    step_size: Any

    def begin(self, target: Target, u: Vector, tuning: StepSizeAndMetric) -> State:
        """Position, density and gradient."""
        return State(u, *jax.value_and_grad(target)(u))

    def prepare(self, target: Target, u: np.ndarray, seed: int) -> Prepared:
        """The step size and starting points."""
        starts, tuning, _ = super().prepare(target, u, seed)
        return Prepared(starts, tuning._replace(step_size=np.asarray(float(self.step_size))))

    def random_numbers(self, rng: np.random.Generator, n: int, k: int, exploring: bool = False) -> RandomNumbers:
        """The noise of steps."""
        return RandomNumbers.draw(rng, n, k)

    def step(
        self, target: Target, random: RandomNumbers, state: State, tuning: StepSizeAndMetric
    ) -> tuple[State, Info]:
        """One step; its acceptance is 0 where it led nowhere."""
        step = tuning.step_size
        new = self.begin(target, state.position + step * state.gradient + jnp.sqrt(2 * step) * random.q, tuning)
        ok = jnp.isfinite(new.log_density) & jnp.all(jnp.isfinite(new.gradient))
        return pick(ok, new, state), Info.plain(jnp.where(ok, 1.0, 0.0))

    def run(self, target: Target, seed: int = 0) -> Draws | NormalApproximation:
        """The draws, with a word on their bias."""
        found = super().run(target, seed)
        caution = (
            "ULA takes every step: these draws have a bias of the order of step_size = "
            f"{float(self.step_size):.3g}. Halve it and compare, or use MALA()."
        )
        lost = 1 - float(found.acceptance.mean()) if isinstance(found, Draws) else 0.0
        lines = [f"{lost:.1%} of the steps led to where the density is not finite: lower step_size."] * (lost > 0)
        if not isinstance(found, Draws):
            return dataclasses.replace(found, notes=(caution, *lines, *found.notes))
        return dataclasses.replace(found, notes=(*lines, *found.notes), caution=caution)
