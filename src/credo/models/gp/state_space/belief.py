"""`StateSpaceGP`: a Gaussian process of one input as a state that moves through time; exact, in O(n)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Float

from credo.core import params
from credo.core.abilities import DrawsFunctions, LeavesOneOut
from credo.core.arrays import Array, host, is_traced
from credo.core.checks import by_name
from credo.core.errors import DataError
from credo.core.linalg import demand
from credo.core.padding import by_bucket
from credo.core.params import positive
from credo.core.predictive import Normal
from credo.core.pytrees import changed
from credo.infer.learning import Evidence, Learned, Objective
from credo.infer.method import Learner, Solver
from credo.kernels import Kernel
from credo.models.gp.base import FunctionValues
from credo.models.gp.belief import GP, PredictsOutcomes, left_out
from credo.models.gp.components import Component
from credo.models.gp.data import Rows
from credo.models.gp.evidence import Priors
from credo.models.gp.means import Mean
from credo.models.gp.staged import STRIDE
from credo.models.gp.state_space import passes
from credo.models.gp.state_space.sde import harmonics_for, parts_of, periodic_in
from credo.models.gp.state_space.series import Series, in_order

NEGLIGIBLE = 1e-12
"""The share of a periodic kernel that is left out with the waves above the last one."""

NOT_FINITE = (
    "the filter met numbers that are not finite or not positive; check the scale of the data and of the noise, and the "
    "covariance of the mean"
)


class StateSpaceGP(PredictsOutcomes, LeavesOneOut, DrawsFunctions):
    """A Gaussian process of one input (time), conditioned exactly by filtering.

    It comes from `GP(...).condition(x, y, using=StateSpace())` and has the learnable numbers of the `GP`. Conditioning
    takes O(n) time and memory, predictions at m times O(m log n).
    """

    kernel: Kernel
    mean: Mean
    harmonics: int = eqx.field(static=True)
    """The waves of periodic kernels; chosen by their lengthscale wherever that is known."""
    noise: Any = positive(None, unset=1.0)

    def __init__(self, gp: GP):
        """The prior of a `GP`."""
        self.kernel, self.mean, self.noise, self.inputs = gp.kernel, gp.mean, gp.noise, gp.inputs
        self.seen = self.solved = None
        self.harmonics = harmonics_for(gp.prior.kernel, NEGLIGIBLE)
        parts_of(gp.prior.kernel, self.harmonics)  # refuses a kernel that has no state

    def sized(self) -> "StateSpaceGP":
        """With as many waves as its periodic kernels need now; unchanged while its numbers are traced."""
        if is_traced(self.kernel):
            return self
        count = harmonics_for(self.kernel, NEGLIGIBLE)
        return self if count == self.harmonics else changed(self, solved=None, harmonics=count)

    # -- data ------------------------------------------------------------------------------------------------

    def statistics(self, *data: Any, **options: Any) -> Series:
        """Times, shape (n, 1), and outcomes, in any order, with the options of a `GP`."""
        return in_order(super().statistics(*data, **options))

    def prepare(self, *data: Any, **options: Any) -> tuple["StateSpaceGP", Series]:
        """Starting values in the units of the data where nothing was seen, and all rows, seen and new."""
        if self.seen is not None:
            ready, rows = super().prepare(*data, **options)
            return ready, in_order(rows)
        plain, rows = self.as_gp().prepare(*data, **options)
        return StateSpaceGP(plain), in_order(rows)

    def in_units(self, rows: Rows) -> "StateSpaceGP":
        """Starting values in the units of the data."""
        return StateSpaceGP(self.as_gp().in_units(rows))

    @property
    def method(self) -> "StateSpace":
        """The form of Bayes' rule: `StateSpace()`."""
        return StateSpace()

    def learner(self, priors: dict[str, Any]) -> "StateSpace":
        """`StateSpace`."""
        return StateSpace()

    def objective(self, slots: params.Layout, statistics: Rows, priors: dict[str, Any]) -> "Waving | None":  # type: ignore[override]
        """The evidence with its gradient, with as many waves as each candidate needs."""
        if not periodic_in(self.kernel) or is_traced(self, statistics):
            return None
        return Waving(self, slots, in_order(statistics), priors)

    # -- Bayes' rule -----------------------------------------------------------------------------------------

    def condition_on(self, statistics: Rows) -> "StateSpaceGP":
        """The posterior after the rows, seen and new: two passes over all of them."""
        ready = self.sized()
        series = in_order(ready.with_seen(statistics))
        passed, ok = host(passes.condition(ready.prior, series, ready.harmonics))
        return changed(ready, seen=series, solved=demand(passed, ok, NOT_FINITE))

    def evidence_of(self, statistics: Rows) -> Float[Array, ""]:
        """log p(y | x), given what was seen before."""
        ready = self.sized()
        whole = passes.log_evidence(ready.prior, in_order(ready.with_seen(statistics)), ready.harmonics)
        return whole if ready.seen is None else whole - passes.log_evidence(ready.prior, ready.seen, ready.harmonics)

    # -- predictions -----------------------------------------------------------------------------------------

    def function_at(self, rows: Array, joint: bool = False) -> FunctionValues:
        """The function at checked times: between those that were seen, before, after, or the same."""
        mean, variance = self._latent(rows, None)
        return FunctionValues(mean + self.mean.at(rows), variance, None)

    def queries(self, x: object) -> Array:
        """Times as checked rows."""
        return self.kernel.encode(by_name(x, self.inputs), "X", 1)

    def _latent(self, table: Array | np.ndarray, part: int | None) -> tuple[Any, Any]:
        """Mean and variance of the function, or of a term of its kernel, without m(x)."""
        prior, seen, passed = self.prior, self.seen, self.solved
        if seen is None or passed is None:
            kernel = prior.kernel if part is None else prior.kernel.terms[part]
            return np.zeros(table.shape[0]), kernel.variance_at(table)
        chosen = None
        if part is not None:  # as arrays, so that all terms share one program
            chosen = jax.tree.map(np.asarray, parts_of(prior.kernel, self.harmonics)[part])
        latent: Any = passes.latent
        return host(by_bucket(lambda rows: latent(rows, prior, seen, passed, self.harmonics, chosen), table))

    def sample_functions(self, n: int = 1, *, features: int = 2048, seed: int = 0, columns: int | None = None) -> Any:
        """n draws as functions of time; see `draws.py`."""
        from credo.models.gp.state_space.draws import draw

        return draw(self, n, features, seed)

    def components(self, x: object) -> tuple[Component, ...]:
        """The posterior of each term of a sum of kernels at the times x, in the order of the sum, the mean last.

        Their means add up to the mean of the prediction.
        """
        table, (seen, _) = self.queries(x), self.conditioned()
        times, y, *_ = seen.cut()
        total, own, terms = float(y.var()) or 1.0, len(self.kernel.terms), self.prior.kernel.terms
        known, at_data = (np.asarray(self.mean.at(v)) for v in (table, times))
        found = []
        for i, kernel in enumerate(terms):
            mean, variance = (np.asarray(v) for v in self._latent(table, i))
            share = float(np.asarray(self._latent(times, i)[0]).var()) / total
            found.append(Component(kernel, mean + known * (i >= own), np.sqrt(variance), share, i >= own))
        if len(terms) == own:
            found.append(Component(None, known, np.zeros(len(known)), float(at_data.var()) / total, True))
        return tuple(found)

    def leave_one_out(self, *data: Any, **options: Any) -> Normal:
        """The prediction of each row from all the others: of rows that were seen, in the order of time, or of `data`.

        Those of `data` come in their own order.
        """
        if data:
            if self.seen is not None:
                raise DataError("leave_one_out(X, y) is for a belief that has seen nothing; use unconditioned()")
            out = self.condition(*data, **options).leave_one_out()
            times = np.ravel(data[0])[~np.isnan(np.asarray(data[1], dtype=float))]
            place = np.argsort(np.argsort(times, kind="stable"))
            return jax.tree.map(lambda v: v[place], out)
        seen, _ = self.conditioned()
        return left_out(seen, self.noise_variance(), *passes.leave_one_out(self.prior, in_order(seen), self.harmonics))


class Waving(Objective):
    """log p(y | θ) + log p(θ) for a kernel with periodic parts, whose waves are counted anew for each θ."""

    def value_and_grad(self, vector: np.ndarray) -> tuple[float, np.ndarray]:
        """The objective and its gradient; -inf where a periodic shape is too rough to be a sum of waves."""
        try:
            count = harmonics_for(params.from_vector(self.belief, self.slots, vector).kernel, NEGLIGIBLE)
        except DataError:
            return -np.inf, np.zeros_like(vector)
        belief = changed(self.belief.unconditioned(), harmonics=count)
        return Objective(belief, *self[1:]).value_and_grad(vector)


@dataclass(frozen=True)
class StateSpace(Solver, Learner):
    """The exact posterior and evidence of a `GP` of one input by Kalman filtering, in O(n) time and memory.

        gp.condition(x, y, using=StateSpace())         credo.fit(gp, x, y, using=StateSpace())

    For sums and products of Matern12, Matern32, Matern52, Periodic, Cosine, Constant and White kernels, and trends.
    The result is a `StateSpaceGP`. Särkkä, Solin & Hartikainen (2013), "Spatiotemporal learning via
    infinite-dimensional Bayesian filtering and smoothing".
    """

    starts: int = 3
    window: int = 4096
    """With more rows, starts are tried on so many neighbouring ones; the best is climbed on all."""
    max_steps: int = 200
    tolerance: float = 1e-3
    gain: float = 1e-8
    """A climb ends after a step that gains less than this times the height."""

    needs: ClassVar[tuple[type, ...]] = (GP, StateSpaceGP)

    def adapt(self, belief: Any, statistics: Rows) -> tuple[StateSpaceGP, Series]:
        """The belief as a state that moves, and its rows in the order of time."""
        series = in_order(statistics)  # first: it says so where there is more than one input
        return as_state_space(belief), series

    def learn(self, belief: Any, statistics: Rows, fixed: Sequence[str], priors: Priors, seed: int) -> Learned:
        """The belief at the highest evidence × prior found."""
        own, series = self.adapt(belief, statistics)
        climb = Evidence(self.starts, max_steps=self.max_steps, tolerance=self.tolerance, gain=self.gain)
        n = series.n
        if n <= 2 * self.window:
            found = climb.learn(own, series, fixed, priors, seed)
        else:
            neighbours = (n - self.window) // 2 + np.arange(self.window)
            first = climb.learn(own, series.subset(neighbours), fixed, priors, seed)
            last = changed(climb, starts=1, flat=False, stride=STRIDE)
            found = last.learn(first.belief.sized(), series, fixed, priors, seed)
            note = f"{self.starts} climbs on {self.window} neighbouring rows; the best went on with all {n}"
            found = found._replace(notes=[*found.notes, note])
        return found._replace(belief=found.belief.sized())


def as_state_space(belief: Any) -> StateSpaceGP:
    """The belief as a `StateSpaceGP`, after the rows that it has seen."""
    if isinstance(belief, StateSpaceGP):
        return belief
    own = StateSpaceGP(belief)
    return own if belief.seen is None else own.condition_on(belief.seen)
