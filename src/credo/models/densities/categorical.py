"""Categorical densities: each component has its own die."""

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Float, Int, PRNGKeyArray

from credo.core import predictive
from credo.core.arrays import Array, computed_once, namespace
from credo.core.checks import ArrayLike, check_count
from credo.core.errors import DataError
from credo.core.params import constant, simplex
from credo.core.pytrees import changed
from credo.core.special import gamma_quantile, log_rising
from credo.models.densities import dirichlet
from credo.models.densities.base import HasPredictive, Inputs, Observed, read_prior, require_prior


class CategoricalDensity(HasPredictive[Float[Array, "k s"], Float[Array, "k s"]]):
    """P(x = s | k) = probs[k, s]; x holds codes 0 … symbols - 1 in one column.  Rabiner (1989).

    Args:
        symbols: how many there are; None to count the codes of the data, or the columns of `probs`.
        probs: (k, s), rows that sum to one.
        prior: "weak" (Dirichlet(1.01)), None, or Dirichlet concentrations ≥ 1: a number, (s,) or (k, s).
    """

    symbols: int | None = eqx.field(static=True)
    weak: bool = eqx.field(static=True)
    probs: Float[Array, "k s"] | None = simplex()
    prior: Float[Array, "..."] | None = constant()

    def __init__(
        self, symbols: int | None = None, *, probs: ArrayLike | None = None, prior: ArrayLike = "weak"
    ) -> None:
        self.weak, given = read_prior(prior, int, float, list, tuple, np.ndarray, jax.Array)
        self.prior = None if given is None else np.asarray(given, dtype=float)
        self.k, self.columns, self.symbols, self.probs = None, 1, symbols, None
        if symbols is not None:
            check_count(symbols, "symbols")
        if probs is not None:
            self.probs = dirichlet.check_rows(probs, "probs", symbols, "symbols")
            self.k, self.symbols = self.probs.shape

    def resized(self, k: int, columns: int = 1) -> "CategoricalDensity":
        """For so many components, and one column."""
        if columns != 1:
            raise DataError(f"categorical outcomes are codes in one column, found {columns} columns; pass one of them")
        new = super().resized(k, columns)
        return new if new.symbols is None else new._with_prior(new.symbols)

    def _with_prior(self, symbols: int) -> "CategoricalDensity":
        prior = dirichlet.as_concentration("weak" if self.weak else self.prior, self.sizes[0], symbols)
        return changed(self, symbols=symbols, prior=prior)

    def check(self, data: Observed) -> None:
        """Codes are whole numbers from 0, and below the number of symbols where that is known."""
        most = np.inf if self.symbols is None else self.symbols - 1
        expected = "whole numbers ≥ 0 (codes of symbols)" if self.symbols is None else f"codes from 0 to {most}"
        data.refuse(lambda x: (x < 0) | (x != np.round(x)) | (x > most), expected)

    def adapt(self, data: Observed, *, seed: int = 0) -> "CategoricalDensity":
        """The frequencies of the symbols, each component's tilted at random."""
        (k, _), new = self.sizes, self.with_prior(data)
        if self.probs is not None:
            return new
        symbols = new.symbols or 1
        counts = np.bincount(data.x[data.seen].astype(int), minlength=symbols) + 1.0
        tilted = counts / counts.sum() * np.random.default_rng(seed).gamma(2.0, size=(k, symbols)) + 1e-3 / symbols
        return changed(new, probs=tilted / tilted.sum(1, keepdims=True))

    def log_prob(self, data: Observed) -> Float[Array, "n k"]:
        """log probs[k, x]."""
        with np.errstate(divide="ignore"):
            return _look_up(namespace(self._probs).log(self._probs), data)

    def expected_statistics(self, data: Observed, weight: Float[Array, "n k"]) -> Float[Array, "k s"]:
        """How often each component showed each symbol."""
        xp, codes = namespace(weight, data), data.x[:, 0].astype(int)
        weight = xp.where(data.seen, weight, 0.0)
        if xp is np:
            return weight.T @ (codes[:, None] == np.arange(self.symbols or 0))
        return jax.ops.segment_sum(weight, codes, self.symbols).T

    def maximize(self, statistics: Float[Array, "k s"]) -> "CategoricalDensity":
        """(α - 1 + n)/Σ."""
        return changed(self, probs=dirichlet.mode(self.prior, statistics, self._probs))

    def log_prior(self) -> Float[Array, ""]:
        """Σ (α - 1) log p."""
        return dirichlet.log_kernel(self.prior, self._probs)

    def draw(self, key: PRNGKeyArray, statistics: Float[Array, "k s"]) -> "CategoricalDensity":
        """Each row ~ Dirichlet(α + n)."""
        prior = require_prior(self.prior, "a draw of the parameters")
        return changed(self, probs=dirichlet.draw(key, prior + statistics))

    def variational_posterior(self, statistics: Float[Array, "k s"]) -> Float[Array, "k s"]:
        """α + n."""
        return require_prior(self.prior, "variational Bayes") + statistics

    def expected_log_prob(self, q: Float[Array, "k s"], data: Observed) -> Float[Array, "n k"]:
        """ψ(αₖₓ) - ψ(Σαₖ)."""
        return _look_up(dirichlet.expected_log(q), data)

    def kl_to_prior(self, q: Float[Array, "k s"]) -> Float[Array, ""]:
        """KL(q ‖ prior)."""
        return dirichlet.divergence(q, require_prior(self.prior, "variational Bayes"))

    def posterior_mean(self, q: Float[Array, "k s"]) -> "CategoricalDensity":
        """α/Σα."""
        return changed(self, probs=q / q.sum(-1, keepdims=True))

    def with_prior(self, data: Observed) -> "CategoricalDensity":
        """For as many symbols as the data show, where their number was not given."""
        shown = data.x[data.seen]
        return self._with_prior(int(shown.max(initial=0)) + 1 if self.symbols is None else self.symbols)

    def to_integrate(self) -> "CategoricalDensity | None":
        """As it is, where there is a prior."""
        return None if self.prior is None else self

    def without_prior(self) -> "CategoricalDensity":
        """Frequencies."""
        return changed(self, prior=None, weak=False)

    def log_predictive(self, q: Float[Array, "k s"], data: Observed) -> Float[Array, "n k"]:
        """log αₖₓ/Σα."""
        return _look_up(namespace(q).log(q / q.sum(-1, keepdims=True)), data)

    def log_marginal(self, before: Float[Array, "k s"], after: Float[Array, "k s"]) -> Float[Array, ""]:
        """log B(after)/B(before)."""
        rows = log_rising(before.sum(-1), (after - before).sum(-1)).sum()
        return log_rising(before, after - before).sum() - rows

    def sample_predictive(
        self, rng: np.random.Generator, q: Float[Array, "k s"], which: Int[np.ndarray, " n"]
    ) -> Float[np.ndarray, "n 1"]:
        """Codes by their mean probabilities."""
        steps = np.cumsum(q / q.sum(-1, keepdims=True), axis=1)[which]
        return (steps < rng.random((len(which), 1))).sum(1, keepdims=True).clip(0, q.shape[1] - 1).astype(float)

    def several(self, q: Float[Array, "k s"], n: int, seed: int) -> "CategoricalDensity":
        """n·k dice."""
        drawn = gamma_quantile(q, np.random.default_rng(seed).random((n, *q.shape)))
        probs = drawn / drawn.sum(-1, keepdims=True)
        return changed(self, k=n * q.shape[0], probs=probs.reshape(-1, q.shape[1]))

    def sample(self, key: PRNGKeyArray, which: Int[Array, " n"], inputs: Inputs = None) -> Float[Array, "n 1"]:
        """One code for each."""
        return jr.categorical(key, jnp.log(self._probs)[which])[:, None].astype(float)

    def predictive(self, probs: Float[Array, "n k"], inputs: Inputs = None) -> predictive.Categorical:
        """Σₖ pₖ probs[k]; the entropy within the components is noise, what their difference adds is ignorance."""
        within = predictive.Categorical.certain(self._probs).aleatoric
        return predictive.Categorical(probs @ self._probs, probs @ within)

    @property
    def _probs(self) -> Float[Array, "k s"]:
        return self._known(self.probs)


def _look_up(table: Float[Array, "k s"], data: Observed) -> Float[Array, "n k"]:
    xp, rows = namespace(table, data), table.T
    rows = rows if xp is np else computed_once(jnp.asarray(rows))
    return xp.where(data.seen, rows[data.x[:, 0].astype(int)], 0.0)
