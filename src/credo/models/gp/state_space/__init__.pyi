"""Gaussian processes of one input (time) as states that move: the exact posterior and evidence in O(n)."""

from credo.models.gp.state_space.belief import StateSpaceGP as StateSpaceGP
from credo.models.gp.state_space.method import StateSpace as StateSpace
