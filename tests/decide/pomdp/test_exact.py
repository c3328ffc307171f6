"""Exact value iteration against known values, a fine grid of beliefs and enumeration of policies; bounds and plans."""

import itertools

import numpy as np
import pytest

import credo
from credo.decide.pomdp import FIB, POMDP, QMDP, AlphaVectors, Limits, ValueIteration
from credo.decide.pomdp.bounds import blind, fib, qmdp
from credo.decide.pomdp.grid import compositions, triangulate
from credo.decide.pomdp.policy_files import read
from credo.errors import DataError, FileError, NotConverged, NotConvergedWarning


@pytest.fixture
def plan(tiger):
    return ValueIteration().plan(tiger, Limits(gap=1e-3))


def test_tiger_is_worth_what_it_is_known_to_be(tiger, plan):
    """19.3714 at the start, by pomdp-solve; listen there, open the other door when sure."""
    assert plan.status == "converged"
    assert plan.lower - 1e-9 <= 19.371368 <= plan.upper + 1e-9
    assert plan.gap <= 1e-3
    assert plan.act() == "listen"
    assert plan.act([0.99, 0.01]) == "open-right"
    assert plan.act(tiger.belief("tiger-right")) == "open-left"
    assert plan.value([0.3, 0.7]) == pytest.approx(plan.value([0.7, 0.3]), rel=1e-3)


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_random_problems_against_a_fine_grid(random_pomdp, seed):
    """The grid's MDP is an upper bound that is close where the grid is fine."""
    p = random_pomdp(seed, s=2, a=2, o=2, discount=0.7)
    exact = ValueIteration().plan(p, Limits(gap=1e-5))
    world = p.belief_mdp(200)
    grid = credo.solve(world)
    for belief, value in list(zip(world.states, grid.value, strict=True))[::25]:
        assert exact.value(belief) <= value + 1e-5
        assert exact.value(belief) == pytest.approx(value, abs=2e-3)
    assert exact.lower <= grid.start_value() + 1e-6


def test_two_steps_against_all_policies(random_pomdp):
    """The best of all trees: an action, then one for each observation."""
    p = random_pomdp(4)
    plan = credo.solve(p, horizon=2)
    b, g = p.start, p.discount
    best = -np.inf
    for first, *then in itertools.product(range(2), repeat=3):
        value = b @ p.rewards[:, first]
        after = b @ p.transitions[first].toarray()
        for o, action in enumerate(then):
            value += g * (after * p.observations[first].toarray()[:, o]) @ p.rewards[:, action]
        best = max(best, value)
    assert plan.lower == pytest.approx(best)
    assert len(plan.later) == 1
    assert plan.value(b, t=1) == pytest.approx((b @ p.rewards).max())
    with pytest.raises(DataError, match="t = 2"):
        plan.act(t=2)
    found = plan.simulate(4000, seed=1)
    assert abs(found.mean - best) < 4.5 * found.standard_error


def test_bounds_are_in_order(random_pomdp):
    for seed in (0, 2):
        p = random_pomdp(seed, s=3, a=3, o=2)
        low, mid, high = blind(p), fib(p), qmdp(p)
        exact = ValueIteration().plan(p, Limits(gap=1e-2))
        for belief in np.random.default_rng(seed).dirichlet(np.ones(3), 20):
            values = [float((table @ belief).max()) for table in (low, mid, high)]
            slack = 1e-2 * max(abs(v) for v in values) + 1e-6
            assert values[0] <= exact.value(belief) + slack
            assert exact.value(belief) <= values[1] + 1e-6 <= values[2] + 2e-6


def test_the_fast_informed_bound_is_its_fixed_point(random_pomdp):
    p = random_pomdp(7)
    table, moves, shows = fib(p), [m.toarray() for m in p.transitions], [m.toarray() for m in p.observations]
    want = np.zeros_like(table)
    for a, s in itertools.product(range(2), range(3)):
        ahead = sum(max((moves[a][s] * shows[a][:, o]) @ table[k] for k in range(2)) for o in range(2))
        want[a, s] = p.rewards[s, a] + p.discount * ahead
    np.testing.assert_allclose(table, want, atol=1e-6)


@pytest.mark.parametrize("method", [QMDP(), FIB()])
def test_plans_of_bounds(tiger, method):
    plan = credo.solve(tiger, using=method)
    assert plan.lower == pytest.approx(-20)
    assert plan.upper > 80
    assert plan.act([0.999, 0.001]) == "open-right"
    assert "upper bound" in plan.notes[0]


def test_a_world_that_ends(random_pomdp):
    """A discount of one: walk until the end, three steps of cost one at the least."""
    moves = np.array([[0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1], [0, 0, 0, 1.0]])
    p = POMDP([moves, np.eye(4)], np.ones((4, 1)), [-1.0, -1, -1, 0], 1.0, start=0)
    assert float((qmdp(p) @ p.start).max()) == pytest.approx(-3)
    assert float((fib(p) @ p.start).max()) == pytest.approx(-3)
    assert blind(p)[0] @ p.start == pytest.approx(-3)
    with pytest.raises(DataError, match="a discount below 1, or a horizon"):
        ValueIteration().plan(p, Limits())
    assert ValueIteration().plan(p, Limits(), horizon=5).lower == pytest.approx(-3)


@pytest.mark.parametrize("method", [QMDP(), FIB()])
def test_bounds_where_a_policy_never_ends(method):
    """Going left for ever never ends in the right half; the bound below is that of going right."""
    left, right = np.array([[0, 0, 1], [0, 1, 0], [0, 0, 1.0]]), np.tile([0, 0, 1.0], (3, 1))
    p = POMDP([left, right], np.ones((3, 1)), [[-1.0, -2], [-1, -2], [0, 0]], 1.0, start=0)
    plan = credo.solve(p, using=method)
    assert (plan.lower, plan.upper) == (pytest.approx(-2), pytest.approx(-1))


def test_returns_agree_with_the_value(plan):
    found = plan.simulate(1500, seed=2)
    assert abs(found.mean - plan.lower) < 4.5 * found.standard_error
    assert len(found.returns) == 1500
    again = plan.simulate(20, seed=2, steps=5)
    assert again.returns.tolist() == plan.simulate(20, seed=2, steps=5).returns.tolist()


def test_a_run_is_a_filter(tiger, plan):
    run = plan.run(8, seed=1)
    belief = tiger.belief()
    for t, (action, seen) in enumerate(zip(run.actions.tolist(), run.observations.tolist(), strict=True)):
        np.testing.assert_allclose(run.beliefs[t], belief.probs)
        assert run.rewards[t] == tiger.rewards[run.states[t], action]
        belief = belief.condition(action, seen)


def test_files_of_plans(tmp_path, tiger, plan):
    back = credo.load(credo.save(plan, tmp_path / "plan"))
    assert back.lower == plan.lower and back.act([0.9, 0.1]) == plan.act([0.9, 0.1])
    for ending in ("policy", "alpha"):
        vectors = read(tiger, plan.write(tmp_path / f"plan.{ending}"))
        np.testing.assert_array_equal(vectors.table, plan.vectors.table)
        np.testing.assert_array_equal(vectors.actions, plan.vectors.actions)
    with pytest.raises(DataError, match="written to .alpha or .policy"):
        plan.write(tmp_path / "plan.txt")
    (tmp_path / "mixed.policy").write_text('<Policy><AlphaVector numObsValue="2"/></Policy>')
    with pytest.raises(DataError, match="the part of the state that is not seen .*written as .pomdp"):
        read(tiger, tmp_path / "mixed.policy")
    (tmp_path / "bad.alpha").write_text("0\n1 2 3\n")
    (tmp_path / "nan.alpha").write_text("0\n1 nan\n")
    with pytest.raises(DataError, match="finite values, found nan"):
        read(tiger, tmp_path / "nan.alpha")
    (tmp_path / "bytes.alpha").write_bytes(b"\xff\xfe\n1 2\n")
    with pytest.raises(DataError, match="not a file of"):
        read(tiger, tmp_path / "bytes.alpha")
    with pytest.raises(FileError, match="cannot read .*: No such file"):
        read(tiger, tmp_path / "none.alpha")
    with pytest.raises(DataError, match="vectors of 2 values"):
        read(tiger, str(tmp_path / "bad.alpha"))


def test_the_graph_of_a_plan(plan):
    graph = plan.graph()
    first = graph.graph["start"]
    assert graph.nodes[first]["action"] == "listen"
    assert {"listen", "open-left", "open-right"} == {data["action"] for _, data in graph.nodes(data=True)}
    assert sum(data["probability"] for *_, data in graph.out_edges(first, data=True)) == pytest.approx(1)
    seen = [o for *_, data in graph.out_edges(first, data=True) for o in data["observations"]]
    assert sorted(seen) == ["hear-left", "hear-right"]


def test_the_grid():
    counts = compositions(4, 3)
    assert len(counts) == 15 and (counts.sum(1) == 4).all() and (counts >= 0).all()
    beliefs = np.random.default_rng(0).dirichlet(np.ones(3), 50)
    corners, weights = triangulate(beliefs, 4)
    assert (weights >= -1e-12).all() and (corners >= 0).all() and (corners.sum(-1) == 4).all()
    np.testing.assert_allclose((weights[..., None] * corners / 4).sum(1), beliefs)


def test_what_cannot_be_planned(tiger, random_pomdp):
    with pytest.raises(DataError, match="beliefs, more than"):
        random_pomdp(0, s=8).belief_mdp(40)
    with pytest.raises(NotConverged, match="max_vectors=1 allows, when .* of 30 steps"):
        ValueIteration(max_vectors=1).plan(random_pomdp(0, s=3, a=3, o=3), Limits(), horizon=30)
    with pytest.raises(DataError, match="takes using="):
        credo.solve(tiger, using=credo.decide.mdp.PolicyIteration())
    stopped = ValueIteration().plan(random_pomdp(0, s=4, a=3, o=2, discount=0.99), Limits(gap=1e-9, seconds=0.3))
    assert stopped.status == "stopped" and stopped.lower <= stopped.upper
    assert isinstance(stopped.vectors, AlphaVectors)
    assert stopped.notes == ("stopped after 0.3 seconds",)
    with pytest.warns(NotConvergedWarning, match="max_steps=1 is reached: .* point-based"):
        assert "max_steps" in credo.solve(tiger, using=ValueIteration(max_steps=1)).notes[0]
    with pytest.raises(DataError, match="max_vectors must be a whole number"):
        ValueIteration(max_vectors=0)


def test_plans_of_a_horizon(tiger):
    plan = credo.solve(tiger, horizon=3)
    assert plan.simulate(10, steps=1).returns.tolist() == [-1.0] * 10
    assert abs(plan.simulate(2000, steps=30).mean - plan.lower) < 4.5 * plan.simulate(2000).standard_error
    with pytest.raises(DataError, match="a plan for ever, found one of 3 steps"):
        plan.graph()


def test_beliefs_of_other_problems_are_refused(plan, random_pomdp):
    with pytest.raises(DataError, match="a state or 2 probabilities, found the shape"):
        plan.act(random_pomdp(0).belief())
    with pytest.raises(DataError, match="sum to 1, found -0.1"):
        plan.value([-0.1, 1.1])
