"""Mixtures: what several beliefs, or several draws from one, predict together."""

from collections.abc import Callable, Sequence
from typing import Any, cast

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jax.scipy import special
from jaxtyping import Array, Float, PRNGKeyArray

from credo.core.arrays import is_traced, put
from credo.core.errors import DataError
from credo.core.predictive.base import (
    Predictive,
    check_levels,
    integrate_on_grid,
    invert_cdf,
    sum_over_counts,
    to_array,
)
from credo.core.predictive.classes import Bernoulli, Categorical
from credo.core.predictive.count_table import count_quantiles
from credo.core.predictive.counts import NegativeBinomial

FEW = 16
"""So many components get a grid of their own for the entropy."""


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
        """-Σₖ wₖ ∫ pₖ log p, each on a grid that suits pₖ; where there are many, -∫ p log p on one grid for all."""
        if self.weights.shape[0] > FEW:
            return self._cross_entropy(None, *_place(self))
        places = [jax.vmap(_place)(part) for part in self.parts]
        center, scale = (jnp.concatenate(values) for values in zip(*places, strict=True))
        components = jnp.arange(self.weights.shape[0])
        return self._average(jax.lax.map(lambda k: self._cross_entropy(k, center[k], scale[k]), components))

    def _cross_entropy(self, k: Array | None, center: Array, scale: Array) -> Array:
        """-∫ pₖ log p, or -∫ p log p where k is None; `center` and `scale` say where pₖ lies."""

        def integrand(y: Array) -> Array:
            each = self._each(lambda p: p.log_prob(y))
            weights = self.weights.reshape(-1, *[1] * (each.ndim - 1))
            log_p = special.logsumexp(each, axis=0, b=weights)
            density = jnp.exp(log_p if k is None else each[k])
            return -jnp.where(density > 0, density * log_p, 0.0)

        return (sum_over_counts if self.discrete else integrate_on_grid)(integrand, center, scale)

    def quantile(self, q: Any) -> Array:
        """The smallest y with P(Y ≤ y) ≥ q; for k levels q the result has k rows."""
        part = self.parts[0]
        if (
            len(self.parts) == 1
            and isinstance(part, NegativeBinomial)
            and part.rate.ndim == 2
            and not is_traced(self, q)
        ):
            levels = np.asarray(check_levels(q, "q"))
            r, b, weights = (np.asarray(v) for v in (part.shape_, part.rate / part.exposure, self.weights))
            found = count_quantiles(weights, np.broadcast_to(r, b.shape), b, np.atleast_1d(levels))
            if found is not None:
                return put(found if levels.ndim else found[0])
        return super().quantile(q)

    def _quantile(self, q: Array) -> Array:
        # The quantile of a mixture lies between the smallest and the largest of its components'.
        each = self._each(lambda p: p._quantile(q))
        low, high = jnp.min(each, axis=0), jnp.max(each, axis=0)
        if self.discrete:
            return invert_cdf(self.cdf, q - 1e-12, low - 1.0, high, discrete=True)
        return invert_cdf(self.cdf, q, low, high)

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


def _place(prediction: Predictive) -> tuple[Array, Array]:
    """Where a prediction lies and how wide it is: median and half the distance of the quartiles, or mean and std."""
    if prediction.discrete:
        return prediction.mean, prediction.std
    quarter, median, three_quarters = jax.vmap(prediction._quantile)(jnp.asarray([0.25, 0.5, 0.75]))
    return median, (three_quarters - quarter) / 2


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
    groups: dict[Any, list[tuple[Array, Predictive]]] = {}
    for i, component in enumerate(components):
        for shares, part in _stacks(component):
            groups.setdefault(jax.tree.structure(part), []).append((w[i] * shares, part))
    parts = tuple(
        jax.tree.map(lambda *leaves: jnp.concatenate(leaves), *[part for _, part in members])
        for members in groups.values()
    )
    return Mixture(jnp.concatenate([shares for members in groups.values() for shares, _ in members]), parts)


def _stacks(prediction: Predictive) -> list[tuple[Float[Array, " k"], Predictive]]:
    """A prediction as weighted stacks of components: one of one, or those of a mixture."""
    if not isinstance(prediction, Mixture):
        return [(jnp.ones(1), jax.tree.map(lambda leaf: jnp.asarray(leaf)[None], prediction))]
    sizes = [jax.tree.leaves(part)[0].shape[0] for part in prediction.parts]
    ends = np.cumsum(sizes)
    return [(prediction.weights[end - k : end], p) for k, end, p in zip(sizes, ends, prediction.parts, strict=True)]
