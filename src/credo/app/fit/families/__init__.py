"""The kinds of models that a table is tried with; a new one is a class here and a member of `FAMILIES`."""

from credo.app.fit.families.base import Candidate, Family
from credo.app.fit.families.generative import GenerativeModels
from credo.app.fit.families.glm import ClassModels, CountModels
from credo.app.fit.families.gp import GaussianProcesses
from credo.app.fit.families.latent import LatentProcesses
from credo.app.fit.families.linear import LinearModels
from credo.app.fit.families.neural import NeuralNetworks

FAMILIES: tuple[Family, ...] = (
    LinearModels(),
    GaussianProcesses(),
    ClassModels(),
    CountModels(),
    GenerativeModels(),
    LatentProcesses(),
    NeuralNetworks(),
)

__all__ = [
    "FAMILIES",
    "Candidate",
    "ClassModels",
    "CountModels",
    "Family",
    "GaussianProcesses",
    "GenerativeModels",
    "LatentProcesses",
    "LinearModels",
    "NeuralNetworks",
]
