"""Structural time series: parts that add up, as one linear Gaussian state space model.

    yₜ = Σ parts hᵀzₜ + εₜ, εₜ ~ N(0, noise)

    model = Level() + Seasonal(12)
    after = credo.fit(model, y)
    after.predict(24), after.components(steps=24)

Variances and the like are learned by the evidence, whose gradient is exact (`univariate_kalman`). The states start from
a proper law that is wide at the scale of the data (see the parts), so that models with different parts can be compared
by their evidence. Where the start should not matter, condition on the first outcomes:
`model.condition(y[:d]).log_evidence(y[d:])` is what others call the diffuse log-likelihood.
Harvey (1989); Durbin & Koopman (2012), chapters 2-4.
"""

from collections.abc import Callable, Mapping
from typing import TypeVar

import equinox as eqx
import numpy as np
from jaxtyping import Bool, Float

from credo.core.arrays import Array, Numeric, as_float, is_traced, namespace
from credo.core.belief import Belief, Integration
from credo.core.checks import ArrayLike, check_count
from credo.core.errors import DataError
from credo.core.params import Layout, positive
from credo.core.predictive import LogNormal, Normal, Predictive
from credo.core.pytrees import changed
from credo.infer.priors import Penalty, Prior
from credo.models.lds.forecast import forecast
from credo.models.lds.kalman import StateLaw
from credo.models.state_laws import FilteredStates, SmoothedStates
from credo.models.structural.base import Part, SeriesScales, as_number, variance_of
from credo.models.structural.learning import StructuralEvidence, StructuralObjective, weak_priors
from credo.models.structural.parts import Level, Regression, Trend
from credo.models.structural.series import Series, logarithms, read_inputs, read_outcomes, series_of
from credo.models.structural.univariate_kalman import SeriesSystem, evidence, filtered_states, run, smoothed_states

S = TypeVar("S", bound=FilteredStates)


class Past(eqx.Module):
    """The series so far."""

    y: Float[np.ndarray, " t"]
    """NaN where nothing was observed; logarithms where the model is of those."""
    inputs: Float[np.ndarray, "t d"]


class Structural(Belief):
    """A sum of parts and noise. `Level() + Seasonal(12)` makes one; `Level()` alone stands for `Structural(Level())`.

    `start` is (mean, covariance) of all states at the first time, for those who want to say it; None takes it from the
    scale of the first data. `noise=None` is an outcome without noise of its own.

    With `log=True` the parts add up to log y: in the units of y they multiply, as where a season grows with its level.
    Predictions are `LogNormal`, components factors, and the evidence is that of y itself, p(y) = p(log y)/y, so that
    both kinds can be compared. `(Trend() + Seasonal(12)).on_logs()` says the same of a sum.
    """

    parts: tuple[Part, ...]
    noise: Float[Array, ""] | None = positive(1.0)
    start: StateLaw | None = None
    scales: SeriesScales | None = None
    """The scale of the first data."""
    state: StateLaw | None = None
    """The law of the state at the latest time."""
    past: Past | None = None
    log: bool = eqx.field(static=True, default=False)
    """Whether the parts add up to log y."""

    def __init__(
        self,
        *parts: object,
        noise: Numeric | None = 1.0,
        start: tuple[Numeric, Numeric] | None = None,
        scales: SeriesScales | None = None,
        state: StateLaw | None = None,
        past: Past | None = None,
        log: bool = False,
    ):
        self.parts = tuple(part for part in parts if isinstance(part, Part))
        for part in parts:
            if not isinstance(part, Part):
                raise DataError(f"a structural model is made of parts such as Level(), found {type(part).__name__}")
        if not parts:
            raise DataError("a structural model needs at least one part, e.g. Structural(Level())")
        levels = [part for part in parts if isinstance(part, Level | Trend)]
        if len(levels) > 1:
            raise DataError(
                f"found {' and '.join(type(part).__name__ + '()' for part in levels)}: a Trend() has a level of its "
                "own, and two levels cannot be told apart; keep one of them"
            )
        if sum(isinstance(part, Regression) for part in parts) > 1:
            raise DataError("found several Regression() parts; one takes all inputs")
        self.noise = as_number(noise)
        self.start = None if start is None else StateLaw(*(as_float(a) for a in start))
        self.scales, self.state, self.past, self.log = scales, state, past, bool(log)

    def __add__(self, other: object) -> "Structural":
        """The model with more parts."""
        more, log = (other.parts, other.log) if isinstance(other, Structural) else ((other,), False)
        return Structural(*self.parts, *more, noise=self.noise, start=self.start, log=self.log or log)

    def on_logs(self) -> "Structural":
        """The same parts for log y, before any data."""
        return changed(self, state=None, past=None, scales=None, log=True)

    def formula(self) -> str:
        """The names of the parts."""
        return " + ".join([part.name for part in self.parts] + (["noise"] if self.noise is not None else []))

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the parts, told apart by a number where two are alike."""
        plain = [part.name for part in self.parts]
        return tuple(
            f"{name} {plain[: i + 1].count(name)}" if plain.count(name) > 1 else name for i, name in enumerate(plain)
        )

    @property
    def state_names(self) -> tuple[str, ...]:
        """What each number of the state is."""
        return tuple(f"{name}: {s}" for name, part in zip(self.names, self.parts, strict=True) for s in part.states)

    # ------------------------------------------------------------------ the matrices

    @property
    def has_level(self) -> bool:
        """Whether a part takes up any constant."""
        return any(isinstance(part, Level | Trend) for part in self.parts)

    @property
    def input_names(self) -> tuple[str, ...] | None:
        """The names of the inputs: () where there is no regression, None where it has seen none yet."""
        found = [part for part in self.parts if isinstance(part, Regression)]
        return found[0].names if found else ()

    def system(self, inputs: Float[Array, "t d"], scales: SeriesScales) -> SeriesSystem:
        """The matrices of all parts; the inputs of each time are the emission of a regression.

        They count from their mean, where a level takes up what is left: it is that of average inputs.
        """
        systems = [part.system(scales) for part in self.parts]
        inputs = inputs - scales.middles if self.has_level and self.start is None else inputs
        each = zip(systems, self.parts, strict=True)
        systems = [own._replace(emission=inputs) if isinstance(part, Regression) else own for own, part in each]
        whole, start = SeriesSystem.joined(*systems), self.start
        if start is None:
            return whole
        n = len(whole.noise)
        if start.mean.shape != (n,) or start.covariance.shape != (n, n):
            found = f"{start.mean.shape} and {start.covariance.shape}"
            raise DataError(f"start must be a mean of shape ({n},) and a covariance of shape ({n}, {n}), found {found}")
        return whole._replace(mean=start.mean, covariance=start.covariance)

    def observed(self, series: Series) -> tuple[SeriesSystem, Float[Array, " t"], Bool[Array, " t"]]:
        """What a pass over a series takes: the matrices with the noise, the outcomes, and which were seen.

        Where a state is known already, the series goes on from it: it is the law of a time before, of which nothing was
        seen.
        """
        whole, y, seen = self.system(series.inputs, series.scales), series.y, series.seen
        if self.state is not None:
            xp = namespace(whole, series, self.state)
            h = whole.emission
            h = h if h.ndim == 1 else xp.concatenate([xp.zeros_like(h[:1]), h])
            whole = whole._replace(emission=h, mean=self.state.mean, covariance=self.state.covariance)
            y, seen = xp.concatenate([xp.zeros(1), y]), xp.concatenate([xp.zeros(1, bool), seen])
        return SeriesSystem.joined(whole, SeriesSystem.white_noise(variance_of(self.noise))), y, seen

    # ------------------------------------------------------------------ data

    def statistics(self, y: ArrayLike, inputs: ArrayLike | None = None, missing: bool = False) -> Series:
        """The series, checked; NaN is an outcome that was not observed where `missing`."""
        outcomes = self._read(y, missing)
        names = self.input_names
        table, found = read_inputs(inputs, len(outcomes), names)
        if names is None:
            raise DataError(f"Regression() has seen no inputs: name them, Regression({found!r}), or use fit")
        return series_of(outcomes, table, self.log, self.scales)

    def _read(self, y: ArrayLike, missing: bool) -> Float[np.ndarray, " t"]:
        outcomes = read_outcomes(y, missing)
        return logarithms(outcomes) if self.log else outcomes

    def prepare(
        self, y: ArrayLike, inputs: ArrayLike | None = None, missing: bool = False
    ) -> tuple["Structural", Series]:
        """With the names of its inputs, and the numbers at which learning begins; as it is once it has seen data."""
        if self.state is not None:
            return self, self.statistics(y, inputs, missing)
        outcomes = self._read(y, missing)
        if not np.any(~np.isnan(outcomes)):
            raise DataError("y has no outcome that was observed: there is nothing to learn from")
        _, found = read_inputs(inputs, len(outcomes), self.input_names)
        parts = tuple(Regression(found) if isinstance(part, Regression) else part for part in self.parts)
        named = changed(self, parts=parts)
        series = named.statistics(y, inputs, missing)
        scales = series.scales
        noise = None if self.noise is None else as_float(scales.step**2 / 3)
        return changed(named, parts=tuple(part.adapt(scales) for part in parts), noise=noise), series

    def condition_on(self, statistics: Series) -> "Structural":
        """The law of the state after the series, by the Kalman filter; it goes on where the last one ended."""
        filtered = run(filtered_states, *self.observed(statistics.cut()))
        state = StateLaw(filtered.mean[-1, :-1], filtered.covariance[-1, :-1, :-1])
        past = Past(*statistics.unpadded())
        if self.past is not None:
            past = Past(np.concatenate([self.past.y, past.y]), np.concatenate([self.past.inputs, past.inputs]))
        return changed(self, state=state, past=past, scales=self.scales or statistics.scales)

    def evidence_of(self, statistics: Series) -> Float[Array, ""]:
        """log p(y₁…y_T) = Σₜ log p(yₜ | y₁…yₜ₋₁); of logarithms, with -Σₜ log yₜ."""
        if is_traced(self, statistics):
            return evidence(*self.observed(statistics)) + statistics.jacobian
        return run(evidence, *self.observed(statistics.cut(seen=True))) + statistics.jacobian

    def log_evidence_of(self, statistics: Series) -> Float[Array, ""]:
        """`evidence_of`; what is long is compiled by itself."""
        return self.evidence_of(statistics)

    def unconditioned(self) -> "Structural":
        """As before any data, with what was learned."""
        return changed(self, state=None, past=None, scales=None)

    # ------------------------------------------------------------------ learning

    def learner(self, priors: Mapping[str, Prior]) -> StructuralEvidence:
        """The evidence by gradient; a variance that ends at zero is a note."""
        return StructuralEvidence()

    def default_priors(self, statistics: Series) -> dict[str, Penalty]:
        """Weak priors on the logarithms of all variances, at the scale of the data: see `typical` of each part."""
        return weak_priors(self, statistics.scales)

    def integration(self, statistics: Series) -> Integration | None:
        """The same priors in an average over the variances: a dozen outcomes do not tell them."""
        return None if self.state is not None else Integration(int(np.count_nonzero(statistics.seen)))

    def objective(self, slots: Layout, statistics: Series, priors: Mapping[str, Prior]) -> StructuralObjective:
        """Evidence and prior with their gradient by the score."""
        return StructuralObjective(self, slots, statistics, priors)

    # ------------------------------------------------------------------ what is asked for

    def predict(self, steps: int = 1, inputs: ArrayLike | None = None) -> Normal | LogNormal:
        """The next `steps` outcomes: noise is aleatoric, doubt about the state epistemic.

        Its `latent_covariance` says how the doubts covary, so `predict(steps).sample(n)` draws whole futures, of up to
        2,048 steps.
        """
        check_count(steps, "steps")
        if self.scales is None:
            raise DataError("the model has seen no data, so it cannot forecast; use credo.fit(model, y) first")
        table, _ = read_inputs(inputs, int(steps), self.input_names or ())
        system = self.system(table, self.scales).matrices(variance_of(self.noise))
        return self._in_units(forecast(*system, self.state, int(steps)))

    def predict_at(self, times: ArrayLike, inputs: ArrayLike | None = None) -> Normal | LogNormal:
        """The outcomes at some times, counted from the first: of the past, given the whole series, and of the future.

        `inputs` are those of the times after the last one, as many as it takes to reach the latest of `times`.
        """
        at = np.asarray(times, dtype=int)
        ahead = max(int(at.max(initial=0)) + 1 - (0 if self.past is None else len(self.past.y)), 0)
        series = self._whole("predict", ahead, inputs)
        smoothed = self._run(smoothed_states, series)
        h = np.broadcast_to(self.system(series.cut().inputs, series.scales).emission, smoothed.mean.shape)[at]
        doubt = np.einsum("ti,tij,tj->t", h, smoothed.covariance[at], h).clip(0.0)
        noise = np.broadcast_to(variance_of(self.noise), at.shape)
        return self._in_units(Normal((h * smoothed.mean[at]).sum(axis=1), noise, doubt))

    def _in_units(self, prediction: Normal) -> Normal | LogNormal:
        """A prediction of what the parts add up to, in the units of the outcome."""
        return LogNormal.of(prediction) if self.log else prediction

    def filter(self) -> FilteredStates:
        """The law of the state at every time given the outcomes up to then."""
        return self._run(filtered_states, self._whole("filter"))

    def smooth(self, steps: int = 0, inputs: ArrayLike | None = None) -> SmoothedStates:
        """The law of every state given the whole series, and `steps` further."""
        return self._run(smoothed_states, self._whole("smooth", steps, inputs))

    def _run(self, function: Callable[[SeriesSystem, Array, Array], S], series: Series) -> S:
        """A pass over the whole series; the noise is no state to speak of."""
        found = run(function, *self.unconditioned().observed(series.cut()))
        return eqx.tree_at(lambda s: (s.mean, s.covariance), found, (found.mean[:, :-1], found.covariance[:, :-1, :-1]))

    def _whole(self, doing: str, steps: int = 0, inputs: ArrayLike | None = None) -> Series:
        """The series so far and `steps` further."""
        if self.past is None or self.scales is None:
            raise DataError(
                f"the model has seen no data, so there is nothing to {doing}; use credo.fit(model, y) first"
            )
        check_count(steps, "steps", least=0)
        table, _ = read_inputs(inputs, int(steps), self.input_names) if steps else (self.past.inputs[:0], ())
        y = np.concatenate([self.past.y, np.full(int(steps), np.nan)])
        return series_of(y, np.concatenate([self.past.inputs, table]), scales=self.scales)

    def components(self, steps: int = 0, inputs: ArrayLike | None = None) -> dict[str, Predictive]:
        """What each part adds to the outcome, by name: at every time of the past and `steps` further, given all.

        Of a model of logarithms, the factor of each part: their medians multiply to that of the outcome.
        """
        series = self._whole("smooth", steps, inputs)
        smoothed = self._run(smoothed_states, series)
        mean, covariance = smoothed.mean, smoothed.covariance
        weights = np.broadcast_to(self.system(series.cut().inputs, series.scales).emission, mean.shape)
        out: dict[str, Predictive] = {}
        at = 0
        for name, part in zip(self.names, self.parts, strict=True):
            own = slice(at, at + len(part.states))
            h = weights[:, own]
            doubt = np.einsum("ti,tij,tj->t", h, covariance[:, own, own], h).clip(0.0)
            total = (h * mean[:, own]).sum(axis=1)
            out[name] = self._in_units(Normal(total, np.zeros(len(mean)), doubt))
            at = own.stop
        return out

    def __repr__(self) -> str:
        from credo.models.structural.describe import describe

        return describe(self)


StructuralEvidence.needs = Structural  # which it cannot import itself
