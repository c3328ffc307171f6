"""Terrain: the ground under a robot from clouds of points, maps of it, and where two maps show the same place."""

from credo.models.gp.terrain.belief import Images as Images
from credo.models.gp.terrain.belief import Terrain as Terrain
from credo.models.gp.terrain.evidence import Roughness as Roughness
from credo.models.gp.terrain.registration import Registration as Registration
from credo.models.gp.terrain.registration import closure_probability as closure_probability
from credo.models.gp.terrain.registration import register as register
from credo.models.gp.terrain.search import Slopes as Slopes
