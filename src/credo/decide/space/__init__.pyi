"""The space of an experiment: parameters, when they exist, and which combinations are allowed."""

from credo.decide.space.choices import Boolean as Boolean
from credo.decide.space.choices import Categorical as Categorical
from credo.decide.space.choices import Ordinal as Ordinal
from credo.decide.space.constraints import Check as Check
from credo.decide.space.constraints import Constraint as Constraint
from credo.decide.space.constraints import LinearConstraint as LinearConstraint
from credo.decide.space.parameters import Integer as Integer
from credo.decide.space.parameters import Parameter as Parameter
from credo.decide.space.parameters import Real as Real
from credo.decide.space.space import Space as Space
