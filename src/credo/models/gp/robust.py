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
from typing import NamedTuple

import jax
import numpy as np
from jaxtyping import Bool, Float

from credo.core import params
from credo.core.arrays import Array, as_float, held, is_traced, namespace, special
from credo.core.errors import DataError, NotConvergedWarning
from credo.core.linalg import demand, factorize, inverse, plus_diagonal, solve
from credo.core.loops import while_loop
from credo.core.predictive import Predictive
from credo.core.pytrees import changed
from credo.infer.learning import Evidence
from credo.infer.priors import LogScalePenalty
from credo.kernels import Kernel
from credo.models.gp import exact
from credo.models.gp.base import GaussianProcess
from credo.models.gp.belief import check_kernel_argument
from credo.models.gp.data import Rows, masked, pack
from credo.models.gp.evidence import CompiledModel, EvidenceObjective, NumpyModel, Priors, choose_model
from credo.models.gp.exact import Cholesky, GPPrior
from credo.models.gp.hyperpriors import NOISE, TYPICAL_NOISE, scales_of
from credo.models.gp.means import Mean, as_mean
from credo.models.noise import StudentTNoise

MAX_STEPS = 500
TOLERANCE = 1e-10
FAR = 4.0
"""Outcomes further than this many robust standard deviations from the median do not choose starting values."""


class RobustGP(GaussianProcess):
    """A Gaussian process with Student-t noise, conditioned by variational inference.

    Args:
        kernel: the covariance of function values; None is `Matern52(ard=True)`.
        mean: what is expected before data, as for `GP`.
        noise: `StudentTNoise(df, scale)`; `learn` chooses the scale.
    """

    noise_number = ("noise.scale", 2.0)

    kernel: Kernel
    mean: Mean
    noise: StudentTNoise
    precision: Float[Array, " c"] | None
    """λ̄: how much of a row's precision is believed; near zero for an outlier."""

    def __init__(self, kernel: Kernel | None = None, mean: object = None, noise: object = None):
        self.kernel = check_kernel_argument(kernel, type(self).__name__)
        self.mean = as_mean(mean)
        noise = StudentTNoise() if noise is None else noise
        if not isinstance(noise, StudentTNoise):
            raise DataError(f"RobustGP takes StudentTNoise, found {type(noise).__name__}; for Gaussian noise use GP")
        self.noise = noise
        self.seen = self.solved = self.precision = self.inputs = None

    def noise_variance(self) -> Float[Array, ""]:
        """s², of which a row has 1/λ̄."""
        return self.noise.parameter**2

    def in_units(self, rows: Rows) -> "RobustGP":
        """Starting values in the units of the data, outliers aside."""
        scales, center = scales_of(self.kernel, winsorized(rows))
        noise = self.noise
        if noise.scale is None:
            noise = changed(noise, scale=as_float(np.sqrt(2 * TYPICAL_NOISE * scales.variance)))
        mean = self.mean.adapt(rows.cut()[0], scales, center)
        return changed(self, kernel=self.kernel.adapt(scales), mean=mean, noise=noise)

    def default_priors(self, statistics: Rows) -> dict[str, LogScalePenalty]:
        """Those of a `GP`, from outcomes without their outliers; the scale's is the noise variance's, in its units."""
        quiet = winsorized(statistics)
        typical = np.sqrt(TYPICAL_NOISE * scales_of(self.kernel, quiet)[0].variance)
        return super().default_priors(quiet) | {"noise.scale": LogScalePenalty(typical, NOISE / 2)}

    def objective(self, slots: params.Layout, statistics: Rows, priors: Priors) -> EvidenceObjective | None:
        """The bound with its gradient, that at fixed λ̄."""
        if is_traced(self, statistics):
            return None
        return BoundObjective(choose_model(self, slots, statistics, priors), float(self.noise.df))

    def learner(self, priors: Priors) -> Evidence:
        """Two climbs of the bound: each look at it is a fixed point of its own."""
        return Evidence(starts=2, tolerance=1e-4)

    def condition_on(self, statistics: Rows) -> "RobustGP":
        """The approximate posterior after the rows, seen and new: all are weighed again."""
        rows = self.with_seen(statistics)
        found = infer(self.prior, self.noise.df, rows)
        solved = demand(found.solved, found.ok, exact.NOT_DEFINITE)
        warn_unless_settled(found.change, "the weights of the rows", "the noise scale and the lengthscales", MAX_STEPS)
        return changed(self, seen=rows, solved=solved, precision=found.precision)

    def evidence_of(self, statistics: Rows) -> Float[Array, ""]:
        """The lower bound F of log p(y | X); after data, the difference of the bounds with and without `statistics`."""
        whole = bound(self.prior, self.noise.df, self.with_seen(statistics))
        return whole if self.seen is None else whole - bound(self.prior, self.noise.df, self.seen)

    def unconditioned(self) -> "RobustGP":
        """The prior that this belief came from."""
        return changed(super().unconditioned(), precision=None)

    def predict(self, x: object) -> Predictive:
        """p(y* | x*, data): Student-t noise (aleatoric) around a Normal function (epistemic)."""
        f = self.function_at(self.queries(x))
        return self.noise.predict(f.mean, f.variance)

    def row_precisions(self) -> Float[Array, " n"]:
        """λ̄ of each row that was seen: about one where the row fits, near zero for an outlier."""
        rows, _ = self.conditioned()
        assert self.precision is not None
        return self.precision[: rows.n]

    def __repr__(self) -> str:
        mean = type(self.mean).__name__
        return f"RobustGP({self.kernel!r}, mean={mean}, noise={self.noise}, seen {self.seen_in_words()})"


def winsorized(rows: Rows) -> Rows:
    """The rows with outcomes far from the median drawn in, for starting values that outliers have no say in."""
    x, y, scale, extra = rows.cut()
    center = np.median(y)
    spread = 1.4826 * np.median(np.abs(y - center))
    inside = y if spread == 0 else np.clip(y, center - FAR * spread, center + FAR * spread)
    return pack(x, inside, scale, extra)


def warn_unless_settled(change: Float[Array, ""], what: str, look_at: str, steps: int) -> None:
    """A warning where an iteration over all rows has not converged."""
    if not is_traced(change) and float(change) > TOLERANCE:
        warnings.warn(
            f"{what} had not settled after {steps} steps (still moving by {float(change):.1g}); the answer is "
            f"usable, but look at {look_at}",
            NotConvergedWarning,
            stacklevel=4,
        )


# -- the fixed point ---------------------------------------------------------------------------------------------


class Inferred(NamedTuple):
    """q(f) and λ̄, and how they were found."""

    precision: Float[Array, " c"]
    solved: Cholesky
    change: Float[Array, ""]
    """By how much log λ̄ still moved at the last step."""
    ok: Bool[Array, ""]
    """Whether the covariance was positive definite."""


def infer(prior: GPPrior, df: Float[Array, ""], rows: Rows) -> Inferred:
    """q(f) and λ̄."""
    k, r = prior.kernel.between(rows.x, rows.x), exact.residual(prior, rows)
    own = masked(rows.mask, prior.noise * rows.scale, 1.0)
    precision, change = precisions(k, r, own, df, rows.mask)
    last = factorize(plus_diagonal(k, own / precision), rows.mask)
    return Inferred(precision, Cholesky(last.root, solve(last.root, r)), change, last.ok)


def precisions(
    k: Float[Array, "c c"],
    residual: Float[Array, " c"],
    own: Float[Array, " c"],
    df: Float[Array, ""] | float,
    mask: Bool[Array, " c"] | None = None,
) -> tuple[Float[Array, " c"], Float[Array, ""]]:
    """λ̄ and q(f) by turns from λ̄ = 1, until λ̄ no longer moves; and by how much it still did.

    With A = K + D, D = diag(own/λ̄) and α = A⁻¹(y - m):  E[(yᵢ - fᵢ)²] = (Dᵢαᵢ)² + Dᵢ - Dᵢ²[A⁻¹]ᵢᵢ.
    """
    xp = namespace(k, residual, own, df)
    State = tuple[Array, Array, Array, Array]

    def unfinished(state: State) -> Array:
        _, change, step, ok = state
        return ok & (change > TOLERANCE) & (step < MAX_STEPS)

    def turn(state: State) -> State:
        precision, _, step, _ = state
        noise = own / precision
        a = factorize(plus_diagonal(k, noise), mask)
        left = noise * solve(a.root, residual)
        squared = left * left + xp.maximum(noise - noise * noise * inverse(a.root).diagonal(), 0.0)
        new = masked(mask, (df + 1) / (df + squared / own), 1.0)
        return new, xp.max(xp.abs(xp.log(new / precision))), step + 1, a.ok

    start = (xp.ones(len(residual)), xp.asarray(np.inf), xp.asarray(0), xp.asarray(True))
    precision, change, *_ = while_loop(unfinished, turn, start)
    return precision, change


def bound(prior: GPPrior, df: Float[Array, ""], rows: Rows) -> Float[Array, ""]:
    """F ≤ log p(y | X); traceable, its gradient that at fixed λ̄."""
    precision = held(infer(*jax.tree.map(held, (prior, df, rows))).precision)
    believed = changed(rows, scale=rows.scale / precision)
    return exact.evidence(prior, believed) + masked(rows.mask, _weighed(precision, df)).sum()


def _weighed(precision: Float[Array, " c"], df: Float[Array, ""] | float) -> Float[Array, " c"]:
    """The terms of F beside the Gaussian one."""
    before, after = df / 2, df / 2 + 0.5
    xp, gammaln = namespace(precision, df), special(precision, df).gammaln
    constant = gammaln(after) - gammaln(before) - after * xp.log(after) + before * xp.log(before)
    return before * (xp.log(precision) - precision) + constant + after


class BoundObjective(EvidenceObjective):
    """F + log p(θ) of the unconstrained vector, with its gradient."""

    def __init__(self, model: NumpyModel | CompiledModel, df: float):
        super().__init__(model)
        self._df = df

    def noise_factors(
        self, k: Float[np.ndarray, "n n"], noise: Float[np.ndarray, " n"], residual: Float[np.ndarray, " n"]
    ) -> tuple[Float[np.ndarray, " n"], float]:
        """1/λ̄, and the terms of F beside the Gaussian one."""
        precision = np.asarray(precisions(k, residual, noise, self._df)[0])
        return 1.0 / precision, float(np.sum(_weighed(precision, self._df)))
