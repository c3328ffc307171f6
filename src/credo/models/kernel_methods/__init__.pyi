"""Kernel methods: neighbours, regression and densities by similarity to the rows seen."""

from credo.models.kernel_methods.density import KernelDensity as KernelDensity
from credo.models.kernel_methods.neighbours import KernelNeighbours as KernelNeighbours
from credo.models.kernel_methods.regression import KernelRegression as KernelRegression
