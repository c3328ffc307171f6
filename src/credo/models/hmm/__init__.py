"""Hidden Markov models: what is seen of a chain that is not."""

from credo.models.hmm.bayes import DrawnHMM, PathGibbs, VariationalBayes
from credo.models.hmm.belief import HMM, States
from credo.models.hmm.durations import explicit_durations

__all__ = ["HMM", "DrawnHMM", "PathGibbs", "States", "VariationalBayes", "explicit_durations"]
