"""`RobustGP`: a Gaussian process whose noise has heavy tails, so that outliers do not bend the function.

    f ~ GP(m, k),   y = f(x) + ε,   ε ~ t_ν(0, s²)

Student-t noise is a scale mixture, ε | λ ~ N(0, s²/λ) with λ ~ Gamma(ν/2, ν/2). The posterior is approximated by
q(f) Πᵢ q(λᵢ), each factor the best given the others:

    q(λᵢ) = Gamma((ν + 1)/2, ·),    λ̄ᵢ = (ν + 1) / (ν + E[(yᵢ - fᵢ)²]/s²)
    q(f)  = the posterior of a GP whose row i has noise variance s²/λ̄ᵢ

and the evidence by its lower bound, in which everything but λ̄ᵢ has been maximized out (a₀ = ν/2, a = a₀ + ½):

    F = log N(y | m, K + diag(s²/λ̄)) + Σᵢ a₀(log λ̄ᵢ - λ̄ᵢ) + n [log Γ(a)/Γ(a₀) - a log a + a₀ log a₀ + a]

F is stationary in λ̄, so its gradient in the hyperparameters is the one at fixed λ̄. Tipping & Lawrence (2005),
"Variational inference for Student-t models"; Jylänki, Vanhatalo & Vehtari (2011), "Robust Gaussian process
regression with a Student-t likelihood", §3.3.
"""

import warnings
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy import special
from jaxtyping import Array, Bool, Float

from credo.core.arrays import is_traced
from credo.core.belief import Belief
from credo.core.errors import DataError, NotConvergedWarning
from credo.core.linalg import demand, factorize, gaussian_log_evidence, solve, solve_lower
from credo.core.predictive import Predictive
from credo.infer.learning import Evidence
from credo.infer.priors import LogScalePenalty
from credo.kernels import Kernel, Matern52
from credo.models.gp import exact
from credo.models.gp.data import Rows, pack, read
from credo.models.gp.exact import Prior, Solved
from credo.models.gp.hyperpriors import NOISE, TYPICAL_NOISE, default_priors, scales_of
from credo.models.gp.means import Mean, as_mean
from credo.models.noise import StudentTNoise

MAX_STEPS = 500
TOLERANCE = 1e-10
FAR = 4.0
"""Outcomes further than this many robust standard deviations from the median do not choose starting values."""


class RobustGP(Belief):
    """A Gaussian process with Student-t noise, conditioned by variational inference.

    Args:
        kernel: the covariance of function values; None is `Matern52(ard=True)`.
        mean: what is expected before data, as for `GP`.
        noise: `StudentTNoise(df, scale)`; `learn` chooses the scale.
    """

    kernel: Kernel
    mean: Mean
    noise: StudentTNoise
    seen: Rows | None
    solved: Solved | None
    precision: Float[Array, " c"] | None
    """λ̄: how much of a row's precision is believed; near zero for an outlier."""

    def __init__(self, kernel: Kernel | None = None, mean: Any = None, noise: Any = None):
        self.kernel = Matern52(ard=True) if kernel is None else kernel
        self.mean = as_mean(mean)
        self.noise = StudentTNoise() if noise is None else noise
        if not isinstance(self.noise, StudentTNoise):
            raise DataError(f"RobustGP takes StudentTNoise, found {type(noise).__name__}; for Gaussian noise use GP")
        self.seen, self.solved, self.precision = None, None, None

    @property
    def prior(self) -> Prior:
        """The prior as the numerics see it, with noise variance s²."""
        more = self.mean.kernel()
        return Prior(self.kernel if more is None else self.kernel + more, self.mean, self.noise.scale**2)

    # -- data ------------------------------------------------------------------------------------------------

    def statistics(self, *data: Any, weights: Any = None) -> Rows:
        """X and y, checked and padded; rows whose y is NaN are left out. A row of weight w has scale s/√w."""
        return read(self.kernel, data, None if self.seen is None else self.seen.x.shape[1], weights, None)

    def prepare(self, *data: Any, weights: Any = None) -> tuple["RobustGP", Rows]:
        """Starting values in the units of the data, outliers aside, and the rows: those seen before and the new."""
        if self.seen is not None:
            more = self.statistics(*data, weights=weights) if data else None
            return self.unconditioned(), self.seen if more is None else self.seen + more
        rows = self.statistics(*data, weights=weights)
        scales, center = scales_of(self.kernel, tame(rows))
        scale = self.noise.scale
        if float(scale) == 1.0:  # the default
            scale = jnp.asarray(np.sqrt(2 * TYPICAL_NOISE * scales.variance))
        ready = (self.kernel.adapt(scales), self.mean.adapt(rows.cut()[0], scales, center), scale)
        return eqx.tree_at(lambda b: (b.kernel, b.mean, b.noise.scale), self, ready), rows

    def default_priors(self, statistics: Rows) -> dict[str, Any]:
        """Those of a `GP`, from outcomes without their outliers; the scale's is the noise variance's, in its units."""
        quiet = tame(statistics)
        typical = np.sqrt(TYPICAL_NOISE * scales_of(self.kernel, quiet)[0].variance)
        return default_priors(self, quiet) | {"noise.scale": LogScalePenalty(typical, NOISE / 2)}

    def learner(self, priors: dict[str, Any]) -> Any:
        """Two climbs of the bound: each look at it is a fixed point of its own."""
        return Evidence(starts=2, tolerance=1e-4)

    # -- Bayes' rule -----------------------------------------------------------------------------------------

    def condition_on(self, statistics: Rows) -> "RobustGP":
        """The approximate posterior after the rows, seen and new: all are weighed again."""
        rows = statistics if self.seen is None else self.seen + statistics
        found = infer(self.prior, self.noise.df, rows)
        solved = demand(found.solved, found.ok, exact.NOT_DEFINITE)
        if not is_traced(found.change) and float(found.change) > TOLERANCE:
            warnings.warn(
                f"the weights of the rows had not settled after {MAX_STEPS} steps (still moving by "
                f"{float(found.change):.1g}); the answer is usable, but look at the noise scale and the lengthscales",
                NotConvergedWarning,
                stacklevel=3,
            )
        return eqx.tree_at(
            lambda b: (b.seen, b.solved, b.precision),
            self,
            (rows, solved, found.precision),
            is_leaf=lambda v: v is None,
        )

    def evidence_of(self, statistics: Rows) -> Float[Array, ""]:
        """The lower bound F of log p(y | X); after data, the difference of the bounds with and without `statistics`."""
        if self.seen is None:
            return bound(self.prior, self.noise.df, statistics)
        whole = bound(self.prior, self.noise.df, self.seen + statistics)
        return whole - bound(self.prior, self.noise.df, self.seen)

    def unconditioned(self) -> "RobustGP":
        """The prior that this belief came from."""
        return RobustGP(self.kernel, self.mean, self.noise)

    # -- predictions -----------------------------------------------------------------------------------------

    def predict(self, x: Any) -> Predictive:
        """p(y* | x*, data): Student-t noise (aleatoric) around a Normal function (epistemic)."""
        table = self.kernel.encode(x, "X", None if self.seen is None else self.seen.x.shape[1])
        mean, variance = exact.predict(self.prior, self.seen, self.solved, table)
        return self.noise.predict(mean, variance)

    def row_precisions(self) -> Float[Array, " n"]:
        """λ̄ of each row that was seen: about one where the row fits, near zero for an outlier."""
        if self.seen is None or self.precision is None:
            raise DataError("the belief has seen no data yet; condition it or use credo.fit")
        return self.precision[: self.seen.n]

    def __repr__(self) -> str:
        seen = "nothing" if self.seen is None else f"{'?' if is_traced(self.seen) else self.seen.n} rows"
        return f"RobustGP({self.kernel!r}, mean={type(self.mean).__name__}, noise={self.noise}, seen {seen})"


def tame(rows: Rows) -> Rows:
    """The rows with outcomes far from the median drawn in, for starting values that outliers have no say in."""
    x, y, scale, extra = rows.cut()
    center = np.median(y)
    spread = 1.4826 * np.median(np.abs(y - center))
    inside = y if spread == 0 else np.clip(y, center - FAR * spread, center + FAR * spread)
    return pack(x, inside, scale, extra)


# -- the fixed point ---------------------------------------------------------------------------------------------


class Inferred(NamedTuple):
    """q(f) and λ̄, and how they were found."""

    precision: Float[Array, " c"]
    solved: Solved
    change: Float[Array, ""]
    """By how much log λ̄ still moved at the last step."""
    steps: Float[Array, ""]
    ok: Bool[Array, ""]
    """Whether the covariance was positive definite."""


def weighed(rows: Rows, precision: Float[Array, " c"]) -> Rows:
    """The rows with noise variance s²/λ̄."""
    return eqx.tree_at(lambda r: r.scale, rows, rows.scale / precision)


@eqx.filter_jit
def infer(prior: Prior, df: Float[Array, ""], rows: Rows) -> Inferred:
    """q(f) and λ̄ by turns from λ̄ = 1, until λ̄ no longer moves.

    With A = K + D, D = diag(s²/λ̄) and α = A⁻¹(y - m):  E[(yᵢ - fᵢ)²] = (Dᵢαᵢ)² + Dᵢ - Dᵢ²[A⁻¹]ᵢᵢ.
    """
    own = jnp.where(rows.mask, prior.noise * rows.scale, 1.0)
    k = exact.covariance(prior, eqx.tree_at(lambda r: r.scale, rows, jnp.zeros_like(rows.scale)))
    r = exact.residual(prior, rows)
    State = tuple[Array, Array, Array, Array]

    def factor(precision: Array) -> Any:
        return factorize(k + jnp.diag(jnp.where(rows.mask, own / precision, 0.0)), rows.mask)

    def unfinished(state: State) -> Array:
        _, change, step, ok = state
        return ok & (change > TOLERANCE) & (step < MAX_STEPS)

    def turn(state: State) -> State:
        precision, _, step, _ = state
        noise, a = own / precision, factor(precision)
        alpha = solve(a.root, r)
        inverse_diagonal = jnp.square(solve_lower(a.root, jnp.eye(rows.capacity))).sum(0)
        squared = (noise * alpha) ** 2 + jnp.maximum(noise - noise**2 * inverse_diagonal, 0.0)
        new = jnp.where(rows.mask, (df + 1) / (df + squared / own), 1.0)
        return new, jnp.max(jnp.abs(jnp.log(new / precision))), step + 1, a.ok

    start = (jnp.ones(rows.capacity), jnp.asarray(jnp.inf), jnp.asarray(0.0), jnp.asarray(True))
    precision, change, steps, _ = jax.lax.while_loop(unfinished, turn, start)
    last = factor(precision)
    return Inferred(precision, Solved(last.root, solve(last.root, r)), change, steps, last.ok)


def bound(prior: Prior, df: Float[Array, ""], rows: Rows) -> Float[Array, ""]:
    """F ≤ log p(y | X); traceable, its gradient that at fixed λ̄."""
    held = jax.tree.map(lambda v: jax.lax.stop_gradient(v) if eqx.is_inexact_array(v) else v, (prior, df, rows))
    precision = jax.lax.stop_gradient(infer(*held).precision)
    gaussian = gaussian_log_evidence(
        exact.covariance(prior, weighed(rows, precision)), exact.residual(prior, rows), rows.mask
    )
    before, after = df / 2, df / 2 + 0.5
    constant = special.gammaln(after) - special.gammaln(before) - after * jnp.log(after) + before * jnp.log(before)
    each = before * (jnp.log(precision) - precision) + constant + after
    return gaussian + jnp.sum(jnp.where(rows.mask, each, 0.0))
