"""Experts: known regions recovered, the information by finite differences, several answers, hard data."""

import numpy as np
import pytest

import credo
from credo.core.pytrees import changed
from credo.errors import DataError
from credo.infer import EM
from credo.models.experts import Experts
from credo.models.features import Polynomial
from credo.models.likelihoods import Bernoulli, Categorical, NegativeBinomial, Ordinal, Poisson, Probit, StudentT

RNG = np.random.default_rng(0)
X = RNG.uniform(-3, 3, size=(200, 1))
Y = np.where(X[:, 0] < 0, -1 - X[:, 0], 2 * X[:, 0]) + 0.2 * RNG.normal(size=200)


@pytest.fixture(scope="module")
def fitted() -> Experts:
    return credo.fit(Experts(2), X, Y)


def test_regions_and_experts_are_recovered(fitted):
    x = np.array([[-2.0], [2.0]])
    regions = fitted.regions(x)
    np.testing.assert_allclose(regions.max(1), 1, atol=1e-3)
    own = fitted.answers(x)[[0, 1], regions.argmax(1)]
    se = 0.2 * np.sqrt(2 / 100) * 2
    assert np.all(np.abs(own - [1.0, 4.0]) < 4.5 * se)
    noise = np.sqrt(np.asarray(fitted.experts.covariance)[:, 0])
    assert np.all(np.abs(noise / 0.2 - 1) < 4.5 / np.sqrt(2 * 95))
    p = fitted.predict(x)
    np.testing.assert_allclose(p.total, p.aleatoric + p.epistemic)
    assert np.all(p.epistemic > 0) and np.all(p.epistemic < 0.1 * p.aleatoric)
    np.testing.assert_allclose(fitted.responsibilities(X, Y).sum(1), 1)


def test_climbs_never_fall():
    prepared, rows = Experts(3, Polynomial(2)).prepare(X, Y)
    climb = EM(1, 40, 0.0, accelerate=False).climb(prepared, rows)
    assert np.all(np.diff(climb.objectives) >= 0)


OUTCOMES = {
    "normal": None,
    "Poisson": Poisson(),
    "NegativeBinomial": NegativeBinomial(),
    "StudentT": StudentT(),
    "Bernoulli": Bernoulli(),
    "Probit": Probit(),
    "Categorical": Categorical(),
    "Ordinal": Ordinal(),
}


def outcomes(name: str, n: int = 60) -> np.ndarray:
    """y of the kind that the likelihood is for, of two lines."""
    rng, eta = np.random.default_rng(1), np.where(X[:n, 0] < 0, -X[:n, 0], 1.5 * X[:n, 0] - 1)
    if name in ("Poisson", "NegativeBinomial"):
        return rng.poisson(np.exp(0.6 * eta)).astype(float)
    if name in ("Bernoulli", "Probit"):
        return (rng.random(n) < 1 / (1 + np.exp(-eta))).astype(int)
    if name in ("Categorical", "Ordinal"):
        return np.digitize(eta + rng.logistic(size=n), [0.0, 1.5])
    return eta + 0.3 * rng.standard_t(4, size=n)


@pytest.mark.parametrize("name", OUTCOMES)
def test_the_information_is_the_curvature_of_the_log_joint(name):
    belief = credo.fit(Experts(2, likelihood=OUTCOMES[name]), X[:60], outcomes(name), using=EM(2))
    rows = belief.seen
    theta = belief._vector

    def height(theta: np.ndarray) -> float:
        """As learning has it: densities of variances, not of their logarithms."""
        numbers, _ = belief._unpacked(theta[None])
        natural = numbers[0, :, -1].sum() if name == "normal" else 0.0
        return float(belief._log_posteriors(theta[None], rows)[0]) - natural

    at_mode = belief.log_evidence_of(rows) + belief.log_prior_of_parameters()
    np.testing.assert_allclose(height(theta), at_mode, rtol=1e-9)
    steps, h = np.eye(len(theta)) * 1e-4, 1e-4
    found = [
        [-(height(theta + a + b) - height(theta + a - b) - height(theta - a + b) + height(theta - a - b)) / (4 * h * h)
         for b in steps]
        for a in steps
    ]  # fmt: skip
    want = belief.information(rows)
    np.testing.assert_allclose(want, found, rtol=1e-4, atol=1e-4 * np.abs(want).max())


def test_two_answers_where_the_data_have_two():
    """An inverse problem: y(x) has two branches, and the mean between them is nobody's answer."""
    t = RNG.uniform(-1, 1, size=300)
    x = t**2 + 0.02 * RNG.normal(size=300)
    belief = credo.fit(Experts(2, Polynomial(2)), x[:, None], t, using=EM(3))
    p = belief.predict([[0.64]])
    heights = np.exp([float(p.log_prob([y])[0]) for y in (0.8, 0.0, -0.8)])
    assert heights[0] > 1 and heights[2] > 1 and heights[1] < 0.1


def test_more_rows_move_it_and_numbers_that_were_given_stay(fitted):
    half = credo.fit(Experts(2), X[:100], Y[:100], using=EM(2))
    after = half.condition(X[100:], Y[100:])
    np.testing.assert_allclose(after.predict(X[:5]).mean, fitted.predict(X[:5]).mean, atol=0.05)
    assert np.mean(after.predict(X[:20]).epistemic) < np.mean(half.predict(X[:20]).epistemic)
    known = changed(fitted.unconditioned(), learned=False)
    assert known.condition(X, Y).law is None and np.all(known.predict(X[:3]).epistemic < 1e-20)
    weights = RNG.integers(1, 3, size=60)
    twice = known.log_evidence(np.repeat(X[:60], weights, axis=0), np.repeat(Y[:60], weights))
    np.testing.assert_allclose(known.log_evidence(X[:60], Y[:60], weights=weights), twice, rtol=1e-10)


def test_one_expert_is_a_line_and_what_is_wrong_is_said():
    line = credo.fit(Experts(1), X, Y)
    slope, constant = np.polyfit(X[:, 0], Y, 1)
    np.testing.assert_allclose(line.predict([[0.0], [1.0]]).mean, [constant, constant + slope], atol=0.01)
    for wrong, sentence in [
        (lambda: Experts(0), "k must be a whole number"),
        (lambda: Experts(2).predict(X), "not known yet"),
        (lambda: credo.fit(Experts(2), X, np.ones(200)), "y is constant"),
        (lambda: credo.fit(Experts(2), X), "learn from X and y"),
        (lambda: Experts(2, experts=3), "experts must be a Regression"),
        (lambda: line.predict(np.ones((2, 3))), "X must have"),
    ]:
        with pytest.raises(DataError, match=sentence):
            wrong()
