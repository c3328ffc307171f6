"""Structural time series: parts that add like kernels, and forecasts that come apart into them."""

from credo.models.structural.base import Part as Part
from credo.models.structural.belief import Structural as Structural
from credo.models.structural.learning import integrated_evidence as integrated_evidence
from credo.models.structural.parts import AR as AR
from credo.models.structural.parts import Cycle as Cycle
from credo.models.structural.parts import Level as Level
from credo.models.structural.parts import Regression as Regression
from credo.models.structural.parts import Seasonal as Seasonal
from credo.models.structural.parts import Trend as Trend
