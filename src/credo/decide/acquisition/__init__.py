"""Scores of what to try next: each is a value that maps a belief and candidate points to numbers, larger is better."""

from credo.decide.acquisition.base import Acquisition, Directed
from credo.decide.acquisition.batch import (
    Batch,
    BatchExpectedImprovement,
    BatchNoisyExpectedImprovement,
    BatchUpperConfidenceBound,
)
from credo.decide.acquisition.confidence_bounds import LowerConfidenceBound, UpperConfidenceBound, regret_bound
from credo.decide.acquisition.cost import AffineCost, MultiFidelity, PerCost
from credo.decide.acquisition.hypervolume import (
    BatchExpectedHypervolumeImprovement,
    ExpectedHypervolumeImprovement,
)
from credo.decide.acquisition.improvement import (
    Constrained,
    ExpectedImprovement,
    Feasibility,
    LogExpectedImprovement,
    NoisyExpectedImprovement,
    ProbabilityOfImprovement,
)
from credo.decide.acquisition.information import BALD, MaxEntropy, MaxValueEntropySearch, MaxVariance, MutualInformation
from credo.decide.acquisition.lookahead import ExpectedVarianceReduction, InformationDirected, KnowledgeGradient
from credo.decide.acquisition.pending import Believer, LocalPenalization
from credo.decide.acquisition.thompson import Thompson

__all__ = [
    "BALD",
    "Acquisition",
    "AffineCost",
    "Batch",
    "BatchExpectedHypervolumeImprovement",
    "BatchExpectedImprovement",
    "BatchNoisyExpectedImprovement",
    "BatchUpperConfidenceBound",
    "Believer",
    "Constrained",
    "Directed",
    "ExpectedHypervolumeImprovement",
    "ExpectedImprovement",
    "ExpectedVarianceReduction",
    "Feasibility",
    "InformationDirected",
    "KnowledgeGradient",
    "LocalPenalization",
    "LogExpectedImprovement",
    "LowerConfidenceBound",
    "MaxEntropy",
    "MaxValueEntropySearch",
    "MaxVariance",
    "MultiFidelity",
    "MutualInformation",
    "NoisyExpectedImprovement",
    "PerCost",
    "ProbabilityOfImprovement",
    "Thompson",
    "UpperConfidenceBound",
    "regret_bound",
]
