"""Inputs that move the start of a sequence: dense algebra, the forms of the filter, EM that climbs to flat ground."""

import jax
import numpy as np
import pytest

import credo
from credo.core.pytrees import changed
from credo.errors import DataError
from credo.infer import EM
from credo.models.lds import LDS

KNOWN = (
    [[0.9, 0.1], [0.0, 0.7]],
    [[0.2, 0.05], [0.05, 0.1]],
    [[1.0, 0.5]],
    [[0.3]],
    [1.0, -1.0],
    [[0.5, 0.1], [0.1, 0.4]],
)
CONTROL, FEED, START = [[0.3], [0.2]], [[0.4]], [[2.0], [-1.0]]


def made(**options) -> LDS:
    return LDS(*KNOWN, control=CONTROL, feedthrough=FEED, offset=[0.5], start_control=START, **options)


U = [np.random.default_rng(i).normal(size=(n, 1)) for i, n in enumerate((6, 4))]
X = [np.asarray(made().simulate(len(u), seed=i, inputs=u)[1]) for i, u in enumerate(U)]


@pytest.mark.parametrize("method", ["covariance", "square_root", "parallel"])
def test_the_filter_is_dense_algebra(oracle, method):
    f, q, h, r, m, p = (np.array(a) for a in KNOWN)
    for x, u in zip(X, U, strict=True):
        drift, offset = u @ np.transpose(CONTROL), u @ np.transpose(FEED) + 0.5
        mean, covariance, log_p = oracle.given(m + np.array(START) @ u[0], p, (f, q, h, r, drift, offset), x)
        lds = made(method=method)
        assert float(lds.log_evidence(x, inputs=u)) == pytest.approx(log_p, rel=1e-9)
        want, same, _ = oracle.blocks(mean, covariance, len(x))
        found = lds.smooth(x, inputs=u)
        np.testing.assert_allclose(found.mean, want, atol=1e-9)
        np.testing.assert_allclose(found.covariance, same, atol=1e-9)
        one = lds
        for row, driven in zip(x, u, strict=True):
            one = one.condition(row, inputs=driven)
        np.testing.assert_allclose(one.state.mean, want[-1], atol=1e-9)


def test_forecasts_begin_where_the_inputs_say():
    ahead = made().forecast(2, inputs=[[1.0], [0.0]])
    np.testing.assert_allclose(ahead.mean[0], [3.0, -2.0])
    np.testing.assert_allclose(ahead.mean[1], np.array(KNOWN[0]) @ [3.0, -2.0])
    z = np.array([made().simulate(1, seed=i, inputs=[[1.0]])[0][0] for i in range(400)])
    assert np.all(np.abs(z.mean(0) - [3.0, -2.0]) < 4.5 * z.std(0) / 20)


def test_the_gradient_is_that_of_differences():
    lds = made()
    data = lds.statistics(X, inputs=U)
    slope = jax.grad(lambda b: changed(lds, start_control=b).evidence_of(data))(np.array(START))
    for i in range(2):
        h = np.zeros((2, 1))
        h[i] = 1e-5
        ends = [float(changed(lds, start_control=np.array(START) + s * h).log_evidence_of(data)) for s in (1, -1)]
        assert float(slope[i, 0]) == pytest.approx((ends[0] - ends[1]) / 2e-5, rel=1e-5)


@pytest.mark.slow
def test_em_learns_how_sequences_begin():
    truth = LDS([[0.9]], [[0.1]], [[1.0]], [[0.05]], [1.0], [[0.2]], control=[[0.3]], start_control=[[2.0]])
    inputs = [np.random.default_rng(i).normal(size=(8, 1)) for i in range(80)]
    x = [np.asarray(truth.simulate(8, seed=i, inputs=u)[1]) for i, u in enumerate(inputs)]
    blank = LDS([[0.5]], [[1.0]], [[1.0]], [[1.0]], [0.0], [[1.0]], control=[[0.0]], start_control=[[0.0]])
    held = ["emission"]
    prepared, data = blank.prepare(x, inputs=inputs)
    climb = EM(tolerance=1e-12, max_steps=400).climb(prepared, data, held)
    assert np.all(np.diff(climb.objectives) >= -1e-8)
    top = climb.belief
    se = np.sqrt((0.2 + 0.05) / 80)
    assert abs(top.start_mean[0] - 1.0) < 4.5 * se and abs(top.start_control[0, 0] - 2.0) < 4.5 * se
    at = [float(changed(top, start_control=top.start_control + h).log_evidence_of(data)) for h in (-1e-4, 1e-4)]
    assert abs(at[1] - at[0]) / 2e-4 < 1e-2
    kept = credo.learn(top, x, inputs=inputs, fixed=["emission", "start_control"], using=EM(max_steps=2))
    np.testing.assert_array_equal(kept.start_control, top.start_control)
    blind = credo.fit(changed(blank, start_control=None), x, inputs=inputs, fixed=held, using=EM(starts=1))
    assert climb.objective > float(blind.unconditioned().log_evidence(x, inputs=inputs)) + 50


def test_refusals():
    with pytest.raises(DataError, match="a column for each input"):
        LDS(*KNOWN, control=CONTROL, start_control=[[1.0, 2.0], [0.0, 0.0]])
    with pytest.raises(DataError, match="of the first state alone"):
        LDS(*KNOWN, start_control=np.ones((3, 2, 1)))
    with pytest.raises(DataError, match="driven by 1 of them"):
        LDS(*KNOWN, start_control=START).log_evidence(X[0])
    with pytest.raises(DataError, match="needs inputs"):
        LDS.with_states(2, start_inputs=True)
    assert LDS.with_states(2, 1, 1, start_inputs=True).prepare(X, inputs=U)[0].start_control.shape == (2, 1)
