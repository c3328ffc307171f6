"""Gaussian components by features: against SciPy's densities and the dense conditional, row by row."""

import numpy as np
import pytest
from scipy import stats

from credo.models.densities import Gaussian, Observed, quadratic

K, D = 3, 4


def case(seed: int = 0, n: int = 60, share: float = 0.3) -> tuple[Gaussian, Observed, np.ndarray]:
    rng = np.random.default_rng(seed)
    mean, a = rng.normal(size=(K, D)) * 2 + 5, rng.normal(size=(K, D, D))
    density = Gaussian(a @ a.swapaxes(1, 2) + 0.3 * np.eye(D), mean=mean, prior=None)
    x = mean[rng.integers(K, size=n)] + rng.normal(size=(n, D))
    seen = rng.random((n, D)) >= share
    seen[0] = False
    return density, Observed(np.where(seen, x, 0.0), seen, complete=bool(seen.all())), rng.dirichlet(np.ones(K))


def by_hand(density: Gaussian, data: Observed, weights: np.ndarray):
    """log p of each row, the counts, and Σ r E[x], Σ r E[xxᵀ] about the origin."""
    logs = np.zeros((len(data.x), K))
    for i, (x, o) in enumerate(zip(data.x, data.seen, strict=True)):
        for k in range(K):
            m, s = density.mean[k], density.covariance[k]
            logs[i, k] = stats.multivariate_normal(m[o], s[np.ix_(o, o)]).logpdf(x[o]) if o.any() else 0.0
    joint = logs + np.log(weights)
    total = np.logaddexp.reduce(joint, axis=1)
    share = np.exp(joint - total[:, None])
    first, second = np.zeros((K, D)), np.zeros((K, D, D))
    for i, (x, o) in enumerate(zip(data.x, data.seen, strict=True)):
        if not o.any():
            continue
        for k in range(K):
            m, s = density.mean[k], density.covariance[k]
            gain = s[:, o] @ np.linalg.inv(s[np.ix_(o, o)])
            mean = m + gain @ (x[o] - m[o]) - density.origin
            first[k] += share[i, k] * mean
            second[k] += share[i, k] * (np.outer(mean, mean) + s - gain @ s[o])
    return logs, share, total, first, second


@pytest.mark.parametrize("share", [0.0, 0.3])
def test_densities_and_moments_are_those_by_hand(share):
    density, data, weights = case(share=share)
    if share == 0:
        data = data._replace(seen=np.ones_like(data.seen), complete=True)
    logs, r, total, first, second = by_hand(density, data, weights)
    assert quadratic.suits(density, data)
    np.testing.assert_allclose(quadratic.log_joint(density, data, np.zeros(K)), logs, rtol=1e-10, atol=1e-10)
    w = np.linspace(0.5, 2, len(data.x))
    counts, moments, height = quadratic.expectation(density, data, np.log(weights), np.ones(len(data.x)))
    np.testing.assert_allclose(counts, r.sum(0), rtol=1e-9)
    np.testing.assert_allclose(height, total.sum(), rtol=1e-10)
    np.testing.assert_allclose(moments.xv[..., 0], first, rtol=1e-8, atol=1e-9)
    np.testing.assert_allclose(moments.xx, second, rtol=1e-8, atol=1e-9)
    counts, _, height = quadratic.expectation(density, data, np.log(weights), w)
    np.testing.assert_allclose(counts, w @ r, rtol=1e-9)
    np.testing.assert_allclose(height, w @ total, rtol=1e-10)


def test_blocks_and_patterns_of_any_length_give_the_same(monkeypatch):
    density, data, weights = case(1, 200)
    whole = quadratic.expectation(density, data, np.log(weights), np.ones(200))
    monkeypatch.setattr(quadratic, "ROWS", 7)
    monkeypatch.setattr(quadratic, "ENTRIES", 2 * K * D * D)
    order = np.lexsort(data.seen.T)
    parts = quadratic.expectation(density, data.cut(order), np.log(weights), np.ones(200))
    for a, b in zip(whole[1], parts[1], strict=True):
        np.testing.assert_allclose(b, a, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(parts[2], whole[2], rtol=1e-12)


def test_a_component_too_narrow_for_sums_of_products_is_left_to_differences():
    density, data, _ = case()
    narrow = Gaussian(1e-9 * np.asarray(density.covariance), mean=density.mean, prior=None)
    assert not quadratic.suits(narrow, data)
    logs = narrow.log_prob(data)
    row = 5
    o = data.seen[row]
    want = stats.multivariate_normal(narrow.mean[0][o], narrow.covariance[0][np.ix_(o, o)]).logpdf(data.x[row][o])
    np.testing.assert_allclose(logs[row, 0], want, rtol=1e-9)


def test_noise_of_rows_is_taken_off():
    """Against the marginal N(m, Σ + S) and the conditional of the row without its noise."""
    density, data, weights = case(2, 20)
    rng = np.random.default_rng(3)
    a = rng.normal(size=(20, D, D))
    noise = a @ a.swapaxes(1, 2)
    data = data._replace(noise=noise, seen=np.ones((20, D), bool), complete=True)
    logs = density.log_prob(data)
    counts, moments, _ = density.expectation(data, np.log(weights), np.ones(20))
    first, second = np.zeros(D), np.zeros((D, D))
    joint = logs + np.log(weights)
    r = np.exp(joint - np.logaddexp.reduce(joint, axis=1)[:, None])
    for i, x in enumerate(data.x):
        m, s = density.mean[1], density.covariance[1]
        np.testing.assert_allclose(logs[i, 1], stats.multivariate_normal(m, s + noise[i]).logpdf(x), rtol=1e-9)
        gain = s @ np.linalg.inv(s + noise[i])
        mean = m + gain @ (x - m) - density.origin
        first, second = first + r[i, 1] * mean, second + r[i, 1] * (np.outer(mean, mean) + s - gain @ s)
    np.testing.assert_allclose(counts, r.sum(0), rtol=1e-10)
    np.testing.assert_allclose(moments.xv[1, :, 0], first, rtol=1e-9)
    np.testing.assert_allclose(moments.xx[1], second, rtol=1e-9)
