"""Linear dynamical systems: `LDS`, and the Kalman filters and smoothers that it is made of."""

from credo.models.lds.belief import LDS
from credo.models.lds.gibbs import DrawnLDS, MatrixPrior, StateGibbs
from credo.models.lds.kalman import FilterInputs, StateLaw, SystemMatrices, kalman_filter, kalman_smoother
from credo.models.lds.riccati import Steady, steady_state
from credo.models.lds.score import log_likelihood

__all__ = [
    "LDS",
    "DrawnLDS",
    "FilterInputs",
    "MatrixPrior",
    "StateGibbs",
    "StateLaw",
    "Steady",
    "SystemMatrices",
    "kalman_filter",
    "kalman_smoother",
    "log_likelihood",
    "steady_state",
]
