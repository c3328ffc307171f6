"""Gaussian processes: beliefs about functions."""

from credo.infer.hyper import HyperQuadrature, Quadrature, hyperparameters
from credo.models.gp.belief import GP
from credo.models.gp.components import decompose
from credo.models.gp.derivatives import differentiated, gradient_covariance
from credo.models.gp.describe import describe
from credo.models.gp.evidence_surface import evidence_surface
from credo.models.gp.heteroscedastic import HeteroscedasticGP
from credo.models.gp.independent import Independent
from credo.models.gp.means import Basis, BeliefMean, Constant, FunctionMean, Mean, Zero
from credo.models.gp.multioutput import MultiGP
from credo.models.gp.objectives import KFold, LeaveOneOut
from credo.models.gp.robust import RobustGP
from credo.models.gp.search import Search, search_kernel
from credo.models.gp.staged import Staged
from credo.models.gp.state_space import StateSpace, StateSpaceGP
from credo.models.gp.warped import WarpedGP
from credo.models.gp.warps import Identity, Log, Steps
from credo.models.gp.watched import AtCandidates

__all__ = [
    "GP",
    "AtCandidates",
    "Basis",
    "BeliefMean",
    "Constant",
    "FunctionMean",
    "HeteroscedasticGP",
    "HyperQuadrature",
    "Identity",
    "Independent",
    "KFold",
    "LeaveOneOut",
    "Log",
    "Mean",
    "MultiGP",
    "Quadrature",
    "RobustGP",
    "Search",
    "Staged",
    "StateSpace",
    "StateSpaceGP",
    "Steps",
    "WarpedGP",
    "Zero",
    "decompose",
    "describe",
    "differentiated",
    "evidence_surface",
    "gradient_covariance",
    "hyperparameters",
    "search_kernel",
]
