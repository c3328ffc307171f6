"""Basis expansions for linear models: what a straight line in φ(x) can bend to.

Choose `Affine` for straight lines, `Polynomial` for gentle curves and interactions, `BSpline` or `Bumps` for
smooth curves of unknown shape, `Fourier` for what repeats, `Haar` or `Daubechies` for jumps and kinks;
combine with `+`, `*`, `.on(...)`, `.keep(...)` and `.after(...)`.
"""

from credo.models.features.base import Features
from credo.models.features.compose import Chosen, Composed, Concatenate, Custom, OnColumns, Product, Tensor
from credo.models.features.fourier import Fourier
from credo.models.features.local import BSpline, Bumps
from credo.models.features.polynomial import Polynomial
from credo.models.features.scaling import Affine, Standardize
from credo.models.features.wavelets import Daubechies, Haar

__all__ = [
    "Affine",
    "BSpline",
    "Bumps",
    "Chosen",
    "Composed",
    "Concatenate",
    "Custom",
    "Daubechies",
    "Features",
    "Fourier",
    "Haar",
    "OnColumns",
    "Polynomial",
    "Product",
    "Standardize",
    "Tensor",
]
