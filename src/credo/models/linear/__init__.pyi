"""Bayesian linear models: `Linear`, its priors, its noise, and its other views."""

from credo.models.linear.belief import Linear as Linear
from credo.models.linear.drawn import LinearDraws as LinearDraws
from credo.models.linear.estimators import Path as Path
from credo.models.linear.estimators import lasso_path as lasso_path
from credo.models.linear.estimators import lasso_scale as lasso_scale
from credo.models.linear.function_space import FunctionSpace as FunctionSpace
from credo.models.linear.learning import FixedPoint as FixedPoint
from credo.models.linear.learning import pruned_features as pruned_features
from credo.models.linear.posterior import Weights as Weights
from credo.models.linear.priors import ARD as ARD
from credo.models.linear.priors import Intercept as Intercept
from credo.models.linear.priors import Isotropic as Isotropic
from credo.models.linear.priors import LaplacePrior as LaplacePrior
from credo.models.linear.priors import StudentTPrior as StudentTPrior
from credo.models.linear.shrinkage import Hierarchical as Hierarchical
from credo.models.linear.shrinkage import Horseshoe as Horseshoe
from credo.models.linear.shrinkage import ScaleMixture as ScaleMixture
from credo.models.linear.statistics import Rows as Rows
from credo.models.linear.statistics import Statistics as Statistics
from credo.models.noise import Covariance as Covariance
from credo.models.noise import InverseGamma as InverseGamma
from credo.models.noise import KnownNoise as KnownNoise
from credo.models.noise import LaplaceNoise as LaplaceNoise
from credo.models.noise import StudentTNoise as StudentTNoise
