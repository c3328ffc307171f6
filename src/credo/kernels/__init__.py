"""Kernels: what is believed about a function before it is seen."""

from credo.kernels.algebra import Exponentiated, PolynomialOf, Power, Product, Scaled, Sum
from credo.kernels.base import InputScales, Kernel
from credo.kernels.centered import CenteredPeriodic
from credo.kernels.check import check_kernel
from credo.kernels.coregion import Coregionalized
from credo.kernels.derivative import Differentiated, with_gradients
from credo.kernels.discrete import Categorical, SetKernel, Tanimoto
from credo.kernels.dotproduct import Bilinear, Linear, NeuralNetwork, Polynomial
from credo.kernels.elementary import Constant, Custom, White
from credo.kernels.featured import FromFeatures
from credo.kernels.graphs import GraphDiffusion, GraphMatern, Laplacian, WeisfeilerLehman
from credo.kernels.inputs import OfFunction, OnColumns
from credo.kernels.matern import Matern
from credo.kernels.nonstationary import Brownian, ChangePoint, Gibbs
from credo.kernels.periodic import Cosine, LocallyPeriodic, Periodic, SpectralMixture
from credo.kernels.random_features import RandomFeatures, feature_error_probability, features_needed, random_features
from credo.kernels.rkhs import RKHSFunction, kernel_ridge, projection, section
from credo.kernels.spectral import sample_frequencies, spectral_density
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
from credo.kernels.strings import EditDistance, Spectrum, Subsequence
from credo.kernels.tabulated import Tabulated, nearest_psd, tabulate

__all__ = [
    "RBF",
    "Bilinear",
    "Brownian",
    "Categorical",
    "CenteredPeriodic",
    "ChangePoint",
    "Constant",
    "Coregionalized",
    "Cosine",
    "Custom",
    "Differentiated",
    "EditDistance",
    "Exponential",
    "Exponentiated",
    "FromFeatures",
    "Gibbs",
    "GraphDiffusion",
    "GraphMatern",
    "InputScales",
    "Kernel",
    "Laplacian",
    "Linear",
    "LocallyPeriodic",
    "Matern",
    "Matern12",
    "Matern32",
    "Matern52",
    "Metric",
    "NeuralNetwork",
    "OfFunction",
    "OnColumns",
    "Periodic",
    "Polynomial",
    "PolynomialOf",
    "Power",
    "Product",
    "RKHSFunction",
    "RandomFeatures",
    "RationalQuadratic",
    "Scaled",
    "SetKernel",
    "SpectralMixture",
    "Spectrum",
    "Stationary",
    "Subsequence",
    "Sum",
    "Tabulated",
    "Tanimoto",
    "WeisfeilerLehman",
    "White",
    "check_kernel",
    "feature_error_probability",
    "features_needed",
    "kernel_ridge",
    "nearest_psd",
    "projection",
    "random_features",
    "sample_frequencies",
    "section",
    "spectral_density",
    "tabulate",
    "with_gradients",
]
