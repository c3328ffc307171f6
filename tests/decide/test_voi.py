import equinox as eqx
import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import Array
from scipy import stats

from credo.core.belief import Belief
from credo.core.errors import DataError
from credo.core.predictive import Categorical, Normal
from credo.decide import (
    Absolute,
    Asymmetric,
    CostMatrix,
    CustomLoss,
    Squared,
    value_of_information,
    value_of_perfect_information,
)
from credo.models.conjugate import BetaBernoulli
from credo.models.linear import InverseGamma, Isotropic, Linear

RNG = np.random.default_rng(2)
X, Y = RNG.normal(size=(6, 2)), RNG.normal(size=6)
AT, CANDIDATES = np.array([[1.0, -0.5], [0.2, 2.0]]), RNG.normal(size=(4, 2))
BELIEF = Linear(prior=Isotropic(0.5), noise=0.3, intercept=None).condition(X, Y)


class Stubborn(Belief):
    """A mean with known noise whose Bayes' rule looks at the numbers: it cannot be traced."""

    mean: Array = eqx.field(converter=jnp.asarray)
    variance: Array = eqx.field(converter=jnp.asarray)

    def statistics(self, *data):
        return np.asarray(data[0])

    def condition_on(self, statistics):
        precision = 1 / self.variance + len(statistics)
        return Stubborn((self.mean / self.variance + float(statistics.sum())) / precision, 1 / precision)

    def evidence_of(self, statistics):
        return jnp.zeros(())

    def predict(self):
        return Normal(self.mean, jnp.ones(()), self.variance)


def variance_reduction() -> np.ndarray:
    """Σ over decisions of (k(at, x))²/(k(x, x) + noise): what one observation takes off the variance."""
    S = np.linalg.inv(0.5 * np.eye(2) + X.T @ X / 0.3)
    cross = AT @ S @ CANDIDATES.T
    return np.sum(cross**2, axis=0) / (np.sum(CANDIDATES @ S * CANDIDATES, axis=1) + 0.3)


def test_squared_loss_pays_for_the_variance_it_removes():
    got = value_of_information(BELIEF, CANDIDATES, Squared(), AT)
    np.testing.assert_allclose(got, variance_reduction(), rtol=1e-8)
    net = value_of_information(BELIEF, CANDIDATES, Squared(), AT, cost=[0.0, 1.0, 0.0, 2.0])
    np.testing.assert_allclose(net, variance_reduction() - [0, 1, 0, 2], rtol=1e-8)


def test_absolute_loss_of_a_normal():
    """E|y - median| = √(2/π) sd, before and after."""
    S = np.linalg.inv(0.5 * np.eye(2) + X.T @ X / 0.3)
    now = np.sum(AT @ S * AT, axis=1) + 0.3
    x = CANDIDATES[0]
    after = now - (AT @ S @ x) ** 2 / (x @ S @ x + 0.3)
    want = np.sqrt(2 / np.pi) * np.sum(np.sqrt(now) - np.sqrt(after))
    got = value_of_information(BELIEF, CANDIDATES[:1], Absolute(), AT)
    np.testing.assert_allclose(got, [want], rtol=1e-8)


def test_never_negative_and_never_more_than_perfect_information():
    unknown = Linear(prior=Isotropic(0.5), noise=InverseGamma(3.0, 1.0), intercept=None).condition(X, Y)
    loss = Asymmetric(under=5, over=1)
    value = np.asarray(value_of_information(unknown, CANDIDATES[:2], loss, AT))
    perfect = float(np.sum(value_of_perfect_information(unknown.predict(AT), loss)))
    assert np.all(value > -1e-6) and np.all(value < perfect)


def test_a_coin_by_hand():
    """Bet or not on a coin with Beta(1, 1): one toss is worth 1/6."""
    loss = CostMatrix([[1.0, 1.0], [2.0, 0.0]])
    coin = BetaBernoulli(1.0, 1.0)
    # Now both actions cost 1. After heads (p = 2/3) betting costs 2/3, after tails not betting costs 1.
    got = value_of_information(coin, None, loss, None)
    assert float(got) == pytest.approx(1 - 0.5 * (2 / 3) - 0.5 * 1.0)
    assert float(value_of_information(coin, None, loss, None, cost=0.2)) == pytest.approx(1 / 6 - 0.2)


def test_a_belief_that_cannot_be_traced_is_asked_one_by_one():
    got = value_of_information(Stubborn(0.0, 2.0), None, Squared(), None)
    assert float(got) == pytest.approx(2.0 - 1 / (0.5 + 1))


def test_perfect_information():
    mean, sd = np.array([0.0, 2.0]), np.array([1.0, 0.5])
    prediction = Normal(mean, sd**2, np.zeros(2))
    np.testing.assert_allclose(value_of_perfect_information(prediction, Squared()), sd**2, rtol=1e-12)
    probs, costs = np.array([[0.6, 0.4], [0.1, 0.9]]), np.array([[1.0, 5.0], [3.0, 2.0]])
    got = value_of_perfect_information(Categorical.certain(probs), CostMatrix(costs))
    np.testing.assert_allclose(got, (probs @ costs.T).min(axis=1) - probs @ costs.min(axis=0), rtol=1e-12)
    # Go (gain y) or stay (gain 0): knowing y is worth E[y₊] - E[y]₊.
    go = CustomLoss(lambda a, y: -a * y, actions=[0.0, 1.0])
    want = sd * stats.norm.pdf(mean / sd) + mean * stats.norm.cdf(mean / sd) - np.maximum(mean, 0)
    np.testing.assert_allclose(value_of_perfect_information(prediction, go), want, atol=1e-4)
    # The least loss of an unbounded action is searched for: here it is |y|.
    shifted = CustomLoss(lambda a, y: (a - y - 3) ** 2 + jnp.abs(y))
    np.testing.assert_allclose(shifted.least_loss(mean), np.abs(mean), atol=1e-8)
    inside = CustomLoss(lambda a, y: (a - y) ** 2, bounds=(0.0, 1.0))
    np.testing.assert_allclose(inside.least_loss(mean), [0.0, 1.0], atol=1e-8)


def test_bad_input():
    with pytest.raises(DataError, match="x must be a table"):
        value_of_information(BELIEF, [1.0, 2.0], Squared(), AT)
    with pytest.raises(DataError, match="n must be a whole number of at least 1"):
        value_of_information(BELIEF, CANDIDATES, Squared(), AT, n=0)
