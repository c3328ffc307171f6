"""What beliefs that keep the rows and compare with them share: the rows, their names, and leaving one out.

No row is summed up: a query is compared with each. There is no likelihood of parameters, so the evidence is that of
leave-one-out, Σᵢ log p(rowᵢ | the other rows), given rows seen before the difference of two such sums.

What is seen near a query are (fractional) counts c₁, c₂, … of outcomes t₁, t₂, …, to which a prior adds α draws of
its own: a Dirichlet process. With A = α + Σ cᵢ and V the variance of the weighted outcomes, the mean outcome at the
query is known up to the variance V/(1 + A), which is ignorance; the rest of V is noise.
Ferguson (1973), "A Bayesian analysis of some nonparametric problems", theorem 4.
"""

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar

import equinox as eqx
import numpy as np
from jaxtyping import Float

from credo.core.abilities import KeepsRows, LeavesOneOut
from credo.core.arrays import Array, namespace
from credo.core.belief import Belief
from credo.core.checks import by_name, column_names, input_names
from credo.core.errors import DataError
from credo.core.predictive import Mixture, Normal, Predictive
from credo.core.predictive.base import Index, as_index
from credo.core.pytrees import changed
from credo.infer.learning import Evidence, Learned
from credo.kernels import Kernel
from credo.models.gp.data import Rows

M = TypeVar("M", bound="RowComparison")


class RowComparison(Belief, KeepsRows, LeavesOneOut):
    """A belief that keeps the rows it has seen."""

    from_data: ClassVar[tuple[str, ...]] = ("seen",)

    seen: Any
    """The rows, None before any."""
    inputs: tuple[str, ...] | None = eqx.field(static=True)
    """The names of the columns."""

    @abstractmethod
    def held_out(self, rows: Any) -> Predictive:
        """The prediction of each of the rows from all others."""

    @abstractmethod
    def held_out_log_prob(self, rows: Any) -> Float[Array, " n"]:
        """log p(rowᵢ | the other rows)."""

    @abstractmethod
    def in_units(self: M, rows: Any) -> M:
        """The belief with starting values in the units of the rows."""

    @abstractmethod
    def with_seen(self, rows: Any) -> Any:
        """All rows, those that were seen before first."""

    def told(self: M, *data: Any) -> M:
        """The belief that knows the names of its columns."""
        if not data or self.inputs is not None or not column_names(data[0]):
            return self
        return changed(self, inputs=tuple(input_names(data[0])))

    def prepare(self: M, *data: Any, **options: Any) -> tuple[M, Any]:
        """Starting values in the units of the data, and the rows: those seen before and the new ones."""
        rows = self.with_seen(self.statistics(*data, **options)) if data else self.seen
        before = self.unconditioned()
        return (before if self.seen is not None else before.in_units(rows)), rows

    def condition_on(self: M, statistics: Any) -> M:
        """The belief that has seen these rows, too."""
        return changed(self, seen=self.with_seen(statistics))

    def evidence_of(self, statistics: Any) -> Float[Array, ""]:
        """Σ log p(rowᵢ | the other rows); after data, the difference with and without `statistics`."""
        whole = self.held_out_log_prob(self.with_seen(statistics)).sum()
        return whole if self.seen is None else whole - self.held_out_log_prob(self.seen).sum()

    def log_evidence_of(self, statistics: Any) -> Float[Array, ""]:
        """`evidence_of`: nothing to compile."""
        return self.evidence_of(statistics)

    def leave_one_out(self, *data: Any, **options: Any) -> Predictive:
        """The prediction of each row from all others: of rows that were seen, or of `data`."""
        if data:
            return self.condition(*data, **options).leave_one_out()
        if self.seen is None:
            raise DataError("the belief has seen no data yet; condition it or use credo.fit")
        return self.held_out(self.seen)


class KernelMethod(RowComparison):
    """A belief about outcomes y at inputs X, which a kernel compares."""

    kernel: eqx.AbstractVar[Kernel]

    @abstractmethod
    def outcomes_of(self, y: Any, n: int) -> Float[Array, " n"]:
        """Outcomes as users have them, as n checked numbers."""

    def statistics(self, *data: Any) -> Rows:
        """X and y, checked."""
        if len(data) != 2:
            raise DataError(f"a {type(self).__name__} is conditioned on X and y, found {len(data)} argument(s)")
        x = self.queries(data[0])
        y = self.outcomes_of(data[1], len(x))
        return Rows(x, y, np.ones(len(x)), np.zeros(len(x)), None)

    def queries(self, x: object) -> Array:
        """Queries as checked rows."""
        columns = None if self.seen is None else self.seen.x.shape[1]
        return self.kernel.encode(by_name(x, self.inputs), "X", columns)

    def with_seen(self, rows: Rows) -> Rows:
        """All rows, those that were seen before first."""
        return rows if self.seen is None else self.seen + rows

    def seen_inputs(self) -> Float[Array | np.ndarray, "n d"] | None:
        """The inputs of the rows it was conditioned on."""
        return None if self.seen is None else self.seen.x


class LocalMixture(Mixture):
    """A mixture of outcomes seen near each query, of which it is known how much is ignorance of their mean."""

    ignorance: Float[Array, "*m"] = eqx.field(kw_only=True)

    @property
    def epistemic(self) -> Array:
        """The variance of the mean outcome."""
        return self.ignorance

    @property
    def aleatoric(self) -> Array:
        """What is left of the variance."""
        return super().aleatoric + super().epistemic - self.ignorance

    def __getitem__(self, index: Index) -> "LocalMixture":
        """The predictions at some of the queries."""
        some = super().__getitem__(index)
        known = namespace(self).asarray(self.ignorance)[as_index(index, self.shape)]
        return LocalMixture(some.weights, some.parts, some.within, ignorance=known)


def local_mixture(
    counts: Float[Array, "k *m"],
    at: Float[Array, " k"],
    wide: Float[Array, " k"],
    noise: Float[Array, "..."],
) -> LocalMixture:
    """Σₖ cₖ N(atₖ, wideₖ + noise)/Σₖ cₖ for each query.

    With A = Σ cₖ and V = Var[at] + E[wide], the mean outcome is known up to V/(1 + A).
    """
    xp, total = namespace(counts, at, wide, noise), counts.sum(0)
    weights = counts / total
    columns = (-1, *(1,) * (counts.ndim - 1))
    # Around the first, so that a common offset costs no digits.
    shift, own = (at - at[0]).reshape(columns), wide.reshape(columns)
    variance = (weights * (own + (shift - (weights * shift).sum(0)) ** 2)).sum(0)
    mean, spread = (xp.broadcast_to(v, counts.shape) for v in (at.reshape(columns), own + noise))
    return LocalMixture(weights, (Normal(mean, spread, xp.zeros(counts.shape)),), ignorance=variance / (1 + total))


def rounding_of(columns: Float[np.ndarray, "n d"]) -> Float[np.ndarray, " d"]:
    """δ²/12 of columns on a grid of step δ, zero where no value occurs twice: what rounding adds to a variance.

    Without it the likelihood of values that occur again grows without end as a bandwidth shrinks. For a column that is
    constant it is one. Sheppard (1898).
    """
    out = np.zeros(columns.shape[1])
    for j, column in enumerate(columns.T):
        gaps = np.diff(np.sort(column))
        again = gaps <= 1e-9 * gaps.sum()
        if again.any():
            out[j] = 1.0 if again.all() else gaps[~again].min() ** 2 / 12
    return out


@dataclass(frozen=True)
class _HeldOutLikelihood(Evidence):
    """Σ log p(rowᵢ | the other rows) climbed; the bandwidths of the belief then include what rounding adds."""

    def learn(self, belief: Any, statistics: Any, fixed: Any, priors: Any, seed: int) -> Learned:
        """The belief at the highest maximum found."""
        learned = super().learn(belief, statistics, fixed, priors, seed)
        return learned._replace(belief=learned.belief.folded(), doubts=(*learned.doubts, *belief.doubts_of(statistics)))
