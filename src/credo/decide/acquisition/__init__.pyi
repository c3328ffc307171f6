"""Scores of what to try next: each is a value that maps a belief and candidate points to numbers, larger is better."""

from credo.decide.acquisition.base import Acquisition as Acquisition
from credo.decide.acquisition.base import Directed as Directed
from credo.decide.acquisition.batch import Batch as Batch
from credo.decide.acquisition.batch import BatchExpectedImprovement as BatchExpectedImprovement
from credo.decide.acquisition.batch import BatchNoisyExpectedImprovement as BatchNoisyExpectedImprovement
from credo.decide.acquisition.batch import BatchUpperConfidenceBound as BatchUpperConfidenceBound
from credo.decide.acquisition.confidence_bounds import LowerConfidenceBound as LowerConfidenceBound
from credo.decide.acquisition.confidence_bounds import UpperConfidenceBound as UpperConfidenceBound
from credo.decide.acquisition.confidence_bounds import regret_bound as regret_bound
from credo.decide.acquisition.cost import AffineCost as AffineCost
from credo.decide.acquisition.cost import MultiFidelity as MultiFidelity
from credo.decide.acquisition.cost import PerCost as PerCost
from credo.decide.acquisition.hypervolume import (
    BatchExpectedHypervolumeImprovement as BatchExpectedHypervolumeImprovement,
)
from credo.decide.acquisition.hypervolume import ExpectedHypervolumeImprovement as ExpectedHypervolumeImprovement
from credo.decide.acquisition.improvement import Constrained as Constrained
from credo.decide.acquisition.improvement import ExpectedImprovement as ExpectedImprovement
from credo.decide.acquisition.improvement import Feasibility as Feasibility
from credo.decide.acquisition.improvement import LogExpectedImprovement as LogExpectedImprovement
from credo.decide.acquisition.improvement import NoisyExpectedImprovement as NoisyExpectedImprovement
from credo.decide.acquisition.improvement import ProbabilityOfImprovement as ProbabilityOfImprovement
from credo.decide.acquisition.information import BALD as BALD
from credo.decide.acquisition.information import MaxEntropy as MaxEntropy
from credo.decide.acquisition.information import MaxValueEntropySearch as MaxValueEntropySearch
from credo.decide.acquisition.information import MaxVariance as MaxVariance
from credo.decide.acquisition.information import MutualInformation as MutualInformation
from credo.decide.acquisition.lookahead import ExpectedVarianceReduction as ExpectedVarianceReduction
from credo.decide.acquisition.lookahead import InformationDirected as InformationDirected
from credo.decide.acquisition.lookahead import KnowledgeGradient as KnowledgeGradient
from credo.decide.acquisition.pending import Believer as Believer
from credo.decide.acquisition.pending import LocalPenalization as LocalPenalization
from credo.decide.acquisition.thompson import Thompson as Thompson
