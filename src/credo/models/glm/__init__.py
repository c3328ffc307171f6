"""Generalized linear models: classes, counts and outliers from a linear predictor."""

from credo.models.glm.belief import GLM
from credo.models.glm.models import (
    Logistic,
    NegativeBinomialRegression,
    OrdinalRegression,
    PoissonRegression,
    Probit,
    Softmax,
    StudentTRegression,
)
from credo.models.glm.newton import Rows
from credo.models.glm.predictions import WeightLaw

__all__ = [
    "GLM",
    "Logistic",
    "NegativeBinomialRegression",
    "OrdinalRegression",
    "PoissonRegression",
    "Probit",
    "Rows",
    "Softmax",
    "StudentTRegression",
    "WeightLaw",
]
