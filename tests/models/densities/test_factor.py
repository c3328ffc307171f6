"""Mixtures of factor analysers: the density against SciPy, EM that never falls, truths recovered."""

import jax
import numpy as np
import pytest
from scipy import special, stats

import credo
from credo.errors import DataError
from credo.infer import EM
from credo.models.densities import FactorAnalyser, Observed

RNG = np.random.default_rng(2)
W = [np.array([[2.0, 0], [1, 1], [0, 2], [-1, 1], [0, 0]]), np.array([[0, 1.0], [2, 0], [-1, 0], [1, 1], [1, 2]])]
MEAN = np.array([[0.0, 0, 0, 0, 0], [5, -5, 0, 5, 0]])
X = np.vstack(
    [m + RNG.normal(size=(250, 2)) @ w.T + 0.4 * RNG.normal(size=(250, 5)) for m, w in zip(MEAN, W, strict=True)]
)
SEEN = np.ones(X.shape, bool)
GAPS = RNG.random(X.shape) > 0.2


def mixture_em(density, data, steps=25):
    """A mixture in ten lines: log p + log prior at every step, and the density at the end."""
    shares, heights = np.full(density.k, 1 / density.k), []
    for _ in range(steps):
        joint = np.log(shares) + np.asarray(density.log_prob(data))
        total = special.logsumexp(joint, axis=1, keepdims=True)
        heights.append(float(total.sum() + density.log_prior()))
        weight = np.exp(joint - total)
        shares = weight.mean(0)
        density = density.maximize(density.expected_statistics(data, weight))
    return density, heights


@pytest.mark.parametrize("prior", ["weak", None])
@pytest.mark.parametrize("seen", [SEEN, GAPS], ids=["complete", "gaps"])
def test_em_of_a_mixture_never_falls_and_finds_the_covariances(prior, seen):
    data = Observed(np.where(seen, X, 0.0), seen, complete=bool(seen.all()))
    begun = FactorAnalyser(2, prior=prior).resized(2, 5).adapt(data)
    density, heights = mixture_em(begun, data)
    assert np.all(np.diff(heights) > -1e-7 * abs(heights[-1])) and heights[-1] > heights[0]
    order = np.argsort(np.asarray(density.mean)[:, 0])
    for k, w in zip(order, W, strict=True):
        truth = w @ w.T + 0.16 * np.eye(5)
        var = truth.diagonal()
        se = np.sqrt((np.outer(var, var) + truth**2) / (250 * (0.64 if seen is GAPS else 1)))
        assert np.all(np.abs(density.covariances[k] - truth) < 5 * se + 0.05)


def test_the_density_is_scipys_and_compiled_is_eager():
    data = Observed(X, SEEN, complete=True)
    density = FactorAnalyser(2).resized(2, 5).adapt(data)
    for k in range(2):
        want = stats.multivariate_normal(density.mean[k], density.covariances[k]).logpdf(X)
        np.testing.assert_allclose(density.log_prob(data)[:, k], want, rtol=1e-9)
    weight = RNG.dirichlet([1, 1], size=len(X))
    eager = density.maximize(density.expected_statistics(data, weight))
    compiled = jax.jit(lambda d: d.maximize(d.expected_statistics(data, weight)))(density)
    for name in ("mean", "w", "noise"):
        np.testing.assert_allclose(getattr(compiled, name), getattr(eager, name), rtol=1e-6, atol=1e-9)
    root = np.linalg.inv(density.covariances)
    want = -0.5 * (np.linalg.slogdet(density.covariances)[1] + np.einsum("kii,i->k", root, density.scatter)).sum()
    assert float(density.log_prior()) == pytest.approx(want)


def test_states_of_an_hmm_may_be_factor_analysers(tmp_path):
    rows = np.vstack([X[:60], X[250:310], X[60:80]])
    hmm = credo.fit(credo.HMM(2, FactorAnalyser(2)), rows, using=EM(starts=1, tolerance=1e-3))
    path = np.asarray(hmm.viterbi(rows))
    assert path[0] != path[60] and np.all(path == np.repeat(path[[0, 60, 0]], [60, 60, 20]))
    again = credo.load(credo.save(hmm, tmp_path / "hmm"))
    np.testing.assert_array_equal(again.emission.w, hmm.emission.w)
    with pytest.raises(DataError, match="l must be less than the 2 columns"):
        credo.fit(credo.HMM(2, FactorAnalyser(2)), X[:, :2])
