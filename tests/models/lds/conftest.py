"""A dumb oracle: all states and outcomes of a short sequence as one Gaussian vector, conditioned by dense algebra."""

from types import SimpleNamespace

import numpy as np
import pytest


def matrices(rng, n=2, p=2, t=None, singular=False):
    """Random F, Q, H, R, c, d, one for all times or one for each of t."""
    lead = () if t is None else (t,)
    f = 0.5 * rng.normal(size=(*lead, n, n))
    q, r = (rng.normal(size=(*lead, k, k)) for k in (n, p))
    if singular:
        q[..., 1:] = 0
    q, r = q @ np.swapaxes(q, -1, -2), r @ np.swapaxes(r, -1, -2) + 0.1 * np.eye(p)
    return f, q, rng.normal(size=(*lead, p, n)), r, rng.normal(size=(*lead, n)), rng.normal(size=(*lead, p))


def _at(a, rank, t):
    return a[t] if a.ndim > rank else a


def joint(mean, covariance, steps, t):
    """Mean and covariance of (z₁…z_T) and the map to (x₁…x_T) with its noise."""
    f, q, h, r, c, d = steps
    n, p = h.shape[-1], h.shape[-2]
    mu, sigma = np.zeros(t * n), np.zeros((t * n, t * n))
    mu[:n], sigma[:n, :n] = mean, covariance
    for i in range(1, t):
        now, last = slice(i * n, (i + 1) * n), slice((i - 1) * n, i * n)
        a = _at(f, 2, i)
        mu[now] = a @ mu[last] + _at(c, 1, i)
        sigma[now, : i * n] = a @ sigma[last, : i * n]
        sigma[: i * n, now] = sigma[now, : i * n].T
        sigma[now, now] = a @ sigma[last, last] @ a.T + _at(q, 2, i)
    big_h, big_r, big_d = np.zeros((t * p, t * n)), np.zeros((t * p, t * p)), np.zeros(t * p)
    for i in range(t):
        rows = slice(i * p, (i + 1) * p)
        big_h[rows, i * n : (i + 1) * n], big_r[rows, rows] = _at(h, 2, i), _at(r, 2, i)
        big_d[rows] = _at(d, 1, i)
    return mu, sigma, big_h, big_r, big_d


def given(mean, covariance, steps, x, until=None):
    """E and Cov of all states given the numbers of x that are not NaN (up to row `until`), and log p of those."""
    t, p = x.shape
    mu, sigma, h, r, d = joint(mean, covariance, steps, t)
    seen = ~np.isnan(x).ravel()
    if until is not None:
        seen[(until + 1) * p :] = False
    h, r, y = h[seen], r[np.ix_(seen, seen)], (x.ravel() - d)[seen]
    s = h @ sigma @ h.T + r
    v = y - h @ mu
    k = np.linalg.solve(s, h @ sigma).T
    log_p = -0.5 * (v @ np.linalg.solve(s, v) + np.linalg.slogdet(2 * np.pi * s)[1]) if seen.any() else 0.0
    return mu + k @ v, sigma - k @ h @ sigma, log_p


def blocks(mean, covariance, t):
    """The mean (t, n), the covariances (t, n, n) and Cov(z_{i+1}, z_i) (t-1, n, n) from those of the whole."""
    n = len(mean) // t
    c = covariance.reshape(t, n, t, n)
    same = np.stack([c[i, :, i] for i in range(t)])
    cross = np.stack([c[i + 1, :, i] for i in range(t - 1)]) if t > 1 else np.zeros((0, n, n))
    return mean.reshape(t, n), same, cross


@pytest.fixture
def oracle():
    """The functions of this file."""
    return SimpleNamespace(matrices=matrices, given=given, blocks=blocks)
