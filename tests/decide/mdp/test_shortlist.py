"""The update that leaves actions out, against the one that looks at all of them."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from credo.decide.mdp import MDP, ModifiedPolicyIteration, PolicyIteration, ValueIteration, solve
from credo.decide.mdp.bounds import Ruler
from credo.decide.mdp.shortlist import REACH, Shortlist


def world_of(seed, s=60, a=4, discount=0.95, ragged=False, ends=False):
    """Rows of four successors, or of one to six."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, 7, s * a) if ragged else np.full(s * a, 4)
    weight = rng.exponential(size=lengths.sum())
    row = np.repeat(np.arange(s * a), lengths)
    index = np.concatenate([rng.choice(s, size=n, replace=False) for n in lengths])
    share = weight / np.bincount(row, weights=weight)[row]
    over = np.where(rng.random((s, a)) < 0.3, 0.2, 0.0) if ends else np.zeros((s, a))
    matrix = sp.csr_array((share * (1 - over.ravel())[row], (row, index)), shape=(s * a, s))
    return MDP(matrix, rng.normal(size=(s, a)), discount, ends=over, terminal=[3] if ends else None)


def exact(world, policy):
    """V of a policy by NumPy's dense solver."""
    rows, (s, a) = np.arange(len(policy)), world.shape
    p = world.matrix.toarray()[rows * a + policy]
    return np.linalg.solve(np.eye(s) - world.discount * p, world.rewards[rows, policy])


@pytest.mark.parametrize("ends", [False, True])
@pytest.mark.parametrize("ragged", [False, True])
def test_the_short_update_is_the_update(ragged, ends):
    world = world_of(1, s=200, ragged=ragged, ends=ends)
    ruler = Ruler(world)
    assert (ruler.width == 4) == (not ragged and not ends)
    rows, rng = np.arange(200), np.random.default_rng(2)
    value = solve(world, using=ValueIteration(), tolerance=1e-3).value
    actions = Shortlist(world, ruler)
    seen = []
    for scale in (0.03, 0.02, 0.02, 0.02, 0.02, 1.0, 0.03, 0.02, 0.02):
        near = value + scale * rng.normal(size=200) + (0.0 if ends else rng.normal())
        before = actions.policy.copy()
        base = getattr(actions, "base", None)
        backed, changed = actions.update(near)
        q = world.backup(near)
        np.testing.assert_allclose(backed, q.max(axis=1), rtol=1e-14, atol=1e-14)
        np.testing.assert_allclose(q[rows, actions.policy], q.max(axis=1), rtol=1e-14, atol=1e-14)
        assert changed == (np.mean(actions.policy != before) if len(before) else 1.0)
        step, reward = world.matrix[rows * 4 + actions.policy], world.rewards[rows, actions.policy]
        held = actions.hold()
        np.testing.assert_array_equal(held[0].toarray(), step.toarray())
        np.testing.assert_array_equal(held[1], reward)
        seen.append((actions.short and actions.base is base, changed))
    assert any(short and changed for short, changed in seen)  # a better action was found on the list
    assert any(not short for short, _ in seen[1:])  # and values moved too far for it


@pytest.mark.parametrize("ends", [False, True])
def test_actions_that_catch_up_are_looked_at_again(ends):
    """State 0 takes a sure 1 rather than the value of state 2, which is zero, and the margin is 0.8."""
    p, r, over = np.zeros((4, 2, 4)), np.full((4, 2), -100.0), np.zeros((4, 2))
    p[0, 0, 1], p[0, 1, 2] = 1.0, 1.0
    p[1:] = np.eye(4)[1:, None]
    r[:, 0], r[0, 1] = [1.0, 0.2, -0.2, 0.0], 0.0
    if ends:
        p[0, 0], over[0, 0] = 0.0, 1.0
    world = MDP(p, r, 0.9, ends=over)
    base = np.array([1.0, 0.0, 0.0, 0.0])
    # Where action 0 ends the episode it is enough that all values rise alike.
    way = np.ones(4) if ends else np.array([0.0, -0.5, 0.5, 0.0])
    for gain, short in ((0.79, True), (0.81, False), (1.01, False)):
        actions = Shortlist(world, Ruler(world))
        actions.update(base)
        actions.hold()
        assert actions.short and not len(actions.pairs) and actions.margin == pytest.approx(0.8)
        backed, changed = actions.update(base + gain / 0.9 * way)
        assert actions.short == short
        np.testing.assert_allclose(backed, world.backup(base + gain / 0.9 * way).max(axis=1), rtol=1e-14)
        assert (actions.policy[0], changed) == ((1, 0.25) if gain > 1 else (0, 0.0))


def test_the_margin_grows_where_values_move_on():
    world = world_of(3)
    actions = Shortlist(world, Ruler(world))
    value = solve(world).value + 0.03 * np.random.default_rng(4).normal(size=60)
    actions.update(value)
    actions.hold()
    assert actions.short and actions.reach == REACH
    actions.update(value + 100 * np.eye(60)[0])
    assert actions.reach == 2 * REACH


def test_the_list_lasts_where_all_values_move_alike():
    world = world_of(3)
    actions = Shortlist(world, Ruler(world))
    value = solve(world).value + 0.03 * np.random.default_rng(4).normal(size=60)
    actions.update(value)
    actions.hold()
    for shift in (7.0, -500.0):
        backed, _ = actions.update(value + shift)
        assert actions.base is value and actions.reach == REACH
        np.testing.assert_allclose(backed, world.backup(value + shift).max(axis=1), rtol=1e-14)


@given(
    seed=st.integers(0, 10_000),
    s=st.integers(7, 40),
    a=st.integers(1, 6),
    discount=st.sampled_from([0.5, 0.9, 0.999]),
    ragged=st.booleans(),
    ends=st.booleans(),
    tolerance=st.sampled_from([1e-1, 1e-4, 1e-7]),
)
def test_certificates_hold_with_the_list(seed, s, a, discount, ragged, ends, tolerance):
    world = world_of(seed, s, a, discount, ragged, ends)
    plan = solve(world, using=ModifiedPolicyIteration(), tolerance=tolerance)
    policy = solve(world, using=PolicyIteration("direct")).policy
    want, found = exact(world, policy), exact(world, plan.policy)
    own = 1e-12 * np.abs(want).max() / (1 - discount)  # the oracle's rounding
    assert plan.status == "converged"
    assert np.abs(plan.value - want).max() <= plan.certificate + own
    assert (want - found).max() <= 2 * plan.certificate + own


def test_modified_policy_iteration_stops_when_told():
    world = world_of(5, discount=0.999)
    for most in (1, 2, 5):
        plan = solve(world, using=ModifiedPolicyIteration(sweeps=1, most=most), tolerance=1e-9)
        assert plan.status == "stopped" and most <= plan.steps <= most + 1 and plan.certificate > 1e-9
        assert "above the tolerance" in plan.notes[0]
