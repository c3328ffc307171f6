"""Special functions that JAX lacks or has with too few digits (`jax.scipy.special.betaln` is good to 1e-6 only)."""

import jax
import numpy as np

from credo.core.arrays import Array, namespace, special

SHIFT = 8
NEWTON = 30
"""Steps to a quantile of a gamma law, which far out in the upper tail approach it slowly."""
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


def gamma_quantile(a: Array, u: Array) -> Array:
    """x with P(Gamma(a) ≤ x) = u, to some ten digits: Newton's steps in log x from Wilson & Hilferty's (1931) cube.

    JAX has no such function, and its gamma draws are others than NumPy's.
    """
    xp, functions = namespace(a, u), special(a, u)
    if xp is np:
        return np.maximum(functions.gammaincinv(a, u), np.finfo(float).tiny)
    cube = 1 - 1 / (9 * a) + functions.ndtri(u) / (3 * xp.sqrt(a))
    small = (xp.log(u) + functions.gammaln(a + 1)) / a
    log_x = xp.where((cube > 0.1) & (a > 0.5), xp.log(a) + 3 * xp.log(xp.maximum(cube, 0.1)), xp.minimum(small, 3.0))
    log_x, a, u = xp.broadcast_arrays(log_x, a, u)

    def closer(_: object, log_x: Array) -> Array:
        x = xp.exp(log_x)
        slope = xp.exp(a * log_x - x - functions.gammaln(a))
        step = (functions.gammainc(a, x) - u) / xp.maximum(slope, 1e-300)
        return log_x - xp.clip(step, -1.0, 1.0)

    return xp.exp(jax.lax.fori_loop(0, NEWTON, closer, log_x))


def softplus(x: Array) -> Array:
    """log(1 + eˣ)."""
    return namespace(x).logaddexp(x, 0.0)


def _stirling_rest(z: Array) -> Array:
    """c(z) = 1/12z - 1/360z³ + 1/1260z⁵ - …, to 1e-14 for z ≥ 8."""
    w = 1 / z**2
    return (1 / 12 - w * (1 / 360 - w * (1 / 1260 - w * (1 / 1680 - w * (1 / 1188 - w * 691 / 360360))))) / z
