"""Mixtures: what several beliefs, or several draws from one, predict together."""

from collections.abc import Callable, Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jax.scipy import special
from jaxtyping import Float, PRNGKeyArray

from credo.core.arrays import Array, Numeric, as_float
from credo.core.errors import DataError
from credo.core.predictive.base import (
    Index,
    Predictive,
    integrate_on_grid,
    invert_cdf,
    search_counts,
    sum_over_counts,
    tabled_quantile,
)
from credo.core.predictive.classes import Bernoulli, Categorical

FEW = 16
"""So many components get a grid of their own for the entropy."""


class Mixture(Predictive):
    """p(y) = Σₖ wₖ pₖ(y).

    `parts` are predictions stacked along a leading axis, one stack for each kind; `weights` runs through
    them in order. Weights (k,) are those of beliefs: one draw serves all queries, which are jointly distributed.
    Weights (k, m) change from query to query, as those of hidden states do; outcomes of several columns are a batch
    (m, d), and the columns of a row share a component. The disagreement of the components' means is ignorance:

        aleatoric = Σ wₖ aleatoricₖ,   epistemic = Σ wₖ epistemicₖ + Varₖ[meanₖ].

    Where `within` neighbouring components are one noise of several, the disagreement among them is noise.
    """

    weights: Float[Array, "k *m"] = eqx.field(converter=as_float)
    parts: tuple[Predictive, ...]
    within: int = eqx.field(static=True, default=1)

    def each(self, ask: Callable[[Predictive], Array]) -> Array:
        """ask(component) for every component, shape (k, …)."""
        return jnp.concatenate([jax.vmap(ask)(part) for part in self.parts])

    def shares(self, values: Array) -> Array:
        """The weights with axes for those of values (k, …) that they lack: several outcomes first, columns last."""
        own = self.weights.shape[1:]
        columns = len(self.parts[0].shape) - 1 - len(own) if own else 0
        asked = values.ndim - 1 - len(own) - columns
        return self.weights.reshape(-1, *[1] * asked, *own, *[1] * columns)

    def average(self, values: Array) -> Array:
        """Σₖ wₖ valuesₖ."""
        return jnp.sum(self.shares(values) * values, axis=0)

    @property
    def discrete(self) -> bool:  # type: ignore[override]
        """Whether outcomes are whole numbers."""
        return all(part.discrete for part in self.parts)

    @property
    def mean(self) -> Array:
        """Σ wₖ meanₖ."""
        return self.average(self.each(lambda p: p.mean))

    @property
    def aleatoric(self) -> Array:
        """Σ wₖ aleatoricₖ, and the disagreement among the components of one noise."""
        return self.average(self.each(lambda p: p.aleatoric)) + self._disagreement()[0]

    @property
    def epistemic(self) -> Array:
        """Σ wₖ epistemicₖ + Σ wₖ (meanₖ - mean)²."""
        return self.average(self.each(lambda p: p.epistemic)) + self._disagreement()[1]

    def _disagreement(self) -> tuple[Array, Array]:
        """The variance of the components' means within groups of `within` neighbours, and that of the groups' means."""
        means = self.each(lambda p: p.mean)
        if self.within == 1:
            return jnp.zeros(means.shape[1:]), self.average((means - self.average(means)) ** 2)
        means = means.reshape(-1, self.within, *means.shape[1:])
        weights = self.weights.reshape(-1, self.within, *self.weights.shape[1:])
        weights = weights.reshape(*weights.shape, *[1] * (means.ndim - weights.ndim))
        mass = weights.sum(1)
        center = (weights * means).sum(1) / jnp.where(mass > 0, mass, 1.0)
        inside = jnp.sum(weights * (means - center[:, None]) ** 2, axis=(0, 1))
        return inside, jnp.sum(mass * (center - jnp.sum(mass * center, axis=0)) ** 2, axis=0)

    def log_prob(self, y: Numeric) -> Array:
        """log Σ wₖ pₖ(y)."""
        each = self.each(lambda p: p.log_prob(y))
        return special.logsumexp(each, axis=0, b=self.shares(each))

    def cdf(self, y: Numeric) -> Array:
        """Σ wₖ Fₖ(y)."""
        return self.average(self.each(lambda p: p.cdf(y)))

    @eqx.filter_jit
    def entropy(self) -> Array:
        """-Σₖ wₖ ∫ pₖ log p, each on a grid that suits pₖ; where there are many, -∫ p log p on one grid for all."""
        if self.weights.shape[0] > FEW:
            return self._cross_entropy(None, *_place(self))
        places = [jax.vmap(_place)(part) for part in self.parts]
        center, scale = (jnp.concatenate(values) for values in zip(*places, strict=True))
        components = jnp.arange(self.weights.shape[0])
        return self.average(jax.lax.map(lambda k: self._cross_entropy(k, center[k], scale[k]), components))

    def _cross_entropy(self, k: Array | None, center: Array, scale: Array) -> Array:
        """-∫ pₖ log p, or -∫ p log p where k is None; `center` and `scale` say where pₖ lies."""

        def integrand(y: Array) -> Array:
            each = self.each(lambda p: p.log_prob(y))
            log_p = special.logsumexp(each, axis=0, b=self.shares(each))
            density = jnp.exp(log_p if k is None else each[k])
            return -jnp.where(density > 0, density * log_p, 0.0)

        return (sum_over_counts if self.discrete else integrate_on_grid)(integrand, center, scale)

    def quantile(self, q: Numeric) -> Array:
        """The smallest y with P(Y ≤ y) ≥ q; for k levels q the result has k rows."""
        return tabled_quantile(self, q) if self.discrete else super().quantile(q)

    def _quantile(self, q: Array) -> Array:
        if self.discrete:
            return search_counts(self, q)
        # The quantile of a mixture lies between the smallest and the largest of its components'.
        each = self.each(lambda p: p._quantile(q))
        return invert_cdf(self.cdf, q, jnp.min(each, axis=0), jnp.max(each, axis=0))

    def _draw(self, key: PRNGKeyArray) -> Array:
        k_choice, k_draw = jr.split(key)
        chosen = jr.categorical(k_choice, jnp.log(self.weights), axis=0)
        if chosen.ndim:
            outcomes = self.each(lambda p: p._draw(k_draw))
            chosen = chosen.reshape(1, *chosen.shape, *[1] * (outcomes.ndim - 1 - chosen.ndim))
            return jnp.take_along_axis(outcomes, jnp.broadcast_to(chosen, (1, *outcomes.shape[1:])), axis=0)[0]
        # One draw from each stack, of which the chosen component's is kept.
        first, out = 0, jnp.zeros(())
        for part in self.parts:
            k = jax.tree.leaves(part)[0].shape[0]
            member = jax.tree.map(lambda leaf, at=chosen - first: leaf.at[at].get(mode="clip"), part)
            out = jnp.where(chosen >= first, member._draw(k_draw), out)
            first += k
        return out

    def __getitem__(self, index: Index) -> "Mixture":
        """The predictions at some of the queries."""
        where = jnp.asarray(index) if isinstance(index, list) else index
        rows = where[0] if isinstance(where, tuple) else where
        weights = self.weights if self.weights.ndim == 1 else self.weights[:, rows]
        return Mixture(weights, tuple(jax.vmap(lambda p: p[where])(part) for part in self.parts), self.within)


def _place(prediction: Predictive) -> tuple[Array, Array]:
    """Where a prediction lies and how wide it is: median and half the distance of the quartiles, or mean and std."""
    if prediction.discrete:
        return prediction.mean, prediction.std
    quarter, median, three_quarters = jax.vmap(prediction._quantile)(jnp.asarray([0.25, 0.5, 0.75]))
    return median, (three_quarters - quarter) / 2


def mixture(weights: Numeric, components: Sequence[Predictive]) -> Predictive:
    """The mixture of predictions of the same queries: classes mix into classes, all else into a `Mixture`."""
    if len(components) == 0:
        raise DataError("a mixture needs at least one component, found none")
    w = as_float(weights)
    if w.shape != (len(components),):
        raise DataError(f"weights must have one entry per component ({len(components)}), found shape {w.shape}")
    for kind in (Categorical, Bernoulli):
        if all(isinstance(c, kind) for c in components):
            means, noise = jnp.stack([c.mean for c in components]), jnp.stack([c.aleatoric for c in components])
            return kind(jnp.tensordot(w, means, 1), jnp.tensordot(w, noise, 1))
    within = {c.within if isinstance(c, Mixture) else 1 for c in components}
    one = within.pop() if len(within) == 1 else 1
    groups: dict[jax.tree_util.PyTreeDef, list[tuple[Array, Predictive]]] = {}
    for i, component in enumerate(components):
        for shares, part in _stacks(component, one):
            groups.setdefault(jax.tree.structure(part), []).append((w[i] * shares, part))
    parts = tuple(
        jax.tree.map(lambda *leaves: jnp.concatenate(leaves), *[part for _, part in members])
        for members in groups.values()
    )
    each = [shares for members in groups.values() for shares, _ in members]
    if max(shares.ndim for shares in each) > 1:  # those that change from query to query decide
        m = next(shares.shape[1:] for shares in each if shares.ndim > 1)
        each = [jnp.broadcast_to(s.reshape(len(s), *(s.shape[1:] or (1,) * len(m))), (len(s), *m)) for s in each]
    return Mixture(jnp.concatenate(each), parts, one)


def _stacks(prediction: Predictive, within: int) -> list[tuple[Float[Array, "k *m"], Predictive]]:
    """A prediction as weighted stacks of components: one of one, or those of a mixture."""
    if not isinstance(prediction, Mixture) or prediction.within != within:
        return [(jnp.ones(1), jax.tree.map(lambda leaf: jnp.asarray(leaf)[None], prediction))]
    sizes = [jax.tree.leaves(part)[0].shape[0] for part in prediction.parts]
    ends = np.cumsum(sizes)
    return [(prediction.weights[end - k : end], p) for k, end, p in zip(sizes, ends, prediction.parts, strict=True)]
