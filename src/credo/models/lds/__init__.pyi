"""Linear dynamical systems: `LDS`, and the Kalman filters and smoothers that it is made of."""

from credo.infer.variational_bayes import VariationalBayes as VariationalBayes
from credo.models.lds.bayes import StateVariationalBayes as StateVariationalBayes
from credo.models.lds.belief import LDS as LDS
from credo.models.lds.gibbs import DrawnLDS as DrawnLDS
from credo.models.lds.gibbs import MatrixPrior as MatrixPrior
from credo.models.lds.gibbs import StateGibbs as StateGibbs
from credo.models.lds.kalman import FilterInputs as FilterInputs
from credo.models.lds.kalman import StateLaw as StateLaw
from credo.models.lds.kalman import SystemMatrices as SystemMatrices
from credo.models.lds.kalman import kalman_filter as kalman_filter
from credo.models.lds.kalman import kalman_smoother as kalman_smoother
from credo.models.lds.riccati import Steady as Steady
from credo.models.lds.riccati import steady_state as steady_state
from credo.models.lds.score import log_likelihood as log_likelihood
