"""A kernel read as a sum of products: Σ s² k₁k₂…, whatever brackets it was written with."""

from collections.abc import Sequence
from functools import reduce
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from credo.core.arrays import Array, as_float
from credo.kernels.algebra import Power, Product, Scaled, Sum
from credo.kernels.base import Kernel
from credo.kernels.inputs import OnColumns


class Term(NamedTuple):
    """s² k₁k₂…"""

    amplitude: Float[Array, ""]
    factors: tuple[Kernel, ...]
    """Without amplitudes, each of all columns or `OnColumns`."""

    @property
    def kernel(self) -> Kernel:
        """The term as one kernel."""
        amplitude = as_float(self.amplitude)
        return self.factors[0].scaled(amplitude) if len(self.factors) == 1 else Product(self.factors, amplitude)


def terms_of(kernel: Kernel, powers: bool = False) -> list[Term]:
    """The kernel as a sum of products of elementary ones: (a + b) × c is a × c + b × c; `powers` multiplies out k^p."""

    def of(part: Kernel) -> list[Term]:
        if isinstance(part, Sum):
            return [term for each in part.parts for term in of(each)]
        if isinstance(part, Scaled):
            return _times([Term(part.variance, ())], of(part.kernel))
        if isinstance(part, OnColumns):
            return [Term(a, tuple(OnColumns(k, part.columns) for k in factors)) for a, factors in of(part.kernel)]
        if isinstance(part, Product):
            return reduce(_times, [of(k) for k in part.factors], [Term(part.amplitude(), ())])
        if isinstance(part, Power) and powers:
            return reduce(_times, [of(part.kernel)] * part.exponent)
        amplitude, bare = part.split_variance()
        return [Term(np.ones(()) if amplitude is None or isinstance(amplitude, tuple) else amplitude, (bare,))]

    return of(kernel)


def _times(left: Sequence[Term], right: Sequence[Term]) -> list[Term]:
    return [Term(a * b, (*f, *g)) for a, f in left for b, g in right]


def placed(factor: Kernel) -> tuple[Kernel, tuple[int, ...] | None]:
    """A factor and its columns, None for all of them."""
    return (factor.kernel, factor.columns) if isinstance(factor, OnColumns) else (factor, None)
