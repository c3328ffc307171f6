"""Beliefs with Bayes' rule in closed form."""

from credo.models.conjugate.base import Conjugate as Conjugate
from credo.models.conjugate.base import Statistics as Statistics
from credo.models.conjugate.binary import BetaBernoulli as BetaBernoulli
from credo.models.conjugate.binary import BetaBinomial as BetaBinomial
from credo.models.conjugate.binary import BinaryCounts as BinaryCounts
from credo.models.conjugate.categorical import ClassCounts as ClassCounts
from credo.models.conjugate.categorical import DirichletCategorical as DirichletCategorical
from credo.models.conjugate.categorical import DirichletMultinomial as DirichletMultinomial
from credo.models.conjugate.counts import EventCounts as EventCounts
from credo.models.conjugate.counts import GammaPoisson as GammaPoisson
from credo.models.conjugate.hierarchical import EmpiricalBayes as EmpiricalBayes
from credo.models.conjugate.hierarchical import HierarchicalBernoulli as HierarchicalBernoulli
from credo.models.conjugate.hierarchical import Shrinkage as Shrinkage
from credo.models.conjugate.hypotheses import Hypotheses as Hypotheses
from credo.models.conjugate.hypotheses import OutcomeCounts as OutcomeCounts
from credo.models.conjugate.known import Known as Known
from credo.models.conjugate.multivariate import GaussianParameters as GaussianParameters
from credo.models.conjugate.multivariate import NormalInverseWishart as NormalInverseWishart
from credo.models.conjugate.normal import Moments as Moments
from credo.models.conjugate.normal import NormalInverseGamma as NormalInverseGamma
from credo.models.conjugate.normal import NormalKnownVariance as NormalKnownVariance
from credo.models.conjugate.normal import NormalParameters as NormalParameters
from credo.models.conjugate.quadrature import Hyperparameters as Hyperparameters
from credo.models.conjugate.quadrature import PopulationCounts as PopulationCounts
