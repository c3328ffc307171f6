"""From the latent function to the outcome: the noise joins, and the kind of `Predictive` follows from it."""

from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from credo.core.checks import check_positive
from credo.core.errors import DataError
from credo.core.predictive import Laplace, Mixture, Normal, Predictive, StudentT
from credo.models.linear.posterior import Weights
from credo.models.linear.priors import KnownNoise, LaplaceNoise, StudentTNoise

NODES = 16


def outcome(
    weights: Weights,
    noise: Any,
    mean: Float[Array, " m"],
    latent: Float[Array, " m"],
    covariance: Float[Array, "m m"] | None,
    given: Any,
) -> Predictive:
    """p(y*) from the latent mean and variance; `given` is the noise variance of each query, where it is known."""
    if weights.shape is not None and weights.scale is not None:
        if given is not None:
            raise DataError("this model's noise is unknown and integrated out; it cannot be given for a query")
        s2 = weights.scale / weights.shape
        df = jnp.broadcast_to(2 * weights.shape, mean.shape)
        joint = None if covariance is None else s2 * covariance
        return StudentT(df, mean, jnp.broadcast_to(s2, mean.shape), s2 * latent, joint)
    if isinstance(noise, StudentTNoise | LaplaceNoise):
        if given is not None:
            raise DataError("a variance for each query can be given only where the noise is Gaussian")
        return _heavy_tailed(noise, mean, latent)
    if given is not None:
        return Normal(mean, jnp.asarray(check_positive(given, "noise", mean.shape[0])), latent, covariance)
    own = noise.variance if isinstance(noise, KnownNoise) else noise
    return Normal(mean, jnp.broadcast_to(own, mean.shape), latent, covariance)


def _heavy_tailed(noise: StudentTNoise | LaplaceNoise, mean: Array, latent: Array) -> Mixture:
    """∫ p(y | f) N(f | mean, latent) df by Gauss-Hermite quadrature: a mixture over its nodes."""
    nodes, node_weights = np.polynomial.hermite_e.hermegauss(NODES)
    centers = mean + jnp.sqrt(latent) * jnp.asarray(nodes)[:, None]
    scale = jnp.broadcast_to(noise.scale, centers.shape)
    weights = jnp.asarray(node_weights / node_weights.sum())
    if isinstance(noise, LaplaceNoise):
        return Mixture(weights, (Laplace(centers, scale),))
    return Mixture(weights, (StudentT(jnp.broadcast_to(noise.df, centers.shape), centers, scale**2, 0 * scale),))
