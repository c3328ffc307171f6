"""Mixtures: what several beliefs, or several draws from one, predict together."""

from collections.abc import Callable, Sequence
from typing import Any, cast

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
from jax.scipy import special
from jaxtyping import Array, Float, PRNGKeyArray

from credo.core.errors import DataError
from credo.core.predictive.base import Predictive, entropy_on_grid, invert_cdf, to_array
from credo.core.predictive.classes import Bernoulli, Categorical


class Mixture(Predictive):
    """p(y) = Σₖ wₖ pₖ(y).

    `parts` are predictions stacked along a leading axis, one stack for each kind; `weights` runs through
    them in order. The disagreement of the components' means is ignorance:

        aleatoric = Σ wₖ aleatoricₖ,   epistemic = Σ wₖ epistemicₖ + Varₖ[meanₖ].
    """

    weights: Float[Array, " k"] = eqx.field(converter=to_array)
    parts: tuple[Predictive, ...]

    def _each(self, ask: Callable[[Predictive], Array]) -> Array:
        """ask(component) for every component, shape (k, …)."""
        return jnp.concatenate([jax.vmap(ask)(part) for part in self.parts])

    def _average(self, values: Array) -> Array:
        return jnp.tensordot(self.weights, values, 1)

    @property
    def discrete(self) -> bool:  # type: ignore[override]
        """Whether outcomes are whole numbers."""
        return all(part.discrete for part in self.parts)

    @property
    def mean(self) -> Array:
        """Σ wₖ meanₖ."""
        return self._average(self._each(lambda p: p.mean))

    @property
    def aleatoric(self) -> Array:
        """Σ wₖ aleatoricₖ."""
        return self._average(self._each(lambda p: p.aleatoric))

    @property
    def epistemic(self) -> Array:
        """Σ wₖ epistemicₖ + Σ wₖ (meanₖ - mean)²."""
        spread = (self._each(lambda p: p.mean) - self.mean) ** 2
        return self._average(self._each(lambda p: p.epistemic) + spread)

    def log_prob(self, y: Any) -> Array:
        """log Σ wₖ pₖ(y)."""
        each = self._each(lambda p: p.log_prob(y))
        weights = self.weights.reshape(-1, *[1] * (each.ndim - 1))
        return special.logsumexp(each, axis=0, b=weights)

    def cdf(self, y: Any) -> Array:
        """Σ wₖ Fₖ(y)."""
        return self._average(self._each(lambda p: p.cdf(y)))

    @eqx.filter_jit
    def entropy(self) -> Array:
        """-∫ p log p on a grid (for counts, a sum)."""
        if self.discrete:
            middle = jnp.round(self.mean)
            steps = jnp.arange(-2048.0, 2049.0)

            def at(step: Array) -> Array:
                log_p = self.log_prob(middle + step)
                return jnp.where(jnp.isfinite(log_p), -jnp.exp(log_p) * log_p, 0.0)

            return jnp.sum(jax.lax.map(at, steps, batch_size=256), axis=0)
        half_width = (self._quantile(jnp.asarray(0.75)) - self._quantile(jnp.asarray(0.25))) / 2
        return entropy_on_grid(self.log_prob, self._quantile(jnp.asarray(0.5)), half_width)

    def _quantile(self, q: Array) -> Array:
        # The quantile of a mixture lies between the smallest and the largest of its components'.
        each = self._each(lambda p: p._quantile(q))
        low, high = jnp.min(each, axis=0), jnp.max(each, axis=0)
        return invert_cdf(self.cdf, q - 1e-12 if self.discrete else q, low - 1.0, high, discrete=self.discrete)

    def _draw(self, key: PRNGKeyArray) -> Array:
        k_choice, k_draw = jr.split(key)
        chosen = jr.choice(k_choice, self.weights.shape[0], p=self.weights)
        # One draw from each stack, of which the chosen component's is kept.
        first, out = 0, jnp.zeros(())
        for part in self.parts:
            k = jax.tree.leaves(part)[0].shape[0]
            member = jax.tree.map(lambda leaf, at=chosen - first: leaf.at[at].get(mode="clip"), part)
            out = jnp.where(chosen >= first, member._draw(k_draw), out)
            first += k
        return out

    def __getitem__(self, index: Any) -> "Mixture":
        """The predictions at some of the queries."""
        return Mixture(self.weights, tuple(jax.vmap(lambda p: p[index])(part) for part in self.parts))


def mixture(weights: Any, components: Sequence[Predictive]) -> Predictive:
    """The mixture of predictions of the same queries: classes mix into classes, all else into a `Mixture`."""
    if len(components) == 0:
        raise DataError("a mixture needs at least one component, found none")
    w = to_array(weights)
    if w.shape != (len(components),):
        raise DataError(f"weights must have one entry per component ({len(components)}), found shape {w.shape}")
    if all(isinstance(c, Categorical) for c in components):
        classes = [cast(Categorical, c) for c in components]
        probs = jnp.stack([c.probs for c in classes])
        return Categorical(jnp.tensordot(w, probs, 1), jnp.tensordot(w, jnp.stack([c.aleatoric for c in classes]), 1))
    if all(isinstance(c, Bernoulli) for c in components):
        binary = [cast(Bernoulli, c) for c in components]
        prob = jnp.stack([c.prob for c in binary])
        return Bernoulli(jnp.tensordot(w, prob, 1), jnp.tensordot(w, jnp.stack([c.aleatoric for c in binary]), 1))
    groups: dict[Any, list[int]] = {}
    for i, component in enumerate(components):
        groups.setdefault(jax.tree.structure(component), []).append(i)
    parts = tuple(
        jax.tree.map(lambda *leaves: jnp.stack(leaves), *[components[i] for i in members])
        for members in groups.values()
    )
    order = jnp.asarray([i for members in groups.values() for i in members])
    return Mixture(w[order], parts)
