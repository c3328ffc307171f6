"""What all Gaussian processes share: the rows that were seen, a factor of their covariance, and Bayes' rule on them.

A member says what it believes before data (`prior`) and how it sees rows (`transformed`): outcomes through a warp, or
with the noise of their output. Rasmussen & Williams (2006), chapter 2.
"""

from abc import abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, TypeVar

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Float

from credo.core import params
from credo.core.abilities import KeepsRows
from credo.core.arrays import Array, is_traced
from credo.core.belief import Belief
from credo.core.checks import by_name, column_names, input_names
from credo.core.errors import DataError
from credo.core.linalg import demand
from credo.core.pytrees import changed, plain_methods
from credo.kernels import Kernel
from credo.kernels.base import show
from credo.models.gp import exact
from credo.models.gp.data import Rows, copies_left_out, gather, is_chunked, read
from credo.models.gp.evidence import EvidenceObjective, choose_model
from credo.models.gp.exact import Cholesky, GPPrior
from credo.models.gp.hyperpriors import default_priors
from credo.models.gp.means import Mean
from credo.models.gp.warps import OutcomeWarp
from credo.models.noise import SURPRISE, KnownNoise, Noise, warn_of_misfit

G = TypeVar("G", bound="GaussianProcess")

T = TypeVar("T")

FEW = 64
"""So many new rows, or a quarter of those seen, extend the factor; for more it is made anew."""


class FunctionValues(NamedTuple):
    """The function at queries: mean and variance, and the covariance of all where it is asked for."""

    mean: Float[Array, " m"]
    variance: Float[Array, " m"]
    covariance: Float[Array, "m m"] | None


class GaussianProcess(Belief, KeepsRows):
    """A belief about functions, conditioned on rows."""

    __getattribute__ = plain_methods

    noise_number: ClassVar[tuple[str, float]] = ("noise", 1.0)
    """The path of the number that says the noise, and the power of it that is a variance."""

    kernel: eqx.AbstractVar[Kernel]
    mean: eqx.AbstractVar[Mean]
    seen: Any
    """The rows, with outcomes in their own units; None before data."""
    solved: Any
    """The factor of the covariance of the rows, or what a member keeps instead."""
    inputs: tuple[str, ...] | None = eqx.field(static=True)
    """The names of the input columns."""

    if TYPE_CHECKING:  # a field of the members that has a default, or a property

        @property
        def noise(self) -> Any:
            """Its variance, or what says it; None until it is given or chosen from the data."""

    @property
    def prior(self) -> GPPrior:
        """The prior as the numerics see it: an uncertain mean is part of the covariance."""
        more = self.mean.kernel()
        return GPPrior(self.kernel if more is None else self.kernel + more, self.mean, self.noise_variance())

    def noise_variance(self) -> Float[Array, ""]:
        """The variance of the noise where a row or a query names none."""
        noise = params.meaning(self, "noise")
        return noise.variance if isinstance(noise, Noise) else noise

    def transformed(self, rows: Rows) -> tuple[Rows, Float[Array, ""] | float]:
        """The rows as the Gaussian process sees them, and Σ log |slope| of what was done to the outcomes."""
        return rows, 0.0

    def noise_design(self, rows: Rows) -> tuple[Float[Array, "n p"], Float[Array, " n"]]:
        """(S, e): the noise variances of the rows are S v + e, with v those that are learned."""
        return rows.scale[:, None], rows.extra

    @property
    def learned_warp(self) -> OutcomeWarp | None:
        """What outcomes are transformed with, where it has numbers to learn."""
        return None

    @abstractmethod
    def in_units(self: G, rows: Rows) -> G:
        """The belief with starting values in the units of the rows."""

    # -- data ------------------------------------------------------------------------------------------------

    def gathered(self, *data: Any) -> tuple[Any, ...]:
        """X and y of all chunks; of data that are no chunks nothing changes."""
        return gather(data[0]) if len(data) == 1 and is_chunked(data[0]) else data

    def statistics(self, *data: Any, weights: Any = None) -> Rows:
        """X and y, checked; rows whose y is NaN are left out.

        A row's noise variance is the model's divided by its weight.
        """
        return read(self.kernel, self._ordered(data), self._columns(), weights, None)

    def _read(self, data: tuple[Any, ...], weights: Any, noise: Any, errors: Any = None) -> Rows:
        """Rows that may say how large their noise is."""
        if isinstance(self.noise, KnownNoise) and noise is None:
            raise DataError(
                "this model has KnownNoise: give the variance of each row, condition(X, y, noise=variances)"
            )
        return read(self.kernel, self._ordered(data), self._columns(), weights, noise, errors)

    def prepare(self: G, *data: Any, **options: Any) -> tuple[G, Rows]:
        """Starting values in the units of the data, and the rows: those seen before and the new ones."""
        if self.seen is not None:
            return self.unconditioned(), self.with_seen(self.statistics(*data, **options)) if data else self.seen
        rows = self.statistics(*data, **options)
        return self.in_units(rows)._named_by(data[0]), rows

    def default_priors(self, statistics: Rows) -> dict[str, Any]:
        """Weakly informative hyperpriors, in the units of the data."""
        return default_priors(self, statistics)

    def learned_from(self, statistics: Rows) -> tuple[Rows, list[str]]:
        """Each row once: of records that were copied the evidence wants no noise."""
        rows = statistics if is_traced(statistics) else statistics.without_copies()
        return rows, [] if rows is statistics else copies_left_out(statistics.n - rows.n)

    def objective(self, slots: params.Layout, statistics: Rows, priors: dict[str, Any]) -> EvidenceObjective | None:
        """The evidence with its gradient."""
        if is_traced(self, statistics):
            return None
        return EvidenceObjective(choose_model(self, slots, statistics, priors))

    def named(self: G, names: Sequence[str] | None) -> G:
        """The belief that knows its inputs by these names."""
        return changed(self, inputs=None if names is None else tuple(names))

    def _named_by(self: G, x: object) -> G:
        return self.named(input_names(x)) if self.inputs is None and column_names(x) else self

    def _columns(self) -> int | None:
        return None if self.seen is None else self.seen.x.shape[1]

    def _ordered(self, data: tuple[Any, ...]) -> tuple[Any, ...]:
        return (by_name(data[0], self.inputs), *data[1:]) if data else data

    def queries(self, x: object) -> Array:
        """Queries as checked rows."""
        return self.kernel.encode(by_name(x, self.inputs), "X", self._columns())

    # -- Bayes' rule -----------------------------------------------------------------------------------------

    def told(self: G, *data: Any) -> G:
        """The belief that knows the names of its inputs."""
        return self._named_by(data[0]) if data else self

    def condition(self, *data: Any, using: object = None, **options: Any) -> Any:
        """p(f | X, y): the belief after the rows; a warning where they contradict its noise and kernel by far."""
        after = super().condition(*data, using=using, **options)
        if using is None and isinstance(after.solved, Cholesky) and not is_traced(after):
            after._warn_of_misfit()
        return after

    def _warn_of_misfit(self) -> None:
        """rᵀ Cov(y)⁻¹ r costs nothing; where it is suspicious, each row is predicted from the others."""
        rows, noise = self.transformed(self.seen)[0], params.meaning(self, "noise")
        if float(exact.residual(self.prior, rows) @ self.solved.alpha) > SURPRISE * rows.n:
            mean, variance = exact.leave_one_out(rows, self.solved)
            squares = (rows.y - mean) ** 2 / variance
            if np.median(squares[rows.real]) < 1.96**2:  # a wrong mean or an outlier: most intervals hold
                return
            value = noise.variance if isinstance(noise, Noise) else noise
            known = "of the rows" if isinstance(noise, KnownNoise) else f"variance of {show(value)}"
            until = " that counts until one is given" if self.noise is None else ""
            warn_of_misfit(squares[rows.real].sum(), rows.n, f"noise {known}{until}, or the kernel")

    def condition_on(self: G, statistics: Rows) -> G:
        """The posterior after the rows, seen and new."""
        seen, solved, prior = self.seen, self.solved, self.prior
        rows = self.with_seen(statistics)
        stretched, _ = self.transformed(rows)
        if seen is not None and not is_traced(self, rows) and statistics.n <= max(FEW, seen.n // 4):
            extended, ok = exact.extend(prior, stretched, solved, seen.n)
            if ok:
                return changed(self, seen=rows, solved=extended)
        return changed(self, seen=rows, solved=demand(*exact.condition(prior, stretched), exact.NOT_DEFINITE))

    def padded(self: G) -> G:
        """The same belief with its rows padded to a bucket, so that growing data reuse a compiled program."""
        if self.seen is None or self.seen.mask is not None or is_traced(self) or not isinstance(self.solved, Cholesky):
            return self
        rows = self.seen.padded()
        return changed(self, seen=rows, solved=self.solved.padded(len(rows.x)))

    def with_seen(self, rows: Rows) -> Rows:
        """All rows, those that were seen before first."""
        return rows if self.seen is None else self.seen + rows

    def evidence_of(self, statistics: Rows) -> Float[Array, ""]:
        """log p(y | X), given what was seen before."""
        rows, log_slope = self.transformed(statistics)
        if self.seen is None or self.solved is None:
            return exact.evidence(self.prior, rows) + log_slope
        return exact.evidence_after(self.prior, self.transformed(self.seen)[0], self.solved, rows) + log_slope

    def log_evidence_of(self, statistics: Rows) -> Float[Array, ""]:
        """`evidence_of`."""
        return self.evidence_of(statistics)

    def unconditioned(self: G) -> G:
        """The prior that this belief came from."""
        return changed(self, seen=None, solved=None)

    def conditioned(self) -> tuple[Rows, Any]:
        """What was seen, and the posterior's numbers."""
        if self.seen is None or self.solved is None:
            raise DataError("the belief has seen no data yet; condition it or use credo.fit")
        return self.seen, self.solved

    # -- predictions -----------------------------------------------------------------------------------------

    def function_at(self, rows: Array, joint: bool = False) -> FunctionValues:
        """The function at checked rows; of the rows that were seen this reads the inputs only."""
        now = (self.prior, self.seen, self.solved)
        mean, variance = exact.predict(*now, rows)
        return FunctionValues(mean, variance, exact.joint(*now, rows, rows) if joint else None)

    def seen_inputs(self) -> Float[Array | np.ndarray, "n d"] | None:
        """The inputs of the rows it was conditioned on; None where it keeps no rows."""
        return self.seen.cut()[0] if isinstance(self.seen, Rows) else None

    def seen_in_words(self) -> str:
        """How many rows were seen, for `repr`."""
        return "nothing" if self.seen is None else f"{'?' if is_traced(self.seen) else self.seen.n} rows"

    def __repr__(self) -> str:
        noise = "given" if isinstance(self.noise, KnownNoise) else show(self.noise)
        about = f"mean={type(self.mean).__name__}, noise={noise}, seen {self.seen_in_words()}"
        return f"{type(self).__name__}({self.kernel!r}, {about})"


def padded(tree: T) -> T:
    """Whatever holds Gaussian processes with each of them `padded`, before it enters a compiled program."""

    def is_one(node: object) -> bool:
        return isinstance(node, GaussianProcess)

    return jax.tree.map(lambda node: node.padded() if is_one(node) else node, tree, is_leaf=is_one)
