"""`LDS`: a hidden state that moves linearly, and outcomes that are linear in it, both with normal noise.

    zₜ = Fzₜ₋₁ + Buₜ + qₜ,  qₜ ~ N(0, Q)      xₜ = Hzₜ + Duₜ + d + vₜ,  vₜ ~ N(0, R)      z₁ ~ N(μ₁ + B₁u₁, Σ₁)

A belief about where the state is: `condition` filters (Kalman), `predict` forecasts, `learn` finds the matrices by EM,
by gradient (`Evidence()`), or integrates over them (`VariationalBayes()`, `StateGibbs()`). Kalman (1960); Särkkä &
Svensson (2023).
"""

from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

import equinox as eqx
import jax
import jax.random as jr
import numpy as np
from jaxtyping import Float, Int

from credo.core.abilities import HasConjugateLaws
from credo.core.arrays import Array, host, is_traced, namespace
from credo.core.belief import Belief
from credo.core.checks import ArrayLike, check_count
from credo.core.errors import DataError
from credo.core.padding import bucket, pad_rows
from credo.core.params import positive_definite, real
from credo.core.predictive import Normal
from credo.core.pytrees import changed, plain_methods
from credo.core.scan import run
from credo.core.text import counted, plain
from credo.infer.em import EM
from credo.models.densities.clusters import column_moments
from credo.models.lds import passes
from credo.models.lds.checks import MATRICES, Varying, covariance, is_singular, matrix
from credo.models.lds.forecast import forecast, laws_ahead
from credo.models.lds.kalman import StateLaw, SystemMatrices
from credo.models.lds.learning import FLOOR, Expected, Floors, Regression, SystemEM, expect
from credo.models.lds.riccati import Steady, steady_state
from credo.models.lds.score import log_likelihood
from credo.models.lds.subspace_identification import first_guess
from credo.models.sequences import Sequences, names_of, next_row, read, read_ahead, require_outcomes
from credo.models.state_laws import FilteredStates, SmoothedStates

S = TypeVar("S")

REGRESSIONS = {
    "dynamics": (("transition", "control"), "process_noise"),
    "outcomes": (("emission", "feedthrough", "offset"), "observation_noise"),
    "start": (("start_mean", "start_control"), "start_covariance"),
}
"""The parts of the coefficients of a regression, and the covariance of what they leave."""


class LDS(Belief, HasConjugateLaws):
    """A linear dynamical system with n states and p outputs.

    Args:
        transition: F, shape (n, n).
        process_noise: Q, the covariance of what is new in the state; it may be singular where it is not learned.
        emission: H, shape (p, n).
        observation_noise: R, the covariance of the noise of outcomes.
        start_mean, start_covariance: of the first state of a sequence.
        control: B, shape (n, c), how inputs move the state.
        feedthrough: D, shape (p, c), how inputs show at once.
        offset: d, shape (p,).
        start_control: B₁, shape (n, c), how the inputs of its first row move the start of a sequence.
        method: "covariance"; "square_root" for stiff problems; "parallel" for accelerators, or if nothing is forgotten.

    All but the start may have one more leading axis, with a matrix for each time of a sequence; then they are known.
    `LDS.with_states(n, outputs)` learns everything from data.

    Data are a table (T, p), a vector (T,) for one output, or a list of those, or one table with `lengths`. A single row
    (p,), or a number, is the next outcome. NaN is an entry that was not observed where `missing=True`. `inputs` have a
    row for each outcome, and count from zero, as the state has no constant of its own: center them. A belief that has
    been conditioned knows `state`, the law of the latest state, and goes on from there; several sequences each begin
    anew. `filter`, `smooth` and `sample_states` look at sequences from their beginning unless `continued=True`.
    """

    state: StateLaw | None
    """The filtered law of the latest state, None before the first outcome."""
    time: Int[Array, ""]
    """How many rows of its sequence the state has seen."""
    states: int = eqx.field(static=True)
    outputs: int = eqx.field(static=True)
    inputs: int = eqx.field(static=True)
    method: str = eqx.field(static=True)
    named: tuple[str, ...] | None = eqx.field(static=True)
    """What the columns of x are called, where there are several."""
    transition: Any = real()
    process_noise: Any = positive_definite()
    emission: Any = real()
    observation_noise: Any = positive_definite()
    start_mean: Any = real()
    start_covariance: Any = positive_definite()
    control: Any = real()
    feedthrough: Any = real()
    offset: Any = real()
    start_control: Any = real()
    floors: Floors | None = None
    """What keeps covariances off zero while they are learned."""

    __getattribute__ = plain_methods

    def __init__(
        self,
        transition: ArrayLike,
        process_noise: ArrayLike,
        emission: ArrayLike,
        observation_noise: ArrayLike,
        start_mean: ArrayLike,
        start_covariance: ArrayLike,
        control: ArrayLike | None = None,
        feedthrough: ArrayLike | None = None,
        offset: ArrayLike | None = None,
        *,
        start_control: ArrayLike | None = None,
        method: str = "covariance",
    ) -> None:
        shape = np.shape(emission)
        if len(shape) not in (2, 3):
            raise DataError(f"emission must have shape (p, n), for one output (1, n), found shape {shape}")
        p, n = shape[-2:]
        driven = [value for value in (control, feedthrough, start_control) if value is not None]
        widths = {np.shape(value)[-1] for value in driven if np.ndim(value) > 1}
        if len(widths) > 1:
            found = f"found {sorted(widths)} columns"
            raise DataError(f"control, feedthrough and start_control must have a column for each input, {found}")
        c = widths.pop() if widths else int(len(driven) > 0)
        self.states, self.outputs, self.inputs, self.method = n, p, c, passes.check_method(method)
        self.named = None
        self.transition, self.emission = matrix(transition, "transition", (n, n)), matrix(emission, "emission", (p, n))
        self.process_noise = covariance(process_noise, "process_noise", n)
        self.observation_noise = covariance(observation_noise, "observation_noise", p)
        self.start_mean = matrix(start_mean, "start_mean", (n,))
        self.start_covariance = covariance(start_covariance, "start_covariance", n)
        self.start_control = matrix(start_control, "start_control", (n, c))
        if any(isinstance(a, Varying) for a in (self.start_mean, self.start_covariance, self.start_control)):
            raise DataError("what begins with start_ is of the first state alone, found one for each time")
        self.control, self.feedthrough = matrix(control, "control", (n, c)), matrix(feedthrough, "feedthrough", (p, c))
        self.offset = matrix(offset, "offset", (p,))
        self.state, self.time, self.floors = None, np.asarray(0), None

    @classmethod
    def with_states(
        cls, n: int, outputs: int = 1, inputs: int = 0, *, start_inputs: bool = False, method: str = "covariance"
    ) -> "LDS":
        """A system of n states of which nothing else is known: `credo.fit` learns it.

        `start_inputs` is whether the inputs move the start, too, which only many sequences can tell.
        """
        check_count(n, "n")
        check_count(outputs, "outputs")
        check_count(inputs, "inputs", 0)
        new = object.__new__(cls)
        unknown = dict.fromkeys((*MATRICES, "start_mean", "start_covariance", "state", "floors", "named"))
        if start_inputs and not inputs:
            raise DataError("start_inputs=True needs inputs, found none; pass their number")
        unknown["start_control"] = np.zeros((n, inputs)) if start_inputs else None
        sizes = {"states": int(n), "outputs": int(outputs), "inputs": int(inputs)}
        new.__dict__.update(unknown, **sizes, method=passes.check_method(method), time=np.asarray(0))
        return new

    # -- what every belief does -----------------------------------------------------------------------------

    def told(self, *data: ArrayLike) -> "LDS":
        """The belief that knows the names of its columns."""
        return changed(self, named=names_of(data[0])) if data and self.named is None else self

    def statistics(
        self, x: ArrayLike, lengths: ArrayLike | None = None, *, inputs: ArrayLike | None = None, missing: bool = False
    ) -> Sequences:
        """The sequences, checked and in one table."""
        data = read(x, lengths, inputs, missing, self.outputs, self.named)
        self._check_inputs(None if data.inputs is None else data.inputs.shape[1])
        self._check_times(data)
        return data

    def prepare(self, *data: ArrayLike, **options: Any) -> tuple["LDS", Sequences]:
        """With a starting point from the data where there is none; what is learned is of whole sequences."""
        blank = self.unconditioned()
        found = changed(require_outcomes(blank.statistics(*data, **options)), origin=blank)
        if self.transition is None:
            return blank._started(found, 0), found
        if is_singular(self.observation_noise):
            raise DataError(
                "observation_noise must be positive definite to learn anything, found a singular one; add a little to "
                "its diagonal"
            )
        return blank if self._varies() else blank._with_floors(found), found

    def _with_floors(self, data: Sequences) -> "LDS":
        """With floors from the variances of the outcomes, and from those that the states' noise begins with."""
        _, variance = column_moments(data.x, data.seen)
        q, start = (np.diagonal(np.asarray(a)) for a in (self.process_noise, self.start_covariance))
        floors = (FLOOR * np.where(v > 0, v, 1.0) for v in (q, variance, start))
        return changed(self, floors=Floors(*floors))

    def _started(self, data: Sequences, seed: int) -> "LDS":
        n = data.rows
        x = np.where(data.seen, data.x, np.nan)[:n]
        driven = None if data.inputs is None else np.asarray(data.inputs[:n])
        guess = first_guess(x, np.asarray(data.first[:n]), driven, self.states, seed)
        return changed(self, **guess)._with_floors(data)

    def condition(self, *data: ArrayLike, using: object = None, **options: Any) -> Any:
        """The belief after more outcomes: `state` is the law of the latest state (the Kalman filter).

        A single row, or a number, is the next outcome, with nothing compiled anew.
        """
        if using is None and len(data) == 1 and "lengths" not in options:
            row = next_row(self.outputs, data[0])
            if row is not None:
                return self.require_parameters()._after(row, **options)
        return super().condition(*data, using=using, **options)

    def _after(self, row: np.ndarray, missing: bool = False, inputs: ArrayLike | None = None) -> "LDS":
        """The belief after the next outcome."""
        if not np.isfinite(row).all():
            read(row[None], missing=missing)  # which says what is wrong, if anything is
        driven = None if inputs is None else np.asarray(inputs, dtype=float).reshape(1, -1)
        self._check_inputs(None if driven is None else driven.shape[1])
        self._check_reach(1 + (0 if self.state is None else int(self.time)))
        state, time = passes.advance(self, row, driven)
        return changed(self, state=state, time=np.asarray(time))

    def condition_on(self, statistics: Sequences) -> "LDS":
        """The filter, of which the last law is kept."""
        state, time = passes.over_rows(passes.latest, self.require_parameters(), statistics)
        return changed(self, state=state, time=time)

    def evidence_of(self, statistics: Sequences) -> Float[Array, ""]:
        """log p(x); its gradient costs one pass back."""
        return log_likelihood(passes.filter_inputs(self.require_parameters(), statistics))

    def log_evidence_of(self, statistics: Sequences) -> Float[Array, ""]:
        """`evidence_of`, compiled where rows are many."""
        return passes.over_rows(type(self).evidence_of, self, statistics)

    def predict(self, steps: int = 1, *, inputs: ArrayLike | None = None) -> Normal:
        """The next `steps` outcomes, shape (steps,) for one output and (steps, p) for several.

        The noise R of outcomes is aleatoric; not knowing the state, now and later, is epistemic. For one output the
        prediction knows how the steps covary, up to 2,048 of them.
        """
        return forecast(*self._ahead(steps, inputs), steps)

    def forecast(self, steps: int = 1, *, inputs: ArrayLike | None = None) -> StateLaw:
        """The laws of the next `steps` states: means (steps, n) and covariances (steps, n, n)."""
        return run(laws_ahead, steps, *self._ahead(steps, inputs), steps)

    # -- looking at whole sequences -------------------------------------------------------------------------

    def filter(self, *data: ArrayLike, continued: bool = False, **options: Any) -> FilteredStates:
        """p(zₜ | x₁…xₜ) and log p(xₜ | x₁…xₜ₋₁) for every row."""
        lds, found = self._look(data, options, continued)
        return _head(passes.over_rows(passes.filtered, lds, found), found.rows)

    def smooth(self, *data: ArrayLike, continued: bool = False, **options: Any) -> SmoothedStates:
        """p(zₜ | x₁…x_T) for every row."""
        lds, found = self._look(data, options, continued)
        return _head(passes.over_rows(passes.smoothed, lds, found), found.rows)

    def sample_states(
        self, *data: ArrayLike, n: int = 1, seed: int = 0, continued: bool = False, **options: Any
    ) -> Float[Array, "m t n"]:
        """n draws of all states together from p(z₁…z_T | x₁…x_T)."""
        check_count(n, "n")
        lds, found = self._look(data, options, continued)
        return host(passes.sampled(jr.key(seed), lds, found, n))[:, : found.rows]

    def simulate(
        self, n: int, *, seed: int = 0, inputs: ArrayLike | None = None
    ) -> tuple[Float[Array, "t n"], Float[Array, "t p"]]:
        """The next n states and outcomes, drawn together; from the beginning where nothing was seen yet."""
        driven, length = self._driven(n, inputs), bucket(n)
        driven = None if driven is None else pad_rows(driven, length)
        return _head(host(passes.simulated(jr.key(seed), self.require_parameters(), length, driven)), n)

    def steady_state(self) -> Steady:
        """The predicted covariance and the gain to which the filter settles where every outcome is seen."""
        lds = self.require_parameters()
        if self._varies():
            raise DataError("there is no steady state: some matrices differ from time to time")
        return host(steady_state(passes.system_at(lds, None, np.zeros(1, int))))

    # -- learning -------------------------------------------------------------------------------------------

    def learner(self, priors: dict[str, Any]) -> EM | None:
        """EM; the gradient where there are priors, or matrices that differ from time to time."""
        return None if priors or self._varies() else SystemEM()

    def expect(self, statistics: Sequences) -> tuple[Expected, Float[Array, ""]]:
        """The E-step: expected sums over the states."""
        if self._varies():
            words = "EM and variational Bayes need matrices that are the same at all times"
            raise DataError(f"{words}; learn with using=credo.infer.Evidence()")
        return expect(passes.filter_inputs(self, statistics), statistics)

    def maximize(self, expected: Expected, fixed: tuple[str, ...] = ()) -> "LDS":
        """The M-step: regressions with their residual covariances."""
        floors = self.floors or Floors(*(np.zeros(n) for n in (self.states, self.outputs, self.states)))
        new: dict[str, Array] = {}
        for which, sums in expected._asdict().items():
            floor = getattr(floors, REGRESSIONS[which][1])
            new |= self.regressed(partial(Regression.maximum, floor=floor), sums, which, fixed)
        return changed(self, **new)

    def log_prior_of_parameters(self) -> Float[Array, ""] | float:
        """What keeps covariances off zero while they are learned (`learning.Floors`)."""
        return 0.0 if self.floors is None else self.floors.log_prior(self)

    def regressed(
        self, choose: Callable[..., Any], sums: Regression, which: str, fixed: tuple[str, ...]
    ) -> dict[str, Array]:
        """Matrices by name: the parts of a coefficient matrix, side by side, and the covariance of what they leave.

        choose(sums, C, covariance, free columns, whether the covariance is free) returns both; what is fixed stays.
        """
        c, free, loose = self.coefficients(which, fixed)
        found = self.matrices_of(which, *choose(sums, c, getattr(self, REGRESSIONS[which][1]), free, loose))
        return {name: value for name, value in found.items() if name not in fixed}

    def coefficients(self, which: str, fixed: tuple[str, ...]) -> tuple[Float[Array, "k m"], tuple[bool, ...], bool]:
        """The coefficient matrix of a regression, which columns of it are free, and whether the covariance is."""
        parts, covariance = self._parts(which)
        k = getattr(self, covariance).shape[0]
        given = [np.zeros((k, n)) if value is None else value.reshape(k, n) for _, value, n in parts]
        free = tuple(value is not None and name not in fixed for name, value, n in parts for _ in range(n))
        return namespace(given).concatenate(given, axis=1), free, covariance not in fixed

    def matrices_of(self, which: str, c: Float[Array, "k m"], covariance: Float[Array, "k k"]) -> dict[str, Array]:
        """The matrices of a regression by name."""
        parts, rest = self._parts(which)
        columns = namespace(c).split(c, np.cumsum([n for *_, n in parts])[:-1], axis=1)
        pairs = zip(parts, columns, strict=True)
        return {name: part.reshape(value.shape) for (name, value, _), part in pairs if value is not None} | {
            rest: covariance
        }

    def _parts(self, which: str) -> tuple[list[tuple[str, Array | None, int]], str]:
        """Name, value and number of columns of each part of the coefficients; the name of the covariance."""
        names, covariance = REGRESSIONS[which]
        sizes = {"transition": self.states, "emission": self.states, "offset": 1, "start_mean": 1}
        return [(name, getattr(self, name), sizes.get(name, self.inputs)) for name in names], covariance

    def restart(self, statistics: Sequences, seed: int) -> "LDS | None":
        """Another starting point where all is learned; None where the matrices were given."""
        origin = statistics.origin
        return None if origin is None or origin.transition is not None else origin._started(statistics, seed)

    def begin(self, statistics: Sequences) -> Any:
        """Where variational Bayes begins."""
        from credo.models.lds import bayes  # which needs `LDS`

        return bayes.begin(self, statistics)

    def improve(self, expected: Any, statistics: Sequences) -> tuple[Any, Any, Float[Array, ""]]:
        """A step of variational Bayes, see `bayes`."""
        from credo.models.lds import bayes

        return bayes.improve(self, expected, statistics)

    def extrapolated(self, turns: tuple[Any, Any, Any], longest: float) -> tuple[Any, float] | None:
        """Where three successive turns lead to."""
        from credo.models.lds import bayes

        return bayes.extrapolated(turns, longest)

    def center_of(self, q: Any) -> "LDS":
        """The system at the mean of q."""
        from credo.models.lds import bayes

        return bayes.center(self, q)

    def drawn_from(self, keys: jax.Array, q: Any) -> "LDS":
        """Systems drawn from q."""
        from credo.models.lds import bayes

        return bayes.drawn_from(keys, self, q)

    def averaged(self, drawn: "LDS", statistics: Sequences) -> Belief:
        """The average over drawn systems, each after the data."""
        from credo.models.lds import bayes

        return bayes.averaged(drawn, statistics)

    # -- parts ----------------------------------------------------------------------------------------------

    def unconditioned(self) -> "LDS":
        """The same system before the first outcome of a sequence."""
        return changed(self, state=None, time=np.asarray(0))

    def require_parameters(self) -> "LDS":
        """Itself, if its matrices are known; otherwise an error."""
        if self.transition is None:
            raise DataError("the matrices of the LDS are not known yet; learn them from data with credo.fit(lds, x)")
        return self

    def _varies(self) -> bool:
        return any(isinstance(getattr(self, name), Varying) for name in MATRICES)

    def _look(self, data: tuple[ArrayLike, ...], options: dict[str, Any], continued: bool) -> tuple["LDS", Sequences]:
        lds = self.require_parameters() if continued else self.require_parameters().unconditioned()
        return lds, lds.statistics(*data, **options)

    def _ahead(self, steps: int, inputs: ArrayLike | None) -> tuple[SystemMatrices, StateLaw, StateLaw | None]:
        """What a forecast takes: the matrices of the next steps, the law of a first state, and of the latest one."""
        system = passes.system_ahead(self.require_parameters(), steps, self._driven(steps, inputs))
        return system, passes.starts(self), self.state

    def _driven(self, steps: int, inputs: ArrayLike | None) -> Array | None:
        """The inputs of the next steps."""
        table = read_ahead(steps, inputs)
        self._check_inputs(None if table is None else table.shape[1])
        if self._varies() and not is_traced(self.time):
            self._check_reach(steps + (0 if self.state is None else int(self.time)))
        return table

    def _check_inputs(self, found: int | None) -> None:
        if found is None and self.inputs:
            raise DataError(f"inputs are missing: this system is driven by {self.inputs} of them; pass inputs=")
        if found is not None and found != self.inputs:
            raise DataError(f"inputs must have {self.inputs} columns, as the system was made for, found {found}")

    def _check_times(self, data: Sequences) -> None:
        if self._varies():
            begin = np.flatnonzero(data.first[: data.rows])
            longest = int(np.diff(np.append(begin, data.rows)).max())
            self._check_reach(longest + (int(self.time) if data.alone and self.state is not None else 0))

    def _check_reach(self, rows: int) -> None:
        for name in MATRICES:
            value = getattr(self, name)
            if isinstance(value, Varying) and value.values.shape[0] < rows:
                raise DataError(f"{name} is given for {value.values.shape[0]} times, {rows} are needed; give more")

    def __repr__(self) -> str:
        """`LDS(2 states, 1 output; spectral radius 0.98; after 120 outcomes)`: max |λ(F)|, which is stable below 1."""
        sizes = [counted(self.states, "state"), counted(self.outputs, "output")]
        said = [", ".join(sizes + ([counted(self.inputs, "input")] if self.inputs else []))]
        if self.transition is None:
            said.append("matrices not known yet")
        varying = [name for name in MATRICES if isinstance(getattr(self, name), Varying)]
        if varying:
            said.append(f"{', '.join(varying)} given for each time")
        transition, time = plain(self.transition, 2), plain(self.time, 0)
        if transition is not None and np.isfinite(transition).all():
            said.append(f"spectral radius {np.abs(np.linalg.eigvals(transition)).max():.3g}")
        if self.state is not None and time is not None:
            said.append(f"after {counted(int(time), 'outcome')}")
        return f"{type(self).__name__}({'; '.join(said)})"


def _head(values: S, rows: int) -> S:
    """The first rows of every array."""
    return jax.tree.map(lambda a: a[:rows], values)
