"""`MALA` and `ULA`: a step up the gradient and a random one.

    v = u + ε S² ∇log p(u) + √(2ε) S z,    z ~ N(0, I)

the Langevin diffusion in steps of length ε. MALA accepts or refuses the step, and is exact; ULA takes it as it is.
Roberts & Tweedie (1996), "Exponential convergence of Langevin distributions and their discrete approximations".
"""

import dataclasses
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from credo.core.arrays import put
from credo.core.errors import DataError
from credo.infer.mcmc.adapt import Gait, adapt
from credo.infer.mcmc.chains import Info, Sampler
from credo.infer.target import Target

AIM = 0.574
"""The acceptance at which MALA moves fastest. Roberts & Rosenthal (1998)."""


class Climb(NamedTuple):
    """A position, its log density and the gradient there."""

    position: Float[Array, " k"]
    density: Float[Array, ""]
    gradient: Float[Array, " k"]


class _Langevin(Sampler):
    def begin(self, target: Target, u: Float[Array, " k"], tuning: Any) -> Climb:
        """Position, density and gradient."""
        return Climb(u, *jax.value_and_grad(target)(u))

    def prepare(self, target: Target, u: np.ndarray, seed: int) -> tuple[Any, Float[np.ndarray, "c k"]]:
        """The step size, where one is given, and starting points."""
        given = self.step_size  # type: ignore[attr-defined]
        hint = None if given is None else put(np.asarray(check_step(given)))
        return hint, super().prepare(target, u, seed)[1]

    def _program(self) -> Sampler:
        given = self.step_size  # type: ignore[attr-defined]
        changed: dict[str, Any] = {"step_size": None if given is None else 1.0}
        return dataclasses.replace(super()._program(), **changed)


@dataclasses.dataclass(frozen=True)
class MALA(_Langevin):
    """The Metropolis-adjusted Langevin algorithm: ε tuned to accept 57 %, S the deviations seen in the warm-up.

    Args:
        step_size: an ε that is not tuned, with S = I.
        chains, draws, warmup, thin, keep, memory, start, spread, cores, progress: see `Sampler`.
    """

    step_size: Any = None

    def tune(self, target: Target, key: PRNGKeyArray, u: Float[Array, " k"], hint: Any) -> tuple[Array, Any]:
        """Step size and deviations."""
        if hint is not None:
            gait = Gait(jnp.log(hint), jnp.ones_like(u))
            return self.burn(target, key, u, gait), gait
        k = u.shape[0]
        # ε of the optimal order k^(-1/3) for a target of unit scale
        gait = Gait(jnp.asarray(np.log(0.5 * k ** (-1 / 3))), jnp.ones_like(u))

        def move(key: PRNGKeyArray, state: Climb, gait: Gait) -> tuple[Climb, Array]:
            state, info = self.step(target, key, state, gait)
            return state, info.acceptance

        state, gait = adapt(move, self.begin(target, u, gait), key, gait, AIM, self.warmup)
        return state.position, gait

    def step(self, target: Target, key: PRNGKeyArray, state: Climb, tuning: Gait) -> tuple[Climb, Info]:
        """blackjax's step, for the density of u/S."""
        from blackjax.mcmc import mala

        scale = tuning.shape
        inside = mala.MALAState(state.position / scale, state.density, state.gradient * scale)
        kernel = mala.build_kernel()
        new, info = kernel(key, inside, lambda v: target(scale * v), jnp.exp(tuning.log_scale))
        there = Climb(new.position * scale, new.logdensity, new.logdensity_grad / scale)
        # A step that was refused leaves the state as it was, to the last digit.
        state = jax.tree.map(lambda a, b: jnp.where(info.is_accepted, a, b), there, state)
        return state, Info.plain(info.acceptance_rate)


@dataclasses.dataclass(frozen=True)
class ULA(_Langevin):
    """The unadjusted Langevin algorithm: every step is taken, so the draws have a bias that shrinks with ε.

    For N(0, s²) the variance of the draws is s²/(1 - ε/2s²), and for ε ≥ 2s² they run away. Where that matters use
    `MALA`. A step to where the density is not finite is not taken.

    Args:
        step_size: ε, in squared unconstrained units; a tenth of the smallest posterior variance costs 5 % there.
        chains, draws, warmup, thin, keep, memory, start, spread, cores, progress: see `Sampler`.
    """

    step_size: Any

    def tune(self, target: Target, key: PRNGKeyArray, u: Float[Array, " k"], hint: Any) -> tuple[Array, Any]:
        """Burn-in."""
        return self.burn(target, key, u, hint), hint

    def step(self, target: Target, key: PRNGKeyArray, state: Climb, tuning: Array) -> tuple[Climb, Info]:
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


def check_step(value: Any) -> float:
    """ε as a positive number."""
    try:
        step = float(value)
    except (TypeError, ValueError):
        step = float("nan")
    if not (step > 0 and np.isfinite(step)):
        raise DataError(f"step_size must be a positive number, found {value!r}")
    return step
