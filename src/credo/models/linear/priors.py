"""What is believed of the weights of a linear model before data; `models/noise` has the noise."""

from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jax.scipy import stats
from jaxtyping import Float

from credo.core.arrays import Array
from credo.core.errors import DataError
from credo.core.gaussian import Gaussian
from credo.core.linalg import cholesky, inverse
from credo.core.params import number, positive


class Isotropic(eqx.Module):
    """w ~ N(0, I/precision): ridge regression is its mode."""

    precision: Float[Array, ""] = positive(1.0)

    def log_prob(self, weights: Float[Array, " p"]) -> Float[Array, " p"]:
        """log N(wᵢ | 0, 1/precision)."""
        return stats.norm.logpdf(weights, scale=1 / jnp.sqrt(self.precision))


class ARD(eqx.Module):
    """wᵢ ~ N(0, 1/precisionᵢ): a precision a feature, learned large where the feature does not matter.

    Automatic relevance determination. MacKay (1994); Tipping (2001). A scalar is the same start for all.
    """

    precision: Float[Array, "*p"] = positive(1.0)

    def log_prob(self, weights: Float[Array, " p"]) -> Float[Array, " p"]:
        """log N(wᵢ | 0, 1/precisionᵢ)."""
        return stats.norm.logpdf(weights, scale=1 / jnp.sqrt(self.precision))


class LaplacePrior(eqx.Module):
    """p(wᵢ) = exp(-|wᵢ|/scale) / (2 scale): the lasso is its mode. Tibshirani (1996); Park & Casella (2008)."""

    scale: Float[Array, ""] = positive(1.0)

    def log_prob(self, weights: Float[Array, " p"]) -> Float[Array, " p"]:
        """-|wᵢ|/scale - log 2 scale."""
        return stats.laplace.logpdf(weights, scale=self.scale)


class StudentTPrior(eqx.Module):
    """wᵢ ~ t_df(0, scale²): most weights are of the size of `scale`, a few may be much larger; by draws only."""

    df: Float[Array, ""] = number(4.0)
    scale: Float[Array, ""] = positive(1.0)

    def log_prob(self, weights: Float[Array, " p"]) -> Float[Array, " p"]:
        """log t_df(wᵢ | 0, scale²)."""
        return stats.t.logpdf(weights, self.df, scale=self.scale)


WeightPrior = Isotropic | ARD | LaplacePrior | Gaussian


class Intercept(eqx.Module):
    """b ~ N(mean, variance), the belief about the constant term.

    `learn` sets it to the mean and the variance of y: a prior worth one observation. Kass & Wasserman (1995).
    """

    mean: Float[Array, ""] = number(0.0)
    variance: Float[Array, ""] = number(100.0)


def prior_root(prior: Any, intercept: Intercept | None, p: int) -> tuple[Float[Array, " q"], Float[Array, "q q"]]:
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
        mean, root = jnp.zeros(p), jnp.diag(jnp.broadcast_to(jnp.sqrt(prior.precision), (p,)))
    if intercept is None:
        return mean, root
    full = jnp.zeros((p + 1, p + 1)).at[0, 0].set(1 / jnp.sqrt(intercept.variance)).at[1:, 1:].set(root)
    return jnp.concatenate([jnp.zeros(1), mean]), full
