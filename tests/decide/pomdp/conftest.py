"""Small problems that several tests share."""

import numpy as np
import pytest

from credo.decide.pomdp import POMDP
from credo.decide.pomdp.cassandra import parse

TIGER = """
# the tiger
discount: 0.95
values: reward
states: tiger-left tiger-right
actions: listen open-left open-right
observations: hear-left hear-right
start: uniform
T: listen
identity
T: open-left
uniform
T: open-right
uniform
O: listen
0.85 0.15
0.15 0.85
O: open-left
uniform
O: open-right
uniform
R: listen : * : * : * -1
R: open-left : tiger-left : * : * -100
R: open-left : tiger-right : * : * 10
R: open-right : tiger-left : * : * 10
R: open-right : tiger-right : * : * -100
"""


@pytest.fixture
def tiger_text():
    return TIGER


@pytest.fixture
def tiger():
    return parse(TIGER)


@pytest.fixture
def random_pomdp():
    """A problem whose probabilities are drawn from a symmetric Dirichlet law, rewards from a normal one."""

    def make(seed, s=3, a=2, o=2, discount=0.8):
        random = np.random.default_rng(seed)
        moves = random.dirichlet(np.full(s, 0.5), size=(s, a))
        shows = random.dirichlet(np.full(o, 0.5), size=(s, a))
        return POMDP(moves, shows, random.normal(size=(s, a)), discount)

    return make
