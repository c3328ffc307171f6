"""Densities p(x | k) of k = 1 … K components, with priors: what hidden states, clusters and classes look like."""

from credo.models.densities.base import Density, HasDraws, HasStatistics, IsConjugate, Observed
from credo.models.densities.categorical import CategoricalDensity
from credo.models.densities.custom import CustomDensity
from credo.models.densities.gaussian import Gaussian
from credo.models.densities.mixture import GaussianMixture
from credo.models.densities.poisson import Poisson
from credo.models.densities.regression import Regression
from credo.models.densities.vonmises import VonMises

__all__ = [
    "CategoricalDensity",
    "CustomDensity",
    "Density",
    "Gaussian",
    "GaussianMixture",
    "HasDraws",
    "HasStatistics",
    "IsConjugate",
    "Observed",
    "Poisson",
    "Regression",
    "VonMises",
]
