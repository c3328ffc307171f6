"""Predictions: distributions over outcomes that know how much of their doubt is noise and how much ignorance."""

from credo.core.predictive.base import Interval as Interval
from credo.core.predictive.base import Predictive as Predictive
from credo.core.predictive.classes import Bernoulli as Bernoulli
from credo.core.predictive.classes import Categorical as Categorical
from credo.core.predictive.counts import BetaBinomial as BetaBinomial
from credo.core.predictive.counts import Count as Count
from credo.core.predictive.counts import DirichletMultinomial as DirichletMultinomial
from credo.core.predictive.counts import NegativeBinomial as NegativeBinomial
from credo.core.predictive.counts import Poisson as Poisson
from credo.core.predictive.lognormal import LogNormal as LogNormal
from credo.core.predictive.mixtures import Mixture as Mixture
from credo.core.predictive.mixtures import mixture as mixture
from credo.core.predictive.real import Laplace as Laplace
from credo.core.predictive.real import MultivariateT as MultivariateT
from credo.core.predictive.real import Normal as Normal
from credo.core.predictive.real import StudentT as StudentT
from credo.core.predictive.warped import Warp as Warp
from credo.core.predictive.warped import Warped as Warped
