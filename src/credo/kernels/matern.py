"""The Matérn kernel of any smoothness ν, which is learned like any other number.

    κ(r²) = F_ν(b)/Γ(ν),    F_ν(b) = ∫₀^∞ u^{ν-1} exp(-u - b/u) du = 2 b^{ν/2} K_ν(2√b),    b = ν r²/2

a mixture of RBF kernels over a Gamma(ν, 1) distributed u. JAX has no Bessel function K_ν. With ν = μ + n, F_μ and
F_{μ+1} come from Temme's series where b < 1 and from the trapezoid rule for ∫ exp(-z cosh t) cosh(μt) dt elsewhere;
the recurrence F_{ν+1} = ν F_ν + b F_{ν-1}, all of whose terms are positive, leads up to ν.

Rasmussen & Williams (2006), eq. 4.14; Temme (1975), "On the numerical evaluation of the modified Bessel function of
the third kind"; DLMF §10.27-10.32.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import scipy.special
from jax import lax
from jaxtyping import Float

from credo.core.arrays import Array, is_traced
from credo.core.errors import DataError
from credo.core.params import positive
from credo.kernels.base import show
from credo.kernels.stationary import Stationary

ROUGHEST, SMOOTHEST = 0.05, 1000.0
"""The smallest ν with ten digits, and the largest before the number of steps (ν of them) is a waste."""
SERIES_TERMS = 16
NODES = 20
FARTHEST = 1400.0
"""Beyond this √(2ν) r, κ is 0: it is e^-1400."""


class Matern(Stationary):
    """κ = 2^{1-ν}/Γ(ν) z^ν K_ν(z), z = √(2ν) r: functions with ⌈ν⌉ - 1 derivatives, ν = `smoothness` learned.

    ν = 1/2, 3/2, 5/2 are `Exponential`, `Matern32`, `Matern52`, which are much faster; ν → ∞ is `RBF`.
    Rasmussen & Williams (2006), eq. 4.14.
    """

    smoothness: Float[Array, ""] = positive(1.5, low=0.2, high=20.0)
    symbols = (*Stationary.symbols, ("ν", "smoothness"))
    mixing = ("student", "smoothness")
    compiled = True

    def __check_init__(self) -> None:
        nu = self.smoothness
        if not is_traced(nu) and not bool(np.all((np.asarray(nu) >= ROUGHEST) & (np.asarray(nu) <= SMOOTHEST))):
            raise DataError(
                f"the smoothness of Matern must be between {ROUGHEST:g} and {SMOOTHEST:g}, found {show(nu)}; "
                "for smoother functions use RBF"
            )

    def profile(self, squared: Array) -> Array:
        """2^{1-ν}/Γ(ν) z^ν K_ν(z)."""
        return matern(squared, self.smoothness)

    def slope(self, squared: Array) -> Array:
        """-½ ν F_{ν-1}(b)/Γ(ν)."""
        return -0.5 * self.smoothness * _ratios(0.5 * self.smoothness * squared, self.smoothness)[1]


@jax.custom_jvp
def matern(squared: Array, nu: Array) -> Array:
    """κ(r²) for smoothness ν, differentiable in both; where ν ≤ 1 its derivative at r = 0, infinite, is given as 0."""
    return _ratios(0.5 * nu * squared, nu)[0]


@matern.defjvp
def _matern_jvp(primals: tuple[Array, Array], tangents: tuple[Array, Array]) -> tuple[Array, Array]:
    """∂κ/∂b = -F_{ν-1}(b)/Γ(ν); ∂κ/∂ν forward through the computation, so that nothing is kept for each node."""
    (squared, nu), (d_squared, d_nu) = primals, tangents
    b = 0.5 * nu * squared
    (value, slope), (by_nu, _) = jax.jvp(lambda v: _ratios(b, v), (nu,), (jnp.ones_like(nu),))
    return value, -slope * 0.5 * (nu * d_squared + squared * d_nu) + by_nu * d_nu


@jax.jit
def _ratios(b: Array, nu: Array) -> tuple[Array, Array]:
    """F_ν(b)/Γ(ν) = κ and F_{ν-1}(b)/Γ(ν) = -∂κ/∂b.

    One step up: κ ← κ + (b/ν) δ and δ ← κ/ν.
    """
    away = b > 0
    safe = jnp.clip(jnp.where(away, b, 1.0), 0.0, 0.25 * FARTHEST**2)
    steps = lax.stop_gradient(jnp.maximum(jnp.floor(nu + 0.5), 1.0))
    mu = nu - steps  # in (-1, 1/2]
    near, far = _temme(jnp.minimum(safe, 1.0), mu), _trapezoid(jnp.maximum(safe, 1.0), mu)
    lower, upper = (jnp.where(safe < 1.0, a, c) for a, c in zip(near, far, strict=True))
    decay = jnp.exp(-jnp.sqrt(safe))  # e^{-z/2}, half of e^{-z}: the other half waits, so that nothing underflows
    scale = decay * _reciprocal_gamma(mu)

    def step(i: Array, state: tuple[Array, Array]) -> tuple[Array, Array]:
        kappa, delta = state
        return kappa + safe / (mu + i) * delta, kappa / (mu + i)

    kappa, delta = lax.fori_loop(1, steps.astype(int), step, (upper * scale, lower * scale))
    smooth = nu > 1.0
    limit = jnp.where(smooth, 1.0 / jnp.where(smooth, nu - 1.0, 1.0), 0.0)
    return jnp.where(away, kappa * decay, 1.0), jnp.where(away, delta * decay, limit)


def _temme(b: Array, mu: Array) -> tuple[Array, Array]:
    """e^z F_μ(b) and e^z F_{μ+1}(b) for 0 < b ≤ 1, z = 2√b; Temme (1975), with his K_μ multiplied by 2 b^{μ/2}."""
    odd, even = _gamma_parts(mu)
    p, q = 1.0 / (even - mu * odd), 1.0 / (even + mu * odd)  # Γ(1 + μ), Γ(1 - μ)
    log_b = jnp.log(b)
    power = jnp.exp(mu * log_b)
    f = p * q * (odd * (1.0 + power) - even * log_b * _expm1_ratio(mu * log_b))

    def term(k: Array, state: tuple[Array, ...]) -> tuple[Array, ...]:
        f, p, q, c, lower, upper = state
        f = (k * f + p + q) / (k * k - mu * mu)
        p, q, c = p / (k - mu), q / (k + mu), c * b / k
        return f, p, q, c, lower + c * f, upper + c * (p - k * f)

    first = (f, p, q * power, jnp.ones_like(b), f, jnp.broadcast_to(p, b.shape))
    *_, lower, upper = lax.fori_loop(1, SERIES_TERMS, term, first)
    grow = jnp.exp(2.0 * jnp.sqrt(b))
    return grow * lower, grow * upper


def _trapezoid(b: Array, mu: Array) -> tuple[Array, Array]:
    """e^z F_μ(b) and e^z F_{μ+1}(b) for b ≥ 1: F_ν = 2 b^{ν/2} ∫₀^∞ exp(-z cosh t) cosh(νt) dt, z = 2√b.

    The step shrinks with the width of the integrand, 1/√z; hyperbolic cosines of its multiples by recurrence.
    """
    root = lax.stop_gradient(jnp.sqrt(b))
    h = jnp.sqrt(0.5 / (2.0 * root + 7.0))
    z = 2.0 * jnp.sqrt(b)
    twice, low2, high2 = 2.0 * jnp.cosh(h), 2.0 * jnp.cosh(mu * h), 2.0 * jnp.cosh((mu + 1.0) * h)

    def node(_: Array, state: tuple[Array, ...]) -> tuple[Array, ...]:
        c0, c1, l0, l1, u0, u1, lower, upper = state
        weight = jnp.exp(-z * (c1 - 1.0))
        ahead = (c1, twice * c1 - c0, l1, low2 * l1 - l0, u1, high2 * u1 - u0)
        return *ahead, lower + weight * l1, upper + weight * u1

    one = jnp.ones_like(b)
    first = (one, 0.5 * twice, one, 0.5 * low2, one, 0.5 * high2, 0.5 * one, 0.5 * one)
    *_, lower, upper = lax.fori_loop(0, NODES, node, first)
    front = 2.0 * h * jnp.exp(0.5 * mu * jnp.log(b))
    return front * lower, front * 0.5 * z * upper


@functools.cache
def _coefficients() -> tuple[float, ...]:
    """1/Γ(1 + x) = Σ cᵢ xⁱ: (k - 1) aₖ = γ aₖ₋₁ - ζ(2) aₖ₋₂ + ζ(3) aₖ₋₃ - … with cᵢ = aᵢ₊₁; DLMF 5.7.1-5.7.2."""
    a = [1.0]
    for k in range(2, 32):
        signs = [np.euler_gamma, *(-((-1.0) ** j) * scipy.special.zeta(j) for j in range(2, k))]
        a.append(float(sum(s * a[k - 1 - j] for j, s in enumerate(signs, start=1)) / (k - 1)))
    return tuple(a)


def _gamma_parts(mu: Array) -> tuple[Array, Array]:
    """Γ₁ and Γ₂ with 1/Γ(1 ± μ) = Γ₂ ∓ μ Γ₁, for |μ| ≤ 1."""
    c, square = _coefficients(), mu * mu
    odd, even = jnp.zeros_like(mu), jnp.zeros_like(mu)
    for i in reversed(range(0, len(c), 2)):  # Horner
        even = even * square + c[i]
        if i + 1 < len(c):
            odd = odd * square - c[i + 1]
    return odd, even


def _reciprocal_gamma(mu: Array) -> Array:
    """1/Γ(1 + μ)."""
    odd, even = _gamma_parts(mu)
    return even - mu * odd


def _expm1_ratio(y: Array) -> Array:
    """(eʸ - 1)/y, by its series near zero, where the derivative of the ratio loses digits."""
    near = jnp.abs(y) < 0.25
    small, large = jnp.where(near, y, 0.0), jnp.where(near, 1.0, y)
    series = jnp.ones_like(y)
    for k in range(12, 1, -1):
        series = 1.0 + series * small / k
    return jnp.where(near, series, jnp.expm1(large) / large)
