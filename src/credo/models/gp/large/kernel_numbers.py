"""Members to which the kernel is a vector of numbers: the weights of waves, or its values at the differences of nodes.

What rows say of fixed waves or nodes are sums (`Moments`). Where the variance of the noise is the model's alone they
are computed once, and a look at the evidence costs the same whatever n. The evidence is a function of the numbers and
of the noise, whose slopes JAX pulls back to the hyperparameters:

    ∂/∂Dᵢ = -½ [1/Dᵢ - (aᵢᵀΣaᵢ + eᵢ²)/Dᵢ²],    e = r - aᵀu,    u | y ~ N(u, Σ)
"""

from abc import abstractmethod
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from credo.core import params
from credo.core.arrays import Array, is_traced
from credo.core.errors import NotPositiveDefinite
from credo.models.gp import exact
from credo.models.gp.belief import GP
from credo.models.gp.data import Rows
from credo.models.gp.large.base import WeightSpaceGP
from credo.models.gp.large.low_rank import Moments


class OfKernelNumbers(WeightSpaceGP):
    """A member whose posterior depends on its kernel through a vector, and on rows through sums."""

    def __init__(self, gp: GP, method: Any):
        """The prior of a `GP`."""
        super().__init__(gp, method)

    @abstractmethod
    def kernel_numbers(self) -> Float[Array, " t"]:
        """The vector; traceable."""

    def numbers_now(self) -> Float[Array, " t"]:
        """`kernel_numbers`, compiled where the numbers are known."""
        traced = is_traced(self.kernel, self.mean)
        return self.kernel_numbers() if traced else np.asarray(_known_numbers(self.unconditioned()))

    @abstractmethod
    def check_inside(self, x: Any) -> None:
        """`DataError` where rows are where the member cannot see them."""

    @abstractmethod
    def sums(self, x: Any, u: Any, r: Any) -> Moments:
        """Σ u aaᵀ, Σ u ar and Σ ur² of waves or weights of nodes that do not change with the kernel."""

    @abstractmethod
    def evidence_and_slopes(self, numbers: Float[np.ndarray, " t"], look: "Look") -> tuple[float, np.ndarray, float]:
        """log p(y | X) with these numbers, ∂/∂numbers, and Σ sᵢ(aᵢᵀΣaᵢ + eᵢ²)/Dᵢ²."""

    @abstractmethod
    def placed(self, rows: Rows) -> Any:
        """With its waves or nodes chosen, where they are chosen from the rows."""

    def objective(self, slots: params.Layout, statistics: Rows, priors: dict[str, Any]) -> Any:
        """The evidence with its gradient, from sums over the rows."""
        own = self.placed(statistics)
        return None if is_traced(self, statistics) else SumsObjective(own, slots, statistics, priors)


class Look(NamedTuple):
    """Rows with the noise that they have now."""

    x: Float[np.ndarray, "n d"]
    d: Float[np.ndarray, " n"]
    scale: Float[np.ndarray, " n"]
    """s = ∂D/∂noise."""
    now: Moments
    by: Moments
    """The sums in which each row counts s/D², as the slopes of `now` do."""

    def squared_errors(self, u: np.ndarray, gram_u: np.ndarray) -> float:
        """Σ se²/D², with Σ s aaᵀu/D²."""
        return float(self.by.squares - 2.0 * self.by.cross @ u + u @ gram_u)


class SumsObjective:
    """log p(y | X, θ) + log p(θ) of the unconstrained vector, with its gradient."""

    def __init__(self, belief: OfKernelNumbers, slots: params.Layout, rows: Rows, priors: dict[str, Any]):
        self._x, _, self._scale, self._extra = rows.cut()
        self._about = belief.unconditioned(), slots, dict(priors)
        belief.check_inside(self._x)
        self._r = np.asarray(exact.residual(belief.prior, rows))[: rows.n]
        self._once = None if np.any(self._extra) else self._sums(1.0 / self._scale)

    def _sums(self, u: np.ndarray) -> Moments:
        return self._about[0].sums(self._x, u, self._r)

    def value(self, vector: np.ndarray) -> float:
        """The objective."""
        return self.value_and_grad(vector)[0]

    def value_and_grad(self, vector: np.ndarray) -> tuple[float, np.ndarray]:
        """The objective and its gradient; (-inf, 0) where it is not finite."""
        numbers, noise, log_prior = (np.asarray(v) for v in numbers_of(vector, *self._about))
        none = -np.inf, np.zeros_like(vector)
        try:
            value, *slopes = self.look(numbers, float(noise))
        except NotPositiveDefinite:
            return none
        slope = np.asarray(pull_numbers(vector, *self._about, *slopes))
        if not (np.isfinite(value) and np.all(np.isfinite(slope))):
            return none
        return value + float(log_prior), slope

    def look(self, numbers: np.ndarray, noise: float) -> tuple[float, np.ndarray, np.ndarray]:
        """log p(y | X) with these numbers of the kernel and this noise, and its slopes."""
        d = noise * self._scale + self._extra
        if self._once is not None:
            now = jax.tree.map(lambda v: v / noise, self._once)
            by = jax.tree.map(lambda v: v / noise, now)
        else:
            now, by = self._sums(1.0 / d), self._sums(self._scale / d**2)
        now = now.of_rows(len(d), np.log(d).sum())
        value, by_numbers, told = self._about[0].evidence_and_slopes(numbers, Look(self._x, d, self._scale, now, by))
        return value, by_numbers, np.asarray(-0.5 * ((self._scale / d).sum() - told))


def _parts(u: Array, belief: OfKernelNumbers, slots: params.Layout, priors: Any) -> tuple[Array, Array, Array]:
    own = params.from_vector(belief, slots, u)
    log_prior = jnp.asarray(params.log_prior(own, priors), float)
    return own.kernel_numbers(), jnp.asarray(own.noise_variance()), log_prior


@eqx.filter_jit
def numbers_of(vector: Array, belief: OfKernelNumbers, slots: params.Layout, priors: Any) -> tuple[Array, Array, Array]:
    """The numbers of the kernel, the variance of the noise and the log prior of an unconstrained vector."""
    return _parts(jnp.asarray(vector), belief, slots, priors)


@eqx.filter_jit
def pull_numbers(
    vector: Array, belief: OfKernelNumbers, slots: params.Layout, priors: Any, *slopes: Array
) -> Float[Array, " k"]:
    """∂/∂vector of the log prior and of what has these slopes in the numbers of the kernel and the noise."""
    _, pull = jax.vjp(lambda u: _parts(u, belief, slots, priors), jnp.asarray(vector))
    return pull((*slopes, jnp.ones(())))[0]


@eqx.filter_jit
def _known_numbers(belief: OfKernelNumbers) -> Float[Array, " t"]:
    """`kernel_numbers`, compiled."""
    return belief.kernel_numbers()
