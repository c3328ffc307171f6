"""Anomaly scores of mixtures: χ² for one Gaussian, simulation for columns of several kinds, gaps and all."""

import numpy as np
import pytest
from scipy import stats

import credo
from credo.core.errors import DataError
from credo.models.densities import CategoricalDensity, Columns, FactorAnalyser, Gaussian, Poisson

COVARIANCE = np.array([[2.0, 0.6, 0.0], [0.6, 1.0, 0.3], [0.0, 0.3, 0.5]])


def test_of_one_gaussian_it_is_the_tail_of_chi_squared():
    mixture = credo.Mixture(1, Gaussian(COVARIANCE[None], mean=np.array([[1.0, 2.0, 3.0]])), weights=[1.0])
    x = np.array([[1.0, 2.0, 3.05], [2.0, 3.0, 3.0], [4.0, 1.0, 2.0], [8.0, 2.0, 3.0], [9.0, -6.0, 8.0]])
    gap = x - [1.0, 2.0, 3.0]
    want = stats.chi2.sf(np.einsum("ni,ij,nj->n", gap, np.linalg.inv(COVARIANCE), gap), 3)
    np.testing.assert_allclose(mixture.anomaly(x), want, rtol=0.05)
    x[:, 1] = np.nan
    cut = COVARIANCE[np.ix_([0, 2], [0, 2])]
    want = stats.chi2.sf(np.einsum("ni,ij,nj->n", gap[:, [0, 2]], np.linalg.inv(cut), gap[:, [0, 2]]), 2)
    np.testing.assert_allclose(mixture.anomaly(x, missing=True), want, rtol=0.05)
    assert want[-1] < 1e-10


def mixed():
    mean = np.array([[0.0, 0.0, 0.0], [5.0, 5.0, 0.0], [0.0, 6.0, 6.0]])
    probs = np.array([[0.9, 0.09, 0.01], [0.3, 0.4, 0.3], [0.05, 0.05, 0.9]])
    numbers = Gaussian(np.stack([np.eye(3), np.eye(3) + 0.5, COVARIANCE]), mean=mean)
    return credo.Mixture(
        3, Columns((numbers, [0, 1, 2]), (CategoricalDensity(probs=probs), 3)), weights=[0.6, 0.3, 0.1]
    )


@pytest.mark.parametrize("hidden", [[], [0], [3]])
def test_of_a_mixture_it_is_what_simulation_says_or_a_little_more(hidden):
    mixture = mixed()
    x = mixture.sample(20_000, seed=1).copy()
    x[:, hidden] = np.nan
    height = mixture.log_density(x, missing=True)
    found = mixture.anomaly(x, missing=True)
    for share in (0.3, 0.1, 0.01):
        row = np.argsort(height)[int(share * len(x))]
        error = np.sqrt(share * (1 - share) / len(x))
        assert share - 5 * error < found[row] * 1.05, share
        assert found[row] < 1.35 * share + 5 * error, share


def test_codes_alone_have_a_bound():
    probs = np.array([[0.7, 0.2, 0.1], [0.2, 0.2, 0.6]])
    mixture = credo.Mixture(2, Columns(*((CategoricalDensity(probs=probs), j) for j in range(4))), weights=[0.5, 0.5])
    x = np.stack(np.meshgrid(*[np.arange(3.0)] * 4), -1).reshape(-1, 4)
    logs = np.asarray(mixture.log_density(x))
    exact = np.array([np.exp(logs[logs <= each + 1e-9]).sum() for each in logs])
    found = mixture.anomaly(x)
    assert np.all(found >= exact - 1e-9) and np.all(found <= 1)
    assert found[logs.argmin()] < found[logs.argmax()]


def test_nothing_seen_is_nothing_odd_and_other_densities_are_refused(rng):
    assert mixed().anomaly([[np.nan] * 4], missing=True) == 1
    x = rng.normal(size=(60, 4))
    assert credo.fit(credo.Mixture(1, FactorAnalyser(1)), x).anomaly(x).min() > 1e-4
    counts = credo.fit(credo.Mixture(1, Poisson()), rng.poisson(3.0, (50, 1)))
    with pytest.raises(DataError, match="anomaly is for Gaussian and categorical columns, found Poisson"):
        counts.anomaly([[3.0]])
