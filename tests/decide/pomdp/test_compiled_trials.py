"""The compiled form takes the same steps as the readable one."""

import numpy as np
import pytest

import credo
from credo.decide.pomdp import POMDP, point_based
from credo.decide.pomdp.bounds import blind, fib
from credo.decide.pomdp.mixed_observability import blocks_of
from credo.decide.pomdp.trials import Trials

pytest.importorskip("numba")


def both(pomdp):
    from credo.decide.pomdp.compiled_trials import CompiledTrials

    blocks = blocks_of(pomdp.transitions, pomdp.observations, pomdp.rewards, pomdp.discount, pomdp.start)
    below = [(row[blocks.state], a) for a, row in enumerate(blind(pomdp))]
    informed = np.ascontiguousarray(fib(pomdp).T[blocks.state])
    return Trials(blocks, below, informed), CompiledTrials(blocks, below, informed)


def flagged(base):
    """A flag that is seen beside the hidden state, and a start that may have either."""
    moves = [np.kron([[0.7, 0.3], [0.4, 0.6]], m.toarray()) for m in base.transitions]
    shows = [np.kron(np.eye(2), m.toarray()) for m in base.observations]
    rewards = np.concatenate([base.rewards, 2 * base.rewards])
    return POMDP(moves, shows, rewards, base.discount, np.kron([0.5, 0.5], base.start))


@pytest.mark.slow
def test_the_same_bounds_after_every_trial(tiger, random_pomdp, monkeypatch):
    for pomdp in (tiger, flagged(random_pomdp(3)), random_pomdp(1, s=4, a=3, o=3)):
        readable, compiled = both(pomdp)
        for _ in range(6):
            width = 0.5 * (readable.upper - readable.lower)
            one, two = readable.trial(width), compiled.trial(width)
            assert len(one) == len(two)
            assert compiled.lower == pytest.approx(readable.lower, rel=1e-9)
            assert compiled.upper == pytest.approx(readable.upper, rel=1e-9)
        for _ in range(2):
            assert len(readable.trial(width)) == len(compiled.trial(width))
            assert compiled.bounds(compiled.root) == pytest.approx(readable.bounds(readable.root), rel=1e-9)
            readable.forget()
            compiled.forget()
        draws = np.random.default_rng(0).random(20)
        assert len(readable.trial(0.0, draws)) == len(compiled.trial(0.0, draws)) == 10
        np.testing.assert_allclose(compiled.corners, readable.corners)
        for (alphas, actions), (others, their) in zip(readable.vectors(), compiled.vectors(), strict=True):
            np.testing.assert_allclose(np.sort(alphas, axis=0), np.sort(others, axis=0), rtol=1e-9, atol=1e-12)
            assert sorted(actions) == sorted(their)
        assert len(readable.points()) == len(compiled.points())
    # Through the verb: what NumPy began is taken over, and a plan of one form is gone on from by the other.
    monkeypatch.setattr(point_based, "PATIENCE", 0.0)
    plan = credo.solve(tiger, gap=1e-3)
    assert plan.lower - 1e-9 <= 19.371368 <= plan.upper + 1e-9
    assert plan.gap <= 1e-3
    monkeypatch.setattr(point_based, "PATIENCE", np.inf)
    assert credo.solve(tiger, gap=1e-3, start=plan).iterations == 0


def test_without_numba_a_sentence(tiger, monkeypatch):
    monkeypatch.setattr(point_based, "SMALL", 0)
    monkeypatch.setattr(point_based, "find_spec", lambda name: None)
    plan = credo.solve(tiger, gap=0.1)
    assert plan.status == "converged"
    assert "numba is not installed" in plan.notes[0]


def test_arrays_that_are_filled_together_stay_equally_long(tiger, monkeypatch):
    """Small entries are not doubled where large ones of the same count no longer are: what they hold would be lost."""
    from credo.decide.pomdp import compiled_trials

    compiled = both(tiger)[1]
    for large in (0.0, 1e5, 2e5, 4e5, 8e5, 1e9):
        monkeypatch.setattr(compiled_trials, "LARGE", large)
        compiled._make_room(True)
        for names in compiled_trials.GROWING.values():
            assert len({len(getattr(compiled.m, name)) for name in names}) == 1
    compiled.see(compiled.root)
    assert compiled.lower <= compiled.upper
