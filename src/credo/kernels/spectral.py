"""Bochner's theorem: a stationary kernel is the Fourier transform of a measure of frequencies.

    k(x, z) = s² E[cos(ωᵀ(x - z))] = ∫ S(ω) exp(iωᵀ(x - z)) dω,    S = s² p,    ω angular

`spectral_measure` turns a kernel into its mass s² and the law p, which can be sampled and, where it has one, gives
its density: each kernel knows its own (`Kernel.spectral_measure`).  Rasmussen & Williams (2006), §4.2.1.
"""

from jaxtyping import Float, PRNGKeyArray

from credo.core.arrays import Array
from credo.core.checks import check_table
from credo.core.errors import DataError
from credo.kernels.base import Kernel
from credo.kernels.measures import Spectrum


def spectral_density(kernel: Kernel, frequencies: object) -> Float[Array, " m"]:
    """S(ω) at the rows of a table of angular frequencies: ∫ S(ω) exp(iωᵀτ) dω = k(τ), of total mass s².

    RBF: s² N(ω; 0, M), with M the metric; Matérn: a multivariate t with 2ν degrees of freedom;
    rational quadratic: a normal with a gamma variance.  Rasmussen & Williams (2006), eq. 4.11 and 4.15.
    """
    rows = check_table(frequencies, "frequencies")
    mass, law = spectral_measure(kernel, rows.shape[1])
    return mass * law.density(rows)


def sample_frequencies(key: PRNGKeyArray, kernel: Kernel, m: int, d: int) -> Float[Array, "m d"]:
    """m independent frequencies from S/s², the normalised spectral measure of a kernel of d columns."""
    return spectral_measure(kernel, d)[1].sample(key, m)


def spectral_measure(kernel: Kernel, d: int) -> Spectrum:
    """(s², p): k(x, z) = s² E[cos(ωᵀ(x - z))] with ω ~ p, for a stationary kernel of d columns."""
    if isinstance(d, bool) or d < 1:
        raise DataError(f"a spectral measure needs d, the number of input columns, to be at least 1, found {d!r}")
    return kernel.spectral_measure(d)
