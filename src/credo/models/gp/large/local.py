"""`Local`: predictions from the rows that covary with the query, and from no others.

    A'(x) = {x' : |k(x, x')| ≥ τ}

Exact as τ → 0. Where a row enters or leaves A' as x moves, the prediction jumps: the seams of local methods.
Hyperparameters, the evidence and the trend are those of `Neighbours`, whose predictions this is with a radius instead
of a number.
"""

from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Int

from credo.core.arrays import Array, is_traced, namespace
from credo.core.checks import check_real
from credo.core.errors import DataError
from credo.core.padding import bucket
from credo.models.gp.data import Rows
from credo.models.gp.large.base import in_chunks
from credo.models.gp.large.neighbours import Neighbours, NeighboursGP

MOST = 8000
"""A query that sees more rows needs another method."""


class LocalGP(NeighboursGP):
    """A Gaussian process in which a query sees the rows that covary with it by at least the cutoff."""

    def condition_on(self, statistics: Rows) -> "LocalGP":
        """The posterior after the rows; `DataError` where the cutoff is so high that no row is ever seen."""
        if not is_traced(self, statistics):
            most = float(np.asarray(self.parts()[0].variance_at(statistics.x)).max())
            if self.method.cutoff > most:
                raise DataError(
                    f"no row covaries with a query by cutoff={self.method.cutoff:g}: the variance of the kernel is "
                    f"{most:.3g}, in the units of y²; lower cutoff, or use Neighbours"
                )
        return super().condition_on(statistics)  # type: ignore[return-value]

    def used(self, x: object) -> Int[np.ndarray, " m"]:
        """How many rows each query sees."""
        return self._seen_by(np.asarray(self.queries(x)))[0]

    def _seen_by(self, x: np.ndarray) -> tuple[Int[np.ndarray, " m"], list[np.ndarray]]:
        rows = self.conditioned()[0].cut()[0]
        kernel, _ = self.parts()
        found = []
        for cut in in_chunks(len(x), len(rows)):
            near = np.abs(np.asarray(kernel.between(x[cut], rows))) >= self.method.cutoff
            found += [np.flatnonzero(row) for row in near]
        return np.asarray([len(f) for f in found], dtype=int), found

    def near_in_groups(self, x: Array) -> list[tuple[Any, Any, Any]]:
        """Queries that covary with about as many rows together."""
        if is_traced(self, x):
            near = namespace(self.seen.x, x).abs(self.parts()[0].gram(x, self.seen.x)) >= self.method.cutoff
            return [(slice(None), np.broadcast_to(np.arange(near.shape[1]), near.shape), near)]
        counts, found = self._seen_by(np.asarray(x))
        if counts.max(initial=0) > MOST:
            raise DataError(
                f"a query covaries with {counts.max()} rows by at least cutoff={self.method.cutoff:g}; "
                "raise cutoff, or use Neighbours"
            )
        sizes, groups = np.asarray([bucket(max(int(c), 1)) for c in counts]), []
        for size in np.unique(sizes):
            which = np.flatnonzero(sizes == size)
            index = np.zeros((len(which), size), dtype=int)
            for i, q in enumerate(which):
                index[i, : counts[q]] = found[q]
            groups.append((which, index, np.arange(size) < counts[which, None]))
        return groups


@dataclass(frozen=True)
class Local(Neighbours):
    """A `GP` whose predictions see the rows with |k(x, x')| ≥ cutoff.

        gp.condition(X, y, using=Local(0.01))         gp.used(x)    how many rows a query sees

    The result is a `LocalGP`.
    """

    k: int | None = field(default=None, kw_only=True)
    predict: int | None = field(default=None, kw_only=True)
    terms: int = field(default=4000, kw_only=True)
    held: int = field(default=1000, kw_only=True)
    max_steps: int = field(default=20, kw_only=True)
    cutoff: float = 0.01
    """In units of the kernel: of the squared outcomes."""

    belief: ClassVar[type] = LocalGP

    def __post_init__(self) -> None:
        super().__post_init__()
        check_real(self.cutoff, "cutoff", 0.0)

    def tuned(self, belief: Any, rows: Any, fixed: Any, seed: int) -> Any:
        """Nothing is chosen: the cutoff is given."""
        return belief, [f"predictions from rows that covary by at least {self.cutoff:g}"]
