import types

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import optimize, stats

import credo.decide
from credo.core.errors import DataError, NotConvergedWarning
from credo.core.predictive import (
    Bernoulli,
    Categorical,
    Interval,
    Laplace,
    MultivariateT,
    NegativeBinomial,
    Normal,
    StudentT,
    mixture,
)
from credo.decide import (
    Absolute,
    Asymmetric,
    CostMatrix,
    CustomLoss,
    Decision,
    IntervalLoss,
    Pinball,
    Squared,
    ZeroOne,
    expected_loss,
)

M = 3
MEAN, SD = np.array([-1.0, 0.5, 3.0]), np.array([0.5, 1.0, 2.0])
NORMAL = Normal(MEAN, 0.7 * SD**2, 0.3 * SD**2)
STUDENT = StudentT(np.array([3.0, 5.0, 9.0]), MEAN, 0.5 * SD**2, 0.5 * SD**2)
LAPLACE = Laplace(MEAN, SD)
TWO = mixture([0.3, 0.7], [NORMAL, Normal(MEAN + 3, 0.1 * SD, 0.0 * SD)])
COUNT = NegativeBinomial([2.0, 4.0, 0.5], [0.5, 1.0, 0.2], np.ones(M))
PROBS = np.array([[0.5, 0.3, 0.2], [0.1, 0.1, 0.8], [0.34, 0.33, 0.33]])
CLASSES = Categorical.certain(PROBS)
REAL = {"normal": NORMAL, "student": STUDENT, "laplace": LAPLACE, "mixture": TWO, "count": COUNT}


def pinball(a, y):
    return 4.0 * jnp.maximum(y - a, 0.0) + jnp.maximum(a - y, 0.0)


def squared(a, y):
    return (a - y) ** 2


def linex(a, y):
    """Zellner's LINEX loss, whose Bayes action under a Normal is mean - σ²/2 · b with b = 1 here: see the test."""
    return jnp.exp(a - y) - (a - y) - 1


def test_the_package_is_the_verb():
    assert isinstance(credo.decide, types.ModuleType)
    decision = credo.decide(NORMAL, Squared())
    assert isinstance(decision, Decision)
    action, cost = decision
    np.testing.assert_allclose(action, MEAN)
    np.testing.assert_allclose(cost, SD**2, rtol=1e-12)
    assert credo.decide.bayes.decide(NORMAL, Squared()).action is not None
    assert str(decision).splitlines()[0].split() == ["action", "expected", "loss"]


@pytest.mark.parametrize("name", REAL)
def test_closed_forms_against_draws(name):
    """The action is the quantile or moment that theory says, and its expected loss is the mean loss over draws."""
    prediction = REAL[name]
    draws = np.asarray(prediction.sample(20_000, seed=1))
    for loss in (Squared(), Absolute(), Asymmetric(under=4, over=1), Pinball(0.1), IntervalLoss(0.8)):
        decision = credo.decide(prediction, loss)
        losses = np.asarray(loss(decision.action, draws))
        se = losses.std(axis=0, ddof=1) / np.sqrt(len(draws))
        assert np.all(np.abs(np.asarray(decision.expected_loss) - losses.mean(axis=0)) < 5 * se), loss
        if name != "count":
            for step in (-0.05, 0.05):
                other = jax.tree.map(lambda a, step=step: a + step, decision.action)
                assert np.all(loss.expected_loss(prediction, other) > decision.expected_loss), loss


def test_closed_form_losses_against_scipy():
    """E[L] by adaptive quadrature, Normal, Student-t and Laplace."""
    frozen = {
        "normal": stats.norm(MEAN[1], SD[1]),
        "student": stats.t(5, MEAN[1], SD[1]),
        "laplace": stats.laplace(MEAN[1], SD[1]),
    }
    for name, distribution in frozen.items():
        got = expected_loss(REAL[name], Asymmetric(under=4, over=1), 0.9)[1]
        below = distribution.expect(lambda y: 0.9 - y, ub=0.9)
        above = distribution.expect(lambda y: 4 * (y - 0.9), lb=0.9)
        assert float(got) == pytest.approx(below + above, rel=1e-7)
        got = expected_loss(REAL[name], IntervalLoss(0.8), (0.0, 1.0))[1]
        miss = distribution.expect(lambda y: -y, ub=0.0) + distribution.expect(lambda y: y - 1, lb=1.0)
        assert float(got) == pytest.approx(1 + 10 * miss, rel=1e-7)


@pytest.mark.parametrize("name", REAL)
def test_any_function_by_quadrature_agrees_with_the_closed_forms(name):
    prediction = REAL[name]
    exact, searched = credo.decide(prediction, Asymmetric(under=4, over=1)), credo.decide(prediction, pinball)
    np.testing.assert_allclose(searched.expected_loss, exact.expected_loss, rtol=1e-7)
    if name != "count":
        np.testing.assert_allclose(searched.action, exact.action, atol=1e-5)
    np.testing.assert_allclose(
        CustomLoss(pinball).expected_loss(prediction, exact.action), exact.expected_loss, rtol=1e-7
    )


def test_linex_loss_of_a_normal():
    """Zellner (1986): a* = -log E[e^{-y}] = mean - σ²/2, expected loss σ²/2."""
    decision = credo.decide(NORMAL, linex)
    np.testing.assert_allclose(decision.action, MEAN - SD**2 / 2, atol=1e-6)
    np.testing.assert_allclose(decision.expected_loss, SD**2 / 2, rtol=1e-6)


def test_actions_bounds_and_samples():
    few = credo.decide(NORMAL, CustomLoss(squared, actions=[-1.2, 0.0, 2.0]))
    np.testing.assert_allclose(few.action, [-1.2, 0.0, 2.0])
    np.testing.assert_allclose(few.expected_loss, SD**2 + (np.asarray(few.action) - MEAN) ** 2, rtol=1e-8)
    bounded = credo.decide(NORMAL, CustomLoss(squared, bounds=(0.0, 2.0)))
    np.testing.assert_allclose(bounded.action, [0.0, 0.5, 2.0], atol=1e-6)
    sampled = credo.decide(NORMAL, CustomLoss(squared, n=4000, seed=3))
    draws = np.asarray(NORMAL.sample(4000, seed=3))
    np.testing.assert_allclose(sampled.action, draws.mean(axis=0), atol=1e-5)
    np.testing.assert_allclose(sampled.expected_loss, draws.var(axis=0), rtol=1e-8)
    same = credo.decide(NORMAL, CustomLoss(squared, n=4000, seed=3))
    np.testing.assert_array_equal(sampled.action, same.action)


def test_a_loss_with_two_minima_is_searched_globally():
    def two_wells(a, y):
        return (a**2 - 1) ** 2 + 0.3 * (a - y)

    got = credo.decide(NORMAL[:1], CustomLoss(two_wells, bounds=(-3.0, 3.0)))
    want = optimize.minimize_scalar(lambda a: (a**2 - 1) ** 2 + 0.3 * (a + 1), bounds=(-3, -0.5), method="bounded")
    assert float(got.action[0]) == pytest.approx(want.x, abs=1e-5)


def test_a_minimum_beyond_the_outcomes_is_not_hidden():
    with pytest.warns(NotConvergedWarning, match="pass bounds"):
        credo.decide(NORMAL, lambda a, y: a - y)


def test_classes_and_cost_matrices():
    right = credo.decide(CLASSES, ZeroOne())
    np.testing.assert_array_equal(right.action, PROBS.argmax(axis=1))
    np.testing.assert_allclose(right.expected_loss, 1 - PROBS.max(axis=1), rtol=1e-12)
    costs = np.array([[0.0, 1.0, 10.0], [2.0, 0.0, 3.0], [1.0, 1.0, 0.0]])
    each = PROBS @ costs.T
    decision = credo.decide(CLASSES, CostMatrix(costs))
    np.testing.assert_array_equal(decision.action, each.argmin(axis=1))
    np.testing.assert_allclose(decision.expected_loss, each.min(axis=1), rtol=1e-12)
    loss = CostMatrix(costs, reject=0.6, names=["treat", "wait", "test"])
    refused = credo.decide(CLASSES, loss)
    np.testing.assert_array_equal(refused.action, np.where(each.min(axis=1) > 0.6, 3, each.argmin(axis=1)))
    assert 3 in refused.action and loss.name_of(3) == "reject"
    assert loss.name_of(refused.action) == [["treat", "wait", "test", "reject"][i] for i in refused.action]
    assert float(loss(3, 1)) == pytest.approx(0.6) and float(loss(0, 2)) == 10.0
    coin = credo.decide(Bernoulli.certain([0.2, 0.05]), CostMatrix([[0.0, 9.0], [1.0, 0.0]]))
    np.testing.assert_array_equal(coin.action, [1, 0])
    custom = credo.decide(
        CLASSES, CustomLoss(lambda a, y: jnp.asarray(costs)[a.astype(int), y.astype(int)], actions=[0, 1, 2])
    )
    np.testing.assert_allclose(custom.expected_loss, decision.expected_loss, rtol=1e-12)


def test_zero_one_is_a_cost_matrix():
    same = credo.decide(CLASSES, CostMatrix(1 - np.eye(3)))
    right = credo.decide(CLASSES, ZeroOne())
    np.testing.assert_array_equal(same.action, right.action)
    np.testing.assert_allclose(same.expected_loss, right.expected_loss, rtol=1e-12)
    assert float(ZeroOne()(1, 2)) == 1.0


def test_one_outcome_a_vector_outcome_and_an_interval():
    one = credo.decide(NORMAL[0], Asymmetric(under=1, over=3))
    assert one.action.shape == () and float(one.action) == pytest.approx(stats.norm.ppf(0.25, MEAN[0], SD[0]))
    vector = credo.decide(MultivariateT(5.0, MEAN, np.diag(SD), np.zeros((3, 3))), Absolute())
    np.testing.assert_allclose(vector.action, MEAN, atol=1e-12)
    interval = credo.decide(NORMAL, IntervalLoss(0.9))
    assert isinstance(interval.action, Interval)
    np.testing.assert_allclose(interval.action.upper, stats.norm.ppf(0.95, MEAN, SD), rtol=1e-9)
    assert "[" in str(interval)
    long = Decision(jnp.arange(40.0), jnp.arange(40.0))
    assert "(30 more)" in str(long)


def test_decisions_pass_through_jit_and_vmap():
    def cost(mean, under):
        return credo.decide(Normal(mean, jnp.asarray(SD), jnp.zeros(M)), Asymmetric(under, 1.0)).expected_loss

    eager = np.stack([cost(jnp.asarray(MEAN), u) for u in (1.0, 2.0)])
    mapped = jax.jit(jax.vmap(cost, in_axes=(None, 0)))(jnp.asarray(MEAN), jnp.asarray([1.0, 2.0]))
    np.testing.assert_allclose(mapped, eager, rtol=1e-12)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: Asymmetric(under=-1, over=1), "under must be a cost greater than zero, found -1"),
        (lambda: Asymmetric(under=1, over=0), "over must be a cost greater than zero, found 0"),
        (lambda: Pinball(1.0), "strictly between 0 and 1"),
        (lambda: IntervalLoss(95.0), "write 95 % as 0.95"),
        (lambda: CostMatrix([[0.0, -1.0], [1.0, 0.0]]), "costs must not be negative, found -1"),
        (lambda: CostMatrix([0.0, 1.0]), "costs must be a table"),
        (lambda: CostMatrix(np.eye(2), reject=-0.1), "reject must be a cost ≥ 0"),
        (lambda: CostMatrix(np.eye(2), names=["a"]), r"one name per action \(2\), found 1"),
        (lambda: credo.decide(CLASSES, CostMatrix(np.eye(2))), "3 classes, costs 2 columns"),
        (lambda: credo.decide(CLASSES, Squared()), "Squared needs outcomes that are numbers"),
        (lambda: credo.decide(NORMAL, ZeroOne()), "ZeroOne needs a prediction of classes, found Normal"),
        (lambda: credo.decide(StudentT([2.0], [0.0], [1.0], [0.0]), Squared()), "finite variance"),
        (lambda: credo.decide(StudentT([1.0], [0.0], [1.0], [0.0]), Absolute()), "has no mean"),
        (lambda: credo.decide(NORMAL, Squared), r"write Squared\(\)"),
        (lambda: CustomLoss(squared, actions=[1.0], bounds=(0.0, 1.0)), "not both"),
        (lambda: CustomLoss(squared, bounds=(1.0, 0.0)), "low < high"),
        (lambda: CustomLoss(squared, n=0), "n must be a whole number of at least 1"),
        (lambda: credo.decide(CLASSES, squared), "needs actions to choose from"),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(DataError, match=message):
        call()
