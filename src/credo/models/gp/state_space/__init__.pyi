"""Gaussian processes of one input (time) as states that move: the exact posterior and evidence in O(n)."""

from credo.models.gp.state_space.belief import StateSpace as StateSpace
from credo.models.gp.state_space.belief import StateSpaceGP as StateSpaceGP
