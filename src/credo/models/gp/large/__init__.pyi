"""Gaussian processes without a limit on rows: one module for each approximation, and the choice between them."""

from credo.models.gp.large.inducing import Inducing as Inducing
from credo.models.gp.large.inducing import InducingGP as InducingGP
from credo.models.gp.large.neighbours import Neighbours as Neighbours
from credo.models.gp.large.neighbours import NeighboursGP as NeighboursGP
