"""Gaussian processes: beliefs about functions."""

from credo.models.gp.belief import GP
from credo.models.gp.learning import Staged
from credo.models.gp.means import Basis, BeliefMean, Constant, FunctionMean, Mean, Zero

__all__ = ["GP", "Basis", "BeliefMean", "Constant", "FunctionMean", "Mean", "Staged", "Zero"]
