"""How outcomes follow from a linear predictor η: p(y | η), for generalized linear models."""

from credo.models.likelihoods.base import Likelihood as Likelihood
from credo.models.likelihoods.classes import Bernoulli as Bernoulli
from credo.models.likelihoods.classes import Categorical as Categorical
from credo.models.likelihoods.classes import Classes as Classes
from credo.models.likelihoods.classes import Probit as Probit
from credo.models.likelihoods.classes import find_classes as find_classes
from credo.models.likelihoods.numbers import Counts as Counts
from credo.models.likelihoods.numbers import NegativeBinomial as NegativeBinomial
from credo.models.likelihoods.numbers import Poisson as Poisson
from credo.models.likelihoods.numbers import StudentT as StudentT
from credo.models.likelihoods.ordinal import Ordinal as Ordinal
