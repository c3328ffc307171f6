"""How a posterior is computed, and hyperparameters chosen, knowing only densities."""

from credo.infer.averaging import Averaged, average
from credo.infer.conditioning import condition
from credo.infer.em import EM
from credo.infer.importance_sampling import importance
from credo.infer.laplace import Laplace
from credo.infer.learning import Evidence, Learned, LocalOptimum, fit, learn
from credo.infer.mcmc import (
    HMC,
    MALA,
    NUTS,
    SGLD,
    SMC,
    ULA,
    ComponentWise,
    Draws,
    Gibbs,
    MetropolisHastings,
    Pathfinder,
    RandomWalk,
    Sampler,
    conjugate_blocks,
)
from credo.infer.method import Approximation, Learner, RowApproximation, Solver
from credo.infer.point_estimates import MAP, ML, PlugIn
from credo.infer.posterior import NormalApproximation, Posterior
from credo.infer.target import ParameterSpace, Target
from credo.infer.variational import Variational

__all__ = [
    "EM",
    "HMC",
    "MALA",
    "MAP",
    "ML",
    "NUTS",
    "SGLD",
    "SMC",
    "ULA",
    "Approximation",
    "Averaged",
    "ComponentWise",
    "Draws",
    "Evidence",
    "Gibbs",
    "Laplace",
    "Learned",
    "Learner",
    "LocalOptimum",
    "MetropolisHastings",
    "NormalApproximation",
    "ParameterSpace",
    "Pathfinder",
    "PlugIn",
    "Posterior",
    "RandomWalk",
    "RowApproximation",
    "Sampler",
    "Solver",
    "Target",
    "Variational",
    "average",
    "condition",
    "conjugate_blocks",
    "fit",
    "importance",
    "learn",
]
