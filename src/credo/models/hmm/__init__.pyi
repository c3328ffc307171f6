"""Hidden Markov models: what is seen of a chain that is not."""

from credo.infer.variational_bayes import VariationalBayes as VariationalBayes
from credo.models.hmm.bayes import DrawnHMM as DrawnHMM
from credo.models.hmm.bayes import PathGibbs as PathGibbs
from credo.models.hmm.belief import HMM as HMM
from credo.models.hmm.belief import States as States
from credo.models.hmm.driven import InputHMM as InputHMM
from credo.models.hmm.durations import explicit_durations as explicit_durations
from credo.models.hmm.stepwise import StepwiseEM as StepwiseEM
