"""SoR, DTC, FITC and VFE against dense matrices."""

from dataclasses import replace

import numpy as np
import pytest

import credo
from credo.core import params
from credo.errors import DataError
from credo.kernels import RBF, Exponential, Matern52
from credo.models.gp import GP, Inducing, InducingGP
from credo.models.gp.large.inducing import MovingInducingGP

RNG = np.random.default_rng(3)
X = RNG.uniform(-2, 2, size=(40, 2))
Y = np.sin(2 * X[:, 0]) + X[:, 1] + 0.2 * RNG.normal(size=40)
QUERIES = RNG.uniform(-3, 3, size=(7, 2))
KINDS = ["sor", "dtc", "fitc", "vfe"]
GP0 = GP(Matern52([0.8, 1.5], 1.3), 0.4, 0.07)
SCALE = RNG.uniform(0.5, 2.0, size=40)


def normal(y, covariance):
    log_det = np.linalg.slogdet(covariance)[1]
    return -0.5 * (len(y) * np.log(2 * np.pi) + log_det + y @ np.linalg.solve(covariance, y))


def dense(gp, points, kind, x, y, queries, noise):
    """The unifying view, with n × n matrices and no identity of Woodbury."""
    k, r = gp.kernel, y - np.asarray(gp.mean.at(x))

    def q(a, b):
        return k(a, points) @ np.linalg.solve(k(points), k(points, b))

    rows = q(x, x) + np.diag(noise)
    if kind == "fitc":
        rows += np.diag(np.diag(k(x) - q(x, x)))
    cross = q(queries, x)
    prior = q(queries, queries) if kind == "sor" else k(queries)
    mean = np.asarray(gp.mean.at(queries)) + cross @ np.linalg.solve(rows, r)
    covariance = prior - cross @ np.linalg.solve(rows, cross.T)
    evidence = normal(r, rows)
    if kind == "vfe":
        evidence -= 0.5 * np.sum(np.diag(k(x) - q(x, x)) / noise)
    return mean, covariance, evidence


@pytest.mark.parametrize("kind", KINDS)
def test_it_is_the_dense_formula(kind):
    points = X[:9]
    belief = InducingGP(GP0, Inducing(9, kind), points)
    mean, covariance, evidence = dense(GP0, points, kind, X, Y, QUERIES, 0.07 * SCALE)
    after = belief.condition(X, Y, weights=1 / SCALE)
    p = after.predict(QUERIES, joint=True)
    np.testing.assert_allclose(p.mean, mean, rtol=1e-8)
    np.testing.assert_allclose(p.epistemic, np.diag(covariance), rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(p.latent_covariance, covariance, rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(after.covariance(QUERIES[:3], QUERIES), covariance[:3], rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(belief.log_evidence(X, Y, weights=1 / SCALE), evidence, rtol=1e-9)


@pytest.mark.parametrize(("kind", "family"), [*((kind, RBF) for kind in KINDS), ("sor", Exponential)])
def test_the_gradient_is_that_of_the_evidence(kind, family, monkeypatch):
    import credo.models.gp.large.base as base

    monkeypatch.setattr(base, "CHUNK", 9 * 16)  # in chunks of 16 rows
    gp = GP(family([0.8, 1.5], 1.3), noise=0.07)
    belief, rows = InducingGP(gp, Inducing(9, kind), X[:9]).prepare(X, Y, weights=1 / SCALE)
    slots, priors = params.layout(belief), belief.default_priors(rows)
    objective = belief.objective(slots, rows, priors)
    at = np.asarray(params.to_vector(belief, slots))
    value, slope = objective.value_and_grad(at)
    assert value == pytest.approx(float(belief.evidence_of(rows)) + float(params.log_prior(belief, priors)), rel=1e-10)
    for i, axis in enumerate(1e-5 * np.eye(len(at))):
        difference = (objective.value(at + axis) - objective.value(at - axis)) / 2e-5
        assert slope[i] == pytest.approx(difference, rel=1e-5, abs=1e-5)


def test_all_rows_as_points_are_the_exact_posterior():
    exact = GP0.condition(X, Y)
    for kind in KINDS:
        p, wanted = GP0.condition(X, Y, using=Inducing(40, kind)).predict(QUERIES), exact.predict(QUERIES)
        np.testing.assert_allclose(p.mean, wanted.mean, atol=1e-6)
        if kind != "sor":
            np.testing.assert_allclose(p.epistemic, wanted.epistemic, atol=1e-6)
        own = GP0.condition(X, Y, using=Inducing(40, kind)).unconditioned()
        np.testing.assert_allclose(own.log_evidence(X, Y), GP0.log_evidence(X, Y), rtol=1e-6)


def test_the_bound_rises_to_the_evidence_as_points_are_added():
    bounds = [float(InducingGP(GP0, Inducing(m)).log_evidence(X, Y)) for m in (3, 10, 25, 40)]
    assert np.all(np.diff(bounds) > 0) and bounds[-1] <= float(GP0.log_evidence(X, Y)) + 1e-6


@pytest.mark.parametrize("select", ["greedy", "kmeans", "random"])
def test_points_are_chosen_once_each(select):
    x = np.vstack([X, X])  # every row twice
    points = Inducing(12, select=select).choose(GP0.kernel, x)
    assert len(np.unique(points, axis=0)) == len(points) <= 12
    assert {tuple(p) for p in points} <= {tuple(row) for row in X}
    assert len(Inducing(100, select=select).choose(GP0.kernel, x)) == 40


def test_more_rows_are_added_without_the_first():
    belief = InducingGP(GP0, Inducing(9), X[:9])
    whole, halves = belief.condition(X, Y), belief.condition(X[:25], Y[:25]).condition(X[25:], Y[25:])
    np.testing.assert_allclose(halves.predict(QUERIES).mean, whole.predict(QUERIES).mean, rtol=1e-9)
    assert halves.seen.n == 40 and "40 rows" in repr(halves) and "Inducing(m=9" in repr(halves)


def test_it_learns_what_exact_learning_does():
    x = np.linspace(0, 6, 150)[:, None]
    y = np.sin(2 * x[:, 0]) + 0.1 * np.random.default_rng(1).normal(size=150)
    report = credo.fit(GP(RBF()), x, y, using=Inducing(25), report=True)
    exact = credo.fit(GP(RBF()), x, y, using=credo.infer.Evidence(starts=1))
    assert "lower bound" in report.notes[-1]
    assert report.belief.noise == pytest.approx(float(exact.noise), rel=0.05)
    np.testing.assert_allclose(report.belief.predict(x).mean, exact.predict(x).mean, atol=0.02)


def test_functions_have_the_law_of_the_posterior():
    for kind in ("sor", "vfe"):
        after = InducingGP(GP(RBF(0.9, 1.3), 0.4, 0.07), Inducing(9, kind), X[:9]).condition(X, Y)
        draws = np.asarray(after.sample_functions(2000, features=4096, seed=2)(QUERIES))
        p = after.predict(QUERIES)
        se = draws.std(0, ddof=1) / np.sqrt(2000)
        assert np.all(np.abs(draws.mean(0) - p.mean) < 4.5 * se)
        np.testing.assert_allclose(draws.var(0), p.epistemic, rtol=0.2, atol=0.02)


def test_what_makes_no_sense_is_refused():
    with pytest.raises(DataError, match="kind must be one of"):
        Inducing(10, "pitc")
    with pytest.raises(DataError, match="m must be a whole number"):
        Inducing(0)


def test_constant_columns_and_duplicates():
    x = np.column_stack([np.repeat(X[:10, 0], 4), np.ones(40)])
    after = credo.fit(GP(), x, Y, using=Inducing(30))
    p = after.predict(x)
    assert np.all(np.isfinite(p.mean)) and np.all(p.epistemic >= 0) and len(after.points) <= 10


@pytest.mark.parametrize("kind", ["fitc", "vfe"])
def test_the_gradient_moves_points_too(kind):
    belief, rows = InducingGP(GP(RBF([0.8, 1.5], 1.3), noise=0.07), Inducing(5, kind), X[:5]).prepare(X, Y)
    moving = MovingInducingGP(belief, X)
    slots, priors = params.layout(moving), belief.default_priors(rows)
    objective = moving.objective(slots, rows, priors)
    at = np.asarray(params.to_vector(moving, slots)) + 0.1 * RNG.normal(size=5 * 2 + 4)
    slope = objective.value_and_grad(at)[1]
    for i, axis in enumerate(1e-5 * np.eye(len(at))):
        difference = (objective.value(at + axis) - objective.value(at - axis)) / 2e-5
        assert slope[i] == pytest.approx(difference, rel=1e-5, abs=1e-5)


def test_learned_points_bound_the_evidence_more_tightly():
    method = Inducing(8, max_steps=25)
    greedy = credo.fit(GP(RBF()), X, Y, using=method, report=True)
    learned = credo.fit(GP(RBF()), X, Y, using=replace(method, select="learned"), report=True)
    assert learned.log_evidence > greedy.log_evidence + 0.1
    assert type(learned.belief) is InducingGP and learned.belief.points.shape == (8, 2)
    assert set(learned.optima[0].values) == set(greedy.optima[0].values) and "learned" in learned.notes[-1]
    bound = float(learned.belief.unconditioned().log_evidence(X, Y))
    assert bound <= float(learned.belief.as_gp().log_evidence(X, Y)) + 1e-6


def test_a_round_that_ends_lower_is_not_taken(monkeypatch):
    """Points chosen again with what was learned may be worse; the bound says so."""
    x, y = RNG.uniform(size=(200, 2)), RNG.normal(size=200)
    method = Inducing(20, rounds=3)
    found, climb = [], Inducing.climb

    def worse(self, *args, **ends):
        learned = climb(self, *args, **ends)
        found.append(learned._replace(log_evidence=learned.log_evidence - 100.0 * len(found)))
        return found[-1]

    monkeypatch.setattr(Inducing, "climb", worse)
    learned = credo.fit(credo.GP(), x, y, using=method, report=True)
    assert learned.log_evidence == found[0].log_evidence
    np.testing.assert_array_equal(learned.belief.points, found[0].belief.points)
    assert len(found) == 2
