"""Linear dynamical systems: `LDS`, and the Kalman filters and smoothers that it is made of."""

from credo.models.lds.belief import LDS, StateLaws
from credo.models.lds.gibbs import DrawnLDS, MatrixPrior, StateGibbs
from credo.models.lds.kalman import Filtered, Smoothed, Start, Steps, kalman_filter, rts_smoother
from credo.models.lds.riccati import Steady, steady_state
from credo.models.lds.score import log_likelihood

__all__ = [
    "LDS",
    "DrawnLDS",
    "Filtered",
    "MatrixPrior",
    "Smoothed",
    "Start",
    "StateGibbs",
    "StateLaws",
    "Steady",
    "Steps",
    "kalman_filter",
    "log_likelihood",
    "rts_smoother",
    "steady_state",
]
