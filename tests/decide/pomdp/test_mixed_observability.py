"""The partition of states, against all beliefs that can be reached in a few steps."""

import numpy as np

from credo.decide.pomdp import POMDP
from credo.decide.pomdp.mixed_observability import blocks_of


def corridor(start):
    """Three rooms that are seen, in each of them a lamp that is not: states are (room, lamp); 6 cannot be reached."""
    right, toggle = np.zeros((7, 7)), np.zeros((7, 7))
    for room in range(3):
        for lamp in range(2):
            here, there = 2 * room + lamp, 2 * min(room + 1, 2) + lamp
            right[here, there] = 1.0
            toggle[here, [2 * room, 2 * room + 1]] = 0.5
    right[6, 6] = toggle[6, 6] = 1.0
    seen = np.repeat(np.eye(4), 2, axis=0)[:7]
    return POMDP([right, toggle], seen, np.arange(7.0), 0.9, start)


def parts(pomdp):
    return blocks_of(pomdp.transitions, pomdp.observations, pomdp.rewards, pomdp.discount, pomdp.start)


def test_what_is_seen_parts_the_states():
    found = parts(corridor([0.5, 0.5, 0, 0, 0, 0, 0]))
    assert sorted(found.state.tolist()) == list(range(6))  # no copies: the start lies in the first room; 6 is left out
    assert {frozenset(found.state[a:b].tolist()) for a, b in zip(found.first[:-1], found.first[1:], strict=True)} == {
        frozenset({0, 1}),
        frozenset({2, 3}),
        frozenset({4, 5}),
    }
    np.testing.assert_allclose(found.start, 0.5)


def test_a_start_in_many_rooms_lies_on_copies():
    pomdp = corridor([0.2, 0.2, 0.2, 0.2, 0.2, 0, 0])
    found = parts(pomdp)
    sizes = np.sort(found.sizes)
    assert sizes.tolist() == [2, 2, 2, 5]
    assert found.sizes[found.home] == 5
    assert sorted(found.state.tolist()) == [0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5]
    rows = slice(found.first[found.home], found.first[found.home + 1])
    for matrix in found.transitions:  # nothing leads to a copy, and from them the same as from their originals
        assert matrix[:, rows].nnz == 0
        np.testing.assert_allclose(np.asarray(matrix.sum(axis=1)), 1.0)
    np.testing.assert_array_equal(found.rewards, pomdp.rewards[found.state])


def test_reachable_beliefs_lie_in_one_block(random_pomdp):
    random = np.random.default_rng(0)
    for seed in range(5):
        base = random_pomdp(seed, s=6, a=2, o=3)
        moves = [np.where(m.toarray() < 0.2, 0.0, m.toarray()) + 1e-12 * np.eye(6) for m in base.transitions]
        moves = [m / m.sum(axis=1, keepdims=True) for m in moves]
        shows = np.eye(3)[random.integers(3, size=6)]
        pomdp = POMDP(moves, shows, base.rewards, 0.9, int(random.integers(6)))
        found = parts(pomdp)
        blocks = [set(found.state[a:b].tolist()) for a, b in zip(found.first[:-1], found.first[1:], strict=True)]
        beliefs = [pomdp.start]
        for _ in range(4):
            beliefs = [
                after / after.sum()
                for b in beliefs
                for a in range(2)
                for after in ((b @ moves[a]) * shows.T)
                if after.sum() > 0
            ]
            for b in beliefs:
                assert any(set(np.flatnonzero(b).tolist()) <= block for block in blocks)
