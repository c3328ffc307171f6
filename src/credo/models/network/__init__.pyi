"""Bayesian networks: a belief over many named variables and the arrows between them."""

from credo.models.network.belief import Network as Network
from credo.models.network.drawn import DrawnNetwork as DrawnNetwork
from credo.models.network.drawn import LikelihoodWeighting as LikelihoodWeighting
from credo.models.network.drawn import NetworkGibbs as NetworkGibbs
from credo.models.network.edge_posterior import Bootstrap as Bootstrap
from credo.models.network.edge_posterior import EveryGraph as EveryGraph
from credo.models.network.edge_posterior import OrderMCMC as OrderMCMC
from credo.models.network.graph import Separation as Separation
from credo.models.network.graph import Trail as Trail
from credo.models.network.nodes import LinearGaussian as LinearGaussian
from credo.models.network.nodes import NoisyOr as NoisyOr
from credo.models.network.nodes import Table as Table
from credo.models.network.predictions import States as States
from credo.models.network.scores import BIC as BIC
from credo.models.network.scores import BDeu as BDeu
from credo.models.network.structure import Exact as Exact
from credo.models.network.structure import HillClimb as HillClimb
from credo.models.network.structure import Tabu as Tabu
