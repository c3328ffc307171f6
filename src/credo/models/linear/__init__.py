"""Bayesian linear models: `Linear`, its priors, its noise, and its other views."""

from credo.models.linear.belief import Linear
from credo.models.linear.drawn import LinearDraws
from credo.models.linear.estimators import Path, lasso_path
from credo.models.linear.function_space import FunctionSpace, LinearFunction
from credo.models.linear.learning import FixedPoint, pruned_features
from credo.models.linear.posterior import Weights
from credo.models.linear.priors import ARD, Intercept, Isotropic, LaplacePrior, StudentTPrior
from credo.models.linear.shrinkage import Hierarchical, Horseshoe, ScaleMixture
from credo.models.linear.statistics import Rows, Statistics
from credo.models.noise import InverseGamma, KnownNoise, LaplaceNoise, StudentTNoise

__all__ = [
    "ARD",
    "FixedPoint",
    "FunctionSpace",
    "Hierarchical",
    "Horseshoe",
    "Intercept",
    "InverseGamma",
    "Isotropic",
    "KnownNoise",
    "LaplaceNoise",
    "LaplacePrior",
    "Linear",
    "LinearDraws",
    "LinearFunction",
    "Path",
    "Rows",
    "ScaleMixture",
    "Statistics",
    "StudentTNoise",
    "StudentTPrior",
    "Weights",
    "lasso_path",
    "pruned_features",
]
