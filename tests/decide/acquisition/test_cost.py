import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import credo
from credo.core.errors import DataError
from credo.decide.acquisition.confidence_bounds import UpperConfidenceBound
from credo.decide.acquisition.cost import AffineCost, AtTarget, MultiFidelity, PerCost, log_expected_cost
from credo.decide.acquisition.improvement import ExpectedImprovement, LogExpectedImprovement
from credo.kernels import RBF
from credo.models.conjugate import BetaBernoulli

RNG = np.random.default_rng(3)
X = RNG.uniform(size=(15, 2))
Y = np.sin(5 * X[:, 0]) * X[:, 1] + 0.1 * RNG.normal(size=15)
AT = jnp.asarray(RNG.uniform(size=(6, 2)))
NOISE = 0.05
GP = credo.GP(RBF([0.4, 0.8], 1.3), 0.0, NOISE).condition(X, Y)


def twice(x):
    return 2.0 + x[:, 0]


@eqx.filter_jit
def both(acquisition, belief, x):
    return acquisition(belief, x), acquisition.climb(belief, x)


def expected_improvement(mean, std, best) -> np.ndarray:
    z = (mean - best) / std
    return std * (stats.norm.pdf(z) + z * stats.norm.cdf(z))


def posterior(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and covariance of f at the rows, by plain NumPy."""

    def k(a, b):
        return 1.3 * np.exp(-0.5 * (((a[:, None] - b[None]) / [0.4, 0.8]) ** 2).sum(axis=2))

    gain = k(rows, X) @ np.linalg.inv(k(X, X) + NOISE * np.eye(len(X)))
    return gain @ Y, k(rows, rows) - gain @ k(X, rows)


def test_score_per_cost_of_a_function():
    inner = ExpectedImprovement().prepared(GP)
    want = np.asarray(inner(GP, AT)) / (2.0 + np.asarray(AT[:, 0]))
    acquisition = PerCost(ExpectedImprovement(), twice).prepared(GP)
    value, logarithm = both(acquisition, GP, AT)
    np.testing.assert_allclose(value, want, rtol=1e-10)
    np.testing.assert_allclose(logarithm, np.log(want), rtol=1e-10)
    assert acquisition.scale == "positive"
    halved = both(PerCost(LogExpectedImprovement(), twice, 0.5).prepared(GP), GP, AT)[0]
    np.testing.assert_allclose(halved, np.asarray(inner(GP, AT)) / np.sqrt(2.0 + np.asarray(AT[:, 0])), rtol=1e-10)


def test_score_per_cost_of_a_belief():
    """log cost is believed normal, so the expected cost is that of a log-normal: against its draws' quadrature."""
    belief = credo.GP(RBF(0.5), 0.0, 0.1).condition(X, np.log(1.0 + 3 * X[:, 1]))
    prediction = belief.predict(AT)
    nodes, weights = np.polynomial.hermite_e.hermegauss(60)
    total = np.sqrt(np.asarray(prediction.epistemic + prediction.aleatoric))
    expected = np.exp(np.asarray(prediction.mean)[:, None] + total[:, None] * nodes) @ weights / np.sqrt(2 * np.pi)
    np.testing.assert_allclose(np.exp(log_expected_cost(belief, AT)), expected, rtol=1e-10)
    acquisition = PerCost(ExpectedImprovement(0.3), belief).prepared(GP)
    want = np.asarray(ExpectedImprovement(0.3)(GP, AT)) / expected
    np.testing.assert_allclose(both(acquisition, GP, AT)[0], want, rtol=1e-9)


def test_two_levels_of_known_correlation():
    """Before data f(x, s) and f(x, 1) have correlation exp(-(1 - s)²/2ℓ²), and EI is the same everywhere."""
    prior = credo.GP(RBF([0.4, 0.8], 1.3), 0.0, NOISE)
    acquisition = MultiFidelity(ExpectedImprovement(0.5), AffineCost(0.2, 2.0))
    rho = np.exp(-((1 - np.asarray(AT[:, 1])) ** 2) / (2 * 0.8**2))
    squared = rho**2 * 1.3 / (1.3 + NOISE)
    np.testing.assert_allclose(acquisition.correlation(prior, AT), squared, rtol=1e-10)
    want = expected_improvement(0.0, np.sqrt(1.3), 0.5) * squared / (0.2 + 2.0 * np.asarray(AT[:, 1]))
    value, logarithm = both(acquisition, prior, AT)
    np.testing.assert_allclose(value, want, rtol=1e-9)
    np.testing.assert_allclose(logarithm, np.log(want), rtol=1e-9)


def test_after_data_against_numpy():
    acquisition = MultiFidelity(cost=AffineCost(0.1, 1.0)).prepared(GP)
    at = np.asarray(AT)
    target = np.stack([at[:, 0], np.ones(6)], axis=1)
    seen_at_target = np.stack([X[:, 0], np.ones(15)], axis=1)
    best = posterior(seen_at_target)[0].max()
    mean, covariance = posterior(np.concatenate([at, target]))
    there = np.diag(covariance)[6:]
    squared = np.diag(covariance[:6, 6:]) ** 2 / (there * (np.diag(covariance)[:6] + NOISE))
    want = expected_improvement(mean[6:], np.sqrt(there), best) * squared / (0.1 + at[:, 1])
    np.testing.assert_allclose(both(acquisition, GP, AT)[0], want, rtol=1e-7)
    # ρ² is the share of the variance at the target that an outcome removes.
    after = [GP.condition(at[i : i + 1], [0.0]).predict(target[i : i + 1]).epistemic[0] for i in range(6)]
    np.testing.assert_allclose(1 - np.array(after) / there, squared, rtol=1e-6)


def test_the_fidelity_may_be_any_column():
    swapped = credo.GP(RBF([0.8, 0.4], 1.3), 0.0, NOISE).condition(X[:, ::-1], Y)
    want = both(MultiFidelity().prepared(GP), GP, AT)[0]
    got = both(MultiFidelity(column=0).prepared(swapped), swapped, AT[:, ::-1])[0]
    np.testing.assert_allclose(got, want, rtol=1e-9)


def test_slopes_are_right_and_pending_rows_are_moved_to_the_target():
    acquisition = MultiFidelity().prepared(GP, pending=AT[:1])
    slope = eqx.filter_jit(jax.grad(lambda v: acquisition.climb(GP, v).sum()))(AT)
    step = 1e-6
    for j in range(2):
        move = step * np.eye(2)[j]
        up, down = (both(acquisition, GP, AT + sign * move)[1] for sign in (1, -1))
        np.testing.assert_allclose(slope[:, j], (up - down) / (2 * step), rtol=1e-4, atol=1e-6)
    view = AtTarget(GP)
    assert np.all(view.seen_inputs()[:, 1] == 1) and AtTarget(credo.GP()).seen_inputs() is None
    np.testing.assert_allclose(view.covariance(X[:2], AT), GP.covariance(view.moved(X[:2]), view.moved(AT)))


def test_a_cheap_look_is_preferred_where_it_tells_as_much():
    """With fidelities that agree, cost decides; with fidelities that do not, the target is looked at."""
    rows = jnp.array([[0.9, 0.0], [0.9, 1.0]])
    agree = credo.GP(RBF([0.4, 50.0], 1.3), 0.0, NOISE).condition(X, Y)
    differ = credo.GP(RBF([0.4, 0.2], 1.3), 0.0, NOISE).condition(X, Y)
    cheap, dear = both(MultiFidelity().prepared(agree), agree, rows)[0]
    assert cheap > 5 * dear
    cheap, dear = both(MultiFidelity().prepared(differ), differ, rows)[0]
    assert cheap < dear


def test_bad_input():
    with pytest.raises(DataError, match="PerCost divides a score that is never negative, found UpperConfidenceBound"):
        PerCost(UpperConfidenceBound(), twice)
    with pytest.raises(DataError, match="cost must be a function of the rows or a belief about log cost, found float"):
        PerCost(ExpectedImprovement(), 3.0)
    with pytest.raises(DataError, match=r"cost must be positive, found -\d.* at row 0"):
        PerCost(ExpectedImprovement(), lambda x: -x[:, 0]).prepared(GP)
    with pytest.raises(DataError, match=r"one number per row: 15 are expected, found shape \(15, 2\)"):
        PerCost(ExpectedImprovement(), lambda x: x).prepared(GP)
    with pytest.raises(DataError, match="power must be a finite number of at least 0"):
        PerCost(ExpectedImprovement(), twice, -1.0).prepared(GP)
    with pytest.raises(DataError, match="slope must be a finite number of at least 0, found"):
        AffineCost(1.0, -2.0)
    with pytest.raises(DataError, match="column must name one of the 2 inputs, found 2"):
        MultiFidelity(cost=twice, column=2).prepared(GP)
    hours = credo.GP(RBF(1.0), 0.0, NOISE).condition(X * [1.0, 24.0], Y)
    with pytest.raises(DataError, match=r"fidelity must lie in \[0, 1\], found .* in column -1; scale it"):
        MultiFidelity().prepared(hours)
    with pytest.raises(DataError, match=r"MultiFidelity needs a belief with covariance\(x, z\)"):
        MultiFidelity().prepared(BetaBernoulli(1.0, 1.0))
