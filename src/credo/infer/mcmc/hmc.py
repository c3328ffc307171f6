"""`NUTS` and `HMC`: trajectories that follow the gradient, and tune themselves.

    H(u, p) = -log p(u) + ½ pᵀM⁻¹p,    leapfrog steps of length ε along u' = M⁻¹p, p' = ∇log p(u)

M⁻¹ is the covariance of u, as far as it is known: from Laplace's approximation at first, from the draws of widening
windows of the warm-up then; dense where that is affordable. ε is tuned for the acceptance that is asked for.
Hoffman & Gelman (2014), "The No-U-Turn sampler"; Betancourt (2017). The steps are blackjax's.
"""

import dataclasses
from typing import Any, Literal

import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from credo.core.arrays import put
from credo.core.errors import DataError
from credo.infer.mcmc.chains import Info, Sampler, around
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
        """The covariance by which the metric begins, and starting points."""
        k = target.space.size
        hint = np.eye(k) if self._dense(k) else np.ones(k)
        return put(hint), around(target, u, self.chains, float(self.spread), seed)

    def tune(self, target: Target, key: PRNGKeyArray, u: Float[Array, " k"], hint: Any) -> tuple[Array, Any]:
        """Window adaptation of step size and metric."""
        import blackjax

        if self.warmup == 0:
            return u, {"step_size": jnp.asarray(0.1), "inverse_mass_matrix": hint}
        adaptation = blackjax.window_adaptation(
            self._algorithm(),
            target,
            is_mass_matrix_diagonal=hint.ndim == 1,
            initial_inverse_mass_matrix=hint,
            target_acceptance_rate=float(self.target_acceptance),
            adaptation_info_fn=lambda *_: None,
            **self._extra(),
        )
        (state, parameters), _ = adaptation.run(key, u, self.warmup)
        return state.position, {k: v for k, v in parameters.items() if k not in self._extra()}

    def begin(self, target: Target, u: Float[Array, " k"], tuning: Any) -> Any:
        """Position, density and gradient."""
        import blackjax

        return blackjax.mcmc.hmc.init(u, target)

    def _algorithm(self) -> Any:
        raise AssertionError

    def _extra(self) -> dict[str, Any]:
        return {}


@dataclasses.dataclass(frozen=True, kw_only=True)
class NUTS(_Hamiltonian):
    """The No-U-Turn sampler: trajectories that end where they would turn back.

    Args:
        target_acceptance: higher is slower and safer; raise it where trajectories diverge.
        metric: "dense" learns all correlations, "diagonal" scales only; "auto" is dense up to 64 numbers.
        max_depth: a trajectory has at most 2^max_depth steps.
        chains, draws, warmup, thin, keep, memory, spread, cores, progress: see `Sampler`.
    """

    max_depth: int = 10

    def _algorithm(self) -> Any:
        import blackjax

        return blackjax.nuts

    def _extra(self) -> dict[str, Any]:
        return {"max_num_doublings": self.max_depth}

    def step(self, target: Target, key: PRNGKeyArray, state: Any, tuning: Any) -> tuple[Any, Info]:
        """One trajectory."""
        import blackjax

        kernel = blackjax.nuts.build_kernel()
        state, info = kernel(key, state, target, **tuning, max_num_doublings=self.max_depth)
        cut = info.num_trajectory_expansions >= self.max_depth
        return state, Info(info.acceptance_rate, info.is_divergent, info.energy, cut)


@dataclasses.dataclass(frozen=True, kw_only=True)
class HMC(_Hamiltonian):
    """Hamiltonian Monte Carlo: trajectories of a fixed number of steps, of a length that varies by ± `jitter`.

    With trajectories of one length a chain can return to where it was, for ever. Neal (2011), §5.4.2.2.

    Args:
        steps: of a trajectory.
        jitter: the largest relative change of the step length, drawn anew for every trajectory.
        target_acceptance, metric: see `NUTS`.
        chains, draws, warmup, thin, keep, memory, spread, cores, progress: see `Sampler`.
    """

    steps: int = 10
    jitter: Any = 0.2

    def _algorithm(self) -> Any:
        import blackjax

        return blackjax.hmc

    def _extra(self) -> dict[str, Any]:
        return {"num_integration_steps": self.steps}

    def prepare(self, target: Target, u: np.ndarray, seed: int) -> tuple[Any, Float[np.ndarray, "c k"]]:
        """As for all trajectories, once their settings make sense."""
        if isinstance(self.steps, bool) or self.steps != int(self.steps) or self.steps < 1:
            raise DataError(f"steps must be a whole number of at least 1, found {self.steps!r}")
        if not 0 <= self.jitter < 1:
            raise DataError(f"jitter must be in [0, 1), found {self.jitter!r}")
        return super().prepare(target, u, seed)

    def step(self, target: Target, key: PRNGKeyArray, state: Any, tuning: Any) -> tuple[Any, Info]:
        """One trajectory."""
        import blackjax

        k_length, k_move = jr.split(key)
        length = tuning["step_size"] * jr.uniform(k_length, minval=1 - self.jitter, maxval=1 + self.jitter)
        kernel = blackjax.hmc.build_kernel()
        state, info = kernel(k_move, state, target, length, tuning["inverse_mass_matrix"], self.steps)
        return state, Info(info.acceptance_rate, info.is_divergent, info.energy, jnp.asarray(False))
