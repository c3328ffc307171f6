"""What Gaussian processes behind a likelihood share: rows whose outcomes are encoded by it, in units of the kernel."""

from typing import Any, TypeVar

import equinox as eqx
import numpy as np
from jaxtyping import Float

from credo.core.abilities import HasLogDensity, LeavesOneOut
from credo.core.arrays import Array, as_float, is_traced
from credo.core.checks import check_positive
from credo.core.errors import DataError
from credo.core.pytrees import changed
from credo.kernels import InputScales, Kernel, Matern52
from credo.models.gp.base import GaussianProcess
from credo.models.gp.belief import check_kernel_argument
from credo.models.gp.data import Rows, check_memory, pack, read_outcomes
from credo.models.gp.means import Mean, as_mean
from credo.models.likelihoods import Likelihood, StudentT
from credo.models.likelihoods.classes import Classes, Label

T = TypeVar("T", bound="BehindLikelihood")


class FunctionDraws(eqx.Module):
    """Draws of f at the rows, whitened: f = m + Lv, LLᵀ = K; of several functions one after the other."""

    root: Float[Array, "n n"]
    whitened: Float[Array, "s n"]


class BehindLikelihood(GaussianProcess, HasLogDensity, LeavesOneOut):
    """A belief about functions that are seen only through a likelihood."""

    likelihood: Likelihood
    kernel: Kernel
    mean: Mean
    seen: Rows | None
    """`y` are encoded outcomes, `extra` the logarithms of exposures."""
    solved: Any
    inputs: tuple[str, ...] | None = eqx.field(static=True)
    unit: Float[Array, " d"] | None
    """What the columns are divided by before the kernel sees them; None as they are."""
    standardizes: bool = eqx.field(static=True)
    """Whether `fit` chooses the units: where no kernel was given."""
    method: str = eqx.field(static=True)
    """What the Gaussian approximation is, e.g. "ep"."""

    def _begin(self, likelihood: Likelihood, kernel: object, mean: object) -> None:
        ready = isinstance(likelihood, Classes) and likelihood.classes is not None
        self.likelihood = likelihood.adapt(None) if ready else likelihood
        numbers = isinstance(likelihood, StudentT)
        self.kernel = Matern52(ard=numbers) if kernel is None else check_kernel_argument(kernel, "LatentGP")
        self.mean = as_mean(mean)
        self.seen = self.solved = self.inputs = self.unit = None
        self.standardizes = kernel is None

    @property
    def noise(self) -> Any:
        """None: what is not the function is the likelihood's."""

    def noise_variance(self) -> Float[Array, ""]:
        """None of it."""
        return np.zeros(())

    @property
    def classes(self) -> tuple[Label, ...] | None:
        """The labels in the order of the predicted probabilities; None for numbers, or before any were seen."""
        return self.likelihood.classes if isinstance(self.likelihood, Classes) else None

    def choose(self, statistics: Rows) -> tuple[Any, str] | None:
        """With many rows inducing points; see `large.choice`."""
        from credo.models.gp.large.choice import LATENT_ROWS, choose_latent

        few = is_traced(statistics) or len(statistics.x) <= LATENT_ROWS
        return None if few else choose_latent(len(statistics.x))

    # -- data ------------------------------------------------------------------------------------------------

    def told(self: T, *data: Any) -> T:
        """The belief that knows the names of its inputs and its classes."""
        if len(data) != 2 or is_traced(data):
            return self
        if self.seen is not None:
            return self._named_by(data[0])
        outcomes = data[1] if isinstance(self.likelihood, Classes) else without_missing(data[1])
        return changed(self._named_by(data[0]), likelihood=self.likelihood.adapt(outcomes))

    def learned_from(self, statistics: Rows) -> tuple[Rows, list[str]]:
        """All rows: there is no noise that copies could speak against, and one that counts twice is given twice."""
        return statistics, []

    def statistics(self, *data: Any, weights: Any = None, exposure: Any = None) -> Rows:
        """X and y, checked; `exposure` multiplies expected counts. Rows whose number is NaN are left out."""
        if weights is not None:
            raise DataError("a LatentGP takes no weights: give a row that counts twice twice")
        if len(data) != 2:
            raise DataError(
                f"a LatentGP is conditioned on X and y, or on chunks of them; found {len(data)} argument(s)"
            )
        check_memory(data[0])
        x = self.queries(data[0])
        n, present, outcomes = len(x), None, data[1]
        if not isinstance(self.likelihood, Classes) and not is_traced(outcomes):
            values, present = read_outcomes(outcomes, n)
            outcomes = outcomes if present is None else np.asarray(values)[present]
        y = self.likelihood.adapt(outcomes).encode(outcomes)
        here = slice(None) if present is None else present
        if len(y) != len(x[here]):
            raise DataError(f"y must have one value per row: {n} are expected, found {len(y)}")
        return pack(x[here], y, np.ones(len(y)), self._offset(exposure, n)[here])

    def prepare(self: T, *data: Any, **options: Any) -> tuple[T, Rows]:
        """Starting values in the units of the data, and the rows: those seen before and the new ones."""
        if self.seen is not None or self.unit is not None or not self.standardizes or not data:
            return super().prepare(*data, **options)
        spread = InputScales.of(np.asarray(self.queries(data[0])), 1.0).spread
        return changed(self, unit=as_float(spread)).prepare(*data, **options)

    def queries(self, x: object) -> Array:
        """Queries as checked rows, in the units of the kernel."""
        table = super().queries(x)
        return table if self.unit is None else table / self.unit

    def seen_inputs(self) -> Float[Array | np.ndarray, "n d"] | None:
        """The inputs of the rows it was conditioned on."""
        x = super().seen_inputs()
        return x if x is None or self.unit is None else x * self.unit

    def _offset(self, exposure: Any, n: int) -> Float[Array, " n"]:
        if exposure is None:
            return np.zeros(n)
        if not self.likelihood.counts:
            raise DataError("exposure is for counts; for other outcomes put what is known into the mean")
        return np.log(check_positive(exposure, "exposure", n))


def without_missing(y: Any) -> Any:
    """Outcomes without those that are NaN, where they are numbers."""
    try:
        values = np.asarray(y.to_numpy() if hasattr(y, "to_numpy") else y, dtype=float)
    except (TypeError, ValueError):
        return y
    missing = np.isnan(values)
    return values[~missing] if values.ndim == 1 and missing.any() and not missing.all() else y
