import jax.numpy as jnp
import numpy as np
import pytest

import credo
from credo.core.errors import DataError
from credo.decide.acquisition import UpperConfidenceBound, regret_bound
from credo.decide.joint_information import greedy_gain
from credo.decide.regret import Regret
from credo.kernels import RBF


def test_regrets_of_a_short_run():
    regret = Regret(3.0)
    values = [1.0, 2.5, 2.0, 3.0]
    np.testing.assert_allclose(regret.instantaneous(values), [2.0, 0.5, 1.0, 0.0])
    np.testing.assert_allclose(regret.cumulative(values), [2.0, 2.5, 3.5, 3.5])
    np.testing.assert_allclose(regret.average(values), [2.0, 1.25, 3.5 / 3, 3.5 / 4])
    np.testing.assert_allclose(regret.simple(values), [2.0, 0.5, 0.5, 0.0])
    curves = regret.curves(values, recommended=[2.0, 2.5, 2.5, 2.0])
    np.testing.assert_allclose(curves.inference, [1.0, 0.5, 0.5, 1.0])
    np.testing.assert_allclose(curves.cumulative, regret.cumulative(values))
    np.testing.assert_allclose(curves.simple, regret.simple(values))
    assert regret.curves(values).inference is None
    assert str(curves) == "regret after 4 steps: cumulative 3.5, simple 0, inference 1"


def test_minimizing_mirrors_maximizing():
    values = np.asarray([[4.0, 1.0, 2.0], [0.5, 3.0, 0.25]])
    low, high = Regret(0.25, maximize=False).curves(values), Regret(-0.25).curves(-values)
    for a, b in zip(low[:3], high[:3], strict=True):
        np.testing.assert_array_equal(a, b)
    np.testing.assert_allclose(low.simple, [[3.75, 0.75, 0.75], [0.25, 0.25, 0.0]])


def test_a_value_may_equal_the_optimum_up_to_rounding():
    np.testing.assert_array_equal(Regret(0.397887).simple([0.397887 + 1e-12]), [0.0])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: Regret(1.0).simple([0.5, 1.5]), r"the value 1.5 at step 1 is better than the optimum 1; pass"),
        (lambda: Regret(1.0, maximize=False).simple([1.5, 0.5]), r"0.5 at step 1 is better"),
        (lambda: Regret(1.0).simple([0.5, np.nan]), "NaN or infinity"),
        (lambda: Regret(1.0).simple([]), "at least one step"),
        (lambda: Regret(1.0).simple(0.5), "at least one step"),
        (lambda: Regret(1.0).simple(["a"]), "must be numbers"),
        (lambda: Regret(np.inf), "optimum must be finite"),
        (lambda: Regret("best"), "optimum must be a number, found 'best'"),
        (lambda: Regret(1.0).curves([0.5, 0.6], [0.5]), r"one value per step \(2,\), found shape \(1,\)"),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(DataError, match=message):
        call()


def test_the_regret_of_confidence_bounds_stays_below_its_bound():
    """GP-UCB with β_t(δ) on functions drawn from the prior: R_t ≤ β_t √(C₁ t γ_t) for all t with probability 1 - δ.

    γ_t is bounded by what greedy choices say, divided by 1 - 1/e. Of 12 runs at δ = 0.1 more than 5 fail with
    probability < 1e-3; in truth the bound is loose and none does. Regret without learning (all of it at random)
    grows faster than the regret of the rule.
    """
    grid, noise, T, delta = np.linspace(0, 1, 30)[:, None], 0.05, 40, 0.1
    prior = credo.GP(RBF(0.15), mean=0.0, noise=noise)
    truth = np.asarray(prior.sample(grid, 12, seed=3))
    best = greedy_gain(prior, grid, T, repeats=True)
    beta = np.asarray([UpperConfidenceBound.schedule(t, delta, size=30) for t in range(1, T + 1)])
    gamma = np.cumsum(best.gains) / (1 - 1 / np.e)
    bound = np.asarray([regret_bound(t, beta[t - 1], gamma[t - 1], noise) for t in range(1, T + 1)])
    covariance = np.asarray(prior.covariance(grid, grid))
    rng = np.random.default_rng(0)
    failures, totals, blind = 0, [], []
    for f in truth:
        chosen, y = [], []
        for t in range(T):
            # The posterior on the grid by NumPy: the test is of the rule and its bound, not of GP.
            k = covariance[:, chosen]
            weights = k @ np.linalg.inv(covariance[np.ix_(chosen, chosen)] + noise * np.eye(t))
            mean, variance = weights @ np.asarray(y), np.maximum(1.0 - (weights * k).sum(1), 0.0)
            chosen.append(int(np.argmax(mean + beta[t] * np.sqrt(variance))))
            y.append(f[chosen[-1]] + np.sqrt(noise) * rng.normal())
        regret = Regret(f.max())
        failures += bool(np.any(regret.cumulative(f[chosen]) > bound))
        totals.append(regret.cumulative(f[chosen])[-1])
        blind.append(regret.cumulative(f[rng.integers(30, size=T)])[-1])
    assert failures <= 5
    assert np.mean(totals) < 0.7 * np.mean(blind)


def test_credo_s_own_loop_makes_the_same_choices():
    """The rule through `UpperConfidenceBound` and `GP.condition`, against the same by NumPy."""
    grid, noise = np.linspace(0, 1, 30)[:, None], 0.05
    prior = credo.GP(RBF(0.15), mean=0.0, noise=noise)
    f = np.asarray(prior.sample(grid, 1, seed=5))[0]
    rng = np.random.default_rng(1)
    belief, chosen, y = prior, [], []
    covariance = np.asarray(prior.covariance(grid, grid))
    for t in range(8):
        beta = UpperConfidenceBound.schedule(t + 1, 0.1, size=30)
        k = covariance[:, chosen]
        weights = k @ np.linalg.inv(covariance[np.ix_(chosen, chosen)] + noise * np.eye(t))
        mean, variance = weights @ np.asarray(y), np.maximum(1.0 - (weights * k).sum(1), 0.0)
        want = mean + beta * np.sqrt(variance)
        score = np.asarray(UpperConfidenceBound(beta)(belief, jnp.asarray(grid)))
        np.testing.assert_allclose(score, want, rtol=1e-6, atol=1e-8)
        chosen.append(int(np.argmax(want + 1e-9 * grid[:, 0])))
        y.append(f[chosen[-1]] + np.sqrt(noise) * rng.normal())
        belief = belief.condition(grid[chosen[-1:]], y[-1:])
