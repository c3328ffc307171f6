"""Hyperparameters integrated over: weighted points on their posterior density, by a grid, quadrature or draws."""

from credo.infer.hyper.grid import HyperGrid
from credo.infer.hyper.laplace import laplace_evidence
from credo.infer.hyper.quadrature import HyperQuadrature
from credo.infer.hyper.target import HyperDensity, hyper_target, hyperparameters

Grid, Quadrature = HyperGrid, HyperQuadrature

__all__ = [
    "Grid",
    "HyperDensity",
    "HyperGrid",
    "HyperQuadrature",
    "Quadrature",
    "hyper_target",
    "hyperparameters",
    "laplace_evidence",
]
