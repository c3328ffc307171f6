"""Laws of frequencies: the probability measures that Bochner's theorem pairs with stationary kernels.

Every law is symmetric about zero and scaled so that the kernel it belongs to is E[cos(ωᵀτ)], which is one at τ = 0.
The rules of the algebra: a sum of kernels is a mixture of laws, a product a sum of independent frequencies.
"""

from abc import abstractmethod
from typing import Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
from jax.scipy.special import gammaln
from jaxtyping import Float, PRNGKeyArray

from credo.core.arrays import Array
from credo.core.errors import DataError
from credo.core.linalg import cholesky, log_determinant, quadratic
from credo.core.special import log_rising

NORMAL_SPREAD = 0.5
DECREASING_SPREAD = 9 / 16
NODES = 256
DEPTH = 50.0


Mixing = Literal["normal", "student", "gamma"]
"""The law of the scale of normal frequencies; see `Elliptical`."""


class Measure(eqx.Module):
    """The law of a random frequency ω with d columns."""

    @abstractmethod
    def sample(self, key: PRNGKeyArray, m: int) -> Float[Array, "m d"]:
        """m independent frequencies."""

    @abstractmethod
    def second_moment(self) -> Float[Array, ""]:
        """E‖ω‖², minus the trace of the Hessian of E[cos(ωᵀτ)] at zero."""

    def density(self, frequencies: Float[Array, "m d"]) -> Float[Array, " m"]:
        """p(ω) at each row."""
        raise DataError(self._without("density", "sample its frequencies instead"))

    def sample_orthogonal(self, key: PRNGKeyArray, m: int) -> Float[Array, "m d"]:
        """m frequencies, each from this law, orthogonal in blocks of d where the law is a stretched sphere."""
        raise DataError(self._without("orthogonal frequencies", "use orthogonal=False"))

    def spread(self) -> float:
        """A bound on the variance of cos(ωᵀτ) over all τ: ½ + ½κ(2τ) - κ(τ)² with κ the kernel of this law."""
        return 1.0

    def _without(self, what: str, remedy: str) -> str:
        return f"the law of frequencies of this kernel ({type(self).__name__}) has no {what}; {remedy}"


Spectrum = tuple[Float[Array, ""], Measure]
"""The mass s² and the law of the frequencies."""


class Zero(Measure):
    """ω = 0: the constant kernel."""

    d: int = eqx.field(static=True)

    def sample(self, key: PRNGKeyArray, m: int) -> Float[Array, "m d"]:
        """Zeros."""
        return jnp.zeros((m, self.d))

    def second_moment(self) -> Float[Array, ""]:
        """Zero."""
        return jnp.zeros(())

    def spread(self) -> float:
        """Zero."""
        return 0.0


class Elliptical(Measure):
    """ω = √g · Lz with z standard normal: the kernels of a distance r² = ‖Lᵀτ‖².

    normal: g = 1, the RBF. student: g = ν/Γ with Γ ~ Gamma(ν, 1), Matérn of smoothness ν. gamma: g = Γ/α with
    Γ ~ Gamma(α, 1), the rational quadratic.
    """

    root: Float[Array, "d d"]
    shape: Float[Array, ""] | None
    law: Mixing = eqx.field(static=True)

    def sample(self, key: PRNGKeyArray, m: int) -> Float[Array, "m d"]:
        """√g · Lz."""
        k_normal, k_scale = jr.split(key)
        return self._scale(k_scale, m)[:, None] * jr.normal(k_normal, (m, len(self.root))) @ self.root.T

    def sample_orthogonal(self, key: PRNGKeyArray, m: int) -> Float[Array, "m d"]:
        """√g · χ_d · Lq with q the rows of random orthogonal matrices.  Yu et al. (2016), §3."""
        k_normal, k_scale, k_turn = jr.split(key, 3)
        d = len(self.root)
        directions = jr.orthogonal(k_turn, d, (-(-m // d),)).reshape(-1, d)[:m]
        lengths = jnp.linalg.norm(jr.normal(k_normal, (m, d)), axis=1)
        return (self._scale(k_scale, m) * lengths)[:, None] * directions @ self.root.T

    def _scale(self, key: PRNGKeyArray, m: int) -> Float[Array, " m"]:
        """√g."""
        if self.shape is None:
            return jnp.ones(m)
        log_ratio = jr.loggamma(key, self.shape, (m,)) - jnp.log(self.shape)
        return jnp.exp(0.5 * log_ratio if self.law == "gamma" else -0.5 * log_ratio)

    def second_moment(self) -> Float[Array, ""]:
        """E[g] tr LLᵀ, infinite for Matérn with ν ≤ 1."""
        total = jnp.square(self.root).sum()
        if self.law == "student" and self.shape is not None:
            safe = jnp.maximum(self.shape - 1.0, 1e-300)
            return jnp.where(self.shape > 1.0, total * self.shape / safe, jnp.inf)
        return total

    def density(self, frequencies: Float[Array, "m d"]) -> Float[Array, " m"]:
        """p(ω) = E_g N(ω; 0, g LLᵀ)."""
        squared = quadratic(self.root, frequencies.T)
        d = len(self.root)
        constant = -0.5 * d * jnp.log(2 * jnp.pi) - 0.5 * log_determinant(self.root)
        if self.shape is None:
            return jnp.exp(constant - 0.5 * squared)
        if self.law == "student":
            rising = log_rising(self.shape, jnp.asarray(0.5 * d)) - 0.5 * d * jnp.log(self.shape)
            return jnp.exp(constant + rising - (self.shape + 0.5 * d) * jnp.log1p(0.5 * squared / self.shape))
        return jnp.exp(constant + _log_gamma_mixture(self.shape, d, squared))

    def spread(self) -> float:
        """½ for the RBF, where κ(2τ) = κ(τ)⁴; else κ(2τ) ≤ κ(τ) gives 9/16."""
        return NORMAL_SPREAD if self.law == "normal" else DECREASING_SPREAD


class SignedNormal(Measure):
    """ω_k = ±μ_k + σ_k z_k with independent signs: a component of a spectral mixture."""

    center: Float[Array, " d"]
    deviation: Float[Array, " d"]

    def sample(self, key: PRNGKeyArray, m: int) -> Float[Array, "m d"]:
        """±μ + σz."""
        k_sign, k_normal = jr.split(key)
        shape = (m, len(self.center))
        return jr.rademacher(k_sign, shape, float) * self.center + self.deviation * jr.normal(k_normal, shape)

    def second_moment(self) -> Float[Array, ""]:
        """‖μ‖² + ‖σ‖²."""
        return jnp.square(self.center).sum() + jnp.square(self.deviation).sum()

    def density(self, frequencies: Float[Array, "m d"]) -> Float[Array, " m"]:
        """Π_k ½[N(ω_k; μ_k, σ_k²) + N(ω_k; -μ_k, σ_k²)]."""
        near, far = (jnp.exp(-0.5 * jnp.square((frequencies - s * self.center) / self.deviation)) for s in (1.0, -1.0))
        return (0.5 * (near + far) / (jnp.sqrt(2 * jnp.pi) * self.deviation)).prod(1)


class Pair(Measure):
    """ω = ±a: the cosine kernel cos(aᵀτ)."""

    atom: Float[Array, " d"]

    def sample(self, key: PRNGKeyArray, m: int) -> Float[Array, "m d"]:
        """±a."""
        return jr.rademacher(key, (m, 1), float) * self.atom

    def second_moment(self) -> Float[Array, ""]:
        """‖a‖²."""
        return jnp.square(self.atom).sum()


class Harmonics(Measure):
    """ω_k = j_k · 2π/p_k with j_k whole: exp(-λ_k(1 - cos(2πτ_k/p_k))), the periodic kernel with λ = ℓ⁻².

    The weight of j is e^-λ I_j(λ), Skellam's law: the difference of two Poisson numbers with means λ/2.
    Skellam (1946), "The frequency distribution of the difference between two Poisson variates".
    """

    base: Float[Array, " d"]
    rate: Float[Array, " d"]

    def sample(self, key: PRNGKeyArray, m: int) -> Float[Array, "m d"]:
        """2πj/p."""
        up, down = (jr.poisson(k, 0.5 * self.rate, (m, len(self.rate))) for k in jr.split(key))
        return (up - down).astype(float) * self.base

    def second_moment(self) -> Float[Array, ""]:
        """Σ_k λ_k (2π/p_k)²."""
        return (self.rate * jnp.square(self.base)).sum()


class Mixture(Measure):
    """One of several laws, with probabilities in proportion to the weights: a sum of kernels."""

    weights: Float[Array, " c"]
    parts: tuple[Measure, ...]

    def sample(self, key: PRNGKeyArray, m: int) -> Float[Array, "m d"]:
        """Each row from a law drawn for it."""
        k_which, *keys = jr.split(key, len(self.parts) + 1)
        which = jr.categorical(k_which, jnp.log(self.weights), shape=(m,))
        draws = jnp.stack([part.sample(k, m) for part, k in zip(self.parts, keys, strict=True)])
        return draws[which, jnp.arange(m)]

    def second_moment(self) -> Float[Array, ""]:
        """The weighted mean."""
        return self._mean([part.second_moment() for part in self.parts])

    def density(self, frequencies: Float[Array, "m d"]) -> Float[Array, " m"]:
        """The weighted mean."""
        return self._mean([part.density(frequencies) for part in self.parts])

    def spread(self) -> float:
        """κ(2τ) ≤ κ(τ) where every part is so."""
        return max(DECREASING_SPREAD, *(part.spread() for part in self.parts))

    def _mean(self, values: list[Array]) -> Array:
        return jnp.tensordot(self.weights / self.weights.sum(), jnp.stack(values), 1)


class Convolution(Measure):
    """A sum of independent frequencies: a product of kernels."""

    parts: tuple[Measure, ...]

    def sample(self, key: PRNGKeyArray, m: int) -> Float[Array, "m d"]:
        """Σ ω_i."""
        keys = jr.split(key, len(self.parts))
        return jnp.stack([part.sample(k, m) for part, k in zip(self.parts, keys, strict=True)]).sum(0)

    def second_moment(self) -> Float[Array, ""]:
        """Σ E‖ω_i‖²: the frequencies have mean zero."""
        return jnp.stack([part.second_moment() for part in self.parts]).sum()

    def density(self, frequencies: Float[Array, "m d"]) -> Float[Array, " m"]:
        """Where it is simple: of normal laws, and of laws on columns of their own."""
        columns = [c for part in self.parts if isinstance(part, Placed) for c in part.columns]
        if all(isinstance(p, Placed) for p in self.parts) and sorted(columns) == list(range(frequencies.shape[1])):
            cut = [p for p in self.parts if isinstance(p, Placed)]
            return jnp.stack([p.part.density(frequencies[:, jnp.asarray(p.columns)]) for p in cut]).prod(0)
        normal = [p for p in self.parts if isinstance(p, Elliptical) and p.law == "normal"]
        if len(normal) == len(self.parts):
            total = jnp.stack([p.root @ p.root.T for p in normal]).sum(0)
            return Elliptical(cholesky(total, "the metric of the product"), None, "normal").density(frequencies)
        return super().density(frequencies)

    def spread(self) -> float:
        """That of the worst factor: a product of Gaussians is one, of decreasing functions decreasing."""
        return max(part.spread() for part in self.parts)


class Repeated(Measure):
    """A sum of J independent frequencies of one law, P(J = i) in proportion to weight i: a series in a kernel."""

    part: Measure
    weights: Float[Array, " c"]

    def sample(self, key: PRNGKeyArray, m: int) -> Float[Array, "m d"]:
        """The first J of as many as may be needed, added."""
        k_count, k_steps = jr.split(key)
        most = len(self.weights) - 1
        count = jr.categorical(k_count, jnp.log(self.weights), shape=(m,))
        steps = jax.vmap(lambda k: self.part.sample(k, m))(jr.split(k_steps, most))
        taken = jnp.arange(most)[:, None] < count
        return jnp.where(taken[:, :, None], steps, 0.0).sum(0)

    def second_moment(self) -> Float[Array, ""]:
        """E[J] E‖ω‖²."""
        mean = (self.weights * jnp.arange(len(self.weights))).sum() / self.weights.sum()
        return mean * self.part.second_moment()

    def spread(self) -> float:
        """κ(2τ) ≤ κ(τ) where the part is so."""
        return max(DECREASING_SPREAD, self.part.spread())


class Placed(Measure):
    """A law on some of d columns, zero on the others."""

    part: Measure
    columns: tuple[int, ...] = eqx.field(static=True)
    d: int = eqx.field(static=True)

    def sample(self, key: PRNGKeyArray, m: int) -> Float[Array, "m d"]:
        """Zeros around."""
        return self._place(self.part.sample(key, m))

    def sample_orthogonal(self, key: PRNGKeyArray, m: int) -> Float[Array, "m d"]:
        """Zeros around."""
        return self._place(self.part.sample_orthogonal(key, m))

    def _place(self, frequencies: Float[Array, "m q"]) -> Float[Array, "m d"]:
        return jnp.zeros((len(frequencies), self.d)).at[:, jnp.asarray(self.columns)].set(frequencies)

    def second_moment(self) -> Float[Array, ""]:
        """That of the part."""
        return self.part.second_moment()

    def density(self, frequencies: Float[Array, "m d"]) -> Float[Array, " m"]:
        """That of the part, where it sees all columns."""
        if len(self.columns) < self.d:
            return super().density(frequencies)
        return self.part.density(frequencies[:, jnp.asarray(self.columns)])

    def spread(self) -> float:
        """That of the part."""
        return self.part.spread()


def mixture(parts: list[Spectrum]) -> Spectrum:
    """That of a sum of kernels."""
    masses = jnp.stack([mass for mass, _ in parts])
    return masses.sum(), Mixture(masses, tuple(law for _, law in parts))


def convolution(parts: list[Spectrum]) -> Spectrum:
    """That of a product of kernels."""
    masses = jnp.stack([mass for mass, _ in parts])
    laws = [one for _, law in parts for one in (law.parts if isinstance(law, Convolution) else (law,))]
    moving = tuple(law for law in laws if not isinstance(law, Zero)) or (laws[0],)
    return masses.prod(), moving[0] if len(moving) == 1 else Convolution(moving)


def series(base: Spectrum, coefficients: list[Array], d: int) -> Spectrum:
    """That of Σᵢ cᵢ kⁱ."""
    mass, law = base
    weights = jnp.stack([c * mass**i for i, c in enumerate(coefficients)])
    return weights.sum(), Zero(d) if len(coefficients) == 1 else Repeated(law, weights)


@eqx.filter_jit
def _log_gamma_mixture(alpha: Float[Array, ""], d: int, squared: Float[Array, " m"]) -> Float[Array, " m"]:
    """log E[g^{-d/2} exp(-s/2g)] for g = Γ/α, Γ ~ Gamma(α, 1): a modified Bessel function of order α - d/2.

    The integrand in t = log g is exp of a concave function and analytic in a strip, so the trapezoid rule between
    the points where it has fallen by e⁻⁵⁰ converges geometrically; it is infinite at s = 0 if α ≤ d/2.
    """
    order = alpha - 0.5 * d
    safe = jnp.where(squared > 0, squared, 1.0)

    def log_integrand(t: Array) -> Array:
        return order * t - alpha * jnp.exp(t) - 0.5 * safe * jnp.exp(-t)

    half = jnp.sqrt(jnp.square(order) + 2 * alpha * safe)
    # (order + half)/2α without cancellation where the order is negative.
    peak = jnp.log(jnp.where(order > 0, (order + half) / (2 * alpha), safe / (half - jnp.minimum(order, 0.0))))
    floor = log_integrand(peak) - DEPTH

    def edge(sign: float) -> Array:
        def halve(_: Array, bracket: tuple[Array, Array]) -> tuple[Array, Array]:
            near, far = bracket
            middle = 0.5 * (near + far)
            inside = log_integrand(peak + sign * middle) > floor
            return jnp.where(inside, middle, near), jnp.where(inside, far, middle)

        start = (jnp.zeros_like(peak), jnp.full_like(peak, 700.0))
        return jax.lax.stop_gradient(peak + sign * jax.lax.fori_loop(0, 50, halve, start)[1])

    low, high = edge(-1.0), edge(1.0)
    step = (high - low) / NODES

    def add(i: Array, total: Array) -> Array:
        return total + jnp.exp(log_integrand(low + step * i) - floor - DEPTH)

    total = floor + DEPTH + jnp.log(step * jax.lax.fori_loop(0, NODES + 1, add, jnp.zeros_like(peak)))
    constant = alpha * jnp.log(alpha) - gammaln(alpha)
    at_zero = jnp.where(order > 0, gammaln(jnp.where(order > 0, order, 1.0)) - order * jnp.log(alpha), jnp.inf)
    return constant + jnp.where(squared > 0, total, at_zero)
