"""Mixtures: rows of several kinds, of which nobody has written down which is which."""

from credo.infer.variational_bayes import VariationalBayes as VariationalBayes
from credo.models.mixture.bayes import DrawnMixture as DrawnMixture
from credo.models.mixture.bayes import MixtureGibbs as MixtureGibbs
from credo.models.mixture.belief import Mixture as Mixture
from credo.models.mixture.choosing import Choice as Choice
from credo.models.mixture.choosing import HowMany as HowMany
from credo.models.mixture.choosing import how_many as how_many
