"""Maps: scattered measurements of a field, and what is believed of it everywhere."""

from credo.models.gp.spatial.field import Field as Field
from credo.models.gp.spatial.field import kriging as kriging
from credo.models.gp.spatial.grids import Grid as Grid
from credo.models.gp.spatial.grids import Map as Map
from credo.models.gp.spatial.slopes import Gradient as Gradient
from credo.models.gp.spatial.variograms import Variogram as Variogram
from credo.models.gp.spatial.variograms import empirical_variogram as empirical_variogram
