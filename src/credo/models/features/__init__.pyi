"""Basis expansions for linear models: what a straight line in φ(x) can bend to."""

from credo.models.features.base import Features as Features
from credo.models.features.compose import Chosen as Chosen
from credo.models.features.compose import Composed as Composed
from credo.models.features.compose import Concatenate as Concatenate
from credo.models.features.compose import Custom as Custom
from credo.models.features.compose import OfKernel as OfKernel
from credo.models.features.compose import OnColumns as OnColumns
from credo.models.features.compose import Product as Product
from credo.models.features.compose import Tensor as Tensor
from credo.models.features.fourier import Fourier as Fourier
from credo.models.features.local import BSpline as BSpline
from credo.models.features.local import Bumps as Bumps
from credo.models.features.polynomial import InterceptOnly as InterceptOnly
from credo.models.features.polynomial import Polynomial as Polynomial
from credo.models.features.scaling import Affine as Affine
from credo.models.features.scaling import Standardize as Standardize
from credo.models.features.wavelets import Daubechies as Daubechies
from credo.models.features.wavelets import Haar as Haar
