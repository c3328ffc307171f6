"""Hidden states that move and show themselves through non-linear functions: three ways to follow them."""

from credo.models.nonlinear.belief import StateSpaceModel
from credo.models.nonlinear.gaussian_filters import Extended, Unscented
from credo.models.nonlinear.laws import Cloud, ParticleFiltered
from credo.models.nonlinear.particle import Particles

__all__ = ["Cloud", "Extended", "ParticleFiltered", "Particles", "StateSpaceModel", "Unscented"]
