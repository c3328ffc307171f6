"""What stands between a function and its outcomes, y = f(x) + ε: noise that knows its own law.

    a number, GaussianNoise   ε ~ N(0, σ²)
    KnownNoise                ε ~ N(0, σᵢ²), the variance of every row given with the data
    Covariance                ε ~ N(0, S) of all rows together
    InverseGamma              ε ~ N(0, σ²),  σ² ~ InverseGamma(shape, scale), integrated out
    StudentTNoise             ε ~ t_df(0, scale²)
    LaplaceNoise              p(ε) = exp(-|ε|/scale)/(2 scale)

Beliefs hold a plain number where the variance is learned; `noise_of` gives the law that it stands for.
Noise with heavy tails is a scale mixture of Gaussians, ε | τ ~ N(0, scale²/τ). Lange, Little & Taylor (1989).
"""

import warnings
from abc import abstractmethod
from typing import ClassVar

import equinox as eqx
import numpy as np
from jaxtyping import Float

from credo.core.arrays import Array, Numeric, as_float, is_traced, namespace, special
from credo.core.checks import check_positive, check_table
from credo.core.errors import DataError, MisfitWarning
from credo.core.linalg import cholesky, log_determinant, solve_lower
from credo.core.params import constant, meaning, number, positive
from credo.core.predictive import Laplace, Mixture, Normal, Predictive, StudentT
from credo.core.pytrees import changed
from credo.core.special import LOG_2PI, log_rising

Values = Float[Array, "*m"]
FunctionCovariance = Float[Array, "q q"] | None

SURPRISE, FEWEST = 9.0, 8
"""Residuals three times as large as expected, of so many rows, are no accident: half of the 95 % intervals miss."""

NODES = 16
"""Of the quadrature over a latent value whose noise is not Gaussian."""


class Noise(eqx.Module):
    """The law of ε."""

    heavy_tailed: ClassVar[bool] = False
    """Whether outliers are expected: rows then have no sufficient statistics, and posteriors are approximations."""
    integrated: ClassVar[bool] = False
    """Whether σ² is unknown and integrated out; priors are then in units of it."""
    by_row: ClassVar[bool] = False
    """Whether every row comes with a variance of its own."""

    joint: ClassVar[bool] = False
    """Whether the noise of rows goes together."""

    @property
    @abstractmethod
    def variance(self) -> Values:
        """E[ε²]."""

    @property
    @abstractmethod
    def parameter(self) -> Values:
        """The number that draws are of: σ², or the scale where tails are heavy."""

    @abstractmethod
    def with_parameter(self, value: Values) -> "Noise":
        """The law with that number."""

    def around(self, center: Values) -> Predictive:
        """y = center + ε, nothing of which is ignorance."""
        return self.predict(center, np.zeros(center.shape))

    @abstractmethod
    def predict(self, mean: Values, latent: Values, covariance: FunctionCovariance = None) -> Predictive:
        """y = f + ε with f ~ N(mean, latent); `covariance` is that of f, where it is kept."""

    def log_prob(self, residual: Float[Array, " n"]) -> Float[Array, " n"]:
        """log p(ε = residual)."""
        return self.around(np.zeros(residual.shape)).log_prob(residual)

    @abstractmethod
    def adapt(self, half: float) -> "Noise":
        """Where learning starts: half the variance of y is noise."""

    @property
    def unit(self) -> Float[Array, ""]:
        """What precisions are measured in: σ², or 1 where it is unknown and priors are in units of it."""
        return self.variance

    def guess(self, n: Array, misfit: Array) -> Float[Array, ""]:
        """A typical σ² after n residuals with this sum of squares."""
        return self.variance

    def log_prior(self, parameter: Float[Array, ""]) -> Float[Array, ""]:
        """log p(σ²) where it is unknown."""
        return np.zeros(())

    def for_rows(self, variance: Numeric, rows: int | None = None) -> "GaussianNoise":
        """The noise of rows whose variances are given."""
        raise DataError("a variance for each row can be given only where the model's own noise is a known variance")


class GaussianNoise(Noise):
    """ε ~ N(0, variance)."""

    variance: Values = positive(1.0)

    @property
    def parameter(self) -> Values:
        """σ²."""
        return self.variance

    def with_parameter(self, value: Values) -> "Noise":
        """N(0, value)."""
        return GaussianNoise(value)

    def predict(self, mean: Values, latent: Values, covariance: FunctionCovariance = None) -> Normal:
        """N(mean, σ² + latent)."""
        return Normal(mean, _spread(self.variance, mean), latent, covariance)

    def adapt(self, half: float) -> "Noise":
        """σ² = half."""
        return GaussianNoise(as_float(half))

    def for_rows(self, variance: Numeric, rows: int | None = None) -> "GaussianNoise":
        """N(0, varianceᵢ)."""
        return GaussianNoise(check_positive(variance, "noise", rows))


class KnownNoise(GaussianNoise):
    """The noise variance of every row is given with the data; `variance` is used where a prediction names none."""

    by_row: ClassVar[bool] = True

    variance: Values = number(1.0)

    def adapt(self, half: float) -> "Noise":
        """Nothing is learned."""
        return self


class Covariance(GaussianNoise):
    """ε ~ N(0, S): noise that n rows share, e.g. repeated measurements of one subject, or the errors of a series.

    Rows are whitened, with S = vC and C = LLᵀ: L⁻¹y = L⁻¹Φθ + N(0, v). Queries are rows of their own, with noise v.

    Args:
        matrix: S, for the rows that the belief is conditioned on, in their order.
        variance: v, that of another row; None is the mean of those of S.
    """

    joint: ClassVar[bool] = True

    variance: Values = number(1.0)
    matrix: Float[Array, "n n"] = constant()

    def __init__(self, matrix: Numeric, variance: Numeric | None = None):
        table = check_table(matrix, "the noise covariance")
        if table.shape[0] != table.shape[1] or not (is_traced(table) or np.allclose(table, table.T, rtol=1e-8)):
            raise DataError(f"the noise covariance must be a symmetric matrix (n, n), found shape {table.shape}")
        self.matrix = table
        self.variance = as_float(table.diagonal().mean() if variance is None else variance)

    def adapt(self, half: float) -> "Noise":
        """Nothing is learned."""
        return self

    def whitened(self, rows: Float[Array, "n k"]) -> tuple[Float[Array, "n k"], Float[Array, ""]]:
        """L⁻¹ times the columns, and log |C|."""
        n = self.matrix.shape[0]
        if rows.shape[0] != n:
            raise DataError(f"the noise covariance is that of {n} rows, found {rows.shape[0]}; give them together")
        root = cholesky(self.matrix / self.variance, "the noise covariance")
        return solve_lower(root, rows), log_determinant(root)


class InverseGamma(Noise):
    """σ² ~ InverseGamma(shape, scale): unknown noise, integrated out; predictions become Student-t.

    The weights' prior then scales with it, w | σ² ~ N(m, σ² V): precisions are in units of the noise.
    """

    integrated: ClassVar[bool] = True

    shape: Float[Array, ""] = number(1.0)
    scale: Values = positive(1.0)

    @property
    def variance(self) -> Values:
        """E[σ²] = scale/(shape - 1), infinite up to shape 1."""
        xp = namespace(self)
        return xp.where(self.shape > 1, self.scale / xp.where(self.shape > 1, self.shape - 1, 1.0), np.inf)

    @property
    def parameter(self) -> Values:
        """1/E[1/σ²], a typical σ²."""
        return self.scale / self.shape

    @property
    def unit(self) -> Float[Array, ""]:
        """Priors are in units of σ²."""
        return np.ones(())

    def with_parameter(self, value: Values) -> "Noise":
        """Given σ² the noise is Gaussian."""
        return GaussianNoise(value)

    def updated(self, n: Array, misfit: Array) -> "InverseGamma":
        """IG(shape + n/2, scale + misfit/2), after n residuals with this sum of squares."""
        return InverseGamma(self.shape + n / 2, self.scale + misfit / 2)

    def log_evidence(self, n: Array, misfit: Array) -> Float[Array, ""]:
        """log p of n residuals with this sum of squares, σ² integrated out."""
        new, xp = self.updated(n, misfit), namespace(self, n, misfit)
        fit = self.shape * xp.log(self.scale) - new.shape * xp.log(new.scale)
        return fit + log_rising(self.shape, n / 2) - n / 2 * LOG_2PI

    def predict(self, mean: Values, latent: Values, covariance: FunctionCovariance = None) -> StudentT:
        """t_{2 shape}(mean, scale/shape (1 + latent)); `latent` is in units of σ²."""
        s2 = self.scale / self.shape
        joint = None if covariance is None else s2 * covariance
        return StudentT(_spread(2 * self.shape, mean), mean, _spread(s2, mean), s2 * latent, joint)

    def adapt(self, half: float) -> "Noise":
        """The scale is half."""
        return InverseGamma(self.shape, as_float(half))

    def guess(self, n: Array, misfit: Array) -> Float[Array, ""]:
        """1/E[1/σ²] of the posterior."""
        return self.updated(n, misfit).parameter

    def log_prior(self, parameter: Float[Array, ""]) -> Float[Array, ""]:
        """log InverseGamma(σ² | shape, scale)."""
        xp = namespace(self, parameter)
        value = self.shape * xp.log(self.scale) - special(self.shape).gammaln(self.shape)
        return value - (self.shape + 1) * xp.log(parameter) - self.scale / parameter


RowLoss = tuple[Float[Array, "... n"], Float[Array, "... n"]]


class HeavyTailed(Noise):
    """Noise with outliers: a scale mixture of Gaussians, whose rows have an expected precision."""

    heavy_tailed: ClassVar[bool] = True

    scale: eqx.AbstractVar[Values | None]
    """In the units of y; None means one."""

    @abstractmethod
    def around(self, center: Values) -> Predictive:
        """y = center + ε."""

    @property
    @abstractmethod
    def information(self) -> Float[Array, ""]:
        """The expected information about the location in one row."""

    @abstractmethod
    def row_precision(self, residual: Float[Array, " n"], blur: float = 0.0) -> Float[Array, " n"]:
        """The expected precision E[τ | residual]/scale² of each row, a cusp at zero blurred over so many scales."""

    @abstractmethod
    def row_loss(self, residual: Float[Array, "... n"], blur: float = 0.0) -> RowLoss:
        """-log p(residual) of each row up to a constant, and its second derivative where that is positive."""

    @property
    def blurs(self) -> tuple[float, ...]:
        """The blurs through which the mode is sought, sharper and sharper."""
        return (0.0,)

    @property
    def parameter(self) -> Values:
        """The scale."""
        return meaning(self, "scale")

    def with_parameter(self, value: Values) -> "Noise":
        """With this scale."""
        return changed(self, scale=value)

    def predict(self, mean: Values, latent: Values, covariance: FunctionCovariance = None) -> Mixture:
        """∫ p(y | f) N(f | mean, latent) df by Gauss-Hermite quadrature: a mixture over its nodes."""
        nodes, weights = np.polynomial.hermite_e.hermegauss(NODES)
        centers = mean + namespace(latent).sqrt(latent) * nodes[:, None]
        return Mixture(weights / weights.sum(), (self.around(centers),))

    def guess(self, n: Array, misfit: Array) -> Float[Array, ""]:
        """scale²."""
        return self.parameter**2

    def adapt(self, half: float) -> "Noise":
        """scale² is a half of it: the rest is in the tails."""
        return self.with_parameter(as_float(np.sqrt(half / 2)))


class StudentTNoise(HeavyTailed):
    """ε ~ t_df(0, scale²): outliers are rare but expected; `scale` is in the units of y.

    `df` is not learned: on data without outliers nothing bounds it from above.
    """

    df: Float[Array, ""] = number(4.0)
    scale: Values | None = positive(None, unset=1.0)

    @property
    def variance(self) -> Values:
        """scale² df/(df - 2), infinite up to df 2."""
        xp = namespace(self)
        return xp.where(self.df > 2, self.parameter**2 * self.df / xp.where(self.df > 2, self.df - 2, 1.0), np.inf)

    @property
    def information(self) -> Float[Array, ""]:
        """(df + 1)/(df + 3)/scale²."""
        return (self.df + 1) / (self.df + 3) / self.parameter**2

    def row_precision(self, residual: Float[Array, " n"], blur: float = 0.0) -> Float[Array, " n"]:
        """(df + 1)/(df scale² + r²)."""
        return (self.df + 1) / (self.df * self.parameter**2 + residual**2)

    def row_loss(self, residual: Float[Array, "... n"], blur: float = 0.0) -> RowLoss:
        """½(df + 1) log(1 + r²/(df scale²)); convex where r² < df scale²."""
        xp, width, square = namespace(self, residual), self.df * self.parameter**2, residual**2
        loss = 0.5 * (self.df + 1) * xp.log1p(square / width)
        return loss, (self.df + 1) * xp.maximum(width - square, 0.0) / (width + square) ** 2

    def around(self, center: Values) -> StudentT:
        """t_df(center, scale²)."""
        return StudentT(_spread(self.df, center), center, _spread(self.parameter**2, center), np.zeros(center.shape))


class LaplaceNoise(HeavyTailed):
    """p(ε) = exp(-|ε|/scale) / (2 scale): least absolute deviations."""

    scale: Values | None = positive(None, unset=1.0)

    @property
    def variance(self) -> Values:
        """2 scale²."""
        return 2 * self.parameter**2

    @property
    def information(self) -> Float[Array, ""]:
        """1/scale²."""
        return 1 / self.parameter**2

    def row_precision(self, residual: Float[Array, " n"], blur: float = 0.0) -> Float[Array, " n"]:
        """1/(scale |r|); |r| is kept away from zero, where a row is fitted exactly."""
        xp = namespace(self, residual)
        return 1 / (self.parameter * xp.maximum(xp.abs(residual), max(blur, 1e-8) * self.parameter))

    def row_loss(self, residual: Float[Array, "... n"], blur: float = 0.0) -> RowLoss:
        """|r|/scale, a parabola within the blur (Huber's loss)."""
        xp = namespace(self, residual)
        size, edge = xp.abs(residual), max(blur, 1e-8) * self.parameter
        bend = 1 / (edge * self.parameter)
        loss = xp.where(size > edge, (size - 0.5 * edge) / self.parameter, 0.5 * bend * residual**2)
        return loss, xp.where(size > edge, 0.0, bend)

    @property
    def blurs(self) -> tuple[float, ...]:
        """A row that is fitted exactly too early would be held there by its own weight."""
        return tuple(10.0**-k for k in range(9))

    def around(self, center: Values) -> Laplace:
        """Laplace(center, scale)."""
        return Laplace(center, _spread(self.parameter, center))


def warn_of_misfit(squares: Array | float, n: int, what: str = "noise") -> None:
    """A warning where outcomes contradict the numbers that a belief was given, so that its intervals hold nearly none.

    `squares` is rᵀ Cov(y)⁻¹ r of the residuals from what was expected before data: about n where the belief is right.
    """
    if is_traced(squares) or n < FEWEST or not float(squares) > SURPRISE * n:
        return
    warnings.warn(
        f"the outcomes contradict the {what}: residuals are {np.sqrt(float(squares) / n):.3g} times as large as "
        "the belief expects, and its intervals far too narrow; credo.fit(belief, X, y) learns them from the data",
        MisfitWarning,
        stacklevel=4,
    )


def noise_of(noise: Noise | Array | float) -> Noise:
    """The law that a belief's noise stands for: a number is the variance of a Gaussian."""
    return noise if isinstance(noise, Noise) else GaussianNoise(as_float(noise))


def _spread(value: Array, over: Array) -> Array:
    """The number for each of many."""
    return namespace(value, over).broadcast_to(value, over.shape)
