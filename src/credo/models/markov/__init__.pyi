"""Finite Markov chains: their analysis where they are known, and a belief about them where they are not."""

from credo.models.markov.chain import MarkovChain as MarkovChain
from credo.models.markov.sequence import MarkovSequence as MarkovSequence
from credo.models.markov.sequence import TransitionCounts as TransitionCounts
from credo.models.markov.structure import StateClass as StateClass
