"""The public names, on one screen: verbs, beliefs, problems, folders. `lazy.attach` loads them on first use."""

from credo import errors as errors
from credo import evaluate as evaluate
from credo import infer as infer
from credo import kernels as kernels
from credo import losses as losses
from credo import models as models
from credo import plots as plots
from credo import sklearn as sklearn

# beliefs
from credo.app.explore import explore as explore
from credo.app.fit.auto import auto as auto
from credo.core.belief import Belief as Belief
from credo.core.configure import configure as configure
from credo.core.files import load as load
from credo.core.files import save as save
from credo.core.predictive import Predictive as Predictive
from credo.decide.acquiring import acquire as acquire

# problems
from credo.decide.campaign import Campaign as Campaign
from credo.decide.influence import InfluenceDiagram as InfluenceDiagram
from credo.decide.mdp import MDP as MDP
from credo.decide.mdp import solve as solve
from credo.decide.pomdp import POMDP as POMDP
from credo.decide.space import Space as Space
from credo.decide.verb import decide as decide
from credo.evaluate.comparison import compare as compare
from credo.evaluate.pooling import pool as pool
from credo.evaluate.recalibration import recalibrated as recalibrated
from credo.infer.averaging import Averaged as Averaged
from credo.infer.conditioning import condition as condition

# folders
from credo.infer.hyper.grid import Grid as Grid

# verbs
from credo.infer.learning import fit as fit
from credo.infer.learning import learn as learn
from credo.models.conjugate import BetaBernoulli as BetaBernoulli
from credo.models.conjugate import BetaBinomial as BetaBinomial
from credo.models.conjugate import DirichletCategorical as DirichletCategorical
from credo.models.conjugate import DirichletMultinomial as DirichletMultinomial
from credo.models.conjugate import GammaPoisson as GammaPoisson
from credo.models.conjugate import HierarchicalBernoulli as HierarchicalBernoulli
from credo.models.conjugate import Hypotheses as Hypotheses
from credo.models.conjugate import NormalInverseGamma as NormalInverseGamma
from credo.models.conjugate import NormalInverseWishart as NormalInverseWishart
from credo.models.conjugate import NormalKnownVariance as NormalKnownVariance
from credo.models.experts import Experts as Experts
from credo.models.factor import PPCA as PPCA
from credo.models.factor import FactorAnalysis as FactorAnalysis
from credo.models.generative import Discriminant as Discriminant
from credo.models.generative import Generative as Generative
from credo.models.generative import NaiveBayes as NaiveBayes
from credo.models.glm import GLM as GLM
from credo.models.glm import Logistic as Logistic
from credo.models.glm import NegativeBinomialRegression as NegativeBinomialRegression
from credo.models.glm import OrdinalRegression as OrdinalRegression
from credo.models.glm import PoissonRegression as PoissonRegression
from credo.models.glm import Probit as Probit
from credo.models.glm import Softmax as Softmax
from credo.models.glm import StudentTRegression as StudentTRegression
from credo.models.gp import GP as GP
from credo.models.gp import HeteroscedasticGP as HeteroscedasticGP
from credo.models.gp import LatentGP as LatentGP
from credo.models.gp import MultiGP as MultiGP
from credo.models.gp import RobustGP as RobustGP
from credo.models.gp import WarpedGP as WarpedGP
from credo.models.gp.terrain import Terrain as Terrain
from credo.models.hmm import HMM as HMM
from credo.models.kernel_methods import KernelDensity as KernelDensity
from credo.models.kernel_methods import KernelNeighbours as KernelNeighbours
from credo.models.kernel_methods import KernelRegression as KernelRegression
from credo.models.lds import LDS as LDS
from credo.models.linear import Linear as Linear
from credo.models.markov import MarkovChain as MarkovChain
from credo.models.markov import MarkovSequence as MarkovSequence
from credo.models.mixture import Mixture as Mixture
from credo.models.network import Network as Network
from credo.models.neural import Neural as Neural
from credo.models.nonlinear import StateSpaceModel as StateSpaceModel
from credo.models.structural import Structural as Structural

__version__: str
