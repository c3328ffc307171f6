"""How hidden states show: the families of emissions of a hidden Markov model."""

from credo.models.hmm.emissions.base import Emission
from credo.models.hmm.emissions.categorical import Categorical
from credo.models.hmm.emissions.custom import Custom
from credo.models.hmm.emissions.gaussian import Gaussian
from credo.models.hmm.emissions.mixture import GaussianMixture
from credo.models.hmm.emissions.poisson import Poisson
from credo.models.hmm.emissions.predictions import StateMixture
from credo.models.hmm.emissions.regression import Regression
from credo.models.hmm.emissions.vonmises import VonMises

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
