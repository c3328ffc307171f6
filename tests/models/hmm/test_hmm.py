"""Hidden Markov models against the enumeration of all their paths, and how they meet bad data."""

import itertools
from typing import Any, NamedTuple

import equinox as eqx
import jax
import numpy as np
import pandas as pd
import pytest
from scipy import special, stats

import credo
from credo.core import params
from credo.core.padding import bucket
from credo.errors import DataError
from credo.infer import EM
from credo.models.densities import CategoricalDensity, Gaussian, Poisson, Regression
from credo.models.hmm import HMM, passes
from credo.models.lds import LDS

START = np.array([0.5, 0.2, 0.3])
TRANSITION = np.array([[0.7, 0.2, 0.1], [0.0, 0.6, 0.4], [0.3, 0.3, 0.4]])
MEANS, STDS = np.array([-1.0, 0.5, 2.0]), np.array([0.8, 1.1, 0.6])


def gaussian(**options: Any) -> HMM:
    return HMM(3, Gaussian(STDS[:, None] ** 2, mean=MEANS), START, TRANSITION, **options)


class Enumerated(NamedTuple):
    log_likelihood: float
    smoothed: np.ndarray
    pairs: np.ndarray
    best: np.ndarray


def log_b(x: np.ndarray) -> np.ndarray:
    rows = stats.norm.logpdf(x[:, None], MEANS, STDS)
    return np.where(np.isnan(x)[:, None], 0.0, rows)


def enumerate_paths(x: np.ndarray, start: np.ndarray = START) -> Enumerated:
    """All k^T paths, one by one."""
    rows, (t, k) = log_b(x), (len(x), 3)
    paths = np.array(list(itertools.product(range(k), repeat=t)))
    with np.errstate(divide="ignore"):
        log_p, log_start = np.log(TRANSITION), np.log(start)
    joint = log_start[paths[:, 0]] + rows[np.arange(t), paths].sum(1) + log_p[paths[:, :-1], paths[:, 1:]].sum(1)
    total = special.logsumexp(joint)
    weight = np.exp(joint - total)
    one_hot = np.eye(k)[paths]
    pairs = np.einsum("p,pti,ptj->tij", weight, one_hot[:, :-1], one_hot[:, 1:])
    return Enumerated(total, np.einsum("p,ptk->tk", weight, one_hot), pairs, paths[np.argmax(joint)])


X = np.array([-0.7, 0.3, 1.9, np.nan, 2.2, -1.5])


@pytest.mark.parametrize("t", [1, 2, 6])
def test_the_passes_are_the_sums_over_all_paths(t):
    hmm, x = gaussian(), X[:t]
    want = enumerate_paths(x)
    found = hmm.filter(x, missing=True)
    np.testing.assert_allclose(found.log_likelihood, want.log_likelihood, rtol=1e-12)
    np.testing.assert_allclose(hmm.log_evidence(x, missing=True), want.log_likelihood, rtol=1e-12)
    prefixes = [enumerate_paths(x[: i + 1]) for i in range(t)]
    np.testing.assert_allclose(found.probs, [p.smoothed[-1] for p in prefixes], rtol=1e-10)
    np.testing.assert_allclose(np.cumsum(found.increments), [p.log_likelihood for p in prefixes], rtol=1e-10)
    np.testing.assert_allclose(found.predicted[0], START, rtol=1e-12)
    np.testing.assert_allclose(found.predicted[1:], np.asarray(found.probs)[:-1] @ TRANSITION, rtol=1e-12)
    np.testing.assert_allclose(hmm.smooth(x, missing=True), want.smoothed, rtol=1e-10, atol=1e-15)
    np.testing.assert_allclose(hmm.pairs(x, missing=True), want.pairs.reshape(t - 1, 3, 3), rtol=1e-10, atol=1e-15)
    np.testing.assert_array_equal(hmm.viterbi(x, missing=True), want.best)
    np.testing.assert_allclose(hmm.condition(x, missing=True).state, want.smoothed[-1], rtol=1e-10)
    for lag in (0, 1, 2, 20):
        lagged = [enumerate_paths(x[: min(i + lag + 1, t)]).smoothed[i] for i in range(t)]
        np.testing.assert_allclose(hmm.smooth(x, lag=lag, missing=True), lagged, rtol=1e-10, atol=1e-15)


def test_drawn_paths_have_the_law_of_paths():
    hmm, n = gaussian(), 4000
    drawn = np.asarray(hmm.sample_paths(X, n=n, missing=True, seed=3))
    want = enumerate_paths(X)
    assert drawn.shape == (n, 6)
    share = np.eye(3)[drawn].mean(0)
    assert np.all(np.abs(share - want.smoothed) < 4.5 * np.sqrt(want.smoothed * (1 - want.smoothed) / n) + 1e-12)
    pair = (np.eye(3)[drawn[:, 2]][:, :, None] * np.eye(3)[drawn[:, 3]][:, None]).mean(0)
    assert np.all(np.abs(pair - want.pairs[2]) < 4.5 * np.sqrt(want.pairs[2] * (1 - want.pairs[2]) / n) + 1e-12)


def test_several_sequences_are_a_product():
    hmm = gaussian()
    whole = np.concatenate([X[:2], X[:1], X[1:5]])
    parts = [whole[:2], whole[2:3], whole[3:]]
    want = [enumerate_paths(part) for part in parts]
    total = sum(each.log_likelihood for each in want)
    for data, options in ((whole, {"lengths": [2, 1, 4]}), (parts, {}), (whole[:, None], {"lengths": [2, 1, 4]})):
        np.testing.assert_allclose(hmm.log_evidence(data, missing=True, **options), total, rtol=1e-12)
        gamma = hmm.smooth(data, missing=True, **options)
        np.testing.assert_allclose(gamma, np.concatenate([each.smoothed for each in want]), rtol=1e-10, atol=1e-15)
        path = hmm.viterbi(data, missing=True, **options)
        np.testing.assert_array_equal(path, np.concatenate([each.best for each in want]))
        lagged = hmm.smooth(data, missing=True, lag=1, **options)
        np.testing.assert_allclose(lagged[1], want[0].smoothed[1], rtol=1e-10)
    with pytest.raises(DataError, match="pairs are of one sequence"):
        hmm.pairs(parts, missing=True)


def test_going_on_is_the_whole():
    hmm = gaussian()
    one = hmm.condition(X, missing=True)
    two = hmm.condition(X[:3]).condition(X[3:], missing=True)
    online = hmm
    for value in X:
        online = online.condition(value, missing=True)
    np.testing.assert_allclose(two.state, one.state, rtol=1e-10)
    np.testing.assert_allclose(online.state, one.state, rtol=1e-10)
    chained = hmm.log_evidence(X[:3]) + hmm.condition(X[:3]).log_evidence(X[3:], missing=True)
    np.testing.assert_allclose(chained, hmm.log_evidence(X, missing=True), rtol=1e-12)
    # What looks at sequences begins anew unless told to go on; `unconditioned` forgets.
    np.testing.assert_array_equal(one.viterbi(X, missing=True), hmm.viterbi(X, missing=True))
    later = hmm.condition(X[:3]).filter(X[3:], missing=True, continued=True)
    np.testing.assert_allclose(later.probs, hmm.filter(X, missing=True).probs[3:], rtol=1e-10)
    np.testing.assert_allclose(one.unconditioned().log_evidence(X[:3]), hmm.log_evidence(X[:3]), rtol=1e-12)


def test_forecasts_push_the_law_of_the_state():
    hmm = gaussian().condition(X[:3])
    prediction = hmm.predict(4)
    law = np.asarray(hmm.state)
    for step in range(4):
        law = law @ TRANSITION
        np.testing.assert_allclose(hmm.forecast(4)[step], law, rtol=1e-12)
        np.testing.assert_allclose(prediction.mean.ravel()[step], law @ MEANS, rtol=1e-12)
        variance = law @ (STDS**2 + MEANS**2) - (law @ MEANS) ** 2
        np.testing.assert_allclose(prediction.variance.ravel()[step], variance, rtol=1e-12)
    np.testing.assert_allclose(gaussian().predict().mean.ravel(), [START @ MEANS], rtol=1e-12)


def test_the_predictive_density_of_the_next_outcome_is_the_increment():
    hmm = gaussian()
    found = hmm.filter(X[:3])
    density = hmm.condition(X[:2]).predict().log_prob(np.full((1, 1), X[2]))
    np.testing.assert_allclose(np.ravel(density), found.increments[2], rtol=1e-10)


def test_simulation_has_the_law_of_the_model():
    states, x = gaussian().simulate(4000, seed=1)
    assert x.shape == (4000, 1)
    z = np.asarray(states)
    counts = np.zeros((3, 3))
    np.add.at(counts, (z[:-1], z[1:]), 1)
    visits = counts.sum(1, keepdims=True)
    assert np.all(np.abs(counts / visits - TRANSITION) < 4.5 * np.sqrt(TRANSITION * (1 - TRANSITION) / visits) + 1e-12)
    for k in range(3):
        of_state = np.asarray(x)[z == k, 0]
        assert abs(of_state.mean() - MEANS[k]) < 4.5 * STDS[k] / np.sqrt(len(of_state))


def test_the_gradient_is_that_of_the_sum_over_paths():
    hmm = HMM(3, Gaussian(STDS[:, None] ** 2, mean=MEANS), START, np.full((3, 3), 0.2) + 0.4 * np.eye(3))
    data = hmm.statistics(X, missing=True)
    slots = params.layout(hmm)
    u = np.asarray(params.to_vector(hmm, slots))

    @eqx.filter_jit
    def value_and_grad(u):
        return jax.value_and_grad(lambda v: params.from_vector(hmm, slots, v).evidence_of(data))(u)

    _, gradient = value_and_grad(u)
    for i in range(len(u)):
        step = 1e-5 * np.eye(len(u))[i]
        difference = (float(value_and_grad(u + step)[0]) - float(value_and_grad(u - step)[0])) / 2e-5
        np.testing.assert_allclose(gradient[i], difference, rtol=1e-5, atol=1e-8)


def test_an_outcome_that_no_state_can_show():
    hmm = HMM(2, CategoricalDensity(3, probs=[[0.5, 0.5, 0.0], [0.2, 0.8, 0.0]]), [0.5, 0.5], [[0.9, 0.1], [0.2, 0.8]])
    assert float(hmm.log_evidence([0, 2, 1])) == -np.inf
    assert np.all(np.isfinite(hmm.condition([0, 2, 1]).state))


def test_long_sequences_are_padded_little():
    for n in (1, 100, 8192, 8193, 100_000, 1_000_000):
        t = bucket(n)
        assert n <= t and (n < 8192 or t <= 1.07 * n or n == 8192) and (n < 8192 or t % 512 == 0)
    rows = np.tile(X[:3], 3000)
    hmm = gaussian()
    # The rows of a chain of 9000 that is cut into sequences of three are those of the three, again and again.
    gamma = hmm.smooth(rows, [3] * 3000)
    np.testing.assert_allclose(np.asarray(gamma)[-3:], enumerate_paths(X[:3]).smoothed, rtol=1e-9)
    total = hmm.log_evidence(rows, [3] * 3000)
    np.testing.assert_allclose(total, 3000 * enumerate_paths(X[:3]).log_likelihood, rtol=1e-10)


def test_all_missing_is_the_chain_itself():
    hmm = gaussian()
    x = np.full(5, np.nan)
    assert float(hmm.log_evidence(x, missing=True)) == pytest.approx(0.0, abs=1e-12)
    law = START @ np.linalg.matrix_power(TRANSITION, 4)
    np.testing.assert_allclose(hmm.condition(x, missing=True).state, law, rtol=1e-10)


def test_missing_entries_are_integrated_out():
    covariance = np.array([[[1.0, 0.5], [0.5, 2.0]], [[0.7, -0.2], [-0.2, 0.4]]])
    means = np.array([[0.0, 1.0], [2.0, -1.0]])
    p = np.array([[0.8, 0.2], [0.3, 0.7]])
    full = HMM(2, Gaussian(covariance, mean=means), [0.5, 0.5], p)
    one = HMM(2, Gaussian(covariance[:, 1, 1][:, None], mean=means[:, 1]), [0.5, 0.5], p)
    y = np.array([0.3, -1.2, 0.8])
    x = np.column_stack([np.full(3, np.nan), y])
    np.testing.assert_allclose(full.log_evidence(x, missing=True), one.log_evidence(y), rtol=1e-10)
    row = full.condition(x[0], missing=True)
    np.testing.assert_allclose(row.state, one.condition(y[0]).state, rtol=1e-10)


def test_a_file_brings_it_back(tmp_path):
    hmm = HMM(["calm", "wild"], Poisson([1.0, 5.0]), [0.5, 0.5], [[0.9, 0.1], [0.2, 0.8]]).condition([1, 2, 7])
    again = credo.load(credo.save(hmm, tmp_path / "hmm"))
    assert eqx.tree_equal(hmm, again) and again.states == ("calm", "wild")
    assert hmm.chain().states == ("calm", "wild")
    np.testing.assert_allclose(hmm.chain().stationary(), [2 / 3, 1 / 3], rtol=1e-10)


def test_the_next_outcome_compiles_nothing(programs):
    hmm = gaussian()
    for value in (0.3, np.float64(0.4), np.array([0.5]), [0.6], 1, np.nan):
        hmm = hmm.condition(value, missing=True)
    assert not programs


@pytest.mark.parametrize("emission", [None, Gaussian("diagonal"), Poisson(), CategoricalDensity()])
def test_a_short_series_compiles_nothing(emission, programs):
    rng = np.random.default_rng(0)
    x = rng.poisson(np.repeat([1.0, 8.0, 1.0, 8.0], 15))
    hmm = credo.fit(HMM(2, emission), x)
    prediction = hmm.predict(3)
    hmm.viterbi(x), hmm.smooth(x), hmm.smooth(x, lag=2), hmm.filter(x), hmm.pairs(x), hmm.log_evidence(x)
    assert isinstance(hmm.transition, np.ndarray) and isinstance(prediction.mean, np.ndarray)
    assert not programs


@pytest.mark.parametrize("job", [passes.filter_states, passes.smoothed_states, passes.pair_probs])
def test_numpy_and_compiled_passes_agree(job):
    """A state that cannot be left behind, one outcome that only an impossible state explains."""
    rows = np.random.default_rng(1).normal(scale=3.0, size=(40, 3))
    rows[7] = [-900.0, -1000.0, 0.0]
    first = np.arange(40) % 13 == 0
    start, transition = np.array([0.5, 0.5, 0.0]), np.array([[0.9, 0.1, 0.0], [0.2, 0.8, 0.0], [0.1, 0.1, 0.8]])
    known = job(start, transition, rows, first)
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12),
        known,
        jax.jit(job)(start, transition, rows, first),
    )
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(known))


@pytest.mark.parametrize(
    ("job", "message"),
    [
        (lambda: gaussian().condition(X), "NaN at row 3, column 0; pass missing=True"),
        (lambda: gaussian().condition(np.nan), "pass missing=True to treat NaN as not observed"),
        (lambda: gaussian().condition(np.inf, missing=True), "infinity at row 0"),
        (lambda: gaussian().condition([1.0, np.inf]), "infinity at row 1"),
        (lambda: gaussian().condition(X[:3], lengths=[1, 1]), "add up to the 3 rows of x, found 2"),
        (lambda: gaussian().condition(X[:3], lengths=[3, 0]), "at least 1"),
        (lambda: gaussian().condition([X[:2], X[:1]], lengths=[2, 1]), "a list of sequences has lengths of its own"),
        (lambda: gaussian().condition(np.ones((3, 2))), "must have 1 columns, as the emission has, found 2"),
        (lambda: gaussian().condition([np.ones((3, 1)), np.ones((3, 2))]), "found 2"),
        (lambda: gaussian().condition(np.ones(3), inputs=np.ones((2, 1))), "nothing here depends on inputs"),
        (
            lambda: HMM(2, Regression()).condition(np.ones(3), inputs=np.ones((2, 1))),
            "a row for each of x's 3, found 2",
        ),
        (lambda: gaussian().condition(np.zeros((0, 1))), "empty"),
        (lambda: gaussian().condition(["a", "b"]), "text"),
        (lambda: HMM(3).condition(X[:3]), "start, transition, emission of the HMM are not known yet"),
        (
            lambda: HMM(2, CategoricalDensity(3, probs=[[0.5, 0.3, 0.2]] * 2)).predict(),
            "start, transition of the HMM are not",
        ),
        (lambda: HMM(0), "at least one"),
        (lambda: HMM(2, "gaussian"), "emission must be one of"),
        (lambda: HMM(2, start=[0.5, 0.6]), "start must hold probabilities"),
        (lambda: HMM(2, transition=np.ones((2, 2))), "transition must hold probabilities"),
        (lambda: HMM(2, transition=np.ones((3, 3)) / 3), r"shape \(2, 2\).*found shape \(3, 3\)"),
        (lambda: HMM(2, prior=0.0), "prior must be > 0"),
        (lambda: HMM(2, Gaussian(mean=np.zeros((3, 1)))), "3 components, found 2"),
        (lambda: gaussian().predict(0), "steps must be"),
        (lambda: gaussian().smooth(X[:3], lag=-1), "lag must be"),
        (lambda: HMM(2, Poisson([1.0, 2.0]), [0.5, 0.5], np.eye(2)).condition([1.0, -1.0]), "row 1"),
        (lambda: HMM(2, Poisson([1.0, 2.0]), [0.5, 0.5], np.eye(2)).condition(-1.0), "row 0"),
    ],
)
def test_refusals(job, message):
    with pytest.raises(DataError, match=message):
        job()


def test_columns_of_frames_go_by_name(rng):
    frame = pd.DataFrame(rng.normal(size=(30, 2)) * [1.0, 5.0], columns=["speed", "load"])
    belief = credo.fit(HMM(2, Gaussian("diagonal")), frame)
    system = LDS(np.eye(2), np.eye(2), np.eye(2), np.eye(2), np.zeros(2), np.eye(2)).condition(frame)
    swapped, renamed = frame[["load", "speed"]], frame.rename(columns={"load": "mass"})
    for each in (belief, system):
        np.testing.assert_array_equal(each.log_evidence(swapped), each.log_evidence(frame))
        with pytest.raises(DataError, match="unknown 'mass'"):
            each.condition(renamed)
    with pytest.raises(DataError, match="unknown 'mass'"):
        HMM(2).condition([frame, renamed])


def test_iterators_and_stacks_are_lists_of_sequences():
    hmm = credo.HMM(2, Gaussian(np.ones((2, 1)), mean=[-1.0, 1.0]), [0.4, 0.6], [[0.9, 0.1], [0.2, 0.8]])
    parts = [np.asarray(hmm.simulate(5, seed=i)[1]) for i in range(3)]
    want = float(hmm.log_evidence(parts))
    objects = np.empty(3, dtype=object)
    objects[:] = [part[:, 0] for part in parts]
    for form in (iter(parts), np.stack(parts), tuple(parts), objects):
        assert float(hmm.log_evidence(form)) == pytest.approx(want, rel=1e-12)
    blank = credo.HMM(2, Gaussian("diagonal"))
    one, other = (credo.fit(blank, form, using=EM(starts=1)) for form in (parts, (part for part in parts)))
    np.testing.assert_array_equal(one.transition, other.transition)
    with pytest.raises(DataError, match="nothing here depends on inputs"):
        hmm.filter(parts[0], inputs=np.zeros((5, 1)))
