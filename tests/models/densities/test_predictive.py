"""θ integrated out: predictive laws and evidence against SciPy, the chain rule, conjugate beliefs and draws."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from credo.core.special import gamma_quantile
from credo.models.densities import CategoricalDensity, Columns, Gaussian, Observed, Poisson

K, N = 2, 30
WEIGHT = np.eye(K)[np.arange(N) % K]

DENSITIES = {
    "full": Gaussian("full"),
    "tied": Gaussian("tied"),
    "diagonal": Gaussian("diagonal"),
    "spherical": Gaussian("spherical"),
    "poisson": Poisson(),
    "categorical": CategoricalDensity(3),
    "columns": Columns((Gaussian("full"), [0, 2]), (Poisson(), 1)),
}


def table(name: str, n: int = N, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    if name == "categorical":
        return rng.integers(0, 3, (n, 1)).astype(float)
    if name == "poisson":
        return rng.poisson(4.0, (n, 3)).astype(float)
    x = rng.normal(size=(n, 3)) @ np.array([[1.0, 0.5, 0], [0, 1, 0.3], [0, 0, 2.0]]) + [5.0, 0.0, -3.0]
    if name == "columns":
        x[:, 1] = rng.poisson(4.0, n)
    return x


def whole(x: np.ndarray) -> Observed:
    return Observed(x, np.ones(x.shape, bool), None, True)


def ready(name: str) -> tuple:
    x = table(name)
    density = DENSITIES[name].resized(K, x.shape[1]).adapt(whole(x))
    return density, x


@pytest.mark.parametrize("name", DENSITIES)
def test_evidence_is_the_product_of_predictions(name):
    """log p(rows) = Σ log p(row | rows before): the closed forms of both agree."""
    density, x = ready(name)
    q = before = density.variational_posterior(density.expected_statistics(whole(x[:1]), 0 * WEIGHT[:1]))
    total = 0.0
    for i in range(N):
        row = whole(x[i : i + 1])
        total += density.log_predictive(q, row)[0, i % K]
        q = density.variational_posterior(density.expected_statistics(whole(x[: i + 1]), WEIGHT[: i + 1]))
    found = density.log_marginal(before, q) + density.log_base(whole(x)).sum()
    np.testing.assert_allclose(found, total, rtol=1e-9)


@pytest.mark.parametrize("name", DENSITIES)
def test_entries_that_were_not_seen_are_integrated_out(name):
    """A row of which all was seen goes one way or the other; one of which nothing was says nothing."""
    density, x = ready(name)
    q = density.variational_posterior(density.expected_statistics(whole(x), WEIGHT))
    seen = np.ones(x.shape, bool)
    np.testing.assert_allclose(
        density.log_predictive(q, Observed(x, seen)), density.log_predictive(q, whole(x)), rtol=1e-10
    )
    nothing = density.log_predictive(q, Observed(0 * x, ~seen))
    np.testing.assert_array_equal(nothing, np.zeros((N, K)))


def test_students_t_of_one_gaussian():
    x = table("full")
    density, _ = ready("full")
    q = density.variational_posterior(density.expected_statistics(whole(x), WEIGHT))
    df = float(q.df[0]) - 2
    law = stats.multivariate_t(
        density._origin + q.mean[0, :, 0], q.scale[0] / df * (1 + 1 / q.precision[0, 0, 0]), df=df
    )
    np.testing.assert_allclose(density.log_predictive(q, whole(x))[:, 0], law.logpdf(x), rtol=1e-9)
    seen = np.broadcast_to([True, False, True], x.shape)
    part = stats.multivariate_t(law.loc[[0, 2]], law.shape[np.ix_([0, 2], [0, 2])], df=df)
    np.testing.assert_allclose(
        density.log_predictive(q, Observed(np.where(seen, x, 0), seen))[:, 0], part.logpdf(x[:, [0, 2]]), rtol=1e-9
    )


@pytest.mark.parametrize("name", DENSITIES)
def test_draws_follow_the_predictive_law(name):
    """Rows of `sample_predictive`, and densities of `several` averaged: both against `log_predictive`."""
    density, x = ready(name)
    q = density.variational_posterior(density.expected_statistics(whole(x), WEIGHT))
    many, rows = 4000, whole(x[:5])
    each = np.exp(density.several(q, many, 3).log_prob(rows)).reshape(5, many, K)
    error = each.std(1) / np.sqrt(many)
    assert np.all(np.abs(each.mean(1) - np.exp(density.log_predictive(q, rows))) < 5 * error)
    drawn = density.sample_predictive(np.random.default_rng(1), q, np.zeros(20_000, int))
    # ∫ p = 1: the mean of u(x)/p(x) over draws is 1 for a density u, here that of the other component.
    logs = density.log_predictive(q, whole(drawn))
    ratio = np.exp(logs[:, 1] - logs[:, 0])
    assert abs(ratio.mean() - 1) < 6 * ratio.std() / np.sqrt(len(ratio)) + 0.02


@pytest.mark.parametrize("name", ["diagonal", "columns"])
def test_jax_says_the_same(name):
    density, x = ready(name)
    statistics = density.expected_statistics(whole(x), WEIGHT)

    def answers(density, statistics):
        q = density.variational_posterior(statistics)
        prior = density.variational_posterior(jax.tree.map(lambda leaf: 0 * leaf, statistics))
        several = density.several(q, 3, 0)
        return density.log_predictive(q, whole(x)), density.log_marginal(prior, q), several.log_prob(whole(x))

    for a, b in zip(answers(density, statistics), jax.jit(answers)(density, statistics), strict=True):
        np.testing.assert_allclose(b, a, rtol=1e-8)


def test_quantiles_of_gamma_laws():
    a = np.array([0.05, 0.3, 1.0, 2.5, 40.0, 1e5])[:, None]
    u = np.array([1e-6, 0.01, 0.3, 0.5, 0.9, 1 - 1e-6])
    np.testing.assert_allclose(gamma_quantile(jnp.asarray(a[1:]), jnp.asarray(u)), gamma_quantile(a[1:], u), rtol=1e-7)
    np.testing.assert_allclose(gamma_quantile(a[1:], u), stats.gamma(a[1:]).ppf(u), rtol=1e-9)
