"""The law of one variable given its parents: a table of probabilities, a noisy-or, a linear Gaussian.

    Table            P(x = k | parents) = values[states of the parents, k]
    NoisyOr          P(x = absent | parents) = (1 - leak) Πᵢ (1 - qᵢ), over the causes i that are present
    LinearGaussian   x | parents ~ N(mean + Σᵢ weightsᵢ yᵢ, variance), each of the three a table over discrete parents

Koller & Friedman (2009), "Probabilistic graphical models", sections 3.2, 5.4 and 5.5.
"""

import math
from collections.abc import Mapping, Sequence
from itertools import product
from typing import TypeAlias

import equinox as eqx
import numpy as np
from jaxtyping import Float

from credo.core.arrays import Array, Numeric, as_float, is_traced, namespace
from credo.core.errors import DataError
from credo.core.pytrees import changed, plain_methods

Names: TypeAlias = tuple[str, ...]

LARGEST = 2**26
"""Cells of the table of a noisy-or: 0.5 GiB."""
SLACK = 1e-6
"""Rows of real files sum to one only within 1e-7; what is nearer than this is divided by its sum."""


class Table(eqx.Module):
    """P(x = k | parents): the axes are the parents in their order, then the states of x itself.

    `concentration` are the Dirichlet parameters of each row where the table was learned, and `values` their mean;
    None is a table that is known.
    """

    states: Names = eqx.field(static=True)
    parents: Names = eqx.field(static=True)
    values: Float[Array, "*p k"]
    concentration: Float[Array, "*p k"] | None = None
    __getattribute__ = plain_methods

    def __init__(
        self,
        states: Sequence[str],
        parents: Sequence[str] = (),
        values: Numeric | None = None,
        concentration: Numeric | None = None,
    ) -> None:
        self.states, self.parents = names_of(states, "states"), names_of(parents, "parents")
        if values is None:
            if concentration is None:
                raise DataError(f"a table of {' and '.join(self.states)} needs values: probabilities that sum to one")
            alpha = as_float(concentration, "concentration")
            values = alpha / alpha.sum(-1, keepdims=True)
        self.values = as_float(values, "values")
        self.concentration = None if concentration is None else as_float(concentration, "concentration")
        shape = self.values.shape
        if len(shape) != len(self.parents) + 1 or shape[-1] != len(self.states):
            raise DataError(
                f"a table of {len(self.states)} states and {len(self.parents)} parents must have an axis for each "
                f"parent and {len(self.states)} columns, found shape {shape}"
            )
        if self.concentration is not None and self.concentration.shape != shape:
            raise DataError(f"concentration must have the shape {shape} of values, found {self.concentration.shape}")

    def checked(self, name: str, parents: Sequence[Names]) -> "Table":
        """The table of variable `name` with rows that sum to one exactly; `DataError` where one is far from that."""
        shape = tuple(map(len, parents))
        if self.values.shape[:-1] != shape:
            raise DataError(
                f"the table of {name!r} must have shape {(*shape, len(self.states))}: the states of its parents "
                f"({', '.join(self.parents) or 'none'}), then its own; found {self.values.shape}"
            )
        if is_traced(self.values):
            return self
        sums = np.asarray(self.values).sum(-1)
        wrong = ~(np.abs(sums - 1) <= SLACK) | (self.values < 0).any(-1)
        if np.any(wrong):
            where = tuple(int(i) for i in np.argwhere(wrong)[0])
            row = self.values[where]
            given = ", ".join(f"{p} = {s[i]}" for p, s, i in zip(self.parents, parents, where, strict=True))
            found = f"a sum of {sums[where]:.9g}, off by {sums[where] - 1:+.3g}" if not (row < 0).any() else str(row)
            raise DataError(
                f"the table of {name!r} must hold probabilities ≥ 0 that sum to one in each row, found {found}, "
                f"in the row {given or 'without parents'}"
                + (f" (and {int(wrong.sum()) - 1} more rows)" if wrong.sum() > 1 else "")
                + "; divide the row by its sum"
            )
        return changed(self, values=self.values / sums[..., None])


class LinearGaussian(eqx.Module):
    """x | d, y ~ N(mean[d] + Σᵢ weights[d, i] yᵢ, variance[d]).

    `parents` are those that are discrete (d: they index the leading axes of the three, in their order) and those that
    are numbers (y: they are weighted, in their order); which is which follows from the network. `moments` are the
    second moments of (1, y, x) over the rows from which it was learned, prior included; None is a law that is known.
    """

    parents: Names = eqx.field(static=True)
    mean: Float[Array, "*d"]
    weights: Float[Array, "*d g"]
    variance: Float[Array, "*d"]
    moments: Float[Array, "*d k k"] | None = None

    def __init__(
        self,
        parents: Sequence[str] = (),
        mean: Numeric = 0.0,
        weights: Numeric = (),
        variance: Numeric = 1.0,
        moments: Numeric | None = None,
    ) -> None:
        self.parents = names_of(parents, "parents")
        self.mean, self.variance = as_float(mean, "mean"), as_float(variance, "variance")
        self.weights = as_float(weights, "weights")
        self.moments = None if moments is None else as_float(moments, "moments")

    def checked(self, name: str, discrete: Sequence[Names], numbers: int) -> "LinearGaussian":
        """The law of variable `name`, with an axis for each discrete parent; numbers given once serve all states."""
        shape = tuple(map(len, discrete))
        xp, found = namespace(self), []
        for field, value, wanted in (
            ("mean", self.mean, shape),
            ("weights", self.weights, (*shape, numbers)),
            ("variance", self.variance, shape),
        ):
            try:
                if field == "weights" and value.shape[-1:] != (numbers,):
                    raise ValueError
                found.append(xp.broadcast_to(value, wanted))
            except ValueError:
                raise DataError(
                    f"{field} of {name!r} must have shape {wanted}: the states of its discrete parents"
                    + (", then one for each parent that is a number" if field == "weights" else "")
                    + f"; found {value.shape}"
                ) from None
            if not is_traced(value) and not np.isfinite(value).all():
                raise DataError(f"{field} of {name!r} must be finite, found {value}")
        if not is_traced(self.variance) and np.any(np.asarray(self.variance) <= 0):
            raise DataError(f"variance of {name!r} must be positive, found {float(np.min(self.variance)):g}")
        return changed(self, mean=found[0], weights=found[1], variance=found[2])


class NoisyOr(eqx.Module):
    """Independent causes of one effect: it is absent only where each cause that is present fails to bring it.

    `causes` maps a parent to the probability that it alone brings the effect: one number for a parent of two states
    (those of the effect, or else the second one brings it), or one for each state of the parent. A network keeps it as
    the `Table` it stands for. Pearl (1988), section 4.3.2.
    """

    causes: dict[str, Array]
    leak: Float[Array, ""]
    states: Names = eqx.field(static=True)

    def __init__(
        self, causes: Mapping[str, Numeric], leak: float = 0.0, states: Sequence[str] = ("absent", "present")
    ) -> None:
        self.causes = {str(p): as_float(q, f"the strength of {p}") for p, q in causes.items()}
        self.leak, self.states = as_float(leak, "leak"), names_of(states, "states")
        if len(self.states) != 2:
            raise DataError(f"a noisy-or has two states, absent and present, found {self.states}")
        for name, q in {**self.causes, "leak": self.leak}.items():
            if not np.all((q >= 0) & (q <= 1)):
                raise DataError(f"the strength of {name!r} must be a probability, found {q}")

    @property
    def parents(self) -> Names:
        """The causes."""
        return tuple(self.causes)

    def table(self, name: str, parents: Sequence[Names]) -> Table:
        """The table of variable `name` given the states of its parents."""
        strengths = []
        for (parent, q), states in zip(self.causes.items(), parents, strict=True):
            if q.ndim == 0 and len(states) == 2:
                swapped = states == self.states[::-1]
                q = np.array([q, 0.0] if swapped else [0.0, q])
            if q.shape != (len(states),):
                raise DataError(
                    f"the noisy-or of {name!r} needs a strength for each state of {parent!r} "
                    f"({', '.join(states)}), found {q.tolist()}"
                )
            strengths.append(q)
        cells = 2 * math.prod(map(len, parents))
        if cells > LARGEST:
            raise DataError(
                f"the noisy-or of {name!r} with its {len(parents)} causes has a table of {cells:.2g} cells "
                f"({8 * cells / 2**30:.3g} GiB), at most {LARGEST:.2g} are kept; gather causes under effects in between"
            )
        absent: Array = np.asarray(1 - self.leak)
        for q in strengths:
            absent = absent[..., None] * (1 - q)
        return Table(self.states, self.parents, np.stack([absent, 1 - absent], axis=-1))


Node: TypeAlias = Table | LinearGaussian


def names_of(names: Sequence[str], what: str) -> Names:
    """Names as text, each once."""
    found = tuple(str(n) for n in ([names] if isinstance(names, str) else names))
    if len(set(found)) < len(found):
        raise DataError(f"{what} must be different, found {', '.join(found)}")
    return found


def node_of(name: str, given: object, states: Sequence[str] | None, known: Mapping[str, Names]) -> Node | NoisyOr:
    """A law as users write it: a node; probabilities (a list, or by state); (parents, table).

    A table with parents is nested lists, or rows by the states of the parents: `{"yes": row, "no": row}`,
    `{("yes", "no"): row, …}`. A row is a list, or by state. `states` names the states where the law does not, and
    `known` are those of the parents.
    """
    if isinstance(given, Table | LinearGaussian | NoisyOr):
        return given
    parents: object = ()
    if isinstance(given, tuple) and len(given) == 2 and _are_names(given[0]):
        parents, given = given
    where = names_of(parents, f"the parents of {name!r}")  # type: ignore[arg-type]
    if isinstance(given, Mapping) and where:
        given = _rows(name, given, where, known)
    if isinstance(given, Mapping):
        states, given = tuple(given), list(given.values())
    elif isinstance(given, list) and where:
        states, given = _named_rows(name, given, states)
    values = as_float(given, f"the table of {name!r}")
    if values.ndim == 0:
        raise DataError(f"the table of {name!r} must be a probability for each state, found {given!r}")
    return Table(tuple(map(str, range(values.shape[-1]))) if states is None else states, where, values)


def _are_names(value: object) -> bool:
    return isinstance(value, str) or (isinstance(value, list | tuple) and all(isinstance(v, str) for v in value))


def _rows(name: str, rows: Mapping[object, object], parents: Names, known: Mapping[str, Names]) -> object:
    """Rows by the states of the parents as nested lists."""
    listed = {(k,) if isinstance(k, str) else tuple(k): row for k, row in rows.items()}  # type: ignore[arg-type]
    absent = [p for p in parents if p not in known]
    if absent:
        raise DataError(f"{name!r} has the parent {absent[0]!r}, which is no variable of the network")
    wanted = list(product(*(known[p] for p in parents)))
    unknown = [k for k in listed if k not in set(wanted)]
    if unknown or len(listed) < len(wanted):
        bad = unknown[0] if unknown else next(k for k in wanted if k not in listed)
        raise DataError(
            f"the table of {name!r} must have a row for each of the {len(wanted)} states of ({', '.join(parents)}), "
            f"{'found' if unknown else 'there is none for'} ({', '.join(map(str, bad))})"
        )

    def nested(prefix: tuple[str, ...]) -> object:
        left = len(prefix)
        return listed[prefix] if left == len(parents) else [nested((*prefix, s)) for s in known[parents[left]]]

    return nested(())


def _named_rows(name: str, rows: list[object], states: Sequence[str] | None) -> tuple[Sequence[str] | None, object]:
    """Nested lists whose rows may be by state, as nested lists of numbers, and the states."""
    found = None if states is None else tuple(states)

    def plain(part: object) -> object:
        nonlocal found
        if isinstance(part, Mapping):
            found = tuple(part) if found is None else found
            if set(part) != set(found):
                raise DataError(f"the rows of {name!r} must have the states {', '.join(found)}, found {list(part)}")
            return [part[s] for s in found]
        return [plain(each) for each in part] if isinstance(part, list) else part

    numbers = plain(rows)
    return found, numbers
