"""One of k classes with unknown probabilities: the Dirichlet distribution."""

import equinox as eqx
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Float, PRNGKeyArray

from credo.core import predictive
from credo.core.arrays import Array, as_float, is_traced, namespace, special
from credo.core.checks import ArrayLike, check_counts, check_table
from credo.core.errors import DataError
from credo.core.params import positive
from credo.core.predictive import Categorical, Interval
from credo.core.special import log_rising
from credo.models.conjugate.base import Conjugate, Statistics, check_parameter, check_trials
from credo.models.conjugate.binary import beta_interval
from credo.models.conjugate.known import Multinomial


class ClassCounts(Statistics):
    """How often each class occurred, and the log of the number of orders in which it can have happened."""

    counts: Float[Array, " k"] = eqx.field(converter=as_float)
    log_orders: Float[Array, ""] = eqx.field(converter=as_float)


class Dirichlet(Conjugate):
    """θ ~ Dirichlet(α), p(θ) = Π θₖ^(αₖ - 1)/B(α): αₖ counts the occurrences of class k.

    Mean αₖ/A, mode (αₖ - 1)/(A - K), strength A = Σ α. Murphy (2012), section 3.4.
    """

    alpha: Float[Array, " k"] = positive()

    def __check_init__(self) -> None:
        if np.ndim(self.alpha) != 1 or self.alpha.shape[0] < 2:
            raise DataError(
                f"alpha must be a vector with one entry for each of at least two classes, found shape "
                f"{np.shape(self.alpha)}; for k classes and a uniform belief pass [1.0] * k"
            )
        check_parameter(self.alpha, "alpha", remedy="pass positive numbers")

    @property
    def estimate(self) -> Float[Array, " k"]:
        """αₖ/A."""
        return self.alpha / self.strength

    @property
    def strength(self) -> Float[Array, ""]:
        """A = Σ αₖ."""
        return self.alpha.sum()

    def condition_on(self, statistics: ClassCounts) -> "Dirichlet":
        """Dirichlet(α + counts)."""
        return type(self)(self.alpha + statistics.counts)

    def evidence_of(self, statistics: ClassCounts) -> Array:
        """log B(α + n)/B(α), plus the log number of orders where the order is not part of the data."""
        rising = log_rising(self.alpha, statistics.counts).sum()
        return rising - log_rising(self.strength, statistics.counts.sum()) + statistics.log_orders

    def predict_counts(self, trials: ArrayLike) -> predictive.DirichletMultinomial:
        """How `trials` future outcomes fall into the classes."""
        return predictive.DirichletMultinomial(_one_number(trials), self.alpha)

    def mode(self) -> Array:
        """(αₖ - 1)/(A - K); there is no mode where an αₖ < 1 or all are 1."""
        excess = self.strength - self.alpha.shape[0]
        if not is_traced(excess) and not (np.all(self.alpha >= 1) and excess > 0):
            raise DataError(
                f"Dirichlet(alpha={np.asarray(self.alpha).tolist()}) has no mode: it needs every alpha ≥ 1 and "
                "one > 1; use .estimate (the mean)"
            )
        return (self.alpha - 1) / excess

    def log_prob(self, theta: ArrayLike) -> Array:
        """log Dirichlet(θ | α) for probabilities θ along the last axis; -inf off the simplex."""
        return log_dirichlet(self.alpha, as_float(theta))

    def credible_interval(self, level: ArrayLike = 0.95) -> Interval:
        """The central intervals that each hold θₖ ~ Beta(αₖ, A - αₖ) with probability `level`."""
        return beta_interval(self.alpha, self.strength - self.alpha, level)

    def _most_likely(self, statistics: ClassCounts) -> Array:
        return statistics.counts / statistics.counts.sum()

    def _draw_parameters(self, key: PRNGKeyArray) -> Array:
        return jr.dirichlet(key, self.alpha)


class DirichletCategorical(Dirichlet):
    """A die: xᵢ ~ Categorical(θ), θ ~ Dirichlet(α). Data are class indices 0 … k - 1."""

    def statistics(self, classes: ArrayLike) -> ClassCounts:
        """How often each class occurs."""
        return ClassCounts(count_indices(classes, "classes", self.alpha.shape[0]), np.zeros(()))

    def predict(self, trials: ArrayLike = None) -> predictive.Predictive:
        """The next outcome, Categorical(α/A), or with `trials` the counts of so many.

        E[H[θ]] = ψ(A + 1) - Σ αₖ/A ψ(αₖ + 1).
        """
        if trials is not None:
            return self.predict_counts(trials)
        return expected_die(self.alpha)

    def predict_at(self, theta: Float[Array, " k"], trials: ArrayLike = None) -> predictive.Predictive:
        """The next outcome, or the counts of `trials`, of a die that is known."""
        return Categorical.certain(theta) if trials is None else Multinomial(_one_number(trials), theta)


class DirichletMultinomial(Dirichlet):
    """Rows of counts: cᵢ ~ Multinomial(Σ cᵢ, θ), θ ~ Dirichlet(α). The evidence counts orders."""

    def statistics(self, counts: ArrayLike) -> ClassCounts:
        """The totals over the rows, and Σ log (Σₖ cᵢₖ)!/Πₖ cᵢₖ!."""
        c = check_count_table(counts, "counts", self.alpha.shape[0])
        gammaln = special(c).gammaln
        return ClassCounts(c.sum(0), gammaln(c.sum(1) + 1).sum() - gammaln(c + 1).sum())

    def predict(self, trials: ArrayLike = 1) -> predictive.DirichletMultinomial:
        """How `trials` future outcomes fall into the classes."""
        return self.predict_counts(trials)

    def predict_at(self, theta: Float[Array, " k"], trials: ArrayLike = 1) -> Multinomial:
        """How `trials` future outcomes fall into the classes where θ is known."""
        return Multinomial(_one_number(trials), theta)


def _one_number(trials: ArrayLike) -> int:
    m = check_trials(trials)
    if m.ndim:
        raise DataError(f"trials must be one whole number, found {m.size} of them; predict for each")
    return int(m)


def log_dirichlet(alpha: Float[Array, "*r k"], theta: Float[Array, "*s k"]) -> Float[Array, "*s"]:
    """log Dirichlet(θ | α) along the last axis; -inf off the simplex."""
    xp, functions = namespace(alpha, theta), special(alpha, theta)
    inside = xp.all(theta >= 0, axis=-1) & (xp.abs(theta.sum(-1) - 1) < 1e-8)
    log_normalizer = functions.gammaln(alpha).sum(-1) - functions.gammaln(alpha.sum(-1))
    density = functions.xlogy(alpha - 1, xp.maximum(theta, 0.0)).sum(-1) - log_normalizer
    return xp.where(inside, density, -np.inf)


def expected_die(alpha: Float[Array, "*r k"]) -> Categorical:
    """Categorical(α/A), with the noise E[H[θ]] = ψ(A + 1) - Σ αₖ/A ψ(αₖ + 1) of θ ~ Dirichlet(α)."""
    total, digamma = alpha.sum(-1), special(alpha).digamma
    probs = alpha / total[..., None]
    return Categorical(probs, digamma(total + 1) - (probs * digamma(alpha + 1)).sum(-1))


def count_indices(values: ArrayLike, name: str, k: int) -> Float[Array, " k"]:
    """How often each of 0 … k - 1 occurs."""
    x = check_counts(values, name, below=k)
    codes = x.astype(int)
    return as_float(jnp.bincount(codes, length=k) if is_traced(codes) else np.bincount(codes, minlength=k))


def check_count_table(counts: ArrayLike, name: str, columns: int) -> Float[Array, "n k"]:
    """Rows of whole numbers ≥ 0, one for each class."""
    table = check_table(counts, name)
    if table.shape[1] != columns:
        raise DataError(
            f"{name} must have one column for each of the {columns} classes, found {table.shape[1]} columns"
        )
    if not is_traced(table):
        wrong = np.argwhere((table < 0) | (table != np.round(table)))
        if len(wrong):
            row, column = (int(i) for i in wrong[0])
            raise DataError(
                f"{name} must hold whole numbers ≥ 0, found {table[row, column]:g} at row {row}, column {column}"
            )
    return table
