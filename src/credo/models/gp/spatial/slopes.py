"""Gradient, slope and aspect of a field, each with its doubt.

The gradient ∇f(x) is Gaussian with mean μ and covariance Σ. Its length, the slope, and its direction are not: their
moments are taken by Gauss-Hermite quadrature. Aspect is where the field falls most steeply, in degrees clockwise from
north; its doubt is the circular standard deviation √(-2 log R), R = |E exp(i aspect)|, large where nothing is known.
Mardia & Jupp (2000), "Directional statistics", §2.3.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from credo.models.gp.large.base import in_chunks

NODES = 24
"""Of the quadrature, in each of two directions."""


class Gradient(NamedTuple):
    """The slopes of a field at m places, along its two coordinates."""

    mean: Float[np.ndarray, "m 2"]
    covariance: Float[np.ndarray, "m 2 2"]

    @property
    def sd(self) -> Float[np.ndarray, "m 2"]:
        """Of each component."""
        return np.sqrt(np.maximum(np.diagonal(self.covariance, axis1=1, axis2=2), 0.0))

    @property
    def slope(self) -> Float[np.ndarray, " m"]:
        """E|∇f|: how much the field changes over a unit of distance."""
        return self.layers()["slope"]

    @property
    def slope_sd(self) -> Float[np.ndarray, " m"]:
        """The standard deviation of |∇f|."""
        return self.layers()["slope_sd"]

    @property
    def aspect(self) -> Float[np.ndarray, " m"]:
        """Where the field falls, in degrees clockwise from north (the second coordinate): the mean direction."""
        return self.layers()["aspect"]

    @property
    def aspect_sd(self) -> Float[np.ndarray, " m"]:
        """The circular standard deviation of the direction, in degrees."""
        return self.layers()["aspect_sd"]

    def layers(self) -> dict[str, Float[np.ndarray, " m"]]:
        """ "slope", "slope_sd", "aspect" and "aspect_sd", by one quadrature, some places at a time."""
        cuts = in_chunks(len(self.mean), NODES**2)
        parts = [Gradient(self.mean[cut], self.covariance[cut])._moments() for cut in cuts]
        slope, sd, downhill = (np.concatenate(each) for each in zip(*parts, strict=True))
        length = np.clip(np.linalg.norm(downhill, axis=1), 1e-12, 1.0)
        return {
            "slope": slope,
            "slope_sd": sd,
            "aspect": np.degrees(np.arctan2(downhill[:, 0], downhill[:, 1])) % 360.0,
            "aspect_sd": np.degrees(np.sqrt(-2.0 * np.log(length))),
        }

    def _moments(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Mean and standard deviation of the slope, and the mean of the unit vector downhill."""
        at, weight = np.polynomial.hermite_e.hermegauss(NODES)
        z = np.stack(np.meshgrid(at, at), -1).reshape(-1, 2)
        weight = np.outer(weight, weight).ravel() / weight.sum() ** 2
        first, second = self.sd.T
        along = self.covariance[:, 1, 0] / np.where(first > 0, first, 1.0)  # L = [[first, 0], [along, across]]
        across = np.sqrt(np.maximum(second**2 - along**2, 0.0))
        moved = np.stack([first[:, None] * z[:, 0], along[:, None] * z[:, 0] + across[:, None] * z[:, 1]], -1)
        drawn = self.mean[:, None, :] + moved
        length = np.linalg.norm(drawn, axis=2)
        mean = length @ weight
        square = np.square(self.mean).sum(1) + first**2 + second**2
        unit = -drawn / np.maximum(length, np.finfo(float).tiny)[:, :, None]
        return mean, np.sqrt(np.maximum(square - mean * mean, 0.0)), np.einsum("mqi,q->mi", unit, weight)
