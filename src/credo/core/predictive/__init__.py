"""Predictions: distributions over outcomes that know how much of their doubt is noise and how much ignorance."""

from credo.core.predictive.base import Interval, Predictive
from credo.core.predictive.classes import Bernoulli, Categorical
from credo.core.predictive.counts import (
    BetaBinomial,
    Count,
    DirichletMultinomial,
    NegativeBinomial,
    Poisson,
)
from credo.core.predictive.lognormal import LogNormal
from credo.core.predictive.mixture import Mixture, mixture
from credo.core.predictive.real import Laplace, MultivariateT, Normal, StudentT
from credo.core.predictive.warped import Warp, Warped

__all__ = [
    "Bernoulli",
    "BetaBinomial",
    "Categorical",
    "Count",
    "DirichletMultinomial",
    "Interval",
    "Laplace",
    "LogNormal",
    "Mixture",
    "MultivariateT",
    "NegativeBinomial",
    "Normal",
    "Poisson",
    "Predictive",
    "StudentT",
    "Warp",
    "Warped",
    "mixture",
]
