"""Categorical emissions: each state has its own die."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from credo.core import predictive
from credo.core.arrays import computed_once, put
from credo.core.checks import check_count
from credo.core.errors import DataError
from credo.core.params import known, simplex
from credo.core.pytrees import changed
from credo.models.densities import dirichlet
from credo.models.densities.base import Emission, check_entries, check_weak, needed, sizes


class Categorical(Emission):
    """P(xₜ = s | zₜ = k) = probs[k, s]; x holds codes 0 … symbols - 1 in one column.  Rabiner (1989).

    Args:
        symbols: how many there are; None to count the codes of the data, or the columns of `probs`.
        probs: (k, s), rows that sum to one.
        prior: "weak" (Dirichlet(1.01)), None, or Dirichlet concentrations ≥ 1: a number, (s,) or (k, s).
    """

    states: int | None = eqx.field(static=True)
    columns: int | None = eqx.field(static=True)
    symbols: int | None = eqx.field(static=True)
    weak: bool = eqx.field(static=True)
    probs: Float[Array, "k s"] | None = simplex()
    prior: Float[Array, "..."] | None = known()

    def __init__(self, symbols: int | None = None, *, probs: Any = None, prior: Any = "weak") -> None:
        check_weak(prior, int, float, list, tuple, np.ndarray, jax.Array)
        self.weak, self.prior = isinstance(prior, str), None
        self.states, self.columns, self.symbols, self.probs = None, 1, symbols, None
        if symbols is not None:
            check_count(symbols, "symbols")
        if probs is not None:
            table = dirichlet.check_rows(probs, "probs")
            if symbols is not None and table.shape[1] != symbols:
                raise DataError(f"probs must have one column for each of {symbols} symbols, found {table.shape[1]}")
            self.probs = put(table)
            self.states, self.symbols = table.shape
        if prior is not None and not self.weak:
            self.prior = jnp.asarray(prior, dtype=float)

    def for_states(self, states: int, columns: int = 1) -> "Categorical":
        """For so many states, and one column."""
        if columns != 1:
            raise DataError(f"categorical outcomes are codes in one column, found {columns} columns; pass one of them")
        new = super().for_states(states, columns)
        return new if new.symbols is None else new._with_prior(new.symbols)

    def _with_prior(self, symbols: int) -> "Categorical":
        prior = dirichlet.as_concentration("weak" if self.weak else self.prior, sizes(self)[0], symbols)
        return changed(self, symbols=symbols, prior=prior)

    def check(self, x: np.ndarray, seen: np.ndarray) -> None:
        """Codes are whole numbers from 0, and below the number of symbols where that is known."""
        wrong = seen & ((x < 0) | (x != np.round(x)))
        expected = "whole numbers ≥ 0 (codes of symbols)"
        if self.symbols is not None:
            wrong |= seen & (x >= self.symbols)
            expected = f"codes from 0 to {self.symbols - 1}"
        check_entries(wrong, x, expected)

    def prepare(self, x: np.ndarray, seen: np.ndarray, inputs: np.ndarray | None, seed: int) -> "Categorical":
        """The frequencies of the symbols, each state's tilted at random."""
        k, _ = sizes(self)
        codes = x[seen].astype(int)
        symbols = int(codes.max(initial=0)) + 1 if self.symbols is None else self.symbols
        new = self._with_prior(symbols)
        if self.probs is not None:
            return new
        counts = np.bincount(codes, minlength=symbols) + 1.0
        tilted = counts / counts.sum() * np.random.default_rng(seed).gamma(2.0, size=(k, symbols)) + 1e-3 / symbols
        return changed(new, probs=put(tilted / tilted.sum(1, keepdims=True)))

    def log_prob(
        self,
        x: Float[Array, "t 1"],
        seen: Bool[Array, "t 1"],
        inputs: Float[Array, "t c"] | None = None,
        *,
        complete: bool = False,
    ) -> Float[Array, "t k"]:
        """log probs[k, xₜ]."""
        return _look_up(jnp.log(self._probs), x, seen)

    def expect(
        self,
        x: Float[Array, "t 1"],
        seen: Bool[Array, "t 1"],
        weight: Float[Array, "t k"],
        inputs: Float[Array, "t c"] | None = None,
        *,
        complete: bool = False,
    ) -> Float[Array, "k s"]:
        """How often each state showed each symbol."""
        weight = jnp.where(seen, weight, 0.0)
        return jax.ops.segment_sum(weight, x[:, 0].astype(int), self.symbols).T

    def maximize(self, statistics: Float[Array, "k s"]) -> "Categorical":
        """(α - 1 + n)/Σ."""
        return changed(self, probs=dirichlet.mode(self.prior, statistics, self._probs))

    def log_prior(self) -> Float[Array, ""]:
        """Σ (α - 1) log p."""
        return dirichlet.log_kernel(self.prior, self._probs)

    def draw(self, key: PRNGKeyArray, statistics: Float[Array, "k s"]) -> "Categorical":
        """Each row ~ Dirichlet(α + n)."""
        return changed(self, probs=dirichlet.draw(key, needed(self.prior, "a draw of the parameters") + statistics))

    def believe(self, statistics: Float[Array, "k s"]) -> Float[Array, "k s"]:
        """α + n."""
        return needed(self.prior, "variational Bayes") + statistics

    def expected_log_prob(
        self,
        q: Float[Array, "k s"],
        x: Float[Array, "t 1"],
        seen: Bool[Array, "t 1"],
        inputs: Float[Array, "t c"] | None = None,
        *,
        complete: bool = False,
    ) -> Float[Array, "t k"]:
        """ψ(αₖₓ) - ψ(Σαₖ)."""
        return _look_up(dirichlet.expected_log(q), x, seen)

    def divergence(self, q: Float[Array, "k s"]) -> Float[Array, ""]:
        """KL(q ‖ prior)."""
        return dirichlet.divergence(q, needed(self.prior, "variational Bayes"))

    def center(self, q: Float[Array, "k s"]) -> "Categorical":
        """α/Σα."""
        return changed(self, probs=q / q.sum(-1, keepdims=True))

    def sample(
        self, key: PRNGKeyArray, states: Int[Array, " t"], inputs: Float[Array, "t c"] | None = None
    ) -> Float[Array, "t 1"]:
        """One code for each state."""
        return jr.categorical(key, jnp.log(self._probs)[states])[:, None].astype(float)

    def predictive(
        self, probs: Float[Array, "m k"], inputs: Float[Array, "m c"] | None = None
    ) -> predictive.Categorical:
        """Σₖ pₖ probs[k]; the entropy within the states is noise, what their difference adds is ignorance."""
        return predictive.Categorical(
            probs @ self._probs, probs @ predictive.Categorical.certain(self._probs).aleatoric
        )

    @property
    def _probs(self) -> Float[Array, "k s"]:
        if self.probs is None:
            raise DataError("the emission Categorical has no probabilities yet; give probs, or prepare it with data")
        return self.probs


def _look_up(table: Float[Array, "k s"], x: Float[Array, "t 1"], seen: Bool[Array, "t 1"]) -> Float[Array, "t k"]:
    return jnp.where(seen, computed_once(table.T)[x[:, 0].astype(int)], 0.0)
