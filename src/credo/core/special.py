"""Special functions that JAX lacks or has with too few digits (`jax.scipy.special.betaln` is good to 1e-6 only)."""

import numpy as np

from credo.core.arrays import Array, namespace, special

SHIFT = 8
LOG_2PI = float(np.log(2 * np.pi))


def log_rising(a: Array, n: Array) -> Array:
    """log Γ(a + n)/Γ(a) for a > 0 and n ≥ 0, without the cancellation of two log Γ where a is large.

    Γ(a + n)/Γ(a) = Γ(z + n)/Γ(z) · Π_{j<8} (a + j)/(a + n + j) with z = a + 8, and there Stirling's series is
    subtracted term by term: (z - ½) log(1 + n/z) + n log(z + n) - n + c(z + n) - c(z).
    """
    xp = namespace(a, n)
    z = a + SHIFT
    ratio = a / (a + n)
    for j in range(1, SHIFT):
        ratio = ratio * ((a + j) / (a + n + j))
    series = (z - 0.5) * xp.log1p(n / z) + n * xp.log(z + n) - n + _stirling_rest(z + n) - _stirling_rest(z)
    return series + xp.log(ratio)


def log_beta(a: Array, b: Array) -> Array:
    """log B(a, b) = log Γ(a)Γ(b)/Γ(a + b), to full precision however large one of them is."""
    xp = namespace(a, b)
    small, large = xp.minimum(a, b), xp.maximum(a, b)
    return special(small).gammaln(small) - log_rising(large, small)


def log_binomial(n: Array, k: Array) -> Array:
    """log C(n, k) for 0 ≤ k ≤ n."""
    return -namespace(n).log(n + 1) - log_beta(k + 1, n - k + 1)


def softplus(x: Array) -> Array:
    """log(1 + eˣ)."""
    return namespace(x).logaddexp(x, 0.0)


def _stirling_rest(z: Array) -> Array:
    """c(z) = 1/12z - 1/360z³ + 1/1260z⁵ - …, to 1e-14 for z ≥ 8."""
    w = 1 / z**2
    return (1 / 12 - w * (1 / 360 - w * (1 / 1260 - w * (1 / 1680 - w * (1 / 1188 - w * 691 / 360360))))) / z
