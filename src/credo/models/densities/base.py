"""What a hidden state looks like from outside: p(xₜ | zₜ = k, uₜ; θ), one law for each of k states.

An emission is a frozen pytree whose parameters are plain learnable fields. It serves every way of learning:

    EM        expect (expected sufficient statistics), maximize (closed form), log_prior
    Gibbs     draw_statistics (what is latent besides the states is drawn), draw (θ from its conjugate posterior)
    VB        believe (q(θ)), expected_log_prob, expect_under, divergence (KL to the prior), center (mean of q)
    gradient  log_prob, traceable

Data are a table x (T, d), zero where not `seen` (T, d). `complete=True` promises that every row is either seen
in full or not at all, which saves work. `prior` is "weak" (taken from the data by `prepare`), None (maximum
likelihood) or given. Without a prior `maximize` still adds a floor, a fixed 1e-10 to 1e-6 of one observation, so
that no variance, rate or probability becomes zero; `log_prior` then is the matching term, which is as small.
"""

from abc import abstractmethod
from typing import Any, TypeVar

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from credo.core.checks import check_count
from credo.core.errors import DataError
from credo.core.predictive import Predictive
from credo.core.pytrees import changed
from credo.core.text import counted

E = TypeVar("E", bound="Emission")

ALMOST_NONE = 1e-10
"""A state with less weight than this has not been visited: without a prior it keeps its parameters."""


class Emission(eqx.Module):
    """p(xₜ | zₜ, uₜ; θ) for `states` states and `columns` columns; both may be unknown until `for_states`."""

    states: int | None = eqx.field(static=True)
    columns: int | None = eqx.field(static=True)

    def __repr__(self) -> str:
        sizes = {"state": self.states, "column": self.columns}
        shown = ", ".join(counted(n, noun) for noun, n in sizes.items() if n is not None)
        return f"{type(self).__name__}({shown})"

    def for_states(self: E, states: int, columns: int) -> E:
        """The same emission for so many states and columns; what was given before must agree."""
        check_count(states, "states")
        check_count(columns, "columns")
        for name, known, asked in (("states", self.states, states), ("columns", self.columns, columns)):
            if known is not None and known != asked:
                raise DataError(
                    f"the emission {type(self).__name__} was given for {known} {name}, found {asked}; "
                    "give parameters of matching shapes, or leave them out"
                )
        return changed(self, states=int(states), columns=int(columns))

    def check(self, x: np.ndarray, seen: np.ndarray) -> None:
        """`DataError` for seen data outside the support, naming row and column."""

    @abstractmethod
    def prepare(self, x: np.ndarray, seen: np.ndarray, inputs: np.ndarray | None, seed: int) -> "Emission":
        """With starting parameters and the weak prior from the data, where they have not been given."""

    @abstractmethod
    def log_prob(
        self,
        x: Float[Array, "t d"],
        seen: Bool[Array, "t d"],
        inputs: Float[Array, "t c"] | None = None,
        *,
        complete: bool = False,
    ) -> Float[Array, "t k"]:
        """log p(seen entries of xₜ | zₜ = k): the others are integrated out; 0 for a row with nothing seen."""

    @abstractmethod
    def expect(
        self,
        x: Float[Array, "t d"],
        seen: Bool[Array, "t d"],
        weight: Float[Array, "t k"],
        inputs: Float[Array, "t c"] | None = None,
        *,
        complete: bool = False,
    ) -> Any:
        """Σₜ weightₜₖ E[s(xₜ)]: expected sufficient statistics, a pytree; those of two data sets add."""

    @abstractmethod
    def maximize(self: E, statistics: Any) -> E:
        """argmax of Σ weight · log p + log prior, in closed form."""

    @abstractmethod
    def log_prior(self) -> Float[Array, ""]:
        """log p(θ) up to a constant: what `maximize` adds to the log-likelihood."""

    @abstractmethod
    def draw(self: E, key: PRNGKeyArray, statistics: Any) -> E:
        """θ ~ p(θ | statistics)."""

    @abstractmethod
    def believe(self, statistics: Any) -> Any:
        """q(θ): the conjugate prior updated with the statistics."""

    @abstractmethod
    def expected_log_prob(
        self,
        q: Any,
        x: Float[Array, "t d"],
        seen: Bool[Array, "t d"],
        inputs: Float[Array, "t c"] | None = None,
        *,
        complete: bool = False,
    ) -> Float[Array, "t k"]:
        """E_q[log p(seen entries of xₜ | θₖ)]."""

    @abstractmethod
    def divergence(self, q: Any) -> Float[Array, ""]:
        """KL(q ‖ prior) in nats."""

    @abstractmethod
    def center(self: E, q: Any) -> E:
        """The emission with the mean of q as its parameters."""

    @abstractmethod
    def sample(
        self, key: PRNGKeyArray, states: Int[Array, " t"], inputs: Float[Array, "t c"] | None = None
    ) -> Float[Array, "t d"]:
        """One outcome for each state of a path."""

    @abstractmethod
    def predictive(self, probs: Float[Array, "m k"], inputs: Float[Array, "m c"] | None = None) -> Predictive:
        """The outcome at m times whose state is known by its probabilities; each column on its own for d > 1."""

    def draw_statistics(
        self,
        key: PRNGKeyArray,
        x: Float[Array, "t d"],
        seen: Bool[Array, "t d"],
        states: Int[Array, " t"],
        inputs: Float[Array, "t c"] | None = None,
        *,
        complete: bool = False,
    ) -> Any:
        """The statistics for Gibbs given a path: what else is latent is drawn, not averaged."""
        return self.expect(x, seen, jax.nn.one_hot(states, sizes(self)[0], dtype=x.dtype), inputs, complete=complete)

    def expect_under(
        self,
        q: Any,
        x: Float[Array, "t d"],
        seen: Bool[Array, "t d"],
        weight: Float[Array, "t k"],
        inputs: Float[Array, "t c"] | None = None,
        *,
        complete: bool = False,
    ) -> Any:
        """The expected statistics for VB, where what is latent besides the states follows q."""
        return self.center(q).expect(x, seen, weight, inputs, complete=complete)


def sizes(emission: Emission) -> tuple[int, int]:
    """(states, columns), once they are known."""
    if emission.states is None or emission.columns is None:
        raise DataError(
            f"the emission {type(emission).__name__} does not know its shape yet; call for_states(states, columns)"
        )
    return emission.states, emission.columns


def check_weak(prior: Any, *kinds: type) -> None:
    """`DataError` unless the prior is "weak", None or of one of the kinds."""
    weak = isinstance(prior, str) and prior == "weak"
    if prior is not None and not weak and not isinstance(prior, kinds):
        names = ", ".join(kind.__name__ for kind in kinds)
        raise DataError(f'prior must be "weak", None (maximum likelihood) or one of {names}, found {prior!r}')


def needed(prior: Any, what: str) -> Any:
    """The prior itself, where there is one."""
    if prior is None:
        raise DataError(
            f'{what} needs a prior of the emission\'s parameters, found None; pass prior="weak" and prepare it with '
            "data, or give one"
        )
    return prior


def check_entries(wrong: np.ndarray, x: np.ndarray, expected: str) -> None:
    """`DataError` that names the first wrong entry."""
    if wrong.any():
        row, column = (int(i) for i in np.argwhere(wrong)[0])
        raise DataError(f"x must hold {expected}, found {x[row, column]:g} at row {row}, column {column}")


def column_moments(x: np.ndarray, seen: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The mean and the variance of the seen entries of each column; 0 and 1 where nothing is, or nothing varies."""
    count = seen.sum(0)
    mean = np.where(seen, x, 0.0).sum(0) / np.maximum(count, 1)
    variance = (np.where(seen, x - mean, 0.0) ** 2).sum(0) / np.maximum(count, 1)
    return mean, np.where(variance > 0, variance, 1.0)
