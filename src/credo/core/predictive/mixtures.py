"""Mixtures: what several beliefs, or several draws from one, predict together."""

from collections.abc import Callable, Sequence
from typing import ClassVar, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Float, PRNGKeyArray

from credo.core.arrays import Array, Numeric, as_float, is_traced, namespace, special
from credo.core.errors import DataError
from credo.core.loops import invert_cdf, search_counts
from credo.core.predictive.base import Index, Predictive, as_index
from credo.core.predictive.classes import Bernoulli, Categorical

T = TypeVar("T")

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

    elementwise: ClassVar[bool] = False

    weights: Float[Array, "k *m"] = eqx.field(converter=as_float)
    parts: tuple[Predictive, ...]
    within: int = eqx.field(static=True, default=1)

    def each(self, ask: Callable[[Predictive], Array], y: Array | None = None) -> Array:
        """ask(component) for every component, shape (k, …); y are outcomes or levels that it is asked about.

        A stack of elementwise predictions is asked at once, with an axis for each that y has beyond the queries'.
        """
        asked = 0 if y is None else max(y.ndim - len(self.shape), 0)
        axes = tuple(range(1, 1 + asked))
        answers = [
            of_stack(
                ask,
                jax.tree.map(lambda leaf: namespace(leaf).expand_dims(leaf, axes), part) if part.elementwise else part,
            )
            for part in self.parts
        ]
        return answers[0] if len(answers) == 1 else namespace(answers).concatenate(answers)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the batch of queries."""
        return _member(self.parts[0], 0).shape

    def shares(self, values: Array) -> Array:
        """The weights with axes for those of values (k, …) that they lack: several outcomes first, columns last."""
        own = self.weights.shape[1:]
        columns = len(self.shape) - len(own) if own else 0
        asked = values.ndim - 1 - len(own) - columns
        return self.weights.reshape(-1, *[1] * asked, *own, *[1] * columns)

    def average(self, values: Array) -> Array:
        """Σₖ wₖ valuesₖ."""
        return (self.shares(values) * values).sum(0)

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
        means, xp = self.each(lambda p: p.mean), namespace(self)
        if self.within == 1:
            return xp.zeros(means.shape[1:]), self.average((means - self.average(means)) ** 2)
        means = means.reshape(-1, self.within, *means.shape[1:])
        weights = self.weights.reshape(-1, self.within, *self.weights.shape[1:])
        weights = weights.reshape(*weights.shape, *[1] * (means.ndim - weights.ndim))
        mass = weights.sum(1)
        center = (weights * means).sum(1) / xp.where(mass > 0, mass, 1.0)
        inside = (weights * (means - center[:, None]) ** 2).sum((0, 1))
        return inside, (mass * (center - (mass * center).sum(0)) ** 2).sum(0)

    def _outcomes(self, y: Numeric) -> Array:
        """Outcomes that suit the queries, or `DataError`."""
        try:
            at = as_float(y)
            np.broadcast_shapes(at.shape[-1:], np.shape(self.mean)[-1:])
        except (TypeError, ValueError):
            found = f"shape {np.shape(y)}" if np.ndim(y) else repr(y)
            raise DataError(f"y must be numbers, one for each of the {len(self)} queries, found {found}") from None
        return at

    def log_prob(self, y: Numeric) -> Array:
        """log Σ wₖ pₖ(y)."""
        at = self._outcomes(y)
        each = self.each(lambda p: p.log_prob(at), at)
        return special(each, self).logsumexp(each, axis=0, b=self.shares(each))

    def cdf(self, y: Numeric) -> Array:
        """Σ wₖ Fₖ(y)."""
        at = self._outcomes(y)
        return self.average(self.each(lambda p: p.cdf(at), at))

    def entropy(self) -> Array:
        """-Σₖ wₖ ∫ pₖ log p, each on a grid that suits pₖ; where there are many, -∫ p log p on one grid for all."""
        from credo.core.predictive.expectation import integrate

        if self.discrete or self.weights.shape[0] <= FEW:
            return super().entropy()
        return integrate(self, lambda y: special(self).entr(namespace(self).exp(self.log_prob(y))))

    def _quantile(self, q: Array) -> Array:
        if self.discrete:
            return search_counts(self.cdf, q, self.mean, self.std)
        # The quantile of a mixture lies between the smallest and the largest of its components'.
        each = self.each(lambda p: p._quantile(q), q)
        return invert_cdf(self.cdf, q, each.min(0), each.max(0))

    def _draw(self, key: PRNGKeyArray) -> Array:
        k_choice, k_draw = jr.split(key)
        chosen = jr.categorical(k_choice, jnp.log(self.weights), axis=0)
        if chosen.ndim:
            outcomes = jnp.concatenate([jax.vmap(lambda p: p._draw(k_draw))(part) for part in self.parts])
            chosen = chosen.reshape(1, *chosen.shape, *[1] * (outcomes.ndim - 1 - chosen.ndim))
            return jnp.take_along_axis(outcomes, jnp.broadcast_to(chosen, (1, *outcomes.shape[1:])), axis=0)[0]
        # One draw from each stack, of which the chosen component's is kept.
        first, out = 0, jnp.zeros(())
        for part in self.parts:
            member = jax.tree.map(lambda leaf, at=chosen - first: leaf.at[at].get(mode="clip"), part)
            out = jnp.where(chosen >= first, member._draw(k_draw), out)
            first += _count(part)
        return out

    def __getitem__(self, index: Index) -> "Mixture":
        """The predictions at some of the queries."""
        where = as_index(index, self.shape)
        where = where if isinstance(where, tuple) else (where,)
        xp, weights = namespace(self, where), self.weights
        parts = tuple(of_stack(lambda p: p[(slice(None), *where) if p.elementwise else where], p) for p in self.parts)
        return Mixture(weights if weights.ndim == 1 else xp.asarray(weights)[:, where[0]], parts, self.within)


def of_stack(ask: Callable[..., T], part: Predictive, *rest: object) -> T:
    """ask(component, …) of one stack, stacked: at once where that can be, else as `jax.vmap` does it."""
    if part.elementwise:
        return ask(part, *rest)
    if is_traced(part):
        return jax.vmap(ask)(part, *rest)
    answers = [ask(*_member((part, *rest), k)) for k in range(_count(part))]
    return jax.tree.map(lambda *leaves: namespace(leaves).stack(leaves), *answers)


def _member(stack: T, k: int) -> T:
    return jax.tree.map(lambda leaf: leaf[k], stack)


def _count(part: Predictive) -> int:
    return jax.tree.leaves(part)[0].shape[0]


def mixture(weights: Numeric, components: Sequence[Predictive]) -> Predictive:
    """The mixture of predictions of the same queries: classes mix into classes, all else into a `Mixture`."""
    if len(components) == 0:
        raise DataError("a mixture needs at least one component, found none")
    w, xp = as_float(weights), namespace(weights, components)
    if w.shape != (len(components),):
        raise DataError(f"weights must have one entry per component ({len(components)}), found shape {w.shape}")
    for kind in (Categorical, Bernoulli):
        if all(isinstance(c, kind) for c in components):
            means, noise = xp.stack([c.mean for c in components]), xp.stack([c.aleatoric for c in components])
            return kind(xp.tensordot(w, means, 1), xp.tensordot(w, noise, 1))
    within = {c.within if isinstance(c, Mixture) else 1 for c in components}
    one = within.pop() if len(within) == 1 else 1
    groups: dict[jax.tree_util.PyTreeDef, list[tuple[Array, Predictive]]] = {}
    for i, component in enumerate(components):
        for shares, part in _stacks(component, one):
            groups.setdefault(jax.tree.structure(part), []).append((w[i] * shares, part))
    parts = tuple(
        jax.tree.map(lambda *leaves: xp.concatenate(leaves), *[part for _, part in members])
        for members in groups.values()
    )
    each = [shares for members in groups.values() for shares, _ in members]
    if max(shares.ndim for shares in each) > 1:  # those that change from query to query decide
        m = next(shares.shape[1:] for shares in each if shares.ndim > 1)
        each = [xp.broadcast_to(s.reshape(len(s), *(s.shape[1:] or (1,) * len(m))), (len(s), *m)) for s in each]
    return Mixture(xp.concatenate(each), parts, one)


def _stacks(prediction: Predictive, within: int) -> list[tuple[Float[Array, "k *m"], Predictive]]:
    """A prediction as weighted stacks of components: one of one, or those of a mixture."""
    if not isinstance(prediction, Mixture) or prediction.within != within:
        return [(np.ones(1), jax.tree.map(lambda leaf: leaf[None], prediction))]
    sizes = [_count(part) for part in prediction.parts]
    ends = np.cumsum(sizes)
    return [(prediction.weights[end - k : end], p) for k, end, p in zip(sizes, ends, prediction.parts, strict=True)]
