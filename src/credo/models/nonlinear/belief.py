"""`StateSpaceModel`: a belief about a hidden state that moves and is observed through functions of any form."""

from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Float

from credo.core.arrays import Array, host, is_traced
from credo.core.belief import Belief
from credo.core.checks import ArrayLike, check_count
from credo.core.errors import DataError
from credo.core.gaussian import Gaussian
from credo.core.method import check_using
from credo.core.padding import bucket
from credo.core.predictive import Mixture, Predictive
from credo.core.pytrees import changed
from credo.core.text import counted, plain
from credo.models.nonlinear.gaussian_filters import Extended
from credo.models.nonlinear.laws import Cloud
from credo.models.nonlinear.method import FINE, FiltersStates, StateMethod, check_status
from credo.models.nonlinear.model import Dynamics, Function, check_covariance, check_mean
from credo.models.nonlinear.particle import Particles
from credo.models.nonlinear.simulate import draw_future
from credo.models.sequences import Sequences, read, read_ahead
from credo.models.state_laws import FilteredStates


class StateSpaceModel(Dynamics, Belief, FiltersStates):
    """zₜ = step(zₜ₋₁, uₜ) + qₜ, xₜ = observe(zₜ, uₜ) + vₜ with qₜ ~ N(0, Q), vₜ ~ N(0, R), z₁ ~ N(m(u₁), P).

    `condition` filters: the belief after data has the law of the last state as its `state`, and goes on from there,
    with one row at a time if need be. `using` is `Extended()` (the default), `Unscented()` or `Particles()` (the
    default where noise is not Gaussian), and the belief keeps to the one it was last conditioned with.

    Args:
        step: the next state from one state and the input of the new row (None without inputs); written with jax.numpy.
        observe: the expected outcome of one state, a vector or a number; or, for particles, its `Predictive`.
        process_noise: Q, a covariance matrix that may be singular, or a number for a state of one number.
        observation_noise: R, likewise.
        start_mean: m, of the state at the first row; or a function of its input u₁, which gives it.
        start_covariance: P; zeros where the first state is known.
        log_likelihood: log p(x | z, u) from (x, z, u), in place of observe and its noise; for particles.
        transition_sample: a draw of the next state from (key, z, u), in place of step and its noise; for particles.
        using: the method, where `condition` names none.
    """

    from_data: ClassVar[tuple[str, ...]] = ("state",)

    state: Gaussian | Cloud | None = None
    """p(zₜ | x₁…xₜ) after the last row; None before any."""
    using: StateMethod[Any] = eqx.field(default_factory=Extended)

    def __init__(
        self,
        step: Any = None,
        observe: Any = None,
        process_noise: ArrayLike | None = None,
        observation_noise: ArrayLike | None = None,
        start_mean: ArrayLike | Function | None = None,
        start_covariance: ArrayLike | None = None,
        *,
        log_likelihood: Any = None,
        transition_sample: Any = None,
        using: object = None,
    ) -> None:
        for name, value, call in (
            ("step", step, "(z, u) of one state"),
            ("observe", observe, "(z, u) of one state"),
            ("log_likelihood", log_likelihood, "(x, z, u)"),
            ("transition_sample", transition_sample, "(key, z, u)"),
        ):
            if value is not None and not callable(value):
                raise DataError(f"{name} must be a function {call}, found {type(value).__name__}")
        if transition_sample is None and (step is None or process_noise is None):
            raise DataError("step and process_noise are missing; pass both, or transition_sample(key, z, u)")
        if log_likelihood is None and observe is None:
            raise DataError("observe is missing; pass it with observation_noise, or log_likelihood(x, z, u)")
        for name, value in (("start_mean", start_mean), ("start_covariance", start_covariance)):
            if value is None:
                raise DataError(f"{name} is missing: the law of the state at the first row; zeros will do for a mean")
        self.step, self.observe = step, observe
        self.log_likelihood, self.transition_sample = log_likelihood, transition_sample
        self.start_mean = check_mean(start_mean)
        n = None if callable(self.start_mean) else self.start_mean.shape[0]
        self.start_covariance = check_covariance(start_covariance, "start_covariance", n)
        n = self.start_covariance.shape[0]
        self.process_noise = None if process_noise is None else check_covariance(process_noise, "process_noise", n)
        self.observation_noise = (
            None if observation_noise is None else check_covariance(observation_noise, "observation_noise", None)
        )
        self.state = None
        gaussian = log_likelihood is None and transition_sample is None and observation_noise is not None
        self.using = (Extended() if gaussian else Particles()) if using is None else _check(self, using)

    def by(self, method: object) -> "StateSpaceModel":
        """The same belief, to be carried on by another method: a Gaussian keeps mean and covariance of a cloud."""
        checked = _check(self, method)
        state = None if self.state is None else checked.adopt(self.state)
        return changed(self, using=checked, state=state)

    def statistics(
        self,
        x: ArrayLike,
        *,
        lengths: ArrayLike | None = None,
        inputs: ArrayLike | None = None,
        missing: bool = False,
        **unknown: object,
    ) -> Sequences:
        """The rows, checked and padded; see `condition`."""
        if unknown:
            raise DataError(f"unknown options: {', '.join(sorted(unknown))}; known are lengths, inputs, missing, using")
        x = _as_rows(x, None if self.observation_noise is None else self.observation_noise.shape[0])
        data = read(x, lengths, None if inputs is None else _as_rows(inputs, None), missing)
        if self.log_likelihood is not None and not data.complete:
            raise DataError("log_likelihood takes whole rows, found rows of which only some entries are NaN")
        return data

    def condition_on(self, statistics: Sequences) -> "StateSpaceModel":
        """The belief after the rows; one sequence goes on from the state, several begin anew."""
        law, _, status = self.using.run(self._dynamics(), *self._begin(statistics))
        return changed(self, state=check_status(_cut(status, statistics), law))

    def evidence_of(self, statistics: Sequences) -> Float[Array, ""]:
        """log p(x₁…x_T), -∞ where a row cannot be filtered; for particles an estimate, whose gradient is not one."""
        _, increments, status = self.using.run(self._dynamics(), *self._begin(statistics))
        return jnp.where((status == FINE).all(), jnp.sum(increments), -jnp.inf)

    def log_evidence_of(self, statistics: Sequences) -> Float[Array, ""]:
        """log p(x₁…x_T), or an error that names the row that cannot be filtered."""
        _, increments, status = self.using.run(self._dynamics(), *self._begin(statistics))
        return check_status(_cut(status, statistics), increments.sum())

    def log_evidence(self, *data: ArrayLike, using: object = None, **options: Any) -> Float[Array, ""]:
        """log p(x₁…x_T); after data, of what comes next."""
        belief = self if using is None else self.by(using)
        return belief.log_evidence_of(belief.statistics(*data, **options))

    def filter(self, x: ArrayLike, *, using: object = None, **options: Any) -> FilteredStates:
        """p(zₜ | x₁…xₜ) for every row; for particles a `ParticleFiltered`, with all of them and their ancestors.

        Args:
            x: a table (T, p), a vector (T,), or a list of those for several sequences.
            using: the method.
            options: `lengths` of the sequences in one table, `inputs` with a row for each of x, and
                `missing=True` where NaN means not observed.
        """
        return self._pass("filter", x, using, options)

    def smooth(self, x: ArrayLike, *, using: object = None, **options: Any) -> FilteredStates:
        """p(zₜ | x₁…x_T) for every row, by `Extended` or `Unscented`; the arguments are those of `filter`."""
        return self._pass("smooth", x, using, options)

    def predict(self, steps: int = 1, inputs: ArrayLike | None = None) -> Predictive:
        """The outcomes of the next `steps` rows, shape (steps, p), or (steps,) where observe returns a number.

        By `Extended` and `Unscented` a `Normal`, by `Particles` a `Mixture`; `inputs` has a row for each step.
        """
        law = self.using.blank(self._dynamics()) if self.state is None else self.state
        prediction, status = self.using.forecast(self._dynamics(), law, *self._ahead(steps, inputs))
        return check_status(status[:steps], _first_rows(prediction, steps), "step")

    def simulate(
        self, n: int, *, seed: int = 0, inputs: ArrayLike | None = None
    ) -> tuple[Float[Array, "t n"], Float[Array, "t p"]]:
        """The next n states and outcomes, drawn together; from the beginning where nothing was seen yet.

        `inputs` has a row for each of them; outcomes are drawn from what `observe` says.
        """
        check_count(n, "n")
        drawn = draw_future(jr.key(seed), self._dynamics(), self.state, *self._ahead(n, inputs))
        states, outcomes, status = host(drawn)
        return check_status(status[:n], (states[:n], outcomes[:n]), "step")

    def _dynamics(self) -> "StateSpaceModel":
        """Without what changes from row to row, so that compiled code can be reused."""
        return changed(self, state=None, using=None)

    def _ahead(self, steps: int, inputs: ArrayLike | None) -> tuple[Array, Array | None]:
        """Which of the next rows begins a sequence, and their inputs.

        Padding repeats the last one, as zeros may be where functions are not defined.
        """
        table = read_ahead(steps, inputs)
        first = np.arange(bucket(steps)) < (self.state is None)
        if table is None:
            return first, None
        return first, table[np.minimum(np.arange(bucket(steps)), steps - 1)]

    def _begin(self, data: Sequences) -> tuple[Gaussian | Cloud, Sequences]:
        state = self.state if data.alone else None
        first = data.first if state is None else data.first & (np.arange(data.first.shape[0]) > 0)
        law = self.using.blank(self._dynamics()) if state is None else state
        # What passes do not read is the same for all data, so that they are compiled once.
        return law, changed(data, first=first, complete=True, alone=True)

    def _pass(self, kind: str, x: ArrayLike, using: object, options: dict[str, Any]) -> FilteredStates:
        belief = self if using is None else self.by(using)
        data = belief.statistics(x, **options)
        one = belief.using.filter if kind == "filter" else belief.using.smooth
        result, status = one(belief._dynamics(), *belief._begin(data))
        return jax.tree.map(lambda leaf: leaf[: data.rows], check_status(_cut(status, data), result))

    def __repr__(self) -> str:
        """`StateSpaceModel(2 states, 1 output; step=pendulum, observe=sine; by Extended; state 0.31 ± 0.05, …)`."""
        whole = (("state", self.start_covariance), ("output", self.observation_noise))
        sizes = [counted(value.shape[-1], noun) for noun, value in whole if value is not None]
        own = ("step", "observe", "log_likelihood", "transition_sample")
        functions = {name: getattr(self, name) for name in own if getattr(self, name) is not None}
        named = ", ".join(f"{name}={getattr(f, '__name__', type(f).__name__)}" for name, f in functions.items())
        said = [", ".join(sizes), named, f"by {type(self.using).__name__}"]
        if self.state is not None:
            said.append(_in_words(self.state))
        return f"{type(self).__name__}({'; '.join(said)})"


def _in_words(state: Gaussian | Cloud) -> str:
    """The mean and the standard deviation of each number of the state."""
    mean, covariance = plain(state.mean, 1), plain(state.covariance, 2)
    if mean is None or covariance is None:
        return "after data"
    pairs = list(zip(mean, np.sqrt(np.diagonal(covariance).clip(0.0)), strict=True))
    shown = ", ".join(f"{m:.3g} ± {s:.2g}" for m, s in pairs[:4])
    return f"state {shown}{', …' if len(pairs) > 4 else ''}"


def _check(belief: FiltersStates, using: object) -> StateMethod[Any]:
    method: StateMethod[Any] = check_using(using, belief, "condition")
    return method


def _as_rows(x: ArrayLike, columns: int | None) -> ArrayLike:
    """x itself, or a table of one row for a number, and for a vector with the numbers of one row of several columns."""
    if isinstance(x, int | float | np.number) or getattr(x, "shape", None) == ():
        return [x]
    flat = x.ndim == 1 if hasattr(x, "ndim") else isinstance(x, list | tuple) and all(np.isscalar(v) for v in x)
    return np.asarray(x)[None] if flat and columns is not None and columns > 1 and len(x) == columns else x


def _cut(status: Array, data: Sequences) -> Array:
    return status if is_traced(status) else status[: data.rows]


def _first_rows(prediction: Predictive, steps: int) -> Predictive:
    """The predictions of the first steps; those of a mixture lie behind the axis of its components."""
    if isinstance(prediction, Mixture):
        return Mixture(prediction.weights, jax.tree.map(lambda leaf: leaf[:, :steps], prediction.parts))
    return jax.tree.map(lambda leaf: leaf[:steps], prediction)
