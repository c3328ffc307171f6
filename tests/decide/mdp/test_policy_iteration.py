"""Modified policy iteration on rows of all lengths, with and without ends."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from credo.decide.mdp import MDP, ModifiedPolicyIteration, PolicyIteration, solve


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


@given(
    seed=st.integers(0, 10_000),
    s=st.integers(7, 40),
    a=st.integers(1, 6),
    discount=st.sampled_from([0.5, 0.9, 0.999]),
    ragged=st.booleans(),
    ends=st.booleans(),
    tolerance=st.sampled_from([1e-1, 1e-4, 1e-7]),
)
def test_certificates_hold(seed, s, a, discount, ragged, ends, tolerance):
    world = world_of(seed, s, a, discount, ragged, ends)
    # Where a policy goes on for ever in a world with ends, 0.999ⁿ is all that helps.
    plan = solve(world, using=ModifiedPolicyIteration(max_steps=100_000), tolerance=tolerance)
    policy = solve(world, using=PolicyIteration("direct")).policy
    want, found = exact(world, policy), exact(world, plan.policy)
    own = 1e-12 * np.abs(want).max() / (1 - discount)  # the oracle's rounding
    assert plan.status == "converged"
    assert np.abs(plan.value - want).max() <= plan.certificate + own
    assert (want - found).max() <= 2 * plan.certificate + own


@pytest.mark.parametrize("limit", [1, 2, 5])
def test_it_stops_when_told(limit):
    plan = solve(world_of(5, discount=0.999), using=ModifiedPolicyIteration(sweeps=1, max_steps=limit), tolerance=1e-9)
    assert plan.status == "stopped" and limit <= plan.iterations <= limit + 1 and plan.certificate > 1e-9
    assert "above the tolerance" in plan.notes[0]
