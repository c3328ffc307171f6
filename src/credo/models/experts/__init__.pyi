"""Mixtures of experts: several regressions, and a gate that says where each is to be asked."""

from credo.models.experts.belief import Experts as Experts
from credo.models.experts.generalized import GeneralizedRegression as GeneralizedRegression
