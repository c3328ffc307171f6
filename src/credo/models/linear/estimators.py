"""Point estimates of a linear model: least squares, ridge, lasso with its path, the robust mode.

ML      θ̂ = argmin ‖y - Φ̃θ‖²_W                        by SVD of Φ̃, never the normal equations
ridge   θ̂ = argmin ‖y - Φ̃θ‖²_W/σ² + ‖θ - m₀‖²_{P₀}    by QR of the augmented system
lasso   ŵ = argmin ‖y - b - Φw‖²_W/(2σ²) + ‖w‖₁/s      by coordinate descent; b unpenalized
"""

import warnings
from typing import NamedTuple

import numpy as np
from scipy import linalg as scipy_linalg

from credo.core.arrays import Array, as_float
from credo.core.checks import ArrayLike, check_positive
from credo.core.errors import DataError, NotConvergedWarning
from credo.core.pytrees import changed
from credo.models.linear.belief import Linear
from credo.models.linear.posterior import Weights
from credo.models.linear.priors import LaplacePrior, prior_root
from credo.models.linear.robust import find_mode
from credo.models.linear.statistics import Rows


class Path(NamedTuple):
    """The lasso's solutions from the strongest penalty to the weakest."""

    scale: np.ndarray
    """The scale of the Laplace prior, ascending: weaker and weaker shrinkage."""
    coefficients: np.ndarray
    """Shape (steps, p): the weights, without the intercept."""
    intercept: np.ndarray


def _rows(
    belief: Linear, x: ArrayLike, y: ArrayLike, **options: ArrayLike
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Design matrix, outcomes from the reference, and row weights."""
    belief._check_ready()
    rows = belief._rows(list(belief._chunks((x, y), **options)))
    return np.asarray(rows.design), np.asarray(rows.y), np.asarray(rows.weights)


def _point(belief: Linear, mean: Array, noise: ArrayLike = None) -> Linear:
    law = belief.noise if noise is None else as_float(noise)
    return changed(belief, weights=Weights(mean, None), seen=None, noise=law)


def _least_squares(phi: np.ndarray, target: np.ndarray, w: np.ndarray) -> tuple[np.ndarray, float, int]:
    """θ̂, its weighted sum of squares, and the rank of the design."""
    root = np.sqrt(w)
    mean, _, rank, _ = scipy_linalg.lstsq(phi * root[:, None], target * root)
    return mean, float(np.sum(w * (target - phi @ mean) ** 2)), int(rank)


def least_squares(belief: Linear, *data: ArrayLike, **options: ArrayLike) -> Linear:
    """Maximum likelihood: least squares, and the noise variance RSS/n (kept where it is given for each row)."""
    phi, target, w = _rows(belief, *data, **options)
    mean, residual, rank = _least_squares(phi, target, w)
    if rank < len(mean):
        warnings.warn(
            f"the design matrix has rank {rank} but {len(mean)} columns: the likelihood has no single maximum, the "
            "shortest is returned; drop collinear features or condition with a prior",
            NotConvergedWarning,
            stacklevel=4,
        )
    known = belief.noise_law.by_row or options.get("noise") is not None
    return _point(belief, mean, None if known else max(residual / len(w), np.finfo(float).tiny))


def maximum_log_likelihood(belief: Linear, *data: ArrayLike, **options: ArrayLike) -> tuple[float, int]:
    """-n/2 (log 2πσ̂² + 1) + ½ Σ log wᵢ at σ̂² = RSS/n, and the number of weights plus one for the noise."""
    phi, target, w = _rows(belief, *data, **options)
    _, residual, rank = _least_squares(phi, target, w)
    n = len(w)
    if options.get("noise") is not None:
        variance = float(belief.noise_variance())
        value = -0.5 * (n * np.log(2 * np.pi * variance) + residual / variance)
        return float(value + 0.5 * np.log(w).sum()), rank
    variance = max(residual / n, np.finfo(float).tiny)
    return float(-0.5 * n * (np.log(2 * np.pi * variance) + 1) + 0.5 * np.log(w).sum()), rank + 1


def posterior_mode(belief: Linear, *data: ArrayLike, **options: ArrayLike) -> Linear:
    """The mode of the weights' posterior as a point: ridge, lasso or robust, as prior and noise say."""
    phi, target, w = _rows(belief, *data, **options)
    if isinstance(belief.prior, LaplacePrior):
        if belief.is_robust:
            raise DataError("a Laplace prior with heavy-tailed noise is not offered; use Isotropic() or Gaussian noise")
        return _point(belief, _lasso(belief, float(belief.prior.scale), phi, target, w))
    prior = Weights(*prior_root(belief.prior, belief.intercept, phi.shape[1] - (belief.intercept is not None)))
    if belief.is_robust:
        rows = belief.statistics(*data, **options)
        assert isinstance(rows, Rows)
        return _point(belief, find_mode(prior, belief.noise, rows))
    if belief.noise_law.integrated:
        after = belief.condition_on(belief.statistics(*data, **options))._conditioned()
        assert after.noise is not None
        # The density of (θ, σ²) is highest at the mean of θ, where σ² has a + q/2 + 1 in its exponent.
        shape = after.noise.shape + after.mean.shape[0] / 2 + 1
        return _point(belief, after.mean, after.noise.scale / shape)
    variance = float(belief.noise_variance())
    scale = np.sqrt(w / variance)
    assert prior.root is not None
    upper = prior.root.T
    # Rows of the prior below the rows of the data: least squares never squares the condition number.
    augmented = np.vstack([phi * scale[:, None], upper])
    outcomes = np.concatenate([target * scale, upper @ prior.mean])
    q, r = np.linalg.qr(augmented)
    return _point(belief, scipy_linalg.solve_triangular(r, q.T @ outcomes))


def posterior_mean(belief: Linear, *data: ArrayLike, **options: ArrayLike) -> Linear:
    """E[θ | data] as a point, with the noise at its posterior mean where it is unknown."""
    after = belief.condition(*data, **options)
    assert isinstance(after, Linear)
    noise = after.noise_variance() if belief.noise_law.integrated else None
    return _point(belief, after._conditioned().mean, noise)


def _centred(
    belief: Linear, phi: np.ndarray, target: np.ndarray, w: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray, float]:
    """Features and outcomes for the lasso, from their means and times the root of the weights; and the means."""
    root = np.sqrt(w)
    if belief.intercept is None:
        return phi * root[:, None], target * root, np.zeros(phi.shape[1]), 0.0
    phi = phi[:, 1:]
    x_mean, y_mean = w @ phi / w.sum(), float(w @ target / w.sum())
    return (phi - x_mean) * root[:, None], (target - y_mean) * root, x_mean, y_mean


def _lasso(belief: Linear, scale: float, phi: np.ndarray, target: np.ndarray, w: np.ndarray) -> np.ndarray:
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import Lasso

    centred, outcomes, x_mean, y_mean = _centred(belief, phi, target, w)
    penalty = float(belief.noise_variance()) / (len(target) * scale)
    model = Lasso(alpha=penalty, fit_intercept=False, max_iter=100_000, tol=1e-8)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ConvergenceWarning)
        model.fit(centred, outcomes)
    if any(issubclass(c.category, ConvergenceWarning) for c in caught):
        warnings.warn(
            "the lasso's coordinate descent did not reach its tolerance; standardize the features (credo.fit does)",
            NotConvergedWarning,
            stacklevel=5,
        )
    constant = [] if belief.intercept is None else [y_mean - x_mean @ model.coef_]
    return np.concatenate([constant, model.coef_])


def lasso_path(
    belief: Linear,
    x: ArrayLike,
    y: ArrayLike,
    *,
    steps: int = 100,
    scale: ArrayLike = None,
    weights: ArrayLike = None,
    noise: ArrayLike = None,
) -> Path:
    """The lasso's weights as the Laplace prior widens, from all zero to nearly least squares, or at given scales."""
    from sklearn.linear_model import lasso_path as coordinate_descent

    phi, target, w = _rows(belief, x, y, weights=weights, noise=noise)
    centred, outcomes, x_mean, y_mean = _centred(belief, phi, target, w)
    unit = float(belief.noise_variance()) / len(target)
    grid = steps if scale is None else unit / np.sort(check_positive(scale, "scale"))
    penalties, coefficients, _ = coordinate_descent(centred, outcomes, alphas=grid, max_iter=100_000, tol=1e-8)
    table = coefficients.T
    return Path(unit / penalties, table, float(belief.reference) + y_mean - table @ x_mean)


def lasso_scale(belief: Linear, x: ArrayLike, y: ArrayLike, bound: float, **options: ArrayLike) -> float:
    """The scale of the `LaplacePrior` whose mode is the lasso in its constrained form, least squares with Σ|w| ≤ bound.

    Between the points where a weight enters or leaves, Σ|w| is linear in the penalty: LARS has them all, exactly.
    Efron, Hastie, Johnstone & Tibshirani (2004).
    """
    from sklearn.linear_model import lars_path

    phi, target, w = _rows(belief, x, y, **options)
    centred, outcomes, *_ = _centred(belief, phi, target, w)
    penalties, _, weights = lars_path(centred, outcomes, method="lasso")
    sums = np.abs(weights).sum(0)
    if not 0 < bound < sums[-1]:
        raise DataError(
            f"bound must be between 0 and {sums[-1]:.4g}, the sum of |w| of least squares, from which on it does not "
            f"bind; found {bound}"
        )
    return float(belief.noise_variance()) / (len(target) * float(np.interp(bound, sums, penalties)))
