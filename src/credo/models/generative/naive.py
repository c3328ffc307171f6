"""`NaiveBayes`: columns that are independent given the class, each of its own kind.

    p(x | class) = Πⱼ p(xⱼ | class)

A column of numbers is Gaussian (its prediction a Student-t), one of counts Poisson (negative binomial), one of text,
truth values or codes categorical (Dirichlet-multinomial). Murphy (2012), section 3.5.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import equinox as eqx
import numpy as np
from jaxtyping import Float

from credo.core.arrays import is_traced
from credo.core.checks import ArrayLike, as_numpy, input_names
from credo.core.errors import DataError
from credo.core.pytrees import changed
from credo.models.densities import CategoricalDensity, Columns, Density, Gaussian, HasPredictive, Observed, Poisson
from credo.models.generative import tables
from credo.models.generative.belief import Generative
from credo.models.generative.tables import Labelled
from credo.models.likelihoods.classes import Label

KINDS = ("gaussian", "poisson", "categorical", "bernoulli")
MANY = 10**9
MOST_CODES = 20
"""Whole numbers up to this may be codes of categories."""


class NaiveBayes(Generative):
    """Classes whose columns are independent.

    Args:
        kinds: of the columns: "gaussian", "poisson", "categorical" or "bernoulli", one for each, or by name (or
            place) for some of them. The others are found in the data: text and truth values are categories, whole
            numbers are what has the highest evidence, all else is Gaussian.
        classes: their labels, in order; None to find them in the first data.
        categories: of columns by name, where data may hold others than those seen first.
        concentration: of the Dirichlet law of the shares of the classes.
    """

    kinds: tuple[str, ...] | None = eqx.field(static=True, default=None)
    asked: tuple[tuple[str, str], ...] = eqx.field(static=True, default=())
    named: tuple[tuple[str, tuple[Label, ...]], ...] = eqx.field(static=True, default=())

    def __init__(
        self,
        kinds: Sequence[str] | Mapping[Any, str] | None = None,
        classes: Sequence[Label] | None = None,
        *,
        categories: Mapping[str, Sequence[Label]] | None = None,
        concentration: ArrayLike = 1.0,
    ):
        super().__init__(Gaussian("diagonal"), classes, concentration=concentration)
        self.kinds = None
        if isinstance(kinds, str) or not isinstance(kinds, Sequence | Mapping | None):
            raise DataError(f"kinds must name a kind for each column, or some by name, found {kinds!r}")
        each = dict(kinds) if isinstance(kinds, Mapping) else dict(enumerate(kinds or ()))
        wrong = [kind for kind in each.values() if kind not in KINDS]
        if wrong:
            raise DataError(f"kinds must be {', '.join(KINDS)}, found {wrong[0]!r}")
        self.asked = tuple((str(name), kind) for name, kind in each.items())
        self.named = tuple((str(name), tuple(levels)) for name, levels in (categories or {}).items())

    @property
    def _description(self) -> str:
        return (
            "kinds found in the data" if self.kinds is None else ", ".join(self.kinds[:8]) + "…" * (len(self.kinds) > 8)
        )

    @property
    def _looks(self) -> int:
        """All rows, where whole numbers are to be told from others."""
        return super()._looks if self.asked and all(kind == "gaussian" for _, kind in self.asked) else MANY

    def _with_columns(self, x: ArrayLike) -> "NaiveBayes":
        """With the names of the columns, and the categories of those that hold text."""
        raw = as_numpy(x, "X")
        if raw.dtype.kind not in "OUS":
            new = super()._with_columns(x)
            return changed(new, categories=None)
        names, found = tuple(input_names(x)), tables.find_categories(x)
        known = dict(self.named)
        unknown = [name for name in known if name not in names]
        if unknown:
            raise DataError(f"categories are given for {unknown[0]!r}, which is no column of X")
        if found is None and not known:
            return changed(self, inputs=names)
        columns = (None,) * len(names) if found is None else found
        levels = tuple(known.get(name, levels) for name, levels in zip(names, columns, strict=True))
        return changed(self, inputs=names, categories=levels)

    def _adapted(self, data: Labelled) -> "NaiveBayes":
        """With a density for each column, of its kind, and their weak priors."""
        names = self.inputs or ()
        asked = {self._place(name): kind for name, kind in self.asked}
        codes = [None] * len(names) if self.categories is None else self.categories
        kinds = []
        for j, levels in enumerate(codes):
            kind = asked.get(j)
            if levels is not None:
                if kind in ("gaussian", "poisson"):
                    raise DataError(f"column {names[j]!r} holds text, found kind {kind!r}; leave its kind out")
                kinds.append("categorical")
            else:
                kinds.append(kind or find_kind(_column(data, j), len(self._classes)))
        return super(NaiveBayes, changed(self, density=_density(tuple(kinds), codes), kinds=tuple(kinds)))._adapted(
            data
        )

    def _place(self, name: str) -> int:
        names = list(self.inputs or ())
        if name in names:
            return names.index(name)
        if name.isdigit() and int(name) < len(names):
            return int(name)
        raise DataError(f"kinds names the column {name!r}, found columns {', '.join(map(repr, names[:12]))}")


def _column(data: Labelled, j: int) -> Labelled:
    rows = data.rows
    return Labelled(Observed(rows.x[:, j : j + 1], rows.seen[:, j : j + 1]), data.codes)


def _density(kinds: tuple[str, ...], categories: Sequence[tuple[Label, ...] | None]) -> Density:
    """A density of all columns: one for those with numbers, one for those with counts, one for each of categories."""
    parts: list[tuple[Density, list[int]]] = []
    for kind, density in (("gaussian", Gaussian("diagonal")), ("poisson", Poisson())):
        where = [j for j, each in enumerate(kinds) if each == kind]
        if where:
            parts.append((density, where))
    for j, kind in enumerate(kinds):
        levels = categories[j]
        if kind in ("categorical", "bernoulli"):
            symbols = 2 if kind == "bernoulli" else None if levels is None else len(levels)
            parts.append((CategoricalDensity(symbols), [j]))
    return parts[0][0] if len(parts) == 1 and len(parts[0][1]) == len(kinds) else Columns(*parts)


def find_kind(data: Labelled, k: int) -> str:
    """The kind of a column of numbers: 0 and 1 are truth values, other whole numbers what has the highest evidence."""
    if is_traced(data):
        return "gaussian"
    x = np.asarray(data.rows.x)[np.asarray(data.rows.seen)]
    if not len(x) or np.any((x < 0) | (x != np.round(x))):
        return "gaussian"
    if x.max() <= 1:
        return "bernoulli"
    found = {"poisson": evidence_of_column(Poisson(), data, k), "gaussian": evidence_of_column(None, data, k)}
    if x.max() <= MOST_CODES:
        found["categorical"] = evidence_of_column(CategoricalDensity(int(x.max()) + 1), data, k)
    return max(found, key=lambda kind: found[kind])


def evidence_of_column(density: HasPredictive[Any, Any] | None, data: Labelled, k: int) -> float:
    """log p(column | classes) of a density; of a Gaussian (None) that of whole numbers, each spread over its unit.

    Uniform noise makes a density comparable with probabilities: its evidence is a bound of theirs. Theis et al. (2016).
    """
    rows = data.rows
    if density is None:
        noise: Float[np.ndarray, "n 1"] = np.random.default_rng(0).random(rows.x.shape) - 0.5
        rows, density = Observed(np.where(rows.seen, rows.x + noise, 0.0), rows.seen), Gaussian("diagonal")
    ready = density.resized(k, 1).with_prior(rows)
    sums = ready.expected_statistics(rows, data.weight(k))
    nothing = ready.expected_statistics(rows, 0 * data.weight(k))
    before, after = ready.variational_posterior(nothing), ready.variational_posterior(sums)
    return float(ready.log_marginal(before, after) + ready.log_base(rows)[np.asarray(data.codes) >= 0].sum())
