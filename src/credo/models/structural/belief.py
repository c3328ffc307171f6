"""Structural time series: parts that add up, as one linear Gaussian state space model on the code of Kalman.

    yₜ = Σ parts hᵀzₜ + εₜ, εₜ ~ N(0, noise)

    model = Level() + Seasonal(12)
    after = credo.fit(model, y)
    after.predict(24), after.components(steps=24)

Variances and the like are learned by the evidence, whose gradient is exact (`models.lds.score`). The states start from
a proper law that is wide at the scale of the data (see the parts), so that models with different parts can be compared
by their evidence. Where the start should not matter, condition on the first outcomes:
`model.condition(y[:d]).log_evidence(y[d:])` is what others call the diffuse log-likelihood.
Harvey (1989); Durbin & Koopman (2012), chapters 2-4.
"""

from typing import Any

import equinox as eqx
import jax.numpy as jnp
import jax.scipy.linalg as jsp
import numpy as np
from jaxtyping import Float

from credo.core.arrays import Array, put
from credo.core.belief import Belief
from credo.core.checks import ArrayLike, check_count
from credo.core.errors import DataError
from credo.core.padding import bucket, pad_rows
from credo.core.params import positive
from credo.core.predictive import LogNormal, Normal, Predictive
from credo.core.pytrees import changed
from credo.models.lds import kalman
from credo.models.lds.kalman import FilterInputs, StateLaw, SystemMatrices
from credo.models.lds.score import log_likelihood
from credo.models.state_laws import FilteredStates, SmoothedStates
from credo.models.structural.base import Part, SeriesScales, as_number, variance_of
from credo.models.structural.forecast import forecast
from credo.models.structural.learning import StructuralEvidence, weak_priors
from credo.models.structural.parts import Level, Regression, Trend
from credo.models.structural.series import Series, logarithms, read_inputs, read_outcomes, series_of


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
        *parts: Any,
        noise: float | Array | None = 1.0,
        start: Any = None,
        scales: SeriesScales | None = None,
        state: StateLaw | None = None,
        past: Past | None = None,
        log: bool = False,
    ):
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
        self.parts = parts
        self.noise = as_number(noise)
        self.start = None if start is None else StateLaw(*(as_number(a) for a in start))
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
    def input_names(self) -> tuple[str, ...] | None:
        """The names of the inputs: () where there is no regression, None where it has seen none yet."""
        found = [part for part in self.parts if isinstance(part, Regression)]
        return found[0].names if found else ()

    def system(self, inputs: Float[Array, "t d"], scales: SeriesScales) -> tuple[StateLaw, SystemMatrices]:
        """The law of the first state, and the matrices of every time."""
        blocks = [part.block(scales) for part in self.parts]
        transition = jsp.block_diag(*(b.transition for b in blocks))
        noise = jnp.diag(jnp.concatenate([b.noise for b in blocks]))
        weights = [b.weights for b in blocks]
        if self.input_names != ():  # the inputs of each time are the weights of the regression
            each = zip(self.parts, weights, strict=True)
            weights = [inputs if isinstance(part, Regression) else jnp.tile(w, (len(inputs), 1)) for part, w in each]
        emission = jnp.concatenate(weights, axis=-1)[..., None, :]
        n, start = len(transition), self.start
        if start is None:
            start = StateLaw(jnp.concatenate([b.mean for b in blocks]), jsp.block_diag(*(b.covariance for b in blocks)))
        elif start.mean.shape != (n,) or start.covariance.shape != (n, n):
            found = f"{start.mean.shape} and {start.covariance.shape}"
            raise DataError(f"start must be a mean of shape ({n},) and a covariance of shape ({n}, {n}), found {found}")
        observation = variance_of(self.noise).reshape(1, 1)
        return start, SystemMatrices.of(transition, noise, emission, observation)

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
        noise = None if self.noise is None else put(scales.step**2 / 3)
        return changed(named, parts=tuple(part.adapt(scales) for part in parts), noise=noise), series

    def condition_on(self, statistics: Series) -> "Structural":
        """The law of the state after the series, by the Kalman filter; it goes on where the last one ended."""
        filtered = _filter(self._light(), statistics)
        last = int(statistics.length) - 1
        state = StateLaw(put(np.asarray(filtered.mean)[last]), put(np.asarray(filtered.covariance)[last]))
        past = Past(*statistics.unpadded())
        if self.past is not None:
            past = Past(np.concatenate([self.past.y, past.y]), np.concatenate([self.past.inputs, past.inputs]))
        return changed(self, state=state, past=past, scales=self.scales or statistics.scales)

    def evidence_of(self, statistics: Series) -> Float[Array, ""]:
        """log p(y₁…y_T) = Σₜ log p(yₜ | y₁…yₜ₋₁); of logarithms, with -Σₜ log yₜ."""
        return log_likelihood(self._given(statistics)) + statistics.jacobian

    def _given(self, series: Series) -> FilterInputs:
        start, system = self.system(series.inputs, series.scales)
        return FilterInputs(start, system, series.y, series.seen, jnp.zeros(len(series.y), bool), self.state)

    def log_evidence_of(self, statistics: Series) -> Array:
        """`evidence_of`, compiled once for every bucket of lengths."""
        return super(Structural, self._light()).log_evidence_of(statistics)

    def _light(self) -> "Structural":
        """Without the past, whose length would ask for a compilation of its own; logarithms are the data's affair."""
        return changed(self, past=None, log=False)

    def unconditioned(self) -> "Structural":
        """As before any data, with what was learned."""
        return changed(self, state=None, past=None, scales=None)

    # ------------------------------------------------------------------ learning

    def learner(self, priors: dict[str, Any]) -> StructuralEvidence:
        """The evidence by gradient; a variance that ends at zero is a note."""
        return StructuralEvidence()

    def default_priors(self, statistics: Series) -> dict[str, Any]:
        """Weak priors on the logarithms of all variances, at the scale of the data: see `typical` of each part."""
        return weak_priors(self, statistics.scales)

    # ------------------------------------------------------------------ what is asked for

    def predict(self, steps: int = 1, inputs: ArrayLike | None = None) -> Normal | LogNormal:
        """The next `steps` outcomes: noise is aleatoric, doubt about the state epistemic.

        Its `latent_covariance` says how the doubts covary, so `predict(steps).sample(n)` draws whole futures.
        """
        check_count(steps, "steps")
        if self.scales is None:
            raise DataError("the model has seen no data, so it cannot forecast; use credo.fit(model, y) first")
        table, _ = read_inputs(inputs, int(steps), self.input_names or ())
        start, system = self.matrices(table)
        return self._in_units(forecast(system, start, self.state, int(steps)))

    def _in_units(self, prediction: Normal) -> Normal | LogNormal:
        """A prediction of what the parts add up to, in the units of the outcome."""
        return LogNormal.of(prediction) if self.log else prediction

    def matrices(self, inputs: Float[np.ndarray, "t d"]) -> tuple[StateLaw, SystemMatrices]:
        """`system` at the scales of the data, compiled; only a regression has matrices of its own for every time."""
        assert self.scales is not None
        padded = pad_rows(inputs, bucket(len(inputs))) if inputs.shape[1] else np.zeros((1, 0))
        start, steps = _system(self.unconditioned()._light(), put(padded), self.scales)
        if steps.emission.ndim == 3:
            steps = steps._replace(emission=put(np.asarray(steps.emission)[: len(inputs)]))
        return start, steps

    def filter(self) -> FilteredStates:
        """The law of the state at every time given the outcomes up to then."""
        series = self._whole("filter")
        return series.rows_of(_filter(self.unconditioned()._light(), series))

    def smooth(self, steps: int = 0, inputs: ArrayLike | None = None) -> SmoothedStates:
        """The law of every state given the whole series, and `steps` further."""
        series = self._whole("smooth", steps, inputs)
        return series.rows_of(_smooth(self.unconditioned()._light(), series))

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
        smoothed = series.rows_of(_smooth(self.unconditioned()._light(), series))
        mean, covariance = np.asarray(smoothed.mean), np.asarray(smoothed.covariance)
        emission = np.asarray(self.matrices(series.unpadded()[1])[1].emission)
        weights = np.broadcast_to(emission.reshape(-1, mean.shape[1]), mean.shape)
        out: dict[str, Predictive] = {}
        at = 0
        for name, part in zip(self.names, self.parts, strict=True):
            own = slice(at, at + len(part.states))
            h = weights[:, own]
            doubt = np.einsum("ti,tij,tj->t", h, covariance[:, own, own], h).clip(0.0)
            total = (h * mean[:, own]).sum(axis=1)
            out[name] = self._in_units(Normal(put(total), put(np.zeros(len(mean))), put(doubt)))
            at = own.stop
        return out

    def __repr__(self) -> str:
        from credo.models.structural.describe import describe

        return describe(self)


@eqx.filter_jit
def _system(belief: Structural, inputs: Float[Array, "t d"], scales: SeriesScales) -> tuple[StateLaw, SystemMatrices]:
    return belief.system(inputs, scales)


@eqx.filter_jit
def _filter(belief: Structural, series: Series) -> FilteredStates:
    return kalman.kalman_filter(belief._given(series))


@eqx.filter_jit
def _smooth(belief: Structural, series: Series) -> SmoothedStates:
    given = belief._given(series)
    return kalman.kalman_smoother(given, *kalman.forward_pass(given))


StructuralEvidence.needs = Structural  # which it cannot import itself
