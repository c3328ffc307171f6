"""Kernels: what is believed about a function before it is seen."""

from credo.kernels.algebra import Exponentiated, PolynomialOf, Power, Product, Scaled, Sum
from credo.kernels.base import Kernel, Scales
from credo.kernels.check import check_kernel
from credo.kernels.elementary import Constant, Custom, White
from credo.kernels.inputs import OnColumns, Warped
from credo.kernels.stationary import (
    RBF,
    Exponential,
    Matern12,
    Matern32,
    Matern52,
    Metric,
    RationalQuadratic,
    Stationary,
)

__all__ = [
    "RBF",
    "Constant",
    "Custom",
    "Exponential",
    "Exponentiated",
    "Kernel",
    "Matern12",
    "Matern32",
    "Matern52",
    "Metric",
    "OnColumns",
    "PolynomialOf",
    "Power",
    "Product",
    "RationalQuadratic",
    "Scaled",
    "Scales",
    "Stationary",
    "Sum",
    "Warped",
    "White",
    "check_kernel",
]
