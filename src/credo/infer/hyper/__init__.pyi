"""Hyperparameters integrated over: weighted points on their posterior density, by a grid, quadrature or draws."""

from credo.infer.hyper.grid import Grid as Grid
from credo.infer.hyper.grid import HyperGrid as HyperGrid
from credo.infer.hyper.importance import HyperImportance as HyperImportance
from credo.infer.hyper.laplace import laplace_evidence as laplace_evidence
from credo.infer.hyper.quadrature import HyperQuadrature as HyperQuadrature
from credo.infer.hyper.quadrature import Quadrature as Quadrature
from credo.infer.hyper.target import HyperDensity as HyperDensity
from credo.infer.hyper.target import hyper_target as hyper_target
from credo.infer.hyper.target import hyperparameters as hyperparameters
