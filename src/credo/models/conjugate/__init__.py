"""Beliefs with Bayes' rule in closed form."""

from credo.models.conjugate.base import Conjugate, Statistics
from credo.models.conjugate.binary import BetaBernoulli, BetaBinomial, BinaryCounts
from credo.models.conjugate.categorical import ClassCounts, DirichletCategorical, DirichletMultinomial
from credo.models.conjugate.counts import EventCounts, GammaPoisson
from credo.models.conjugate.hierarchical import EmpiricalBayes, HierarchicalBernoulli, Shrinkage
from credo.models.conjugate.hypotheses import Hypotheses, OutcomeCounts
from credo.models.conjugate.known import Known
from credo.models.conjugate.multivariate import GaussianParameters, NormalInverseWishart, Scatter
from credo.models.conjugate.normal import Moments, NormalInverseGamma, NormalKnownVariance, NormalParameters
from credo.models.conjugate.quadrature import Hyperparameters, PopulationCounts

__all__ = [
    "BetaBernoulli",
    "BetaBinomial",
    "BinaryCounts",
    "ClassCounts",
    "Conjugate",
    "DirichletCategorical",
    "DirichletMultinomial",
    "EmpiricalBayes",
    "EventCounts",
    "GammaPoisson",
    "GaussianParameters",
    "HierarchicalBernoulli",
    "Hyperparameters",
    "Hypotheses",
    "Known",
    "Moments",
    "NormalInverseGamma",
    "NormalInverseWishart",
    "NormalKnownVariance",
    "NormalParameters",
    "OutcomeCounts",
    "PopulationCounts",
    "Scatter",
    "Shrinkage",
    "Statistics",
]
