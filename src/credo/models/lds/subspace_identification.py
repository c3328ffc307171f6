"""Where learning begins: states from the main directions of what a few successive outcomes have in common.

Rows (xₜ, xₜ₊₁, …, xₜ₊ₗ₋₁) are projected to their n main directions, which stand for the state, and the matrices are
those of least squares. Van Overschee & De Moor (1996), "Subspace identification for linear systems", in its simplest
form.
"""

import numpy as np
from jaxtyping import Float

SMALLEST = 1e-6
"""Variances begin with at least this share of the data's."""


def first_guess(
    x: Float[np.ndarray, "t p"], first: np.ndarray, inputs: Float[np.ndarray, "t c"] | None, n: int, seed: int
) -> dict[str, np.ndarray]:
    """Matrices by name for rows x with NaN where nothing was seen; a seed other than 0 gives another guess."""
    rng = np.random.default_rng(seed)
    t, p = x.shape
    seen = ~np.isnan(x)
    counts = np.maximum(seen.sum(axis=0), 1)
    center = np.where(seen, x, 0.0).sum(axis=0) / counts
    spread = np.sqrt(np.maximum((np.where(seen, x - center, 0.0) ** 2).sum(axis=0) / counts, 0.0))
    spread = np.where(spread > 0, spread, 1.0)
    white = np.where(seen, x - center, 0.0) / spread
    lags = max(1, min(-(-n // p) + 1 + (seed % 3 if seed else 0), t))
    ahead = np.concatenate([np.vstack([white[i:], np.zeros((i, p))]) for i in range(lags)], axis=1)
    if seed:
        ahead = ahead + 0.3 * rng.normal(size=ahead.shape)
    values, vectors = np.linalg.eigh(ahead.T @ ahead / t)
    main = vectors[:, ::-1][:, :n]
    states = ahead @ main / np.sqrt(np.maximum(values[::-1][:n], SMALLEST))
    if states.shape[1] < n:
        states = np.hstack([states, rng.normal(size=(t, n - states.shape[1]))])
    states = states @ np.linalg.qr(rng.normal(size=(n, n)))[0] if seed else states
    driven = np.zeros((t, 0)) if inputs is None else inputs
    follows = ~first[1:]
    dynamics, q = _least_squares(states[1:][follows], np.hstack([states[:-1], driven[1:]])[follows], n)
    size = np.max(np.abs(np.linalg.eigvals(dynamics[:, :n])), initial=0.0)
    dynamics[:, :n] *= min(1.0, 0.99 / size) if size > 0 else 1.0
    whole = seen.all(axis=1)
    rows = np.hstack([states, driven])[whole]
    outcomes, r = _least_squares((x[whole] - center) / spread, rows, p)
    out = {
        "transition": dynamics[:, :n],
        "process_noise": q,
        "emission": outcomes[:, :n] * spread[:, None],
        "observation_noise": r * np.outer(spread, spread),
        "start_mean": np.zeros(n),
        "start_covariance": np.eye(n),
        "offset": center,
    }
    if inputs is not None:
        out |= {"control": dynamics[:, n:], "feedthrough": outcomes[:, n:] * spread[:, None]}
    return out


def _least_squares(y: np.ndarray, w: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Coefficients of y on w with a little shrinkage, and the covariance of the residuals, at least a tenth of y's."""
    m = w.shape[1]
    if len(y) == 0:
        return 0.5 * np.eye(k, m), np.eye(k)
    gram = w.T @ w + 1e-3 * len(w) * np.eye(m)
    c = np.linalg.lstsq(gram, w.T @ y, rcond=None)[0].T
    rest = y - w @ c.T
    return c, rest.T @ rest / len(y) + 0.1 * np.eye(k)
