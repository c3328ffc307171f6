"""Generative classifiers: a density for each class, so that inputs like nothing seen are noticed."""

from credo.models.generative.belief import Generative as Generative
from credo.models.generative.boundary import Boundary as Boundary
from credo.models.generative.boundary import Fisher as Fisher
from credo.models.generative.class_conditional import ClassConditional as ClassConditional
from credo.models.generative.discriminant import Discriminant as Discriminant
from credo.models.generative.naive import NaiveBayes as NaiveBayes
