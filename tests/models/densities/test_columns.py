"""Columns of different kinds side by side: sums over the parts, each asked on its own columns."""

import jax.random as jr
import numpy as np
import pytest

import credo
from credo.errors import DataError
from credo.models.densities import (
    CategoricalDensity,
    Columns,
    Gaussian,
    HasStatistics,
    IsConjugate,
    Observed,
    Poisson,
    VonMises,
)

N, K = 40, 2
WEIGHT = np.eye(K)[np.arange(N) % K]


@pytest.fixture
def data() -> Observed:
    rng = np.random.default_rng(3)
    x = np.column_stack([rng.poisson(3, N), rng.normal(size=(N, 2)), rng.integers(0, 3, N)]).astype(float)
    seen = rng.random(x.shape) < 0.8
    return Observed(np.where(seen, x, 0.0), seen)


def mixed() -> Columns:
    return Columns((Gaussian("full"), [2, 1]), (Poisson(), 0), (CategoricalDensity(3), [3]))


def cut(data: Observed, place: list[int]) -> Observed:
    return Observed(data.x[:, place], data.seen[:, place])


def test_it_is_the_product_of_its_parts(data):
    density = mixed().resized(K, 4).adapt(data)
    statistics = density.expected_statistics(data, WEIGHT)
    found = density.maximize(statistics)
    q = density.variational_posterior(statistics)
    logs, expected, divergence, prior = np.zeros((N, K)), np.zeros((N, K)), 0.0, 0.0
    for part, place in ((Gaussian("full"), [2, 1]), (Poisson(), [0]), (CategoricalDensity(3), [3])):
        mine = cut(data, place)
        alone = part.resized(K, len(place)).adapt(mine)
        sums = alone.expected_statistics(mine, WEIGHT)
        best, law = alone.maximize(sums), alone.variational_posterior(sums)
        logs += best.log_prob(mine)
        prior += best.log_prior()
        expected += alone.expected_log_prob(law, mine)
        divergence += alone.kl_to_prior(law)
    np.testing.assert_allclose(found.log_prob(data), logs, rtol=1e-12)
    np.testing.assert_allclose(found.log_prior(), prior, rtol=1e-12)
    np.testing.assert_allclose(density.expected_log_prob(q, data), expected, rtol=1e-12)
    np.testing.assert_allclose(density.kl_to_prior(q), divergence, rtol=1e-12)


def test_rows_are_drawn_in_the_order_of_the_table(data):
    density = mixed().resized(K, 4).adapt(data)
    rows = np.asarray(density.sample(jr.key(0), np.arange(200) % K))
    assert np.all(rows[:, 0] == np.round(rows[:, 0])) and set(rows[:, 3]) == {0.0, 1.0, 2.0}
    assert not np.any(rows[:, 1] == np.round(rows[:, 1]))


def test_it_can_do_what_all_parts_can():
    assert mixed().able(IsConjugate)
    angles = Columns((VonMises(), 0), (Poisson(), 1))
    assert angles.able(HasStatistics) and not angles.able(IsConjugate)


def test_hidden_states_show_columns_of_different_kinds(data):
    belief, statistics = credo.HMM(K, mixed()).prepare(data.x)
    better = belief.maximize(belief.expect(statistics)[0])
    assert better.evidence_of(statistics) > belief.evidence_of(statistics)


def test_what_is_wrong_is_said(data):
    with pytest.raises(DataError, match="named once"):
        Columns((Poisson(), [0, 1]), (Gaussian(), [1]))
    with pytest.raises(DataError, match="pairs"):
        Columns(Poisson())
    with pytest.raises(DataError, match="same number of components"):
        Columns((Poisson([1.0, 2.0]), 0), (Poisson([1.0]), 1))
    density = mixed().resized(K, 4).adapt(data)
    wrong = np.where(data.seen, data.x, 0.0)
    wrong[5, 3] = 7.0
    with pytest.raises(DataError, match="row 5, column 3"):
        density.check(Observed(wrong, np.ones_like(data.seen)))
    with pytest.raises(DataError, match="ask each part"):
        density.predictive(np.full((1, K), 0.5))
