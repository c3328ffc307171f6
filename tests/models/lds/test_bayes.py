"""Variational Bayes: bounds below the evidence, equal to it where nothing is unknown, and near the draws of Gibbs."""

import numpy as np
import pytest
from numpy.polynomial.hermite_e import hermegauss
from numpy.polynomial.legendre import leggauss
from scipy import stats

import credo
from credo.core.pytrees import changed
from credo.errors import DataError
from credo.infer import VariationalBayes
from credo.models.lds import LDS, MatrixPrior, StateGibbs, StateVariationalBayes, kalman_smoother, passes
from credo.models.lds.banded_states import state_chain
from credo.models.lds.kalman import forward_pass

TINY = LDS([[0.8]], [[0.5]], [[1.0]], [[0.3]], [0.0], [[1.0]])
DRIVEN = LDS(
    [[0.8, 0.1], [0.0, 0.7]],
    [[0.5, 0.1], [0.1, 0.4]],
    [[1.0, 0.5], [0.2, 1.0]],
    [[0.3, 0.1], [0.1, 0.2]],
    [0.0, 0.5],
    np.eye(2),
    control=[[0.5], [0.2]],
    feedthrough=[[0.1], [0.3]],
    offset=[2.0, 3.0],
)


def gaps(x: np.ndarray) -> np.ndarray:
    x = x.copy()
    x[4], x[7, 0] = np.nan, np.nan
    return x


U = np.random.default_rng(0).normal(size=(20, 1))
X = gaps(np.asarray(DRIVEN.simulate(20, seed=3, inputs=U)[1]))


@pytest.mark.parametrize("whole", [True, False])
def test_the_banded_law_of_the_states_is_the_smoother(whole):
    """Two sequences, inputs, and rows that were seen in part."""
    x = np.nan_to_num(X, nan=1.0) if whole else X
    lds = changed(DRIVEN, start_control=np.ones((2, 1)))
    data = lds.statistics(x, [12, 8], inputs=U, missing=True).trimmed()
    given = passes.filter_inputs(lds, data)
    found = state_chain(given.start, given.system, data, ())
    want = kalman_smoother(given, *forward_pass(given))
    np.testing.assert_allclose(found.mean, want.mean, atol=1e-10)
    np.testing.assert_allclose(found.covariance, want.covariance, atol=1e-10)
    assert found.log_z == pytest.approx(float(want.increments.sum()), rel=1e-10)
    draws = lds.sample_states(x[:12], n=4000, inputs=U[:12], missing=True)
    cross = np.einsum("mi,mj->ij", draws[:, 6] - draws[:, 6].mean(0), draws[:, 5] - draws[:, 5].mean(0)) / 4000
    assert np.all(np.abs(cross - found.pairs[5]) < 4.5 * np.sqrt(2 / 4000) * np.abs(found.covariance[5]).max())


def evidence_by_quadrature(x: np.ndarray, n: int = 20) -> float:
    """log ∫ p(x | F, Q, R) p(F | Q) p(Q) p(R) for one state that is seen with noise, by dense covariances."""
    u, w = leggauss(n)
    levels, weights = (u + 1) / 2, w / 2
    h, v = hermegauss(n)
    v = v / v.sum()
    terms = []
    for q, a in zip(stats.invgamma.ppf(levels, 2.5, scale=1.0), weights, strict=True):
        for f, b in zip(0.3 + np.sqrt(q / 2) * h, v, strict=True):
            s = np.zeros((len(x), len(x)))
            s[0, 0] = 1.0
            for t in range(1, len(x)):
                s[t, :t] = s[:t, t] = f * s[t - 1, :t]
                s[t, t] = f * f * s[t - 1, t - 1] + q
            values, vectors = np.linalg.eigh(s)
            y = vectors.T @ x
            for r, c in zip(stats.invgamma.ppf(levels, 2.5, scale=0.75), weights, strict=True):
                spread = values.clip(0.0) + r
                terms.append(np.log(a * b * c) - 0.5 * (y**2 / spread + np.log(2 * np.pi * spread)).sum())
    return float(np.logaddexp.reduce(terms))


PRIORS = {
    "dynamics": MatrixPrior(np.array([[0.3]]), np.array([2.0]), np.array([[2.0]]), np.asarray(5.0)),
    "outcomes": MatrixPrior(np.zeros((1, 2)), np.ones(2), np.array([[1.5]]), np.asarray(5.0)),
}


@pytest.mark.slow
def test_the_bound_is_below_the_evidence_and_not_far():
    x = np.asarray(TINY.simulate(8, seed=3)[1])
    method = StateVariationalBayes(fixed=("emission",), **PRIORS, relevance=False, tolerance=1e-12)
    bound = credo.fit(TINY, x, using=method, report=True).log_evidence
    exact = evidence_by_quadrature(x[:, 0])
    assert exact - 1.5 < bound < exact


def test_where_nothing_is_unknown_the_bound_is_the_evidence():
    sure = 1e8
    dynamics, outcomes = (
        MatrixPrior(np.column_stack(parts), np.full(m, sure), sure * noise, np.asarray(sure))
        for parts, m, noise in (
            ((DRIVEN.transition, DRIVEN.control), 3, DRIVEN.process_noise),
            ((DRIVEN.emission, DRIVEN.feedthrough, DRIVEN.offset), 4, DRIVEN.observation_noise),
        )
    )
    method = StateVariationalBayes(dynamics=dynamics, outcomes=outcomes, relevance=False)
    found = credo.fit(DRIVEN, X, inputs=U, missing=True, using=method, report=True)
    exact = float(DRIVEN.log_evidence(X, inputs=U, missing=True))
    assert found.log_evidence == pytest.approx(exact, abs=1e-4)
    one, other = (each.smooth(X, inputs=U, missing=True) for each in (found.belief, DRIVEN))
    np.testing.assert_allclose(one.mean, other.mean, atol=1e-5)
    every = ("transition", "process_noise", "control", "emission", "feedthrough", "offset", "observation_noise")
    held = credo.fit(DRIVEN, X, inputs=U, missing=True, using=StateVariationalBayes(fixed=every), report=True)
    assert held.log_evidence == pytest.approx(exact, rel=1e-12)


HELD = [
    (),
    ("emission", "observation_noise"),
    ("transition", "control", "process_noise"),
    ("emission", "feedthrough", "offset"),
    ("observation_noise",),
]


@pytest.mark.parametrize("fixed", HELD, ids=["nothing", "outcomes", "dynamics", "maps", "noise"])
def test_no_turn_lowers_the_bound_and_what_is_held_stays(fixed):
    start, data = DRIVEN.prepare(X, inputs=U, missing=True)
    method = StateVariationalBayes(fixed=fixed, max_steps=40)
    climb = method.climb(start, data)
    assert np.all(np.diff(climb.bounds) > -1e-9)
    found = start.center_of(climb.q)
    for name in fixed:
        np.testing.assert_array_equal(getattr(found, name), getattr(DRIVEN, name))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:do not trust:credo.errors.NotConvergedWarning")
def test_means_are_near_those_of_gibbs_and_spreads_are_smaller():
    x = np.asarray(TINY.simulate(150, seed=1)[1])
    start, data = TINY.prepare(x)
    vb = StateVariationalBayes(fixed=("emission",), **PRIORS, relevance=False, tolerance=1e-10)
    q = vb.climb(start, data).q
    gibbs = StateGibbs(chains=2, draws=1500, warmup=300, fixed=("emission",), **PRIORS)
    draws, _ = gibbs.draw(start, data)
    center, every = start.center_of(q), dict(zip(draws.space.names, draws.chains.reshape(-1, 3).T, strict=True))
    transition = next(v for name, v in every.items() if name.startswith("transition"))
    assert abs(float(center.transition[0, 0]) - transition.mean()) < 0.5 * transition.std()
    spread = np.sqrt(q.laws["dynamics"].inverse[0, 0] * center.process_noise[0, 0])
    assert 0.3 * transition.std() < spread < 1.1 * transition.std()


@pytest.mark.slow
def test_states_that_are_not_needed_are_switched_off():
    rng = np.random.default_rng(2)
    truth = LDS(np.diag([0.9, -0.7]), np.eye(2), rng.normal(size=(5, 2)), 0.2 * np.eye(5), np.zeros(2), np.eye(2))
    x = np.asarray(truth.simulate(200, seed=1)[1])
    found = credo.fit(LDS.with_states(4, 5), x, using=VariationalBayes(starts=1))
    loads = np.sort(np.linalg.norm(found.emission, axis=0))[::-1]
    assert np.sum(loads > 0.05 * loads[0]) == 2
    eigenvalues = np.sort(np.linalg.eigvals(found.transition).real)
    np.testing.assert_allclose([eigenvalues[0], eigenvalues[-1]], [-0.7, 0.9], atol=0.15)


def test_a_prediction_carries_the_doubt_about_the_matrices():
    x = np.asarray(TINY.simulate(25, seed=4)[1])
    method = StateVariationalBayes(starts=1, members=40, fixed=("emission",))
    after = TINY.condition(x, using=method)
    p = after.predict(3)
    np.testing.assert_allclose(p.variance, p.aleatoric + p.epistemic)
    inside = np.mean([each.predict(3).epistemic for each in after.beliefs], axis=0)
    between = np.var([each.predict(3).mean for each in after.beliefs], axis=0)
    assert np.all(between > 0)
    np.testing.assert_allclose(p.epistemic, inside + between, rtol=1e-8)
    np.testing.assert_array_equal(TINY.condition(x, using=method).predict(3).mean, p.mean)


def test_refusals():
    sure = LDS([[0.8]], [[0.5]], [[1.0]], [[0.3]], [0.0], [[0.0]])
    with pytest.raises(DataError, match="needs start_covariance to be positive definite"):
        credo.fit(sure, [1.0, 2.0, 1.0], using=VariationalBayes())
    varying = LDS(np.full((3, 1, 1), 0.8), [[0.5]], [[1.0]], [[0.3]], [0.0], [[1.0]])
    with pytest.raises(DataError, match="the same at all times"):
        credo.fit(varying, [1.0, 2.0, 1.0], using=VariationalBayes())
    with pytest.raises(DataError, match="integrate over all parameters"):
        credo.fit(TINY, [1.0, 2.0, 1.0], using=VariationalBayes(), fixed=["emission"])


def test_units_and_origins_do_not_matter_nor_do_few_rows(tmp_path):
    x = np.asarray(TINY.simulate(40, seed=1)[1])
    method = VariationalBayes(starts=1, tolerance=1e-5)
    plain, moved = (credo.fit(LDS.with_states(1), each, using=method, report=True) for each in (x, 1e5 + 1e3 * x))
    assert moved.log_evidence + 40 * np.log(1e3) == pytest.approx(plain.log_evidence, abs=1e-4)
    np.testing.assert_allclose(moved.belief.transition, plain.belief.transition, atol=1e-4)
    again = credo.load(credo.save(plain.belief, tmp_path / "lds"))
    np.testing.assert_array_equal(again.predict(2).mean, plain.belief.predict(2).mean)
    for few in ([1.0], [1.0, 2.0], np.ones(5)):
        assert np.isfinite(credo.fit(LDS.with_states(1), few, using=method).predict(1).mean).all()
