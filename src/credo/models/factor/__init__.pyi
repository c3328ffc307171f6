"""Factor analysis: many columns explained by a few hidden factors."""

from credo.models.factor.belief import PPCA as PPCA
from credo.models.factor.belief import FactorAnalysis as FactorAnalysis
from credo.models.factor.belief import FactorModel as FactorModel
from credo.models.factor.loadings import Loadings as Loadings
from credo.models.factor.selection import HowMany as HowMany
from credo.models.factor.selection import how_many as how_many
