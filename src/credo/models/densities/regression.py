"""Regression densities: in each component the row follows the inputs in another way (switching regression)."""

from typing import TypeVar

import equinox as eqx
import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike

from credo.core.arrays import Array, namespace
from credo.core.errors import DataError
from credo.core.params import constant, real
from credo.core.pytrees import changed
from credo.models.conjugate.matrix import MatrixNormalInverseWishart
from credo.models.densities.base import Inputs, Observed, read_prior
from credo.models.densities.clusters import clusters, column_moments
from credo.models.densities.gamma import NormalInverseGammas
from credo.models.densities.gaussian import begun
from credo.models.densities.normal import JOINT, STRENGTH, NormalDensity

R = TypeVar("R", bound="Regression")


class Regression(NormalDensity):
    """x | k ~ N(weightsₖ u + biasₖ, Σₖ) for inputs u.  Murphy (2012), section 17.6.1; Hamilton (1989).

    Args:
        inputs: how many inputs there are; None to count them in the data.
        covariance: the structure of the noise, "diagonal", "full", "tied" or "spherical", or its numbers, as for
            `Gaussian`.
        weights: (k, d, c), bias: (k, d); None to begin near the regression on all data.
        prior: "weak" (matrix normal inverse Wishart, or normal inverse gamma for each column; worth 0.01 rows),
            None, or a `MatrixNormalInverseWishart` / `NormalInverseGammas` about (weights, bias).
    """

    inputs: int | None = eqx.field(static=True, default=None)
    weights: Float[Array, "k d c"] | None = real()
    bias: Float[Array, "k d"] | None = real()
    center: Float[Array, " c"] | None = constant()
    """A point amid the inputs, about which the weak prior is, and sums do not cancel."""

    def __init__(
        self,
        inputs: int | None = None,
        covariance: str | ArrayLike = "diagonal",
        *,
        weights: ArrayLike | None = None,
        bias: ArrayLike | None = None,
        prior: object = "weak",
        structure: str | None = None,
    ) -> None:
        self._set_noise(covariance, structure)
        self.weights, self.bias, self.center, self.inputs = None, None, None, inputs
        if (weights is None) != (bias is None):
            raise DataError("weights and bias must be given together, or neither")
        if weights is not None:
            w, b = np.asarray(weights, dtype=float), np.asarray(bias, dtype=float)
            if w.ndim != 3 or b.shape != w.shape[:2] or inputs not in (None, w.shape[-1]):
                raise DataError(
                    "weights must have shape (components, columns, inputs) and bias (components, columns), found "
                    f"{w.shape} and {b.shape}"
                )
            self.weights, self.bias = w, b
            self.k, self.columns, self.inputs = w.shape
        law = MatrixNormalInverseWishart if self.structure in JOINT else NormalInverseGammas
        self.weak, self.prior = read_prior(prior, law)

    @property
    def uses_inputs(self) -> bool:
        """It does."""
        return True

    @property
    def coefficients(self) -> Float[Array, "k d p"]:
        """(weights, value at the center of the inputs)."""
        weights, bias = self._known(self.weights), self._known(self.bias)
        middle = bias if self.center is None else bias + weights @ self.center
        return namespace(weights, bias).concatenate([weights, middle[:, :, None]], axis=2)

    def _with_coefficients(self: R, coefficients: Float[Array, "k d p"]) -> R:
        weights, middle = coefficients[:, :, :-1], coefficients[:, :, -1]
        return changed(self, weights=weights, bias=middle if self.center is None else middle - weights @ self.center)

    def design(self, rows: int, inputs: Inputs) -> Float[Array, "t p"]:
        """v = (u - center, 1)."""
        u = self._checked(inputs) - (0.0 if self.center is None else self.center)
        return namespace(u).concatenate([u, np.ones((rows, 1))], axis=1)

    def _checked(self, inputs: Inputs) -> Float[Array, "n c"]:
        if inputs is None or (self.inputs is not None and inputs.shape[1] != self.inputs):
            found = "none" if inputs is None else f"{inputs.shape[1]} columns"
            expected = "a table with a row for each of x's" if self.inputs is None else f"{self.inputs} columns"
            raise DataError(f"Regression densities need inputs, {expected}, found {found}; pass inputs=...")
        return inputs

    def adapt(self: R, data: Observed, *, seed: int = 0) -> R:
        """Least squares on all data, then k clusters of the residuals as biases, and slopes tilted at random."""
        x, seen, driven = data[:3]
        inputs = self._checked(driven)
        (k, d), c = self.sizes, inputs.shape[1]
        mean, variance = column_moments(x, seen)
        rows = seen.any(1)
        # A prior of one's own is about the value where inputs are 0.
        own = self.prior is not None and not self.weak
        center = None if own or not rows.any() else np.asarray(inputs)[rows].mean(0)
        u, y = inputs[rows] - (0.0 if center is None else center), np.where(seen, x, mean)[rows]
        square = (u**2).mean(0) if len(u) else np.ones(c)
        square = np.where(square > 0, square, 1.0)
        flat = np.concatenate([np.zeros((d, c)), mean[:, None]], axis=1)
        v = np.concatenate([u, np.ones((len(u), 1))], axis=1)
        slopes = np.linalg.lstsq(v, y, rcond=None)[0].T if len(u) else flat
        residual = y - v @ slopes.T
        _, left = column_moments(residual, np.ones_like(residual, bool))
        centers, within = clusters(residual, k, np.zeros(d), left, seed)
        precision = STRENGTH * np.diag(np.append(square, 1.0))
        new = changed(begun(self, flat, precision, variance, np.maximum(within, 0.1 * left)), inputs=c, center=center)
        if self.weights is not None:
            return new
        tilt = np.sqrt(left)[:, None] / np.sqrt(square) * np.random.default_rng(seed).normal(size=(k, d, c))
        tilted = slopes[:, :-1] + tilt / np.sqrt(c)
        return new._with_coefficients(np.concatenate([tilted, (slopes[:, -1] + centers)[:, :, None]], axis=2))
