import numpy as np
import pytest

from credo.decide.mdp import MDP


@pytest.fixture(scope="session")
def world() -> MDP:
    """Successors at random, ends with probability 0.1, rewards that make no ties."""
    rng = np.random.default_rng(0)
    s, a = 6, 3
    prob = 0.9 * rng.dirichlet(np.full(s, 0.5), (s, a))
    return MDP(prob, rng.normal(size=(s, a)), 0.9, ends=np.full((s, a), 0.1), start=np.full(s, 1 / s))


@pytest.fixture(scope="session")
def river() -> MDP:
    """Going left is easy and pays little; going right against the stream pays at its end. Strehl & Littman (2008)."""
    states = 6
    prob = np.zeros((states, 2, states))
    rewards = np.zeros((states, 2))
    for s in range(states):
        prob[s, 0, max(s - 1, 0)] = 1
        prob[s, 1, min(s + 1, states - 1)] += 0.6 if s == 0 or s == states - 1 else 0.35
        prob[s, 1, s] += 0.4 if s == 0 else 0.6 if s < states - 1 else 0.0
        prob[s, 1, max(s - 1, 0)] += 0.0 if s == 0 else 0.05 if s < states - 1 else 0.4
    rewards[0, 0], rewards[-1, 1] = 0.05, 1.0
    return MDP(prob, rewards, 0.95, start=0)
