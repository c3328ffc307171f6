"""Laplace's approximation of a marginal likelihood: the integral of a density from its height and curvature."""

import numpy as np

from credo.infer.optimize import ValueAndGrad, gradient_differences


def laplace_evidence(
    value_and_grad: ValueAndGrad, at: np.ndarray, *, least: float, root: np.ndarray | None = None, step: float = 1e-3
) -> float:
    """log ∫ exp J(u) du ≈ J + ½ gᵀA⁻¹g + k/2 log 2π - ½ log |A| around u = `at`, near the maximum.

    g is the gradient there and A minus the Hessian, from differences of the gradient. No direction is flatter than
    `least`: that bounds the eigenvalues of A, or of RᵀAR where u = Rz with R = `root` (of a prior's covariance, which
    data can only narrow: `least` = 1). MacKay (2003), "Information theory, inference, and learning algorithms", §27.
    """
    height, slope = value_and_grad(at)
    scale = np.eye(len(at)) if root is None else root
    values, axes = np.linalg.eigh(scale.T @ -gradient_differences(value_and_grad, at, step) @ scale)
    values = np.maximum(values, least)
    gain = 0.5 * float(np.sum((axes.T @ (scale.T @ slope)) ** 2 / values))
    width = 0.5 * len(at) * np.log(2 * np.pi) + float(np.linalg.slogdet(scale)[1])
    return height + gain + width - 0.5 * float(np.log(values).sum())
