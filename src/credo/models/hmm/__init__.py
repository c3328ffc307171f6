"""Hidden Markov models: what is seen of a chain that is not."""

from credo.models.hmm.bayes import PathGibbs, VariationalBayes
from credo.models.hmm.belief import HMM, States
from credo.models.hmm.drawn import DrawnHMM
from credo.models.hmm.durations import explicit_durations

__all__ = ["HMM", "DrawnHMM", "PathGibbs", "States", "VariationalBayes", "explicit_durations"]
