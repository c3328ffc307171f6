"""Solutions against linear programming, brute force over all policies, and published values."""

import itertools
from collections import Counter

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

import credo
from credo.core.errors import DataError
from credo.decide.mdp import (
    MDP,
    Automatic,
    GaussSeidel,
    LinearProgram,
    ModifiedPolicyIteration,
    Paths,
    PolicyIteration,
    PrioritizedSweeping,
    ValueIteration,
    Wavefront,
    solve,
    transitions,
)

METHODS = [
    None,
    Automatic(),
    ValueIteration(),
    GaussSeidel(),
    PrioritizedSweeping(),
    PolicyIteration(),
    PolicyIteration("iterative"),
    ModifiedPolicyIteration(),
    LinearProgram(),
    Wavefront(),
]
NAMES = [type(method).__name__ for method in METHODS]
MAZE = """
S..#....
.#.#.##.
.#...#..
.####.#.
......#G
X..#....
"""


def random_world(rng, s=6, a=3, discount=0.9, terminal=(), successors=3):
    p = np.zeros((s, a, s))
    for i, k in itertools.product(range(s), range(a)):
        to = rng.choice(s, size=min(successors, s), replace=False)
        p[i, k, to] = rng.dirichlet(np.ones(len(to)))
    return MDP(p, rng.normal(size=(s, a)), discount, terminal=list(terminal) if len(terminal) else None)


def dense(world):
    s, a = world.shape
    return world.matrix.toarray().reshape(s, a, s)


def exact(world, policy):
    """V of a policy by NumPy's dense solver."""
    s, _ = world.shape
    p = dense(world)[np.arange(s), policy]
    return np.linalg.solve(np.eye(s) - world.discount * p, world.rewards[np.arange(s), policy])


def brute(world):
    """The best values over all deterministic policies."""
    s, a = world.shape
    return np.max([exact(world, np.array(pi)) for pi in itertools.product(range(a), repeat=s)], axis=0)


@pytest.mark.parametrize("method", METHODS, ids=NAMES)
@pytest.mark.parametrize("terminal", [(), (0, 3)])
def test_methods_find_what_brute_force_finds(rng, method, terminal):
    world = random_world(rng, s=5, terminal=terminal)
    want = brute(world)
    plan = solve(world, using=method, tolerance=1e-8)
    assert plan.status == "converged" and plan.certificate <= 1e-8
    assert np.abs(plan.value - want).max() <= plan.certificate
    np.testing.assert_allclose(exact(world, plan.policy), want, atol=1e-9)
    np.testing.assert_allclose(plan.q.max(axis=1), want, atol=1e-7)
    assert plan.advantage.max() == 0 and plan.advantage.shape == world.shape


@pytest.mark.parametrize("method", METHODS, ids=NAMES)
def test_methods_agree_on_a_maze(method):
    world = MDP.from_drawing(MAZE, slip=0.2, discount=0.97, step_reward=-0.01)
    want = solve(world, using=PolicyIteration("direct"), tolerance=1e-10)
    plan = solve(world, using=method, tolerance=1e-7)
    assert plan.status == "converged"
    assert np.abs(plan.value - want.value).max() <= plan.certificate + want.certificate


@given(
    seed=st.integers(0, 10_000),
    s=st.integers(1, 6),
    a=st.integers(1, 3),
    discount=st.sampled_from([0.0, 0.3, 0.9, 0.999]),
    scale=st.sampled_from([1e-6, 1.0, 1e6]),
    ends=st.booleans(),
    method=st.sampled_from(METHODS),
    tolerance=st.sampled_from([10.0, 1e-2, 1e-6]),
)
def test_certificates_are_never_violated(seed, s, a, discount, scale, ends, method, tolerance):
    rng = np.random.default_rng(seed)
    world = random_world(rng, s, a, discount, terminal=[0] if ends else [])
    world = MDP(world.matrix, scale * world.rewards, discount, terminal=world.terminal)
    # HiGHS works to absolute accuracies; the others scale.
    plan = solve(
        world, using=ValueIteration() if isinstance(method, LinearProgram) else method, tolerance=tolerance * scale
    )
    policy = solve(world, using=PolicyIteration("direct")).policy
    want = exact(world, policy)
    assert np.all(world.backup(want).max(axis=1) <= want + 1e-9 * scale / (1 - discount))  # it is optimal
    own = 1e-13 * np.abs(want).max() / (1 - discount)  # the oracle's rounding
    assert np.abs(plan.value - want).max() <= plan.certificate + own
    assert np.all(exact(world, plan.policy) >= want - 2 * plan.certificate - own)
    assert plan.status == "converged"


def test_values_that_stop_on_the_span_are_still_right(rng):
    """All values far from zero and nearly equal, which is where stopping on the span alone goes wrong by 60."""
    p = rng.dirichlet(np.ones(50), size=(50, 2))
    world = MDP(p, 1 + 0.01 * rng.random((50, 2)), 0.99)
    want = exact(world, solve(world, using=PolicyIteration()).policy)
    for method in (ValueIteration(), ModifiedPolicyIteration()):
        plan = solve(world, using=method)
        assert plan.iterations < 40  # and not the 1800 sweeps that 0.99ⁿ takes
        np.testing.assert_allclose(plan.value, want, atol=1e-6)


def test_policy_iteration_improves_at_every_step(rng):
    world = random_world(rng, s=30, a=4, discount=0.95)
    before = None
    for limit in range(1, 10):
        plan = solve(world, using=PolicyIteration(max_steps=limit), tolerance=1e-9)
        value = exact(world, plan.policy)
        if before is not None:
            assert np.all(value >= before - 1e-10)
        before = value
    assert plan.status == "converged" and plan.iterations < 9


def test_bellmans_update_is_a_contraction(rng):
    world = random_world(rng, s=20, discount=0.8)
    for _ in range(20):
        v, w = rng.normal(size=(2, 20))
        gap = np.abs(world.backup(v).max(axis=1) - world.backup(w).max(axis=1)).max()
        assert gap <= 0.8 * np.abs(v - w).max() + 1e-12


def test_evaluation_direct_iterative_and_mixed_policies(rng):
    world = random_world(rng, s=12, terminal=(4,))
    policy = rng.integers(0, 3, 12)
    want = exact(world, policy)
    np.testing.assert_allclose(world.evaluate(policy, method="direct"), want, rtol=1e-10, atol=1e-13)
    np.testing.assert_allclose(world.evaluate(policy, method="iterative", tolerance=1e-11), want, atol=1e-11)
    mixed = rng.dirichlet(np.ones(3), size=12)
    p = np.einsum("sa,sat->st", mixed, dense(world))
    want = np.linalg.solve(np.eye(12) - 0.9 * p, (mixed * world.rewards).sum(axis=1))
    np.testing.assert_allclose(world.evaluate(mixed), want, rtol=1e-10, atol=1e-13)


def test_occupancy_gives_the_value_of_the_start(rng):
    world = random_world(rng, s=12, terminal=(4,))
    policy = rng.integers(0, 3, 12)
    start = rng.dirichlet(np.ones(12))
    visits = world.occupancy(policy, start)
    assert visits[4] == 0
    np.testing.assert_allclose(visits @ world.rewards[np.arange(12), policy], start @ world.evaluate(policy), rtol=1e-9)


def test_simulated_returns_average_to_the_value(rng):
    world = random_world(rng, s=6, terminal=(4,))
    policy = rng.integers(0, 3, 6)
    paths = world.simulate(policy, 150, n=4000, start=0, seed=3)
    returns = paths.returns(world.discount)
    se = returns.std(ddof=1) / np.sqrt(len(returns))
    assert abs(returns.mean() - world.evaluate(policy)[0]) < 4.5 * se + 1e-5
    again = world.simulate(policy, 150, n=4000, start=0, seed=3)
    assert np.array_equal(paths.states, again.states)
    moves = dense(world)
    for before, action, after in zip(paths.states[0], paths.actions[0], paths.states[0, 1:], strict=False):
        assert before < 0 or world.terminal[before] or moves[before, action, after] > 0
    at_end = paths.states[np.arange(4000), (paths.states >= 0).sum(axis=1) - 1]
    assert np.array_equal(paths.ended, at_end == 4)


def gamble(state, action):
    """A coin for a reward, wherever it leads; action 1 may end the episode, with or without a prize."""
    if action == 0:
        return [(0.3, 1 - state, 2.0, False), (0.2, 1 - state, -1.0, False), (0.5, state, 0.0, False)]
    return [(0.5, state, 1.0, True), (0.25, state, -4.0, True), (0.25, 1 - state, 1.0, False)]


def test_rewards_are_paid_at_random():
    world = MDP.from_function([0, 1], [0, 1], gamble, 0.9)
    np.testing.assert_allclose(world.rewards, [[0.4, -0.25], [0.4, -0.25]])
    assert world.reward_range == (-4.0, 2.0)
    policy = np.array([[0.7, 0.3], [0.4, 0.6]])
    paths = world.simulate(policy, 60, n=4000, start=0, seed=1)
    returns = paths.returns(0.9)
    se = returns.std(ddof=1) / np.sqrt(len(returns))
    assert abs(returns.mean() - world.evaluate(policy)[0]) < 4.5 * se
    first = paths.rewards[paths.actions[:, 0] == 0, 0]
    share = np.array([(first == paid).mean() for paid in (2.0, -1.0, 0.0)])
    assert (np.abs(share - [0.3, 0.2, 0.5]) < 4.5 * np.sqrt(0.25 / len(first))).all()
    assert set(np.unique(first)) == {2.0, -1.0, 0.0}, "nobody is paid the mean"


def test_rewards_of_transitions_are_paid_as_they_come(rng):
    prob, rewards = rng.dirichlet(np.ones(3), (3, 2)), rng.normal(size=(3, 2, 3))
    sparse = [sp.csr_array(prob[:, k]) for k in range(2)], [sp.csr_array(rewards[:, k]) for k in range(2)]
    for world in (MDP(prob, rewards, 0.9), MDP(*sparse, 0.9)):
        paths = world.simulate(np.zeros(3, int), 50, n=2, start=1, seed=2)
        paid = rewards[paths.states[:, :-1], paths.actions, paths.states[:, 1:]]
        np.testing.assert_allclose(paths.rewards, paid)
    assert MDP(prob, rewards[:, :, 0], 0.9).gambles is None


def test_the_probability_of_an_episode_is_a_product():
    """The probabilities of all episodes of two steps add up to one, and they are the frequencies of simulations."""
    world = MDP.from_function([0, 1], [0, 1], gamble, 0.9)
    policy, start = np.array([[0.7, 0.3], [0.4, 0.6]]), np.array([0.8, 0.2])

    def episodes(state, steps):
        if not steps or state < 0:
            yield (-1,) * steps, (0.0,) * steps, (state,) * (1 + steps)
            return
        for action in (0, 1):
            for _, after, paid, over in gamble(state, action):
                for actions, rewards, states in episodes(-1 if over else after, steps - 1):
                    yield (action, *actions), (paid, *rewards), (state, *states)

    every = {episode for state in (0, 1) for episode in episodes(state, 2)}
    actions, rewards, states = (np.array(column) for column in zip(*every, strict=True))
    paths = Paths(states, actions, rewards, states[:, -1] < 0)
    probs = np.exp(world.log_prob(paths, policy, start))
    assert probs.sum() == pytest.approx(1.0, abs=1e-12)
    drawn = world.simulate(policy, 2, n=20_000, start=start, seed=5)
    seen = Counter(map(tuple, np.concatenate([drawn.states, drawn.actions, drawn.rewards], axis=1).tolist()))
    for key, p in zip(np.concatenate([states, actions, rewards], axis=1).tolist(), probs, strict=True):
        assert abs(seen[tuple(key)] / 20_000 - p) < 5 * np.sqrt(p * (1 - p) / 20_000) + 1e-9
    wrong = paths._replace(rewards=rewards + 0.5)
    assert np.isneginf(world.log_prob(wrong, policy, start)).all()
    with pytest.raises(DataError, match="of 2 states and 2 actions"):
        world.log_prob(paths._replace(states=states + 3), policy, start)
    with pytest.raises(DataError, match="states .n, t . 1., and actions and rewards"):
        world.log_prob(paths._replace(rewards=rewards[:, :1]), policy, start)


def test_finite_horizon_is_backward_induction(rng):
    world = random_world(rng, s=4, a=2, discount=1.0)
    plan = solve(world, horizon=3)
    assert plan.value.shape == (4, 4) and plan.policy.shape == (3, 4)
    p, r = dense(world), world.rewards
    best = np.full(4, -np.inf)
    for rules in itertools.product(itertools.product(range(2), repeat=4), repeat=3):
        v = np.zeros(4)
        for rule in reversed(rules):
            rule = np.array(rule)
            v = r[np.arange(4), rule] + p[np.arange(4), rule] @ v
        best = np.maximum(best, v)
    np.testing.assert_allclose(plan.value[0], best, rtol=1e-12)
    assert plan.certificate < 1e-12


def test_average_reward(rng):
    """Howard's taxicab: gain 13.34 miles worth a call. Howard (1960), chapter 5; actions that are missing cost 1e3."""
    p = np.zeros((3, 3, 3))
    r = np.zeros((3, 3, 3))
    p[0] = [[1 / 2, 1 / 4, 1 / 4], [1 / 16, 3 / 4, 3 / 16], [1 / 4, 1 / 8, 5 / 8]]
    r[0] = [[10, 4, 8], [8, 2, 4], [4, 6, 4]]
    p[1] = [[1 / 2, 0, 1 / 2], [1 / 16, 7 / 8, 1 / 16], [1 / 2, 0, 1 / 2]]
    r[1] = [[14, 0, 18], [8, 16, 8], [-1000, 0, -1000]]
    p[2] = [[1 / 4, 1 / 4, 1 / 2], [1 / 8, 3 / 4, 1 / 8], [3 / 4, 1 / 16, 3 / 16]]
    r[2] = [[10, 2, 8], [6, 4, 2], [4, 0, 8]]
    world = MDP(p, r, 1.0)
    for method in (None, ValueIteration()):
        plan = solve(world, using=method, criterion="average", tolerance=1e-9)
        assert plan.status == "converged" and abs(plan.gain - 1588 / 119) <= plan.certificate <= 1e-9
        assert list(plan.policy) == [1, 1, 1]
        bellman = (world.rewards + (world.matrix @ plan.bias).reshape(3, 3)).max(axis=1)
        np.testing.assert_allclose(plan.gain + plan.bias, bellman, atol=1e-8)


def test_average_reward_of_a_periodic_chain_and_of_two_worlds():
    turn = MDP(np.array([[[0.0, 1.0]], [[1.0, 0.0]]]), [1.0, 3.0], 1.0)
    for method in (None, ValueIteration()):
        assert abs(solve(turn, using=method, criterion="average").gain - 2) < 1e-6
    apart = MDP(np.eye(2)[:, None, :], [1.0, 3.0], 1.0)
    with pytest.raises(DataError, match="several closed classes"):
        solve(apart, criterion="average")
    with pytest.raises(DataError, match="goes on for ever"):
        solve(MDP.from_drawing("S.G"), criterion="average")


def test_without_a_discount_where_every_policy_ends():
    """A line that is walked one or two steps at a time."""
    world = MDP.from_function(
        range(6),
        ("one", "two"),
        lambda s, a: (
            [(1.0, min(s + (1 if a == "one" else 2), 5), -1.0 if a == "one" else -1.5, False)]
            if s < 5
            else [(1.0, s, 0.0, True)]
        ),
        discount=1.0,
    )
    plan = solve(world)
    want = np.zeros(6)
    for s in range(4, -1, -1):
        want[s] = max(-1 + want[s + 1], -1.5 + want[min(s + 2, 5)])
    np.testing.assert_allclose(plan.value, want, atol=1e-12)
    assert plan.status == "converged" and plan.certificate < 1e-10


def test_without_a_discount_where_going_on_costs():
    """Expected steps to the goal of a slippery corridor, by a dense solve over all policies."""
    world = MDP.from_drawing("S..G", slip=0.3, step_reward=-1.0, discount=1.0, goal=0.0)
    plan = solve(world)
    right = np.array([1, 1, 1, 1])
    np.testing.assert_allclose(plan.value, exact(world, right), rtol=1e-10)
    assert plan.status == "converged" and plan.certificate < 1e-9
    with pytest.raises(DataError, match="must cost something"):
        solve(MDP.from_drawing("S..G", discount=1.0))
    with pytest.raises(DataError, match="state 0 cannot"):
        solve(MDP(np.ones((1, 1, 1)), [[-1.0]], 1.0))
    with pytest.raises(DataError, match="surely come to an end"):
        MDP.from_drawing("S..G", slip=0.0, discount=1.0).evaluate(np.zeros(4, dtype=int))


def test_forms_of_transitions_and_rewards_agree(rng):
    world = random_world(rng, s=5, a=2)
    p = dense(world)
    r = rng.normal(size=(5, 2, 5))
    by_array = MDP(p, r, 0.9)
    np.testing.assert_allclose(by_array.rewards, (p * r).sum(axis=2), rtol=1e-12)
    sparse = [sp.csr_matrix(p[:, k]) for k in range(2)]
    for other in (MDP(sparse, by_array.rewards, 0.9), MDP(sparse, [sp.csr_matrix(r[:, k]) for k in range(2)], 0.9)):
        np.testing.assert_allclose(other.matrix.toarray(), by_array.matrix.toarray())
        np.testing.assert_allclose(other.rewards, by_array.rewards, rtol=1e-12)
    by_state = MDP(p, np.arange(5.0), 0.9)
    np.testing.assert_array_equal(by_state.rewards, np.repeat(np.arange(5.0)[:, None], 2, axis=1))


def test_the_default_suits_the_structure():
    corridor = "\n".join(["." * 60] * 49 + ["." * 59 + "G"])
    far = MDP.from_drawing(corridor, discount=0.99)
    plan = solve(far)
    assert plan.method == "wavefront" and plan.status == "converged"
    other = solve(far, using=ModifiedPolicyIteration())
    assert np.abs(plan.value - other.value).max() <= plan.certificate + other.certificate
    costly = MDP.from_drawing(corridor, discount=0.99, step_reward=-0.04)
    plan, other = solve(costly), solve(costly, using=ModifiedPolicyIteration())
    assert np.abs(plan.value - other.value).max() <= plan.certificate + other.certificate
    line = MDP.from_drawing("." * 2500 + "G", discount=0.99)
    assert solve(line).method == "policy iteration"


@pytest.mark.parametrize(
    ("using", "options", "words"),
    [
        ("policy", {}, r"found the text 'policy'; solve of MDP takes using=Automatic, GaussSeidel, .*Wavefront"),
        (PolicyIteration, {}, r"found the class PolicyIteration; write using=PolicyIteration\("),
        (credo.infer.NUTS(), {}, "solve cannot use NUTS for MDP"),
        (GaussSeidel(), {"criterion": "average"}, "'average'.* of MDP takes using=PolicyIteration, ValueIteration "),
        (Wavefront(), {"horizon": 3}, r"solve\(horizon=…\) of MDP takes using=ValueIteration "),
        ((), {}, "using must be a method, found a tuple"),
    ],
)
def test_planners_that_do_not_suit_are_refused(using, options, words, unchecked):
    with pytest.raises(DataError, match=words):
        solve(MDP.from_drawing("S.G"), using=using, **options)


def test_what_is_no_problem_is_refused(unchecked):
    with pytest.raises(DataError, match="solve takes an MDP"):
        solve(3)
    with pytest.raises(DataError, match="discount = 1 of MDP takes using=PolicyIteration "):
        solve(MDP.from_drawing("S.G", step_reward=-1, discount=1), using=ValueIteration())


def test_a_horizon_is_value_iteration(rng):
    world = random_world(rng)
    assert np.array_equal(solve(world, using=ValueIteration(), horizon=4).value, solve(world, horizon=4).value)


def test_products_on_several_threads(rng, monkeypatch):
    world = random_world(rng, s=11, a=3)
    v = rng.normal(size=11)
    want = world.matrix.toarray() @ v
    monkeypatch.setattr(transitions, "MANY", 1)
    monkeypatch.setattr(transitions, "cores", lambda: 3)
    np.testing.assert_allclose(transitions.product(world.matrix, v), want, rtol=1e-12)
