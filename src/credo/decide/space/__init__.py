"""The space of an experiment: parameters, when they exist, and which combinations are allowed."""

from credo.decide.space.choices import Boolean, Categorical, Ordinal
from credo.decide.space.constraints import Check, Constraint, LinearConstraint
from credo.decide.space.parameters import Integer, Parameter, Real
from credo.decide.space.space import Space

__all__ = [
    "Boolean",
    "Categorical",
    "Check",
    "Constraint",
    "Integer",
    "LinearConstraint",
    "Ordinal",
    "Parameter",
    "Real",
    "Space",
]
