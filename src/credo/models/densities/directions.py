"""Angles: the von Mises distribution, its functions, and the mixture over states that predicts one.

p(θ | μ, κ) = exp(κ cos(θ - μ)) / (2π I₀(κ)), with the mean resultant length A(κ) = I₁(κ)/I₀(κ).
Mardia & Jupp (2000), "Directional statistics", section 3.5.4.
"""

from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Float, PRNGKeyArray

from credo.core.arrays import Array, Numeric, as_float, namespace, special
from credo.core.loops import invert_cdf, over_nodes
from credo.core.predictive.base import Index, Predictive, as_index
from credo.core.scan import Counter, repeat
from credo.core.special import LOG_2PI

LEAST, MOST = 1e-8, 1e7
"""κ stays between: below, every direction is equally likely; above, directions differ by less than 0.02 degrees."""
TERMS = 60
NEARLY_NORMAL = 50.0
NODES = 1024


def log_i0(kappa: Array) -> Array:
    """log I₀(κ), without overflow."""
    return namespace(kappa).log(special(kappa).i0e(kappa)) + kappa


def log_density(angle: Array, mean: Array, kappa: Array) -> Array:
    """κ (cos(θ - μ) - 1) - log 2π e^(-κ) I₀(κ): nothing large is subtracted."""
    xp = namespace(angle, mean, kappa)
    return -2 * kappa * xp.sin(0.5 * (angle - mean)) ** 2 - LOG_2PI - xp.log(special(kappa).i0e(kappa))


def resultant(kappa: Array) -> Array:
    """A(κ) = I₁(κ)/I₀(κ)."""
    return special(kappa).i1e(kappa) / special(kappa).i0e(kappa)


def concentration_of(length: Array) -> Array:
    """κ with A(κ) = `length`, between LEAST and MOST.

    Newton's method, A' = 1 - A² - A/κ, from R(2 - R²)/(1 - R²) (Banerjee et al., 2005); A is concave, so steps
    from the left do not overshoot, and those from the right are held.
    """
    xp = namespace(length)
    r = xp.clip(length, 0.0, 1 - 1e-15)
    start = xp.clip(r * (2 - r**2) / (1 - r**2), LEAST, MOST)

    def step(_: Counter, kappa: Array) -> Array:
        a = resultant(kappa)
        slope = xp.maximum(xp.where(kappa < 1e-4, 0.5, 1 - a**2 - a / kappa), 0.25 / (1 + kappa) ** 2)
        return xp.clip(kappa - (a - r) / slope, xp.maximum(0.2 * kappa, LEAST), xp.minimum(5 * kappa, MOST))

    return xp.clip(repeat(40, step, start), LEAST, MOST)


def turned_cdf(angle: Array, kappa: Array) -> Array:
    """∫ from -π to `angle` of the density with μ = 0, going on beyond π: it grows by 1 a turn.

    A Fourier series by backward recurrence of Iⱼ/I₀ for κ < 50, Hill's normal approximation above. Hill (1977).
    """
    xp, by = namespace(angle, kappa), special(angle, kappa)
    small = xp.minimum(kappa, NEARLY_NORMAL)

    def step(i: Counter, state: tuple[Array, Array]) -> tuple[Array, Array]:
        ratio, total = state
        j = TERMS - i
        ratio = 1 / (2 * j / small + ratio)
        return ratio, ratio * (xp.sin(j * angle) / j + total)

    zero = xp.zeros(np.broadcast_shapes(angle.shape, kappa.shape))
    _, series = repeat(TERMS, step, (zero, zero))
    turns = xp.round(angle / (2 * np.pi))
    z = np.sqrt(2 / np.pi) / by.i0e(kappa) * xp.sin(0.5 * (angle - 2 * np.pi * turns))
    exact = 0.5 + angle / (2 * np.pi) + series / np.pi
    return xp.where(kappa < NEARLY_NORMAL, exact, by.ndtr(z) + turns)


def draw_angles(key: PRNGKeyArray, mean: Array, kappa: Array) -> Array:
    """One angle in (-π, π] for each entry."""
    from numpyro.distributions.util import von_mises_centered

    return wrapped(mean + von_mises_centered(key, kappa, kappa.shape))


def wrapped(angle: Array) -> Array:
    """The angle in [-π, π)."""
    return (angle + np.pi) % (2 * np.pi) - np.pi


class Directions(Predictive):
    """p(θ) = Σₖ wₖ VonMises(θ | μₖ, κₖ) at each of m times; the components are the last axis, weights are (m, k).

    `mean` is the mean direction, the argument of Σ wₖA(κₖ)e^(iμₖ), and the doubt is the circular variance,
    1 - |Σ wₖA(κₖ)e^(iμₖ)|, of which Σ wₖ(1 - A(κₖ)) is noise. `cdf` and quantiles count from the direction opposite
    to the mean, so that intervals lie around it.
    """

    elementwise: ClassVar[bool] = False

    weights: Float[Array, "..."] = eqx.field(converter=as_float)
    location: Float[Array, "*m k"] = eqx.field(converter=as_float)
    concentration: Float[Array, "*m k"] = eqx.field(converter=as_float)

    def _shared(self, weights: Array) -> Array:
        """Weights (m, k) with an axis for the columns (m, d, k): the same for every column of a row."""
        return weights.reshape(*weights.shape[:-1], *[1] * (self.location.ndim - weights.ndim), weights.shape[-1])

    def _average(self, values: Array) -> Array:
        return (self._shared(self.weights) * values).sum(axis=-1)

    @property
    def _resultant(self) -> tuple[Array, Array]:
        xp, length = namespace(self), resultant(self.concentration)
        return self._average(length * xp.cos(self.location)), self._average(length * xp.sin(self.location))

    @property
    def mean(self) -> Array:
        """The mean direction in (-π, π]."""
        c, s = self._resultant
        return namespace(c).arctan2(s, c)

    @property
    def aleatoric(self) -> Array:
        """Σ wₖ (1 - A(κₖ))."""
        return self._average(1 - resultant(self.concentration))

    @property
    def epistemic(self) -> Array:
        """How much shorter the common resultant is than the states' own."""
        return self._average(resultant(self.concentration)) - namespace(self).hypot(*self._resultant)

    def log_prob(self, y: Numeric) -> Array:
        """log Σ wₖ p(θ | μₖ, κₖ), a density on the circle."""
        each = log_density(as_float(y)[..., None], self.location, self.concentration)
        return special(each).logsumexp(each, axis=-1, b=self._shared(self.weights))

    def cdf(self, y: Numeric) -> Array:
        """The probability of the arc from the direction opposite to the mean to θ."""
        return self._cdf_from(self.mean + wrapped(as_float(y) - self.mean))

    def _cdf_from(self, angle: Array) -> Array:
        cut = (self.mean - np.pi)[..., None] - self.location
        to = turned_cdf(angle[..., None] - self.location, self.concentration)
        return self._average(to - turned_cdf(cut, self.concentration))

    def entropy(self) -> Array:
        """-Σₖ wₖ ∫ pₖ log p by the trapezoidal rule on the circle, the nodes drawn together around μₖ."""
        xp, kappa = namespace(self), self.concentration
        t = (np.linspace(-np.pi, np.pi, NODES, endpoint=False) + np.pi / NODES).reshape(-1, *[1] * kappa.ndim)
        narrow = 1 / xp.sqrt(1 + kappa)

        def at(t: Array) -> Array:
            angle = self.location + 2 * xp.arctan(narrow * xp.tan(t / 2))
            slope = narrow / (xp.cos(t / 2) ** 2 + narrow**2 * xp.sin(t / 2) ** 2)
            each = log_density(angle[..., None], self.location[..., None, :], kappa[..., None, :])
            log_p = special(each).logsumexp(each, axis=-1, b=xp.expand_dims(self._shared(self.weights), -2))
            return -xp.exp(log_density(angle, self.location, kappa)) * log_p * slope

        size = kappa.size * kappa.shape[-1]
        return self._average(over_nodes(xp, at, (t,), size).sum(0) * (2 * np.pi / NODES))

    def _quantile(self, q: Array) -> Array:
        return invert_cdf(self._cdf_from, q, self.mean - np.pi, self.mean + np.pi)

    def _draw(self, key: PRNGKeyArray) -> Array:
        k_state, k_angle = jr.split(key)
        chosen = jr.categorical(k_state, jnp.log(self.weights), axis=-1)
        one = self._shared(jax.nn.one_hot(chosen, self.weights.shape[-1]))
        return jnp.sum(one * draw_angles(k_angle, self.location, self.concentration), axis=-1)

    def __getitem__(self, index: Index) -> "Directions":
        """The predictions at some of the times."""
        where, xp = as_index(index, self.shape), namespace(self, index)
        weights = xp.asarray(self.weights)[where[0] if isinstance(where, tuple) else where]
        return Directions(weights, *(xp.asarray(a)[where] for a in (self.location, self.concentration)))
