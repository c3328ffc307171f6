"""Structural time series: parts that add like kernels, and forecasts that come apart into them."""

from credo.models.structural.base import Part
from credo.models.structural.belief import Structural
from credo.models.structural.learning import integrated_evidence
from credo.models.structural.parts import AR, Cycle, Level, Regression, Seasonal, Trend

__all__ = ["AR", "Cycle", "Level", "Part", "Regression", "Seasonal", "Structural", "Trend", "integrated_evidence"]
