"""Columns of different kinds side by side, independent given the component: numbers, counts and codes in one table.

    p(x | k) = Π_g p_g(x_g | k)

each group g of columns with a density of its own. It can do whatever all of its parts can.
"""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax.random as jr
import numpy as np
from jaxtyping import Float, Int, PRNGKeyArray

from credo.core.arrays import Array, is_traced, namespace
from credo.core.errors import DataError
from credo.core.predictive import Predictive
from credo.core.pytrees import changed
from credo.models.densities.base import Density, HasPredictive, Inputs, Observed

Parts = tuple[Any, ...]
"""Statistics, or what is believed of θ, of each part."""


class Columns(HasPredictive[Parts, Parts]):
    """Several densities, each of its own columns: `Columns((Gaussian("full"), [0, 1]), (Poisson(), 2))`.

    Args:
        parts: pairs of a density and the column, or columns, that it describes; all of 0 … d - 1 must be named once.
    """

    parts: tuple[Density, ...]
    places: tuple[tuple[int, ...], ...] = eqx.field(static=True)

    def __init__(self, *parts: Any) -> None:
        if not parts or not all(isinstance(p, tuple) and len(p) == 2 and isinstance(p[0], Density) for p in parts):
            raise DataError("Columns takes pairs of a density and its columns, e.g. Columns((Poisson(), [0, 2]), …)")
        self.parts = tuple(density for density, _ in parts)
        self.places = tuple(tuple(int(c) for c in np.atleast_1d(np.asarray(where, int))) for _, where in parts)
        named = sorted(c for place in self.places for c in place)
        if named != list(range(len(named))):
            raise DataError(f"each of the columns 0 to {len(named) - 1} must be named once, found {named}")
        self.columns = len(named)
        known = {part.k for part in self.parts if part.k is not None}
        if len(known) > 1:
            raise DataError(f"the parts of Columns must have the same number of components, found {sorted(known)}")
        self.k = known.pop() if known else None

    @property
    def uses_inputs(self) -> bool:
        """Whether one of the parts does."""
        return any(part.uses_inputs for part in self.parts)

    def able(self, ability: type) -> bool:
        """Whether all parts have it."""
        return all(part.able(ability) for part in self.parts)

    def resized(self, k: int, columns: int) -> "Columns":
        """For so many components; the columns are those of the parts."""
        new = super().resized(k, columns)
        return changed(new, parts=new._each(lambda part, place: part.resized(k, len(place))))

    def check(self, data: Observed) -> None:
        """Each part looks at its own columns; a wrong entry is named by its place in the whole row."""
        for part, place in zip(self.parts, self.places, strict=True):
            whole = np.zeros(data.seen.shape, bool)
            whole[:, place] = np.asarray(data.seen)[:, place]
            part.check(Observed(data.x, whole, data.inputs))

    def adapt(self, data: Observed, *, seed: int = 0) -> "Columns":
        """Each part to its own columns."""
        return changed(self, parts=self._each(lambda part, place: part.adapt(_cut(data, place), seed=seed)))

    def log_prob(self, data: Observed) -> Float[Array, "n k"]:
        """The sum over the parts."""
        return self._sum(lambda part, rows: part.log_prob(rows), data)

    def sample(self, key: PRNGKeyArray, which: Int[Array, " n"], inputs: Inputs = None) -> Float[Array, "n d"]:
        """Each part draws its own columns."""
        keys = iter(jr.split(key, len(self.parts)))
        return self._together(self._each(lambda part, _: part.sample(next(keys), which, inputs)))

    def predictive(self, probs: Float[Array, "n k"], inputs: Inputs = None) -> Predictive:
        """Of a single part; columns of several kinds have no prediction in common."""
        if len(self.parts) == 1:
            return self.parts[0].predictive(probs, inputs)
        raise DataError(
            "columns of several kinds have no single prediction; ask each part: "
            "[part.predictive(probs) for part in density.parts], whose columns are density.places"
        )

    def conditional(self, probs: Float[Array, "n k"], data: Observed, columns: Int[np.ndarray, " m"]) -> Predictive:
        """Of columns of one kind, given the others through the component, and those of their own part."""
        for part, place in zip(self.parts, self.places, strict=True):
            if set(columns.tolist()) <= set(place):
                return part.conditional(probs, _cut(data, place), np.array([place.index(c) for c in columns.tolist()]))
        raise DataError(
            f"columns {', '.join(map(str, columns))} are of several kinds, which have no prediction in common; predict "
            "those of one kind, and pass missing=True with NaN in the others"
        )

    def expected_statistics(self, data: Observed, weight: Float[Array, "n k"]) -> Parts:
        """Those of each part."""
        return self._each(lambda part, place: _able(part).expected_statistics(_cut(data, place), weight))

    def draw_statistics(self, key: PRNGKeyArray, data: Observed, which: Int[Array, " n"]) -> Parts:
        """Those of each part, what is latent in it drawn."""
        keys = iter(jr.split(key, len(self.parts)))
        return self._each(lambda part, place: _able(part).draw_statistics(next(keys), _cut(data, place), which))

    def maximize(self, statistics: Parts) -> "Columns":
        """Each part at its mode."""
        return self._with(lambda part, s: part.maximize(s), statistics)

    def log_prior(self) -> Float[Array, ""]:
        """The sum over the parts."""
        return _total(_able(part).log_prior() for part in self.parts)

    def draw(self, key: PRNGKeyArray, statistics: Parts) -> "Columns":
        """θ of each part."""
        keys = iter(jr.split(key, len(self.parts)))
        return self._with(lambda part, s: part.draw(next(keys), s), statistics)

    def variational_posterior(self, statistics: Parts) -> Parts:
        """q(θ) of each part."""
        return tuple(_able(part).variational_posterior(s) for part, s in zip(self.parts, statistics, strict=True))

    def expected_log_prob(self, q: Parts, data: Observed) -> Float[Array, "n k"]:
        """The sum over the parts."""
        return self._sum(lambda part, rows, law: part.expected_log_prob(law, rows), data, q)

    def expected_statistics_under(self, q: Parts, data: Observed, weight: Float[Array, "n k"]) -> Parts:
        """Those of each part where what is latent in it follows q."""
        laws = iter(q)
        return self._each(
            lambda part, place: _able(part).expected_statistics_under(next(laws), _cut(data, place), weight)
        )

    def kl_to_prior(self, q: Parts) -> Float[Array, ""]:
        """The sum over the parts."""
        return _total(_able(part).kl_to_prior(law) for part, law in zip(self.parts, q, strict=True))

    def posterior_mean(self, q: Parts) -> "Columns":
        """The mean of each part."""
        return self._with(lambda part, law: part.posterior_mean(law), q)

    def with_prior(self, data: Observed) -> "Columns":
        """Each part with the prior of its own columns."""
        return changed(self, parts=self._each(lambda part, place: _able(part).with_prior(_cut(data, place))))

    def without_prior(self) -> "Columns":
        """Each part."""
        return changed(self, parts=self._each(lambda part, _: _able(part).without_prior()))

    def log_predictive(self, q: Parts, data: Observed) -> Float[Array, "n k"]:
        """The sum over the parts."""
        return self._sum(lambda part, rows, law: part.log_predictive(law, rows), data, q)

    def log_marginal(self, before: Parts, after: Parts) -> Float[Array, ""]:
        """The sum over the parts."""
        return _total(_able(part).log_marginal(b, a) for part, b, a in zip(self.parts, before, after, strict=True))

    def log_base(self, data: Observed) -> Float[Array, " n"]:
        """The sum over the parts."""
        return self._sum(lambda part, rows: part.log_base(rows), data)

    def sample_predictive(
        self, rng: np.random.Generator, q: Parts, which: Int[np.ndarray, " n"]
    ) -> Float[np.ndarray, "n d"]:
        """Each part draws its own columns."""
        laws = iter(q)
        return np.asarray(
            self._together(self._each(lambda part, _: _able(part).sample_predictive(rng, next(laws), which)))
        )

    def several(self, q: Parts, n: int, seed: int) -> "Columns":
        """n draws of each part's components."""
        laws, seeds = iter(q), iter(np.random.SeedSequence(seed).generate_state(len(self.parts)))
        parts = self._each(lambda part, _: _able(part).several(next(laws), n, int(next(seeds))))
        return changed(self, k=n * self.sizes[0], parts=parts)

    def _each(self, function: Callable[..., Any]) -> Parts:
        return tuple(function(part, place) for part, place in zip(self.parts, self.places, strict=True))

    def _with(self, function: Callable[..., Any], values: Parts) -> "Columns":
        return changed(self, parts=tuple(function(_able(p), v) for p, v in zip(self.parts, values, strict=True)))

    def _sum(self, function: Callable[..., Array], data: Observed, *laws: Parts) -> Array:
        """Σ function(part, its columns, its law)."""
        rows = (_cut(data, place) for place in self.places)
        return _total(function(*each) for each in zip(self.parts, rows, *laws, strict=True))

    def _together(self, blocks: Parts) -> Float[Array, "n d"]:
        """The columns of the parts in the order of the table."""
        table = namespace(blocks).concatenate(blocks, axis=1)
        return table[:, np.argsort([c for place in self.places for c in place])]


def _cut(data: Observed, place: tuple[int, ...]) -> Observed:
    """Some of the columns."""
    x, seen, inputs, complete = data[:4]
    if place == tuple(range(place[0], place[0] + len(place))):  # a view: nothing is copied
        where: Any = slice(place[0], place[0] + len(place))
    else:
        where = np.asarray(place)
    mine = seen[:, where]
    whole = complete or (not is_traced(seen) and bool(np.all(mine.all(1) | ~mine.any(1))))
    return Observed(x[:, where], mine, inputs, whole)


def _able(part: Density) -> Any:
    """The part, to which callers put questions that `able` has allowed."""
    return part


def _total(values: Any) -> Any:
    first, *rest = values
    return sum(rest, start=first)
