"""What can be believed: the models, a folder for each family."""

from credo.models import conjugate as conjugate
from credo.models import densities as densities
from credo.models import experts as experts
from credo.models import factor as factor
from credo.models import features as features
from credo.models import generative as generative
from credo.models import glm as glm
from credo.models import gp as gp
from credo.models import hmm as hmm
from credo.models import kernel_methods as kernel_methods
from credo.models import lds as lds
from credo.models import likelihoods as likelihoods
from credo.models import linear as linear
from credo.models import markov as markov
from credo.models import mixture as mixture
from credo.models import neural as neural
from credo.models import nonlinear as nonlinear
from credo.models import structural as structural
