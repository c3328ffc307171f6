"""Finite Markov chains: their analysis where they are known, and a belief about them where they are not."""

from credo.models.markov.chain import MarkovChain
from credo.models.markov.sequence import MarkovSequence, TransitionCounts
from credo.models.markov.structure import StateClass

__all__ = ["MarkovChain", "MarkovSequence", "StateClass", "TransitionCounts"]
