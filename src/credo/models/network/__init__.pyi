"""Bayesian networks: a belief over many named variables and the arrows between them."""

from credo.models.network.belief import Network as Network
from credo.models.network.nodes import LinearGaussian as LinearGaussian
from credo.models.network.nodes import NoisyOr as NoisyOr
from credo.models.network.nodes import Table as Table
