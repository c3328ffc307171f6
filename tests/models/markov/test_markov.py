"""Markov chains against matrix powers, eigenvectors, linear solves and hand-made searches; beliefs against SciPy."""

import itertools
import math
from fractions import Fraction

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.special
import scipy.stats as st
from hypothesis import given
from hypothesis import strategies as hs

import credo
from credo.core import params
from credo.core.errors import DataError, NotConverged, RepairedWarning
from credo.core.predictive import Categorical
from credo.infer import ML
from credo.models.conjugate import DirichletCategorical
from credo.models.markov import MarkovChain, MarkovSequence, StateClass, TransitionCounts
from credo.models.markov.counting import count_transitions, encode

WEATHER = np.array([[0.7, 0.2, 0.1], [0.3, 0.4, 0.3], [0.2, 0.3, 0.5]])
# 0 ↔ 1 are left for the absorbing 2 or for the closed cycle 3 → 4 → 3
RUIN = np.array(
    [
        [0.1, 0.5, 0.2, 0.2, 0.0],
        [0.6, 0.0, 0.1, 0.0, 0.3],
        [0.0, 0.0, 1.0, 0.0, 0.0],
        [0.0, 0.0, 0.0, 0.0, 1.0],
        [0.0, 0.0, 0.0, 1.0, 0.0],
    ]
)
CYCLE = np.roll(np.eye(3), 1, axis=1)


def random_chain(k: int, density: float, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    table = rng.exponential(size=(k, k)) * (rng.uniform(size=(k, k)) < density)
    table[table.sum(1) == 0, 0] = 1.0
    return table / table.sum(1, keepdims=True)


# ── structure


def reach_by_hand(p: np.ndarray) -> np.ndarray:
    """Depth-first search from every state, in no steps or more."""
    k = len(p)
    out = np.zeros((k, k), bool)
    for root in range(k):
        stack = [root]
        while stack:
            i = stack.pop()
            if not out[root, i]:
                out[root, i] = True
                stack += [j for j in range(k) if p[i, j] > 0]
    return out


def period_by_hand(p: np.ndarray, i: int) -> int:
    """gcd of the lengths ≤ k² of loops through i, from powers of the adjacency."""
    step = (p > 0).astype(int)
    power, out = np.eye(len(p), dtype=int), 0
    for t in range(1, len(p) ** 2 + 1):
        power = ((power @ step) > 0).astype(int)
        if power[i, i]:
            out = math.gcd(out, t)
    return out


@given(hs.integers(1, 7), hs.sampled_from([0.15, 0.3, 0.6]), hs.integers(0, 10_000))
def test_classes_and_periods_are_those_of_a_search_by_hand(k, density, seed):
    p = random_chain(k, density, seed)
    chain = MarkovChain(p)
    reach = reach_by_hand(p)
    both = reach & reach.T
    want = {tuple(np.flatnonzero(row).tolist()) for row in both}
    found = chain.classes()
    assert {c.states for c in found} == want and len(found) == len(want)
    assert [c.closed for c in found] == sorted((c.closed for c in found), reverse=True)
    for c in found:
        assert c.closed == all(set(np.flatnonzero(reach[i])) == set(c.states) for i in c.states)
        for i in c.states:
            assert c.period == chain.period(i) == period_by_hand(p, i)
    assert chain.is_irreducible == bool(reach.all())
    assert chain.is_ergodic == bool((np.linalg.matrix_power((p > 0).astype(float), k * k + 1) > 0).all())


def test_the_kinds_of_chains():
    ruin = MarkovChain(RUIN, states=["rich", "poor", "broke", "up", "down"])
    assert ruin.classes() == (
        StateClass(("broke",), True, 1),
        StateClass(("up", "down"), True, 2),
        StateClass(("rich", "poor"), False, 1),
    )
    assert not ruin.is_irreducible and not ruin.is_aperiodic and ruin.period() == 2 and ruin.period("broke") == 1
    cycle = MarkovChain(CYCLE)
    assert cycle.is_irreducible and cycle.period() == 3 and not cycle.is_ergodic
    one = MarkovChain([[1.0]])
    assert one.is_ergodic and one.mixing_time() == 0 and one.relaxation_time() == 1.0
    assert one.stationary().tolist() == [1.0] and one.simulate(4).tolist() == [0, 0, 0, 0]
    once = MarkovChain([[0.0, 1.0], [0.0, 1.0]])
    assert once.period(0) == 0 and once.is_aperiodic and once.classes()[1] == StateClass((0,), False, 0)


# ── the long run


@pytest.mark.parametrize("k", [2, 5, 40, 500])
def test_the_stationary_distribution_is_the_eigenvector(k):
    p = random_chain(k, 0.9, k)
    pi = np.asarray(MarkovChain(p).stationary())
    np.testing.assert_allclose(pi @ p, pi, rtol=1e-11)
    values, vectors = np.linalg.eig(p.T)
    v = np.real(vectors[:, np.argmin(np.abs(values - 1))])
    np.testing.assert_allclose(pi, v / v.sum(), rtol=1e-9)


def solve_fractions(a: list[list[Fraction]], b: list[Fraction]) -> list[Fraction]:
    """Gauss-Jordan elimination in exact arithmetic."""
    n = len(a)
    rows = [[*a[i], b[i]] for i in range(n)]
    for i in range(n):
        pivot = next(r for r in range(i, n) if rows[r][i] != 0)
        rows[i], rows[pivot] = rows[pivot], rows[i]
        rows[i] = [v / rows[i][i] for v in rows[i]]
        for r in range(n):
            if r != i:
                rows[r] = [v - rows[r][i] * w for v, w in zip(rows[r], rows[i], strict=True)]
    return [row[-1] for row in rows]


def exact_chain(p: np.ndarray) -> list[list[Fraction]]:
    """The chain whose transitions to other states are exactly those floats."""
    out = [[Fraction(float(v)) for v in row] for row in p]
    for i, row in enumerate(out):
        row[i] = 1 - sum(v for j, v in enumerate(row) if j != i)
    return out


def nearly_decomposable() -> np.ndarray:
    """Three blocks of two states with links of 1e-12, 3e-12, …"""
    p = np.zeros((6, 6))
    for b, (x, y) in enumerate([(0.3, 0.6), (0.25, 0.5), (0.9, 0.2)]):
        p[2 * b, 2 * b + 1], p[2 * b + 1, 2 * b] = x, y
    p[0, 2], p[3, 4], p[5, 0], p[2, 1] = 1e-12, 3e-12, 7e-12, 2e-13
    np.fill_diagonal(p, 1 - p.sum(1))
    return p


def test_rare_links_keep_their_digits():
    p = nearly_decomposable()
    exact = exact_chain(p)
    k = len(p)
    balance = [[exact[i][j] - (i == j) for i in range(k)] for j in range(k - 1)] + [[Fraction(1)] * k]
    want = [float(v) for v in solve_fractions(balance, [Fraction(0)] * (k - 1) + [Fraction(1)])]
    chain = MarkovChain(p)
    np.testing.assert_allclose(chain.stationary(), want, rtol=1e-14)
    inside = [[(i == j) - exact[i][j] for j in range(1, k)] for i in range(1, k)]
    times = [float(v) for v in solve_fractions(inside, [Fraction(1)] * (k - 1))]
    np.testing.assert_allclose(chain.hitting_times(0), [0.0, *times], rtol=1e-14)


def test_a_steep_chain_neither_overflows_nor_loses_its_mass():
    k, up = 500, 0.95
    p = np.zeros((k, k))
    p[np.arange(k - 1), np.arange(1, k)], p[np.arange(1, k), np.arange(k - 1)] = up, 1 - up
    np.fill_diagonal(p, 1 - p.sum(1))
    ratio = (1 - up) / up
    want = ratio ** np.arange(k - 1, -1, -1, dtype=float) * (1 - ratio)
    for table, target in ((p, want), (p[::-1, ::-1], want[::-1])):
        np.testing.assert_allclose(MarkovChain(table).stationary(), target, rtol=1e-10, atol=1e-300)
    with pytest.raises(DataError, match="the stationary probability of 0 is below 1e-308"):
        MarkovChain(p).reversed()


def test_what_float64_can_not_hold_is_refused():
    chain = MarkovChain([[0.5, 0.5], [1e-320, 1.0]])
    with pytest.raises(NotConverged, match="stationary distribution is out of the range of float64"):
        chain.stationary()
    with pytest.raises(NotConverged, match="expected time is out of the range"):
        chain.hitting_times(0)


def test_one_stationary_distribution_for_each_closed_class():
    chain = MarkovChain(RUIN, states=list("abcde"))
    with pytest.raises(DataError, match=r"2 closed classes.*\{'c'\}; \{'d', 'e'\}.*all=True"):
        chain.stationary()
    np.testing.assert_allclose(chain.stationary(all=True), [[0, 0, 1, 0, 0], [0, 0, 0, 0.5, 0.5]])
    transient = MarkovChain([[0.5, 0.5, 0.0], [0.0, 0.4, 0.6], [0.0, 0.2, 0.8]])
    np.testing.assert_allclose(transient.stationary(), [0.0, 0.25, 0.75], rtol=1e-14)


def test_detailed_balance_and_running_backwards():
    rng = np.random.default_rng(1)
    weights = rng.uniform(size=(5, 5))
    weights = weights + weights.T
    walk = MarkovChain(weights / weights.sum(1, keepdims=True))
    np.testing.assert_allclose(walk.stationary(), weights.sum(1) / weights.sum(), rtol=1e-13)
    assert walk.is_reversible() and walk.balance_gap() < 1e-15
    np.testing.assert_allclose(walk.reversed().transition, walk.transition, rtol=1e-12)
    cycle = MarkovChain(CYCLE)
    assert not cycle.is_reversible() and cycle.balance_gap() == pytest.approx(1 / 3)
    np.testing.assert_array_equal(cycle.reversed().transition, CYCLE.T)
    chain = MarkovChain(WEATHER, states=list("src"))
    back = chain.reversed()
    assert back.states == chain.states
    np.testing.assert_allclose(back.stationary(), chain.stationary(), rtol=1e-13)
    np.testing.assert_allclose(back.reversed().transition, WEATHER, rtol=1e-13)
    gap = chain.balance_gap()
    assert chain.is_reversible(gap * 1.01) and not chain.is_reversible(gap * 0.99)
    with pytest.raises(DataError, match="irreducible chain can be run backwards, found 3"):
        MarkovChain(RUIN).reversed()


@pytest.mark.parametrize("epsilon", [0.6, 0.25, 1e-3, 1e-10])
def test_the_mixing_time_is_the_first_power_that_is_close(epsilon):
    for p in (
        WEATHER,
        0.5 * np.roll(np.eye(6), 1, axis=1) + 0.5 * random_chain(6, 0.4, 3),
        0.97 * np.eye(4) + 0.03 * random_chain(4, 1.0, 5),
    ):
        chain = MarkovChain(p)
        assert chain.is_ergodic
        pi = np.asarray(chain.stationary())
        power, t = np.eye(len(p)), 0
        while 0.5 * np.abs(power - pi).sum(1).max() > epsilon:
            power, t = power @ p, t + 1
        assert chain.mixing_time(epsilon) == t


def test_slow_chains_mix_at_the_time_of_their_closed_form():
    a, b = 1e-9, 3e-9  # TV after t steps is max(π) (1 - a - b)ᵗ
    chain = MarkovChain([[1 - a, a], [b, 1 - b]])
    want = math.log(0.25 / 0.75) / math.log1p(-(a + b))
    assert chain.mixing_time() == math.ceil(want)
    assert chain.relaxation_time() == pytest.approx(1 / (a + b), rel=1e-6)
    with pytest.raises(NotConverged, match="almost reducible"):
        MarkovChain([[1 - 1e-17, 1e-17], [1e-17, 1 - 1e-17]]).mixing_time()


def test_what_does_not_mix():
    with pytest.raises(DataError, match="its period is 3"):
        MarkovChain(CYCLE).mixing_time()
    with pytest.raises(DataError, match="it is reducible"):
        MarkovChain(RUIN).mixing_time()
    with pytest.raises(DataError, match="epsilon must lie strictly between 0 and 1, found 0"):
        MarkovChain(WEATHER).mixing_time(0)
    assert MarkovChain(CYCLE).relaxation_time() == MarkovChain(RUIN).relaxation_time() == math.inf
    moduli = np.sort(np.abs(np.linalg.eigvals(WEATHER)))
    assert MarkovChain(WEATHER).relaxation_time() == pytest.approx(1 / (1 - moduli[1]), rel=1e-12)


# ── from a start to a target


@pytest.mark.parametrize("t", [0, 1, 3, 4, 7, 64, 1000])
def test_the_distribution_after_t_steps(t):
    chain = MarkovChain(WEATHER, states=["sun", "rain", "snow"], start=[0.2, 0.3, 0.5])
    power = np.linalg.matrix_power(WEATHER, t)
    np.testing.assert_allclose(chain.distribution(t), np.array([0.2, 0.3, 0.5]) @ power, rtol=1e-12)
    np.testing.assert_allclose(chain.distribution(t, "rain"), power[1], rtol=1e-12, atol=1e-15)


def test_a_chain_without_a_start_is_in_its_long_run():
    chain = MarkovChain(WEATHER)
    np.testing.assert_allclose(chain.distribution(5), chain.stationary(), rtol=1e-13)
    with pytest.raises(DataError, match="start is missing.*pass one of 0, 1, 2, 3, 4"):
        MarkovChain(RUIN).distribution(5)


def test_hitting_times_and_absorption_solve_their_equations():
    chain = MarkovChain(RUIN, states=list("abcde"))
    q = RUIN[:2, :2]
    entering = np.column_stack([RUIN[:2, 2], RUIN[:2, 3:].sum(1)])
    want = np.linalg.solve(np.eye(2) - q, entering)
    np.testing.assert_allclose(chain.absorption(), [*want, [1, 0], [0, 1], [0, 1]], rtol=1e-13)
    steps = np.linalg.solve(np.eye(2) - q, np.ones(2))
    np.testing.assert_allclose(chain.hitting_times(["c", "d", "e"]), [*steps, 0, 0, 0], rtol=1e-13)
    np.testing.assert_array_equal(chain.hitting_times("d"), [np.inf, np.inf, np.inf, 0, 1])
    p = random_chain(30, 0.5, 8)
    h = np.asarray(MarkovChain(p).hitting_times([3, 7]))
    rest = np.setdiff1d(np.arange(30), [3, 7])
    np.testing.assert_allclose(h[rest], np.linalg.solve(np.eye(28) - p[np.ix_(rest, rest)], np.ones(28)), rtol=1e-11)
    assert h[3] == h[7] == 0
    np.testing.assert_array_equal(MarkovChain(WEATHER).absorption(), np.ones((3, 1)))


def test_a_target_on_the_way_to_a_trap_is_still_surely_reached():
    line = MarkovChain([[0.5, 0.5, 0.0], [0.0, 0.0, 1.0], [0.0, 0.0, 1.0]])
    np.testing.assert_array_equal(line.hitting_times(1), [2.0, 0.0, np.inf])


# ── paths


def test_simulated_paths_have_the_transitions_of_the_chain():
    p = np.array([[0.0, 0.6, 0.4], [0.5, 0.5, 0.0], [1.0, 0.0, 0.0]])
    paths = MarkovChain(p).simulate(400, seed=3, chains=50, start=[0.2, 0.0, 0.8])
    assert paths.shape == (50, 400)
    counts = np.zeros((3, 3))
    for row in paths:
        for i, j in itertools.pairwise(row):
            counts[i, j] += 1
    visits = counts.sum(1, keepdims=True)
    assert np.all(np.abs(counts / visits - p) <= 4.5 * np.sqrt(p * (1 - p) / visits))
    assert np.all(counts[p == 0] == 0)
    first = np.bincount(paths[:, 0], minlength=3) / 50
    assert first[1] == 0 and abs(first[0] - 0.2) < 4.5 * math.sqrt(0.2 * 0.8 / 50)


def test_paths_carry_names_and_repeat_with_the_seed():
    chain = MarkovChain(CYCLE, states=["red", "green", "amber"], start="green")
    path = chain.simulate(5, seed=1)
    assert path.tolist() == ["green", "amber", "red", "green", "amber"]
    weather = MarkovChain(WEATHER)
    np.testing.assert_array_equal(weather.simulate(20, seed=4), weather.simulate(20, seed=4))
    assert np.any(weather.simulate(20, seed=4) != weather.simulate(20, seed=5))
    assert len(set(map(tuple, weather.simulate(20, chains=5).tolist()))) == 5
    long_run = weather.simulate(2, chains=4000)[:, 0]
    pi = np.asarray(weather.stationary())
    assert np.all(np.abs(np.bincount(long_run) / 4000 - pi) < 4.5 * np.sqrt(pi * (1 - pi) / 4000))


def test_the_probability_of_a_sequence():
    chain = MarkovChain(WEATHER, states=list("src"))
    want = math.log(0.2) + math.log(0.4) + math.log(0.3)
    assert chain.log_prob("srrc") == pytest.approx(want, rel=1e-13)
    assert chain.log_prob([list("srr"), list("rc"), ["s"]]) == pytest.approx(want, rel=1e-13)
    started = MarkovChain(WEATHER, states=list("src"), start=[0.5, 0.5, 0.0])
    assert started.log_prob([list("srr"), list("rc")]) == pytest.approx(want + 2 * math.log(0.5), rel=1e-13)
    assert started.log_prob("cs") == -math.inf == MarkovChain(CYCLE).log_prob([0, 2])


def test_maximum_likelihood_counts():
    chain = MarkovChain.fit([["a", "b", "a", "b", "b"], ["b", "c", "a", "a"]])
    assert chain.states == ("a", "b", "c")
    np.testing.assert_allclose(chain.transition, [[1 / 3, 2 / 3, 0], [1 / 3, 1 / 3, 1 / 3], [1, 0, 0]], rtol=1e-14)
    rng = np.random.default_rng(0)
    data = rng.integers(0, 3, 60)
    best = MarkovChain.fit(data)
    for _ in range(20):
        other = 0.9 * np.asarray(best.transition) + 0.1 * rng.dirichlet(np.ones(3), 3)
        assert MarkovChain(other).log_prob(data) < best.log_prob(data)


def test_maximum_likelihood_of_a_higher_order_is_a_chain_of_tuples():
    data = np.random.default_rng(2).integers(0, 2, 200)
    chain = MarkovChain.fit(data, order=2)
    assert chain.states == ((0, 0), (0, 1), (1, 0), (1, 1))
    for i, (a, b) in enumerate(chain.states):
        follow = [data[t] for t in range(2, 200) if (data[t - 2], data[t - 1]) == (a, b)]
        for j, (c, d) in enumerate(chain.states):
            want = np.mean(np.array(follow) == d) if c == b else 0.0
            assert chain.transition[i, j] == pytest.approx(want, rel=1e-14)
    path = chain.simulate(30, start=(0, 1))
    assert path[0] == (0, 1) and all(a[1] == b[0] for a, b in itertools.pairwise(path))
    pairs = list(itertools.pairwise(data.tolist()))
    counts = count_transitions(encode(data, (0, 1)), 2, 2)
    want = scipy.special.xlogy(counts, counts / counts.sum(1, keepdims=True)).sum()
    assert chain.log_prob(pairs) == pytest.approx(want, rel=1e-12)


def test_a_state_that_is_never_left_is_uniform_with_a_warning():
    with pytest.warns(RepairedWarning, match="nothing follows 'c' in the sequences"):
        chain = MarkovChain.fit("abac", states="abc")
    np.testing.assert_allclose(chain.transition, [[0, 0.5, 0.5], [1, 0, 0], [1 / 3] * 3])


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: MarkovChain([[0.5, 0.5], [0.5, 0.4]]), r"found row 1 \(1\) with sum 0.9; divide"),
        (lambda: MarkovChain([[0.9, 0.3], [0.1, 0.7]]), r"found row 0 \(0\) with sum 1.2; its columns do"),
        (lambda: MarkovChain([[1.5, -0.5], [0, 1]], states="ab"), "found -0.5 from 'a' to 'b'"),
        (lambda: MarkovChain([[1.0, 0.0]]), r"transition must be square.*found \(1, 2\)"),
        (lambda: MarkovChain([[np.nan, 1], [0, 1]]), "transition contains NaN"),
        (lambda: MarkovChain(CYCLE, states="ab"), "must name the 3 states of transition, found 2"),
        (lambda: MarkovChain(CYCLE, states="aba"), "different names, found 'a' more than once"),
        (lambda: MarkovChain(CYCLE, states=["a", 1, 2]), "all text or all whole numbers"),
        (lambda: MarkovChain(CYCLE, states=[0.5, 1, 2]), "must be text or a whole number, found 0.5"),
        (lambda: MarkovChain(CYCLE, start=3), "start 3 is unknown; known are 0, 1, 2"),
        (lambda: MarkovChain(CYCLE, start=[0.5, 0.1, 0.1]), "start must hold probabilities.*found sums 0.7"),
        (lambda: MarkovChain(CYCLE).distribution(-1), "t must be a whole number of steps ≥ 0, found -1"),
        (lambda: MarkovChain(CYCLE).simulate(0), "n must be a whole number ≥ 1, found 0"),
        (lambda: MarkovChain(CYCLE).hitting_times("x"), "target 'x' is unknown; known are 0, 1, 2"),
        (lambda: MarkovChain(CYCLE).hitting_times([]), "target is empty"),
        (lambda: MarkovChain(CYCLE).period(7), "state 7 is unknown"),
        (lambda: MarkovChain(CYCLE).log_prob([[0, 1], [1, 9]]), "unknown state 9 at position 1 of sequence 1"),
        (lambda: MarkovChain(CYCLE).log_prob([]), "sequences is empty"),
        (lambda: MarkovChain(CYCLE).log_prob([[0, 1], []]), "sequence 1 of sequences must be a vector of at least one"),
        (lambda: MarkovChain(CYCLE).log_prob(7), "list of sequences, found int"),
        (lambda: MarkovChain.fit([0, 1], order=0), "order must be a whole number ≥ 1, found 0"),
        (lambda: MarkovSequence(0), "at least one, found 0"),
        (lambda: MarkovSequence(10, order=9), r"a table of 10\^10 probabilities.*lower order"),
        (lambda: MarkovSequence(3, concentration=0.0), "concentration must be finite and > 0, found 0.0"),
        (lambda: MarkovSequence(3, concentration=[1.0, 2.0]), r"one number, 3 of them.*\(3, 3\), found shape \(2,\)"),
        (
            lambda: MarkovSequence("ab").condition("abx"),
            "unknown state 'x' at position 2 of sequence 0; known are 'a', 'b'",
        ),
        (lambda: MarkovSequence("ab").predict(), "context is missing"),
        (lambda: MarkovSequence("ab").predict("c"), "context 'c' is not a state; known are 'a', 'b'"),
        (lambda: MarkovSequence(3).predict(3), "context 3 is not a state"),
        (lambda: MarkovSequence("ab", 2).predict("aba"), "must hold the last 2 states, the most recent last, found 3"),
        (
            lambda: MarkovSequence(2, 2).predict([[0, 1], [1]]),
            r"rows of context must have 2 states each, found \[2, 1\]",
        ),
        (lambda: MarkovSequence(2, 2).condition([1]).predict(), "has not seen 2 successive states yet"),
        (lambda: MarkovSequence(3).mode(), "the belief has no mode"),
        (lambda: MarkovSequence(20, 3).chain(), "has 8,000 × 8,000 transitions; choose a lower order"),
    ],
)
def test_errors_say_what_was_found(build, message):
    with pytest.raises(DataError, match=message):
        build()


def test_sequences_come_in_many_forms():
    import pandas as pd

    belief = MarkovSequence(["a", "b"])
    want = belief.condition([["a", "b", "b"], ["b", "a", "a"]])
    forms = [
        np.array([["a", "b", "b"], ["b", "a", "a"]]),
        [np.array(["a", "b", "b"]), ("b", "a", "a")],
        [pd.Series(["a", "b", "b"]), pd.Series(["b", "a", "a"], dtype=object)],
        pd.DataFrame([["a", "b", "b"], ["b", "a", "a"]]),
    ]
    for form in forms:
        assert eqx.tree_equal(belief.condition(form), want)
    numbers = MarkovSequence([10, 20])
    for one in ([10, 20, 20], np.array([10.0, 20.0, 20.0]), pd.Series([10, 20, 20]), jnp.array([10, 20, 20])):
        np.testing.assert_array_equal(numbers.condition(one).counts, [[0, 1], [0, 1]])
    with pytest.raises(DataError, match="unknown state nan at position 1"):
        numbers.condition([10.0, np.nan])
    with pytest.raises(DataError, match="unknown state None at position 1"):
        numbers.condition([10, None])
    with pytest.raises(DataError, match="unknown state '1' at position 0 of sequence 1"):
        numbers.condition([[10, 20], ["1"]])
    with pytest.raises(DataError, match="known before compilation"):
        jax.jit(lambda x: numbers.statistics(x).counts)(jnp.array([10, 20]))


# ── the belief

SEQUENCES = [np.random.default_rng(i).integers(0, 3, n) for i, n in enumerate([9, 1, 14, 2, 6])]


def count_by_hand(sequences, k: int, order: int) -> np.ndarray:
    table = np.zeros((k,) * (order + 1))
    for s in sequences:
        for t in range(order, len(s)):
            table[tuple(s[t - order : t + 1])] += 1
    return table.reshape(k**order, k)


@pytest.mark.parametrize("order", [0, 1, 2, 3])
def test_counts_and_evidence_row_by_row(order):
    concentration = np.random.default_rng(9).uniform(0.3, 2.0, (3**order, 3))
    belief = MarkovSequence(3, order, concentration)
    counts = count_by_hand(SEQUENCES, 3, order)
    after = belief.condition(SEQUENCES)
    np.testing.assert_array_equal(after.counts, counts)
    np.testing.assert_allclose(after.estimate, [st.dirichlet.mean(a) for a in concentration + counts], rtol=1e-13)
    starts = sum(min(len(s), order) for s in SEQUENCES)
    orders = scipy.special.gammaln(counts.sum(1) + 1) - scipy.special.gammaln(counts + 1).sum(1)
    rows = [
        st.dirichlet_multinomial.logpmf(n.astype(int), a, int(n.sum())) if n.sum() else 0.0
        for n, a in zip(counts, concentration, strict=True)
    ]
    want = np.sum(rows) - np.sum(orders) - starts * math.log(3)
    np.testing.assert_allclose(belief.log_evidence(SEQUENCES), want, rtol=1e-10)


@pytest.mark.parametrize("order", [0, 1, 2, 3])
def test_the_evidence_is_the_product_of_predictions_and_sums_to_one(order):
    belief = MarkovSequence(2, order, [0.5, 1.5])
    total = 0.0
    for sequence in itertools.product([0, 1], repeat=4):
        now, log_p = belief, 0.0
        for t, x in enumerate(sequence):
            log_p += float(now.predict().log_prob(x)) if t >= order else -math.log(2)
            now = now.condition([x], continued=True)
        evidence = float(belief.log_evidence(list(sequence)))
        assert evidence == pytest.approx(log_p, rel=1e-10)
        assert eqx.tree_equal(now, belief.condition(list(sequence)))
        total += math.exp(evidence)
    assert total == pytest.approx(1.0, rel=1e-10)


def test_separate_and_continued_sequences():
    belief = MarkovSequence(3, 2)
    a, b = SEQUENCES[0], SEQUENCES[2]
    halves = belief.condition(a).condition(b)
    assert eqx.tree_equal(halves, belief.condition([a, b]))
    together = belief.log_evidence(a) + belief.condition(a).log_evidence(b)
    np.testing.assert_allclose(together, belief.log_evidence([a, b]), rtol=1e-10)
    both = np.concatenate([a, b])
    assert eqx.tree_equal(belief.condition(a).condition(b, continued=True), belief.condition(both))
    added = belief.statistics(a) + belief.statistics(b)
    assert isinstance(added, TransitionCounts) and eqx.tree_equal(added, belief.statistics([a, b]))


def test_predictions_split_their_entropy():
    belief = MarkovSequence(["x", "y", "z"], 1, 0.7).condition(list("xyzzyxxyzxy"))
    p = belief.predict(["x", "y"])
    assert isinstance(p, Categorical) and p.shape == (2,)
    for i, row in enumerate("xy"):
        die = DirichletCategorical(belief.alpha[i]).predict()
        for one in (p[i], belief.predict(row)):
            np.testing.assert_allclose(one.probs, die.probs, rtol=1e-13)
            np.testing.assert_allclose(one.aleatoric, die.aleatoric, rtol=1e-13)
            np.testing.assert_allclose(one.epistemic, die.epistemic, rtol=1e-10)
    np.testing.assert_array_equal(belief.predict().probs, belief.predict("y").probs)
    np.testing.assert_array_equal(belief.predict([["x"], ["y"]]).probs, p.probs)
    draws = np.asarray(belief.sample_parameters(4000, seed=2))[:, 0]
    entropies = -scipy.special.xlogy(draws, draws).sum(1)
    assert abs(entropies.mean() - p.aleatoric[0]) < 4.5 * entropies.std(ddof=1) / math.sqrt(4000)


def test_predictions_of_a_higher_order():
    belief = MarkovSequence("ab", 2).condition("aababbbaab")
    alpha = np.asarray(belief.alpha).reshape(2, 2, 2)
    np.testing.assert_allclose(belief.predict("ab").probs, alpha[0, 1] / alpha[0, 1].sum(), rtol=1e-14)
    np.testing.assert_array_equal(belief.predict().probs, belief.predict(["a", "b"]).probs)
    batch = belief.predict([["b", "a"], ["a", "a"], ["a", "b"]])
    np.testing.assert_allclose(batch.probs[0], alpha[1, 0] / alpha[1, 0].sum(), rtol=1e-14)
    assert batch.shape == (3,)
    codes = jnp.array([[1, 0], [0, 0], [0, 1]])
    compiled = eqx.filter_jit(lambda b, c: b.predict(c))(belief, codes)
    np.testing.assert_allclose(compiled.probs, batch.probs, rtol=1e-13)


def test_chains_of_the_belief():
    belief = MarkovSequence("ab", 2, 0.5).condition("aababbbaab")
    chain = belief.chain()
    assert chain.states == (("a", "a"), ("a", "b"), ("b", "a"), ("b", "b"))
    alpha = np.asarray(belief.estimate)
    np.testing.assert_allclose(chain.transition[1], [0, 0, *alpha[1]], rtol=1e-14)
    np.testing.assert_allclose(chain.transition[2], [*alpha[2], 0, 0], rtol=1e-14)
    first = MarkovSequence("ab").condition("aababbbaab")
    np.testing.assert_allclose(first.chain().transition, first.estimate, rtol=1e-14)
    memoryless = MarkovSequence("ab", 0).condition("aab")
    np.testing.assert_allclose(memoryless.chain().transition, [[0.6, 0.4]] * 2, rtol=1e-14)
    chains = first.sample_chains(400, seed=1)
    tables = np.stack([np.asarray(c.transition) for c in chains])
    se = tables.std(0, ddof=1) / 20
    assert np.all(np.abs(tables.mean(0) - np.asarray(first.estimate)) < 4.5 * se)


def test_the_density_of_a_table_and_what_follows_from_it():
    belief = MarkovSequence(3, 1, 1.5).condition(SEQUENCES)
    theta = np.random.default_rng(4).dirichlet(np.ones(3), 3)
    alpha = np.asarray(belief.alpha)
    want = sum(st.dirichlet.logpdf(t, a) for t, a in zip(theta, alpha, strict=True))
    np.testing.assert_allclose(belief.log_prob(theta), want, rtol=1e-12)
    assert belief.log_prob(theta + 0.1) == -np.inf
    for _ in range(5):
        other = 0.95 * np.asarray(belief.mode()) + 0.05 * np.random.default_rng(_).dirichlet(np.ones(3), 3)
        assert belief.log_prob(other) < belief.log_prob(belief.mode())
    low, high = belief.credible_interval(0.9)
    rest = alpha.sum(1, keepdims=True) - alpha
    np.testing.assert_allclose(low, st.beta.ppf(0.05, alpha, rest), rtol=1e-10)
    np.testing.assert_allclose(high, st.beta.ppf(0.95, alpha, rest), rtol=1e-10)
    counts = count_by_hand(SEQUENCES, 3, 1)
    np.testing.assert_allclose(
        belief.condition(SEQUENCES, using=ML()).estimate, counts / counts.sum(1, keepdims=True), rtol=1e-14
    )
    np.testing.assert_allclose(
        belief.condition([0, 1], using=ML()).estimate, [[0, 1, 0], [1 / 3] * 3, [1 / 3] * 3], rtol=1e-14
    )
    one = MarkovSequence(1).condition([0, 0, 0])
    assert one.log_evidence([0, 0]) == 0.0 and one.credible_interval().lower.tolist() == [[1.0]]
    assert one.predict().probs.tolist() == [1.0] and one.predict().epistemic == pytest.approx(0, abs=1e-14)


def test_the_evidence_finds_the_order():
    second = np.array([[0.9, 0.1], [0.2, 0.8], [0.7, 0.3], [0.05, 0.95]])
    truth = MarkovChain(
        [[0.9, 0.1, 0, 0], [0, 0, 0.2, 0.8], [0.7, 0.3, 0, 0], [0, 0, 0.05, 0.95]],
        states=list(itertools.product([0, 1], repeat=2)),
    )
    path = [int(pair[1]) for pair in truth.simulate(400, seed=5)]
    comparison = credo.compare({f"order {o}": MarkovSequence(2, o) for o in range(4)}, path)
    assert comparison.best == "order 2" and comparison.rows[0].hyperparameters == 1
    average = comparison.average().predict()
    here = second[path[-2] * 2 + path[-1]]
    assert abs(float(average.probs[1]) - here[1]) < 0.15
    coin = np.random.default_rng(0).integers(0, 2, 400)
    assert credo.compare({f"order {o}": MarkovSequence(2, o) for o in range(4)}, coin).best == "order 0"


def test_learning_the_concentration_raises_the_evidence():
    belief = MarkovSequence(3, 1)
    learned = credo.learn(belief, SEQUENCES, priors=False)
    grid = [float(MarkovSequence(3, 1, c).log_evidence(SEQUENCES)) for c in np.geomspace(0.2, 200, 100)]
    assert float(learned.log_evidence(SEQUENCES)) >= max(grid) - 1e-9
    assert list(params.learnable(belief)) == ["concentration"]


def test_chains_and_beliefs_survive_a_file(tmp_path):
    chain = MarkovChain.fit(np.random.default_rng(2).integers(0, 2, 50), order=2)
    belief = MarkovSequence("ab", 2).condition("aabab")
    for value in (chain, belief, MarkovChain(WEATHER, "src", "r")):
        assert eqx.tree_equal(credo.load(credo.save(value, tmp_path / "it")), value)
    with pytest.raises(AttributeError):
        chain.start = None
