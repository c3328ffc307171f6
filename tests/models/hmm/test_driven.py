"""Inputs in the transitions and the start of an HMM: all paths enumerated, EM that climbs, weights recovered."""

import itertools

import numpy as np
import pytest
from scipy import stats

import credo
from credo.core.pytrees import changed
from credo.errors import DataError
from credo.infer import EM
from credo.models.densities import Gaussian
from credo.models.hmm import InputHMM

RNG = np.random.default_rng(0)
START = np.array([[0.5, 0.3], [-0.5, -0.3]])
WEIGHTS = np.array([[[-1.0, 1.5], [1.0, -1.5]], [[-1.0, -1.5], [1.0, 1.5]]])


def made() -> InputHMM:
    hmm = InputHMM(2, Gaussian(np.full((2, 1), 0.25), mean=[-1.0, 1.0]))
    whole = {"center": np.zeros(1), "scale": np.ones(1), "start": START, "transition": WEIGHTS}
    return changed(hmm, **whole)


U = RNG.normal(size=(7, 1))
X = RNG.normal(size=7)


def enumerated(lengths: tuple[int, ...]) -> dict[tuple[int, ...], float]:
    """log p(x, path | u) of every path."""
    start, matrices = made().chain_at(U)
    begins = np.cumsum((0, *lengths[:-1]))
    out = {}
    for path in itertools.product(range(2), repeat=7):
        shown = stats.norm.logpdf(X, np.array([-1.0, 1.0])[list(path)], 0.5).sum()
        moves = [start[t, path[t]] if t in begins else matrices[t, path[t - 1], path[t]] for t in range(7)]
        out[path] = shown + np.log(moves).sum()
    return out


@pytest.mark.parametrize("lengths", [(7,), (3, 4)])
def test_passes_are_sums_over_all_paths(lengths):
    every, hmm = enumerated(lengths), made()
    logs = np.array(list(every.values()))
    probs = np.exp(logs - logs.max()) / np.exp(logs - logs.max()).sum()
    assert float(hmm.log_evidence(X, lengths, inputs=U)) == pytest.approx(np.logaddexp.reduce(logs), rel=1e-10)
    paths = np.array(list(every))
    want = np.stack([[probs[paths[:, t] == j].sum() for j in range(2)] for t in range(7)])
    np.testing.assert_allclose(hmm.smooth(X, lengths, inputs=U), want, rtol=1e-8)
    np.testing.assert_allclose(hmm.filter(X, lengths, inputs=U).probs[-1], want[-1], rtol=1e-8)
    np.testing.assert_array_equal(hmm.viterbi(X, lengths, inputs=U), paths[logs.argmax()])
    expected, height = hmm.expect(hmm.statistics(X, lengths, inputs=U).trimmed())
    pair = np.array([[probs[(paths[:, 1] == i) & (paths[:, 2] == j)].sum() for j in range(2)] for i in range(2)])
    np.testing.assert_allclose(expected.pairs[2], pair, rtol=1e-8)
    assert float(height) == pytest.approx(np.logaddexp.reduce(logs))


def test_compiled_is_the_loop_and_halves_are_the_whole():
    u, x = RNG.normal(size=(1500, 1)), RNG.normal(size=1500)
    hmm = made()
    whole = hmm.filter(x, inputs=u)
    after = hmm.condition(x[:700], inputs=u[:700])
    both = float(hmm.log_evidence(x[:700], inputs=u[:700])) + float(after.log_evidence(x[700:], inputs=u[700:]))
    assert float(whole.increments.sum()) == pytest.approx(both, rel=1e-9)
    end = after.condition(x[700:], inputs=u[700:])
    np.testing.assert_allclose(end.state, whole.probs[-1], rtol=1e-8)
    np.testing.assert_allclose(hmm.smooth(x, inputs=u)[-1], whole.probs[-1], rtol=1e-8)
    short = hmm.viterbi(x[:1000], inputs=u[:1000])
    np.testing.assert_array_equal(hmm.viterbi(x, inputs=u)[:990], short[:990])
    ahead = np.array([[0.3], [-0.7]])
    _, matrices = hmm.chain_at(ahead)
    np.testing.assert_allclose(end.forecast(2, inputs=ahead)[1], end.state @ matrices[0] @ matrices[1])
    p = end.predict(2, inputs=ahead)
    np.testing.assert_allclose(p.mean, end.forecast(2, inputs=ahead) @ [-1.0, 1.0], rtol=1e-9)


@pytest.mark.slow
def test_em_recovers_how_inputs_switch_states(tmp_path):
    u = RNG.normal(size=(500, 1))
    states, x = made().simulate(500, inputs=u, seed=2)
    found = credo.fit(InputHMM(2, Gaussian("diagonal")), x[:, 0], inputs=u, using=EM(starts=1, tolerance=1e-4))
    order = np.argsort(np.ravel(found.emission.mean))
    np.testing.assert_allclose(np.ravel(found.emission.mean)[order], [-1, 1], atol=0.1)
    _, matrices = found.chain_at([-1.0, 0.0, 1.0])
    _, truth = made().chain_at([-1.0, 0.0, 1.0])
    assert np.all(np.abs(matrices[:, order][:, :, order] - truth) < 0.15)
    assert np.mean(found.viterbi(x[:, 0], inputs=u) == np.argsort(order)[states]) > 0.95
    # better than a chain that does not look
    blind = credo.fit(credo.HMM(2, Gaussian("diagonal")), x[:, 0], using=EM(starts=1, tolerance=1e-4))
    assert float(found.log_evidence(x[:, 0], inputs=u)) > float(blind.log_evidence(x[:, 0])) + 15
    again = credo.load(credo.save(found, tmp_path / "hmm"))
    np.testing.assert_array_equal(again.transition, found.transition)


def test_a_climb_never_falls_and_ends_where_the_gradient_vanishes():
    rows = slice(0, 60)
    u = RNG.normal(size=(60, 1))
    _, x = made().simulate(60, inputs=u, seed=3)
    start, data = InputHMM(2, Gaussian("diagonal")).prepare(x[rows, 0], inputs=u)
    climb = EM(max_steps=300, tolerance=1e-10, accelerate=False).climb(start, data)
    assert climb.status == "converged" and np.all(np.diff(climb.objectives) >= -1e-9)
    top = climb.belief

    def height(b: InputHMM) -> float:
        return float(b.log_evidence_of(data) + b.log_prior_of_parameters())

    for name in ("start", "transition"):
        value = np.asarray(getattr(top, name))
        for where in np.ndindex(value.shape):
            h = np.zeros(value.shape)
            h[where] = 1e-4
            ends = [height(changed(top, **{name: value + sign * h})) for sign in (1, -1)]
            assert abs(ends[0] - ends[1]) / 2e-4 < 0.05


def test_refusals():
    with pytest.raises(DataError, match="needs inputs="):
        credo.fit(InputHMM(2), X)
    with pytest.raises(DataError, match="steps ahead"):
        made().predict(2)
    with pytest.raises(DataError, match="1 columns, found 2"):
        made().filter(X, inputs=np.ones((7, 2)))
    with pytest.raises(DataError, match="not known yet"):
        InputHMM(2).filter(X, inputs=U)
