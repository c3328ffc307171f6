"""Covariances that settle: against those of every row, against dense conditioning, and where they do not settle."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from credo.infer.em import EM
from credo.models.lds import LDS, compiled_passes
from credo.models.lds.affine import affine, bounded, varying_affine
from credo.models.lds.kalman import Start, Steps, begins, kalman_filter, rts_smoother
from credo.models.lds.learning import collect
from credo.models.lds.settled import MOST, Pass, filter_sequences, filter_to_the_end, settle
from credo.models.lds.settled_smoother import smooth_for_sums, smooth_sequences, spreads_of
from credo.models.sequences import Sequences

N, P, T, ROWS = 2, 2, 1280, 1100


@eqx.filter_jit
def found(given, whole=True):
    """Whether it settles, and what the passes say; those that share their parts with others only for the `whole`."""
    rest = (filter_to_the_end(given), smooth_sequences(given)) if whole else None
    return settle(given).ok, filter_sequences(given), smooth_for_sums(given), rest


@eqx.filter_jit
def wanted(given):
    filtered = kalman_filter(given.start, given.steps, given.data.x, given.data.seen, given.first, given.before)
    smoothed = rts_smoother(given.steps, filtered, given.first, cross=True)
    sums = spreads_of(given.data, smoothed, begins(given.first, given.before) & given.data.real)
    return filtered, smoothed, sums


def data_of(x, begin=(0,), rows=ROWS, seen=None):
    """Rows of sequences that begin at `begin`, and padding."""
    seen = np.ones(x.shape, bool) if seen is None else seen
    seen = seen & (np.arange(T) < rows)[:, None]
    first = np.arange(T) >= rows
    first[list(begin)] = True
    x = np.where(seen, x, 0.0)
    real = np.arange(T) < rows
    return Sequences(*(jnp.asarray(a) for a in (x, seen, first, real)), None, True, len(begin) == 1)


def given_of(oracle, seed=0, change=None, before=None, driven=False, covariance=None, **options):
    """A pass over random outcomes; `change` are matrices by name."""
    rng = np.random.default_rng(seed)
    steps = Steps(*oracle.matrices(rng))._replace(**(change or {}))
    if driven:
        steps = steps._replace(drift=rng.normal(size=(T, N)), offset=rng.normal(size=(T, P)))
    x = rng.normal(size=(T, P)).cumsum(axis=0) * 0.1 + rng.normal(size=(T, P))
    a = rng.normal(size=(N, N))
    start = Start(jnp.asarray(rng.normal(size=N)), jnp.asarray(a @ a.T if covariance is None else covariance))
    data = data_of(x, **options)
    first = data.first if before is None else data.first.at[0].set(False)
    return Pass(start, jax.tree.map(jnp.asarray, steps), data, first, before)


def close(a, b, tolerance=1e-10):
    a, b = np.asarray(a), np.asarray(b)
    np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance * max(1.0, np.abs(b).max()))


def compare(given, settles, whole=True):
    """Every pass that may settle equals the one with covariances of every row, and whether it does is as expected."""
    ok, filtered, (mean, spreads, log_p), rest = found(given, whole)
    general, back, sums = wanted(given)
    assert bool(ok) == settles
    rows = int(given.data.real.sum())
    for a, b in zip((*filtered, mean), (*general, back.mean), strict=True):
        assert np.all(np.isfinite(a))
        close(a[:rows], b[:rows])
    assert not np.any(filtered.increments[rows:])
    close(log_p, general.log_likelihood)
    for a, b in zip(spreads, sums, strict=True):
        close(a, b)
    if whole:
        end, (increments, smoothed) = rest
        close(increments, general.increments)
        close(end.mean, general.mean[rows - 1])
        close(end.covariance, general.covariance[rows - 1])
        close(smoothed.mean[:rows], back.mean[:rows])
        close(smoothed.covariance[:rows], back.covariance[:rows])
        assert all(np.all(np.isfinite(a)) for a in smoothed[:2])


LEVEL = {"transition": np.eye(N), "emission": np.eye(N)}
CASES = {
    "plain": (True, {}),
    "singular noise": (True, {"change": {"noise": np.diag([0.3, 0.0])}}),
    "no noise of outcomes": (True, {"change": {"observation": np.zeros((P, P))}}),
    "an outcome that is known": (
        True,
        {"change": {"observation": np.zeros((P, P)), "emission": np.array([[1.0, 0.5], [0.0, 0.0]])}},
    ),
    "a wide start": (True, {"covariance": 1e6 * np.eye(N)}),
    "states of other sizes": (
        True,
        {"change": {**LEVEL, "noise": np.diag([1e6, 1e-6]), "observation": np.diag([1e6, 1e-6])}},
    ),
    "a state that is known": (
        True,
        {"change": {**LEVEL, "noise": np.diag([0.3, 0.0])}, "covariance": np.diag([1.0, 0.0])},
    ),
    "few rows in much padding": (True, {"rows": 400}),
    "all rows": (True, {"rows": T}),
    "fewer rows than it takes": (True, {"rows": 6}),
    "a constant that is not known": (False, {"change": {**LEVEL, "noise": np.zeros((N, N))}}),
    "a constant that is hardly seen": (
        False,
        {"change": {**LEVEL, "noise": np.zeros((N, N)), "emission": 1e-8 * np.eye(N)}},
    ),
    "a state that grows, known to be 0": (
        False,
        {"change": {"transition": 1.5 * np.eye(N), "noise": np.zeros((N, N))}, "covariance": np.zeros((N, N))},
    ),
    "a row that is missing": (False, {"seen": np.broadcast_to(np.arange(T)[:, None] != 700, (T, P))}),
}


@pytest.mark.parametrize("case", CASES)
def test_one_sequence_equals_covariances_of_every_row(case, oracle):
    settles, options = CASES[case]
    given = given_of(oracle, list(CASES).index(case), **options)
    if case == "a state that grows, known to be 0":
        given = given._replace(
            start=given.start._replace(mean=jnp.zeros(N)), steps=given.steps._replace(drift=jnp.zeros(N))
        )
    compare(given, settles)


def test_slow_settling_takes_many_rows(oracle):
    slow = {**LEVEL, "noise": 1e-3 * np.eye(N), "observation": np.eye(P)}
    given = given_of(oracle, 20, slow)
    assert 300 < int(eqx.filter_jit(settle)(given).since) < MOST
    compare(given, True)
    compare(given._replace(data=data_of(np.asarray(given.data.x), rows=450)), True)  # too few to smooth that way


def test_a_sequence_that_goes_on_from_a_law_with_inputs(oracle):
    before = Start(jnp.array([3.0, -1.0]), jnp.diag(jnp.array([4.0, 0.1])))
    compare(given_of(oracle, 3, before=before, driven=True), True)


def test_several_sequences_by_position_with_inputs(oracle):
    compare(given_of(oracle, 5, driven=True, begin=(0, 3, 4, 500, 900)), True, whole=False)


def test_more_states_than_loops_are_unrolled_for(oracle):
    n, p = 9, 10
    rng = np.random.default_rng(n)
    steps = Steps(*oracle.matrices(rng, n, p))
    steps = jax.tree.map(jnp.asarray, steps._replace(transition=steps.transition / np.sqrt(n)))
    start = Start(jnp.zeros(n), jnp.eye(n))
    data = data_of(rng.normal(size=(T, p)))
    compare(Pass(start, steps, data, data.first, None), True, whole=False)


def test_against_dense_conditioning(oracle):
    rows = 200
    given = given_of(oracle, 6, {"transition": np.array([[0.9, 0.3], [-0.3, 0.7]])}, rows=rows)
    steps = tuple(np.asarray(a) for a in given.steps)
    law = tuple(np.asarray(a) for a in given.start)
    x = np.asarray(given.data.x)[:rows]
    total, sigma, log_p = oracle.given(*law, steps, x)
    mean, covariance, cross = oracle.blocks(total, sigma, rows)
    ok, filtered, (_, spreads, found_log_p), (_, (_, smoothed)) = found(given)
    assert ok
    close(found_log_p, log_p)
    close(smoothed.mean[:rows], mean)
    close(smoothed.covariance[:rows], covariance)
    close(filtered.mean[rows - 1], mean[-1])
    sums = covariance[1:].sum(0), covariance[:-1].sum(0), cross.sum(0), covariance[0], covariance.sum(0)
    for a, b in zip(spreads, sums, strict=True):
        close(a, b)
    short = oracle.blocks(*oracle.given(*law, steps, x[:5])[:2], 5)
    close(filtered.mean[4], short[0][4])
    close(filtered.covariance[4], short[1][4])


@pytest.mark.parametrize("reverse", [False, True])
def test_affine_recursions(reverse):
    rng = np.random.default_rng(8)
    slope, level = np.array([[0.9, 0.4], [-0.3, 0.8]]), rng.normal(size=(1003, 2))
    m, want = np.zeros(2), np.empty_like(level)
    for i in reversed(range(len(level))) if reverse else range(len(level)):
        want[i] = m = slope @ m + level[i]
    close(affine(jnp.asarray(slope), jnp.asarray(level), reverse), want, 1e-12)
    each = varying_affine(jnp.broadcast_to(slope, (1003, 2, 2)), jnp.asarray(level), jnp.zeros(2), reverse)
    close(each, want, 1e-12)


def test_powers_without_bound():
    assert bounded(jnp.array([[1.0, 1.0], [0.0, 1.0]]), 10**6)
    assert not bounded(jnp.array([[1.01, 1.0], [0.0, 1.0]]), 10**6)


@eqx.filter_jit
def em_step(lds, data):
    """With covariances of every row."""
    steps, start = compiled_passes.steps_for(lds, data), compiled_passes.starts(lds)
    filtered = kalman_filter(start, steps, data.x, data.seen, data.first)
    smoothed = rts_smoother(steps, filtered, data.first, cross=True)
    return lds.maximize(collect(steps, data, smoothed, data.first & data.real)), filtered.log_likelihood


def test_em_learns_the_same(oracle):
    rng = np.random.default_rng(9)
    f, q, h, r, *_ = oracle.matrices(rng)
    x = np.asarray(LDS(f, q + 0.1 * np.eye(N), h, r, np.zeros(N), np.eye(N)).simulate(ROWS, seed=1)[1])
    lds, data = LDS(0.5 * f, np.eye(N), h + 0.3, np.eye(P), np.zeros(N), np.eye(N), offset=np.zeros(P)).prepare(x)
    assert eqx.filter_jit(settle)(
        Pass(compiled_passes.starts(lds), compiled_passes.steps_for(lds, data), data, data.first, None)
    ).ok
    climb = EM(accelerate=False, max_steps=5, tolerance=0).climb(lds, data)
    want, heights = lds, []
    for _ in range(6):
        last = want
        want, height = em_step(last, data)
        heights.append(float(height))
    close(climb.objectives, heights)
    for name in ("transition", "noise", "emission", "observation", "offset", "start_mean", "start_covariance"):
        close(getattr(climb.belief, name), getattr(last, name), 1e-8)
