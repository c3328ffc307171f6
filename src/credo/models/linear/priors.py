"""What is believed of the weights of a linear model before data; `models/noise` has the noise."""

import equinox as eqx
import numpy as np
from jaxtyping import Float

from credo.core.arrays import Array, namespace, special
from credo.core.errors import DataError
from credo.core.gaussian import Gaussian
from credo.core.linalg import cholesky, inverse
from credo.core.params import number, positive
from credo.core.special import LOG_2PI


class _Independent(eqx.Module):
    """wᵢ ~ N(0, 1/precision) each on its own."""

    precision: eqx.AbstractVar[Float[Array, "*p"]]

    def log_prob(self, weights: Float[Array, " p"]) -> Float[Array, " p"]:
        """log N(wᵢ | 0, 1/precisionᵢ)."""
        return 0.5 * (namespace(self).log(self.precision) - LOG_2PI - self.precision * weights**2)


class Isotropic(_Independent):
    """w ~ N(0, I/precision): ridge regression is its mode."""

    precision: Float[Array, ""] = positive(1.0)


class ARD(_Independent):
    """wᵢ ~ N(0, 1/precisionᵢ): a precision a feature, learned large where the feature does not matter.

    Automatic relevance determination. MacKay (1994); Tipping (2001). A scalar is the same start for all.
    """

    precision: Float[Array, "*p"] = positive(1.0)


class LaplacePrior(eqx.Module):
    """p(wᵢ) = exp(-|wᵢ|/scale) / (2 scale): the lasso is its mode. Tibshirani (1996); Park & Casella (2008)."""

    scale: Float[Array, ""] = positive(1.0)

    def log_prob(self, weights: Float[Array, " p"]) -> Float[Array, " p"]:
        """-|wᵢ|/scale - log 2 scale."""
        xp = namespace(self, weights)
        return -xp.abs(weights) / self.scale - xp.log(2 * self.scale)


class StudentTPrior(eqx.Module):
    """wᵢ ~ t_df(0, scale²): most weights are of the size of `scale`, a few may be much larger; by draws only."""

    df: Float[Array, ""] = number(4.0)
    scale: Float[Array, ""] = positive(1.0)

    def log_prob(self, weights: Float[Array, " p"]) -> Float[Array, " p"]:
        """log t_df(wᵢ | 0, scale²)."""
        xp, half = namespace(self, weights), 0.5 * (self.df + 1)
        log_gamma = special(self).gammaln
        highest = log_gamma(half) - log_gamma(self.df / 2) - 0.5 * xp.log(np.pi * self.df * self.scale**2)
        return highest - half * xp.log1p((weights / self.scale) ** 2 / self.df)


WeightPrior = Isotropic | ARD | LaplacePrior | Gaussian


class Intercept(eqx.Module):
    """b ~ N(mean, variance), the belief about the constant term.

    `learn` sets it to the mean and the variance of y: a prior worth one observation. Kass & Wasserman (1995).
    """

    mean: Float[Array, ""] = number(0.0)
    variance: Float[Array, ""] = number(100.0)


def as_intercept(value: object, default: Intercept | None = None) -> Intercept | None:
    """The belief about the constant term that a user means: True is the default one, None and False are none."""
    if value is True:
        return default or Intercept()
    if value is None or value is False or isinstance(value, Intercept):
        return value or None
    raise DataError(f"intercept must be True, False or an Intercept, found {value!r:.80}")


def prior_root(prior: object, intercept: Intercept | None, p: int) -> tuple[Float[Array, " q"], Float[Array, "q q"]]:
    """Mean and Cholesky root of the precision of θ = (b - reference, w); the reference is the intercept's mean."""
    if isinstance(prior, Gaussian):
        if prior.mean.shape != (p,):
            raise DataError(f"the prior is over {prior.mean.shape[0]} weights, but the features have {p}")
        covariance_root = cholesky(prior.covariance, "the prior covariance")
        mean, root = prior.mean, cholesky(inverse(covariance_root), "the prior precision")
    elif not isinstance(prior, Isotropic | ARD):
        lasso = isinstance(prior, LaplacePrior)
        raise DataError(
            f"{'a Laplace prior' if lasso else type(prior).__name__} has no Gaussian posterior; draw from it: "
            "condition(X, y, using=credo.infer.NUTS())"
            + (", or take its mode: condition(X, y, using=credo.infer.MAP())" if lasso else "")
        )
    else:
        if prior.precision.ndim and prior.precision.shape != (p,):
            raise DataError(f"the prior has {prior.precision.shape[0]} precisions, but there are {p} features")
        xp = namespace(prior)
        mean, root = np.zeros(p), xp.diag(xp.broadcast_to(xp.sqrt(prior.precision), (p,)))
    if intercept is None:
        return mean, root
    xp = namespace(mean, root, intercept)
    first = xp.reshape(intercept.variance**-0.5, (1, 1))
    full = xp.block([[first, np.zeros((1, p))], [np.zeros((p, 1)), root]])
    return xp.concatenate([np.zeros(1), mean]), full
