"""What every acquisition must do, whatever it scores."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import credo
from credo.core.abilities import KeepsRows
from credo.core.errors import DataError
from credo.decide import acquisition as acq
from credo.kernels import Matern52
from credo.models.gp.base import padded

RNG = np.random.default_rng(5)
X = RNG.uniform(size=(25, 2))
Y = np.sin(5 * X[:, 0]) + X[:, 1] + 0.1 * RNG.normal(size=25)
QUERIES = jnp.asarray(RNG.uniform(size=(6, 2)))
SETS = jnp.asarray(RNG.uniform(size=(3, 2, 2)))
PENDING = np.array([[0.2, 0.7], [0.6, 0.6]])


def gp(n: int, noise: float = 0.01) -> credo.GP:
    return credo.GP(Matern52(0.4), 0.0, noise).condition(X[:n], Y[:n])


OTHER = gp(20)
SCORES = {
    "pi": acq.ProbabilityOfImprovement(),
    "ei": acq.ExpectedImprovement(xi=0.01),
    "ei-min": acq.ExpectedImprovement(maximize=False),
    "log-ei": acq.LogExpectedImprovement(),
    "noisy-ei": acq.NoisyExpectedImprovement(draws=16, rows=32),
    "feasibility": acq.Feasibility(OTHER, 0.5),
    "constrained": acq.Constrained(acq.ExpectedImprovement(), acq.Feasibility(OTHER, 0.9)),
    "ucb": acq.UpperConfidenceBound(),
    "lcb": acq.LowerConfidenceBound(),
    "variance": acq.MaxVariance(),
    "entropy": acq.MaxEntropy(),
    "information": acq.MutualInformation(),
    "bald": acq.BALD(),
    "mes": acq.MaxValueEntropySearch(),
    "mes-functions": acq.MaxValueEntropySearch(4, at=QUERIES, method="functions"),
    "kg": acq.KnowledgeGradient(rows=32),
    "kg-min": acq.KnowledgeGradient(rows=32, maximize=False),
    "reduction": acq.ExpectedVarianceReduction(QUERIES[:3]),
    "directed": acq.InformationDirected(),
    "thompson": acq.Thompson(features=128),
    "believer": acq.Believer(acq.ExpectedImprovement()),
    "penalized": acq.LocalPenalization(acq.UpperConfidenceBound()),
    "batch-ei": acq.BatchExpectedImprovement(2, draws=16),
    "batch-ei-min": acq.BatchExpectedImprovement(2, draws=16, maximize=False),
    "batch-noisy-ei": acq.BatchNoisyExpectedImprovement(2, draws=16, rows=32),
    "batch-ucb": acq.BatchUpperConfidenceBound(2, draws=16),
}
NEED_COVARIANCE = {"noisy-ei", "kg", "kg-min", "reduction"}
NEED_COVARIANCE |= {"batch-ei", "batch-ei-min", "batch-noisy-ei", "batch-ucb"}


def candidates(score: acq.Acquisition) -> jax.Array:
    return SETS if isinstance(score, acq.Batch) else QUERIES


TRACED: list[str] = []


@eqx.filter_jit
def evaluate(name, score, belief, x):
    """The score, what is climbed, and its slopes; compiled once for each kind of score."""
    TRACED.append(name)

    def total(v):
        climbed = score.climb(belief, v)
        return climbed.sum(), climbed

    slopes, climbed = jax.grad(total, has_aux=True)(x)
    return score(belief, x), climbed, slopes


@pytest.mark.parametrize("name", SCORES)
def test_values_and_slopes_are_finite_and_one_program_serves_growing_data(name):
    before = TRACED.count(name)
    for n in (18, 21):  # of one bucket, with those that wait
        belief = gp(n)
        score = SCORES[name].prepared(belief, seed=1, pending=PENDING)
        x = candidates(score)
        value, climbed, slope = evaluate(name, *padded((score, belief)), x)
        assert value.shape == climbed.shape == (len(x),)
        assert slope.shape == x.shape
        assert all(np.isfinite(v).all() for v in (value, climbed, slope))
        assert np.ptp(climbed) > 0 and np.abs(slope).max() > 0
        if score.scale == "positive":
            assert np.all(value >= 0)
        if score.scale == "positive" and not isinstance(score, acq.Batch):
            np.testing.assert_allclose(np.exp(climbed), value, rtol=1e-10)
    assert TRACED.count(name) <= before + 1
    again = SCORES[name].prepared(belief, seed=1, pending=PENDING)
    np.testing.assert_array_equal(evaluate(name, *padded((again, belief)), x)[0], value)


@pytest.mark.parametrize("name", SCORES)
def test_slopes_are_those_of_what_is_climbed(name):
    belief = gp(20)
    score = SCORES[name].prepared(belief, seed=1, pending=PENDING)
    x = candidates(score)
    direction = jnp.asarray(np.random.default_rng(1).normal(size=x.shape))
    slope = float(jnp.vdot(evaluate(name, score, belief, x)[2], direction))
    step = 1e-5
    up, down = (float(evaluate(name, score, belief, x + h * direction)[1].sum()) for h in (step, -step))
    np.testing.assert_allclose(slope, (up - down) / (2 * step), rtol=2e-5, atol=1e-7)


@pytest.mark.parametrize("name", SCORES)
def test_nothing_breaks_where_the_function_is_known(name):
    """Noise of 1e-12: at the rows that were seen nothing is left to doubt."""
    belief = gp(20, noise=1e-12)
    score = SCORES[name].prepared(belief, seed=0, pending=PENDING)
    rows = jnp.asarray(X[:6])
    x = rows.reshape(3, 2, 2) if isinstance(score, acq.Batch) else rows
    assert all(np.isfinite(v).all() for v in evaluate(name, score, belief, x))


@pytest.mark.parametrize("name", sorted(NEED_COVARIANCE))
def test_what_needs_a_covariance_says_so(name):
    class Plain(KeepsRows):
        def predict(self, x):
            return OTHER.predict(x)

        def seen_inputs(self):
            return OTHER.seen_inputs()

    with pytest.raises(DataError, match=r"covariance\(x, z\).*ExpectedImprovement"):
        SCORES[name].prepared(Plain())


def test_what_is_not_prepared_says_so():
    for name in set(SCORES) - {"feasibility", "ucb", "lcb", "variance", "entropy", "information", "bald", "reduction"}:
        score = SCORES[name]
        with pytest.raises(DataError, match="call prepared"):
            score(OTHER, candidates(score))


def test_linear_beliefs_are_scored_too():
    """A belief that keeps no rows and draws no functions: closed forms need its moments, joint ones its covariance."""
    belief = credo.Linear().condition(X, Y)
    for score in (
        acq.ExpectedImprovement(best=1.0),
        acq.KnowledgeGradient(at=QUERIES),
        acq.Thompson(),
        acq.BatchExpectedImprovement(2, best=1.0, draws=16),
        acq.Believer(acq.UpperConfidenceBound()),
    ):
        ready = score.prepared(belief, seed=0, pending=PENDING)
        x = candidates(ready)
        value = eqx.filter_jit(lambda s, b, v: s(b, v))(ready, belief, x)
        assert value.shape == (len(x),) and np.isfinite(value).all()
    for without in (belief, credo.GP()):
        with pytest.raises(DataError, match="has seen no rows, or does not keep them; give the value to be beaten"):
            acq.ExpectedImprovement().prepared(without)
