"""Random features against `Linear` on the same features."""

import numpy as np
import pytest

import credo
from credo.core import params
from credo.kernels import RBF
from credo.kernels.random_fourier import random_features
from credo.models.gp import GP, RandomFeatures, RandomFeaturesGP
from credo.models.linear import Isotropic, Linear

RNG = np.random.default_rng(3)
X = RNG.uniform(-2, 2, size=(40, 2))
Y = np.sin(2 * X[:, 0]) + X[:, 1] + 0.2 * RNG.normal(size=40)
QUERIES = RNG.uniform(-3, 3, size=(7, 2))


def test_it_is_linear_regression_on_the_features():
    features = random_features(RBF(1.2, 1.5), 20, 2, seed=4)
    linear = Linear(features, intercept=False, noise=0.04, prior=Isotropic(1.0))
    gp = GP(RBF(1.2, 1.5), 0.0, 0.04)
    after = gp.condition(X, Y, using=RandomFeatures(20, seed=4))
    p, wanted = after.predict(QUERIES), linear.condition(X, Y).predict(QUERIES)
    np.testing.assert_allclose(p.mean, wanted.mean, rtol=1e-7)
    np.testing.assert_allclose(p.epistemic, wanted.epistemic, rtol=1e-7)
    np.testing.assert_allclose(after.unconditioned().log_evidence(X, Y), linear.log_evidence(X, Y), rtol=1e-9)


def test_many_features_are_the_kernel():
    gp = GP(RBF(1.2, 1.5), noise=0.04)
    exact = gp.condition(X, Y).predict(X)
    off = [np.abs(gp.condition(X, Y, using=RandomFeatures(m)).predict(X).mean - exact.mean).max() for m in (5, 1000)]
    assert off[1] < 0.05 < off[0]


def test_the_gradient_is_that_of_the_evidence():
    belief, rows = RandomFeatures(8).adapt(*GP(RBF([0.8, 1.5], 1.3), noise=0.07).prepare(X, Y))
    belief = belief.placed(rows)
    slots = params.layout(belief)
    objective = belief.objective(slots, rows, {})
    at = np.asarray(params.to_vector(belief, slots))
    value, slope = objective.value_and_grad(at)
    assert value == pytest.approx(float(belief.evidence_of(rows)), rel=1e-10)
    for i, axis in enumerate(1e-5 * np.eye(len(at))):
        difference = (objective.value(at + axis) - objective.value(at - axis)) / 2e-5
        assert slope[i] == pytest.approx(difference, rel=1e-5, abs=1e-5)


def test_functions_have_the_law_of_the_posterior():
    after = RandomFeaturesGP(GP(RBF(0.9, 1.3), 0.4, 0.07), RandomFeatures(30)).condition(X, Y)
    draws = np.asarray(after.sample_functions(2000, seed=2)(QUERIES))
    p = after.predict(QUERIES)
    se = draws.std(0, ddof=1) / np.sqrt(2000)
    assert np.all(np.abs(draws.mean(0) - p.mean) < 4.5 * se)
    np.testing.assert_allclose(draws.var(0), p.epistemic, rtol=0.2)


def test_it_learns():
    report = credo.fit(GP(RBF()), X, Y, using=RandomFeatures(60), report=True)
    assert "60 random frequencies" in report.notes[-1]
    assert 0.01 < float(report.belief.noise) < 0.2
