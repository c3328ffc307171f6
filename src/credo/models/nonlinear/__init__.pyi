"""Hidden states that move and show themselves through non-linear functions: three ways to follow them."""

from credo.models.nonlinear.belief import StateSpaceModel as StateSpaceModel
from credo.models.nonlinear.gaussian_filters import Extended as Extended
from credo.models.nonlinear.gaussian_filters import Unscented as Unscented
from credo.models.nonlinear.laws import Cloud as Cloud
from credo.models.nonlinear.laws import ParticleFiltered as ParticleFiltered
from credo.models.nonlinear.particle import Particles as Particles
