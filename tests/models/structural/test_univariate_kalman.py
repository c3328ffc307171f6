"""Filter, smoother and score of one series: against a dense Gaussian and finite differences, in NumPy and compiled."""

import jax
import numpy as np
import pytest
from scipy import stats

import credo
from credo.core.params import layout, to_vector
from credo.models.structural import AR, Cycle, Level, Regression, Seasonal, Structural, Trend, univariate_kalman
from credo.models.structural.univariate_kalman import (
    SeriesSystem,
    evidence,
    evidence_and_score,
    filtered_states,
    run,
    smoothed_states,
)

T, N = 24, 3
PASSES = (evidence, evidence_and_score, filtered_states, smoothed_states)


def a_system(rng, *, varying):
    """A system without structure, with noise as its last state, and a series with gaps."""
    root = rng.normal(size=(N, N))
    emission = rng.normal(size=(T, N) if varying else N)
    own = SeriesSystem(
        0.4 * rng.normal(size=(N, N)), rng.uniform(0.1, 1, N), emission, rng.normal(size=N), root @ root.T
    )
    system = SeriesSystem.joined(own, SeriesSystem.white_noise(np.asarray(0.3)))
    return system, rng.normal(size=T), rng.uniform(size=T) > 0.2


def dense(system, seen):
    """Mean and covariance of all states one after the other, and the rows that make the seen outcomes of them."""
    n = len(system.noise)
    means, marginals = [system.mean], [system.covariance]
    for _ in range(T - 1):
        means.append(system.transition @ means[-1])
        marginals.append(system.transition @ marginals[-1] @ system.transition.T + np.diag(system.noise))
    covariance = np.zeros((T, n, T, n))
    for i in range(T):
        block = marginals[i]
        for j in range(i, T):
            covariance[j, :, i], covariance[i, :, j] = block, block.T
            block = system.transition @ block
    emission = np.broadcast_to(system.emission, (T, n))
    rows = (np.eye(T)[:, :, None] * emission[:, None]).reshape(T, T * n)[seen]
    return np.concatenate(means), covariance.reshape(T * n, T * n), rows


@pytest.mark.parametrize("varying", [False, True])
def test_evidence_and_smoother_are_those_of_the_dense_gaussian(rng, varying):
    system, y, seen = a_system(rng, varying=varying)
    mean, covariance, rows = dense(system, seen)
    outcomes = rows @ covariance @ rows.T
    want = stats.multivariate_normal(rows @ mean, outcomes).logpdf(y[seen])
    np.testing.assert_allclose(evidence(system, y, seen), want, rtol=1e-12)
    gain = np.linalg.solve(outcomes, rows @ covariance).T
    given = mean + gain @ (y[seen] - rows @ mean)
    doubt = covariance - gain @ rows @ covariance
    n = len(system.noise)
    found = smoothed_states(system, y, seen)
    np.testing.assert_allclose(found.mean, given.reshape(T, n), atol=1e-10)
    np.testing.assert_allclose(found.covariance, np.einsum("titj->tij", doubt.reshape(T, n, T, n)), atol=1e-10)
    last = filtered_states(system, y, seen)
    np.testing.assert_allclose(last.mean[-1], found.mean[-1], atol=1e-12)


@pytest.mark.parametrize("varying", [False, True])
def test_the_score_is_the_slope(rng, varying):
    system, y, seen = a_system(rng, varying=varying)
    _, score = evidence_and_score(system, y, seen)
    for name in ("transition", "noise", "mean", "covariance"):
        # Along random directions, symmetric ones for a covariance.
        way = rng.normal(size=getattr(system, name).shape)
        way = way + way.T if name == "covariance" else way
        h = 1e-5
        ends = [evidence(system._replace(**{name: getattr(system, name) + s * h * way}), y, seen) for s in (1, -1)]
        want = (ends[0] - ends[1]) / (2 * h)
        np.testing.assert_allclose(np.sum(getattr(score, name) * way), want, rtol=1e-7, err_msg=name)


@pytest.mark.parametrize("varying", [False, True])
def test_compiled_passes_are_those_of_numpy(rng, varying, monkeypatch):
    given = a_system(rng, varying=varying)
    plain = [run(function, *given) for function in PASSES]
    monkeypatch.setattr(univariate_kalman, "ROWS_TO_COMPILE", 0)
    compiled = [run(function, *given) for function in PASSES]
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-11), compiled, plain)


def compilations():
    return univariate_kalman._compiled._cache_size()


def test_a_second_structure_of_the_same_size_compiles_nothing(monkeypatch, rng):
    monkeypatch.setattr(univariate_kalman, "ROWS_TO_COMPILE", 0)
    y = rng.normal(size=30).cumsum()
    inputs = rng.normal(size=(30, 2))
    first = Trend() + Seasonal(4)
    values = [_value_and_slope(first, y)]
    before = compilations()
    others = [Level() + Seasonal(5), Level() + Cycle() + AR(2), Trend(damped=True) + Seasonal(7, harmonics=2)]
    values += [_value_and_slope(each, y) for each in others]
    assert compilations() == before
    monkeypatch.undo()
    for (value, slope), model in zip(values, [first, *others], strict=True):
        want, steep = _value_and_slope(model, y)
        np.testing.assert_allclose(value, want, rtol=1e-9)
        np.testing.assert_allclose(slope, steep, rtol=1e-9, atol=1e-9)
    assert np.isfinite(_value_and_slope(Level() + Regression(), y, inputs=inputs)[0])


def _value_and_slope(model, y, **options):
    belief, series = model.prepare(y, **options)
    slots = layout(belief)
    return belief.objective(slots, series, belief.default_priors(series)).value_and_grad(to_vector(belief, slots))


def test_a_short_series_compiles_nothing(rng):
    programs = []

    def listen(name, *_, **__):
        programs.extend([name] * (name == "/jax/core/compile/backend_compile_duration"))

    y = rng.normal(size=50).cumsum()
    jax.monitoring.register_event_duration_secs_listener(listen)
    try:
        after = credo.fit(Trend() + Seasonal(4) + AR(1), y)
        found = after.predict(4), after.components(2)["trend"]
        after.log_evidence(y[:3])
    finally:
        jax.monitoring.unregister_event_duration_listener(listen)
    assert not programs and all(np.all(np.isfinite(each.mean)) for each in found)


def test_traced_and_plain_evidence_agree_with_their_slopes(rng):
    y = rng.normal(size=30).cumsum()
    belief, series = (Trend(damped=True) + Cycle() + AR(2)).prepare(y)
    slots = layout(belief)
    at = to_vector(belief, slots)
    traced = jax.jit(jax.value_and_grad(lambda u: credo.core.params.from_vector(belief, slots, u).evidence_of(series)))
    value, slope = traced(at)
    got, steep = belief.objective(slots, series, {}).value_and_grad(at)
    np.testing.assert_allclose(got, value, rtol=1e-9)
    np.testing.assert_allclose(steep, slope, rtol=1e-9, atol=1e-9)


def test_learning_goes_on_from_a_state_and_from_a_start_of_ones_own(rng):
    y = rng.normal(size=40).cumsum()
    known = Structural(Level(0.5), Cycle(6.0, 0.3, 0.8), noise=0.4)
    ones_own = Structural(*known.parts, noise=0.4, start=(np.zeros(3), np.eye(3)))
    for belief, rest in ((known.condition(y[:20]), y[20:]), (ones_own, y)):
        series, slots = belief.statistics(rest), layout(belief)
        objective, at = belief.objective(slots, series, {}), to_vector(belief, slots)
        value, slope = objective.value_and_grad(at)
        np.testing.assert_allclose(value, belief.log_evidence(rest), rtol=1e-12)
        h = 1e-5
        want = [(objective.value(at + h * e) - objective.value(at - h * e)) / (2 * h) for e in np.eye(len(at))]
        np.testing.assert_allclose(slope, want, rtol=1e-6, atol=1e-7)
