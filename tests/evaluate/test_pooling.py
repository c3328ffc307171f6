"""Pools: weights that are given, equal or stacked, and predictions that are their averages."""

import numpy as np
import pytest
from scipy import optimize, special

import credo
from credo.core.errors import DataError
from credo.evaluate import leave_one_out, stacking_weights
from credo.evaluate.pooling import pool
from credo.kernels import RBF
from credo.models.gp.state_space import StateSpaceGP
from credo.models.linear import Isotropic, Linear

RNG = np.random.default_rng(0)
X = np.sort(RNG.uniform(-2, 2, size=(40, 1)), axis=0)
Y = np.exp(X[:, 0]) + 0.1 * RNG.normal(size=40)
QUERIES = np.linspace(-2.5, 2.5, 7)[:, None]


def members():
    return {"line": Linear(prior=Isotropic(1.0), noise=0.3), "gp": credo.GP(RBF(0.8), noise=0.05)}


def test_an_equal_pool_averages_densities_and_means():
    voters = [each.condition(X, Y).predict(QUERIES) for each in members().values()]
    found = pool(members(), X, Y, learn=False).predict(QUERIES)
    np.testing.assert_allclose(found.mean, np.mean([v.mean for v in voters], axis=0), rtol=1e-10)
    y = np.linspace(-1, 8, 7)
    expected = special.logsumexp([np.asarray(v.log_prob(y)) for v in voters], axis=0) - np.log(2)
    np.testing.assert_allclose(found.log_prob(y), expected, rtol=1e-8)


def test_weights_may_be_given_and_are_brought_to_sum_to_one():
    found = pool(list(members().values()), X, Y, weights=[3, 1], learn=False)
    np.testing.assert_allclose(found.weights, [0.75, 0.25], rtol=1e-12)
    alone = pool(members(), X, Y, weights=[0, 2], learn=False)
    expected = members()["gp"].condition(X, Y).predict(QUERIES).mean
    np.testing.assert_allclose(alone.predict(QUERIES).mean, expected, rtol=1e-10)


def test_each_learns_its_hyperparameters_as_fit_would():
    found = pool([credo.GP(), Linear()], X, Y, seed=1)
    expected = credo.fit(credo.GP(), X, Y, seed=1).predict(QUERIES).mean
    np.testing.assert_allclose(found.beliefs[0].predict(QUERIES).mean, expected, rtol=1e-6)


def test_a_pool_of_plain_and_warped_outcomes_has_intervals_that_hold_their_share():
    found = pool([credo.GP(), credo.WarpedGP()], X, Y).predict(QUERIES)
    low, high = found.interval(0.9)
    np.testing.assert_allclose(np.asarray(found.cdf(high)) - np.asarray(found.cdf(low)), 0.9, atol=1e-6)
    assert np.all(np.asarray(found.epistemic) > 0) and np.all(np.asarray(found.aleatoric) > 0)


def test_stacking_finds_the_highest_point_of_the_simplex():
    table = np.random.default_rng(1).normal(size=(3, 60))
    table[2] -= 3.0  # a voter who is always worse ends with nothing

    def missing(free):
        w = special.softmax([0.0, *free])
        return -special.logsumexp(table + np.log(w)[:, None], axis=0).sum()

    best = optimize.minimize(missing, np.zeros(2), method="Nelder-Mead", options={"xatol": 1e-8, "fatol": 1e-10})
    found = stacking_weights(table)
    assert found.sum() == pytest.approx(1.0) and np.all(found >= 0)
    height = special.logsumexp(table + np.log(found)[:, None], axis=0).sum()
    assert height == pytest.approx(-best.fun, abs=2e-3)
    assert found[2] < 0.02


def test_stacking_prefers_who_predicts_left_out_rows_and_shares_between_twins():
    found = pool(members(), X, Y, weights="stacking", learn=False)
    scores = {name: leave_one_out(each, X, Y).total for name, each in members().items()}
    assert scores["gp"] > scores["line"] + 10 and float(found.weights[1]) > 0.9
    twins = [members()["gp"], members()["gp"]]
    np.testing.assert_allclose(pool(twins, X, Y, weights="stacking", learn=False).weights, 0.5, atol=1e-9)


def test_rows_that_come_later_move_the_weights_by_their_evidence():
    found = pool(members(), X[::2], Y[::2], learn=False)
    evidence = [float(each.condition(X[::2], Y[::2]).log_evidence(X[1::2], Y[1::2])) for each in members().values()]
    after = found.condition(X[1::2], Y[1::2])
    np.testing.assert_allclose(after.weights, special.softmax(evidence), rtol=1e-6)


@pytest.mark.parametrize(
    "belief",
    [credo.GP(RBF(0.8), noise=0.05), credo.WarpedGP(RBF(0.8), noise=0.05), StateSpaceGP(credo.GP(noise=0.05))],
    ids=["GP", "WarpedGP", "StateSpaceGP"],
)
def test_left_out_rows_in_closed_form_are_those_of_conditioning_on_the_others(belief):
    order = np.random.default_rng(2).permutation(12)
    x, y = X[:12][order], Y[:12][order]
    found = leave_one_out(belief, x, y)
    for i in range(12):
        others = np.delete(np.arange(12), i)
        there = belief.condition(x[others], y[others]).predict(x[[i]])
        assert found.mean[i] == pytest.approx(float(there.mean[0]), rel=1e-6)
        assert found.log_density[i] == pytest.approx(float(there.log_prob(y[[i]])[0]), rel=1e-6, abs=1e-8)


def test_left_out_rows_may_follow_rows_that_were_seen():
    belief = credo.GP(RBF(0.8), noise=0.05)
    found = leave_one_out(belief.condition(X[:5], Y[:5]), X[5:12], Y[5:12])
    np.testing.assert_allclose(found.mean, leave_one_out(belief, X[:12], Y[:12]).mean[5:], rtol=1e-8)


def test_rows_without_an_outcome_are_left_out_of_the_answer_too():
    x, y = X[[3, 1, 0, 2, 4]], Y[[3, 1, 0, 2, 4]].copy()
    y[1] = np.nan
    rest = [0, 2, 3, 4]
    for belief in (credo.GP(noise=0.05), credo.WarpedGP(noise=0.05), StateSpaceGP(credo.GP(noise=0.05))):
        expected = belief.leave_one_out(x[rest], y[rest]).mean
        np.testing.assert_allclose(belief.leave_one_out(x, y).mean, expected, rtol=1e-10)
    seen = credo.GP(noise=0.05).condition(X[10:14], Y[10:14])
    assert seen.leave_one_out(x, y).mean.shape == (4,)


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        (lambda: pool([], X, Y), "beliefs is empty"),
        (lambda: pool(members(), X, Y, weights="best"), "'equal', 'stacking' or a number for each"),
        (lambda: pool(members(), X, Y, weights=[1.0]), "weights"),
        (lambda: pool(members(), X, Y, weights=[1.0, -1.0]), "weights must hold weights ≥ 0 that are not all zero"),
        (lambda: pool(members(), X, Y, learn=False, priors=False), "takes no options of fit, found priors"),
        (lambda: stacking_weights([[0.0, np.nan]]), "log_density must hold a number"),
        (lambda: stacking_weights([[-np.inf], [-np.inf]]), "for each row one that is finite"),
    ],
)
def test_bad_input(asked, message):
    with pytest.raises(DataError, match=message):
        asked()
