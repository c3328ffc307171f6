"""Worlds from drawings, functions and gymnasium; what is refused, and in which words."""

import numpy as np
import pytest

import credo
from credo.core.errors import DataError
from credo.decide.mdp import MDP, GaussSeidel, solve


def coin(p=0.5):
    return np.array([[[p, 1 - p]], [[0.25, 0.75]]])


def test_a_drawing_is_read():
    world = MDP.from_drawing("S.G\n.#X", slip=0.2, step_reward=-0.1)
    assert world.shape == (5, 4)
    assert list(map(tuple, world.cells)) == [(0, 0), (0, 1), (0, 2), (1, 0), (1, 2)] == list(world.states)
    assert list(np.flatnonzero(world.terminal)) == [2, 4]
    assert world.start[0] == 1
    # Right from (0, 1): to the goal, or up and down against walls.
    row = world.matrix[[1 * 4 + 1]].toarray()[0]
    np.testing.assert_allclose(row, [0, 0.2, 0.8, 0, 0])
    assert world.rewards[1, 1] == pytest.approx(-0.1 + 0.8)
    assert MDP.from_drawing("S5").rewards[0, 1] == pytest.approx(0.8 * 5)


@pytest.mark.parametrize(("text", "words"), [("", "empty"), ("##", "walls only"), ("S?G", r"'\?' in line 1, column 2")])
def test_bad_drawings(text, words):
    with pytest.raises(DataError, match=words):
        MDP.from_drawing(text)


@pytest.mark.parametrize(
    ("transitions", "rewards", "options", "words"),
    [
        (coin(0.6) + np.array([[[0, 0.1]], [[0, 0]]]), [0.0, 1.0], {}, r"1.1 \(off by \+0.1\) for state 0, action 0"),
        (coin(1.5), [0.0, 1.0], {}, "found -0.5 in the row of state 0, action 0"),
        (coin(np.nan), [0.0, 1.0], {}, "found nan"),
        (coin(), [0.0, np.nan], {}, r"finite numbers, found nan at \(1,\)"),
        (coin(), [0.0, 1.0, 2.0], {}, r"rewards must have the shape"),
        (np.ones((3, 2, 2)) / 2, [0.0, 1.0], {}, "np.moveaxis"),
        (np.ones((2, 2)) / 2, [0.0, 1.0], {}, r"found the shape \(2, 2\)"),
        (coin(), [0.0, 1.0], {"discount": 1.2}, "discount must lie between 0 and 1"),
        (coin(), [0.0, 1.0], {"start": 7}, "start must be a state from 0 to 1"),
        (coin(), [0.0, 1.0], {"terminal": [2]}, "terminal must be states from 0 to 1"),
        (coin(), [0.0, 1.0], {"states": "a"}, "states must name all 2"),
        ("abc", [0.0, 1.0], {}, "transitions must be"),
    ],
)
def test_bad_worlds(transitions, rewards, options, words):
    with pytest.raises(DataError, match=words):
        MDP(transitions, rewards, **options)


def test_bad_questions(unchecked):
    world = MDP(coin(), [0.0, 1.0])
    endless = MDP(coin(), [0.0, 1.0], 1.0)
    for ask, words in (
        (lambda: solve(endless), "with discount = 1"),
        (lambda: solve(world, horizon=0), "whole number of at least 1"),
        (lambda: solve(world, criterion="best"), "criterion must be"),
        (lambda: solve(world, using=3), "using must be a method"),
        (lambda: solve(world, tolerance=0), "tolerance must be positive"),
        (lambda: solve(world, horizon=3, criterion="average"), "exclude each other"),
        (lambda: solve(world, using=GaussSeidel(), criterion="average"), "cannot use GaussSeidel"),
        (lambda: world.evaluate([5, 0]), "actions from 0 to 0"),
        (lambda: world.evaluate([0.5, 0.5]), "policy must be 2 actions"),
        (lambda: world.backup([1.0]), "vector of 2 states"),
        (lambda: world.simulate([0, 0], 3), "start is missing"),
        (lambda: world.simulate([0, 0], 0, start=0), "steps must be a whole number"),
    ):
        with pytest.raises(DataError, match=words):
            ask()


def test_rows_almost_right_are_made_right():
    world = MDP(coin() * (1 + 1e-10), [0.0, 1.0])
    np.testing.assert_allclose(world.matrix.sum(axis=1), 1, rtol=1e-15)


def test_states_that_cannot_be_reached_are_noted():
    plan = solve(MDP.from_drawing("S.G#..", slip=0.0))
    assert "2 of 5 states cannot be reached from the start, such as state 3" in plan.notes[0]
    assert solve(MDP.from_drawing("S.G")).notes == ()


def test_a_tolerance_beyond_floating_point_is_not_claimed():
    world = MDP(coin(), [0.0, 1e9], 0.999)
    plan = solve(world, tolerance=1e-9)
    assert plan.status == "stopped" and plan.certificate > 1e-9
    assert "above the tolerance" in plan.notes[0]


def test_plans_can_be_saved(tmp_path):
    plan = solve(MDP.from_drawing("S.G\n.#X"))
    again = credo.load(credo.save(plan, tmp_path / "plan"))
    np.testing.assert_array_equal(again.value, plan.value)
    np.testing.assert_array_equal(again.q, plan.q)
    assert again.certificate == plan.certificate


@pytest.mark.parametrize(
    ("name", "options", "want"),
    [
        ("FrozenLake", {"map_name": "4x4"}, 0.5420),
        ("FrozenLake", {"map_name": "8x8"}, 0.4146),
        ("Taxi", {}, 6.327),
        ("CliffWalking", {}, -(1 - 0.99**13) / (1 - 0.99)),
    ],
)
def test_gymnasium_tables(name, options, want):
    gymnasium = pytest.importorskip("gymnasium")
    version = max(known for known in gymnasium.registry if known.startswith(f"{name}-v"))
    env = gymnasium.make(version, **options)
    world = MDP.from_gymnasium(env, 0.99)
    plan = solve(world)
    assert plan.status == "converged"
    assert plan.start_value() == pytest.approx(want, abs=6e-4 if name == "Taxi" else 6e-5)


def test_environments_without_a_table_are_refused():
    pytest.importorskip("gymnasium")
    with pytest.raises(DataError, match=r"observation_space of MountainCar-v0 is Box.*not discrete"):
        MDP.from_gymnasium("MountainCar-v0")
    with pytest.raises(DataError, match="Blackjack-v1.*not discrete"):
        MDP.from_gymnasium("Blackjack-v1")
    with pytest.raises(DataError, match="cannot make 'Nowhere-v0'"):
        MDP.from_gymnasium("Nowhere-v0")


def test_functions_that_lead_nowhere_are_refused():
    with pytest.raises(DataError, match="leads to 'c', which is not among the states"):
        MDP.from_function("ab", "x", lambda s, a: [(1.0, "c", 0.0)])
    with pytest.raises(DataError, match="probability -1"):
        MDP.from_function("ab", "x", lambda s, a: [(-1.0, "a", 0.0)])


def test_the_indentation_of_a_drawing_is_not_floor():
    indented = """
        S.
        .G
    """
    assert MDP.from_drawing(indented).shape == MDP.from_drawing("S.\n.G").shape == (4, 4)
