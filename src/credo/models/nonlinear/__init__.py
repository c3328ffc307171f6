"""Hidden states that move and show themselves through non-linear functions: three ways to follow them."""

from credo.models.nonlinear.belief import StateSpaceModel
from credo.models.nonlinear.extended import Extended
from credo.models.nonlinear.laws import Cloud, Filtered, ParticleFiltered, Smoothed
from credo.models.nonlinear.particle import Particles
from credo.models.nonlinear.unscented import Unscented

__all__ = [
    "Cloud",
    "Extended",
    "Filtered",
    "ParticleFiltered",
    "Particles",
    "Smoothed",
    "StateSpaceModel",
    "Unscented",
]
