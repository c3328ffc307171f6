"""Densities p(x | k) of k = 1 … K components, with priors: what hidden states, clusters and classes look like."""

from credo.models.densities.base import Density as Density
from credo.models.densities.base import HasDraws as HasDraws
from credo.models.densities.base import HasPredictive as HasPredictive
from credo.models.densities.base import HasStatistics as HasStatistics
from credo.models.densities.base import IsConjugate as IsConjugate
from credo.models.densities.base import Observed as Observed
from credo.models.densities.bernoulli import Bernoulli as Bernoulli
from credo.models.densities.categorical import CategoricalDensity as CategoricalDensity
from credo.models.densities.columns import Columns as Columns
from credo.models.densities.custom import CustomDensity as CustomDensity
from credo.models.densities.factor import FactorAnalyser as FactorAnalyser
from credo.models.densities.gaussian import Gaussian as Gaussian
from credo.models.densities.heavy_tailed import Student as Student
from credo.models.densities.mixture import GaussianMixture as GaussianMixture
from credo.models.densities.poisson import Poisson as Poisson
from credo.models.densities.regression import Regression as Regression
from credo.models.densities.vonmises import VonMises as VonMises
