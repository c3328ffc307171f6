"""How hidden states show: the families of emissions of a hidden Markov model."""

from credo.models.densities.base import Emission
from credo.models.densities.categorical import Categorical
from credo.models.densities.custom import Custom
from credo.models.densities.gaussian import Gaussian
from credo.models.densities.mixture import GaussianMixture
from credo.models.densities.poisson import Poisson
from credo.models.densities.predictions import StateMixture
from credo.models.densities.regression import Regression
from credo.models.densities.vonmises import VonMises

__all__ = [
    "Categorical",
    "Custom",
    "Emission",
    "Gaussian",
    "GaussianMixture",
    "Poisson",
    "Regression",
    "StateMixture",
    "VonMises",
]
