"""What a mixture is asked about rows: which component, how probable, how odd, and columns given others."""

from abc import abstractmethod
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Float, Int, PRNGKeyArray

from credo.core import params, predictive
from credo.core.arrays import Array, host, is_traced, namespace, special
from credo.core.belief import Belief
from credo.core.checks import ArrayLike, check_count
from credo.core.errors import DataError
from credo.core.predictive import Bernoulli, Categorical, Predictive
from credo.models.densities import Density
from credo.models.mixture.rows import Rows, grouped
from credo.models.mixture.tails import tail


class AsksOfRows(Belief):
    """A belief with `weights` of components and their `density`, and the questions that can be put to it."""

    density: eqx.AbstractVar[Density]

    @abstractmethod
    def require_parameters(self) -> Any:
        """Itself, if its numbers are known; otherwise an error that says which are not."""

    @property
    @abstractmethod
    def _weights(self) -> Float[Array, " k"]:
        """Of the components, once they are known."""

    @abstractmethod
    def _read(self, x: ArrayLike, missing: bool, weights: Any = None, noise: Any = None, **options: Any) -> Rows:
        """Rows, checked."""

    def predict(
        self, x: ArrayLike | None = None, *, missing: bool = False, noise: ArrayLike | None = None
    ) -> Predictive:
        """Columns of rows of which others are known: p(columns | the others), a mixture with a weight for each row.

        Args:
            x: rows with NaN in the columns to predict, which are those that are NaN in every row; None predicts a row
                of which nothing is known.
            missing: whether NaN in other columns is a cell that was not seen either; it is integrated out.
            noise: of the rows, as for `condition`.

        Returns:
            Of shape (n, m) for m columns, in their order; (n,) for one of them. Which component a row is of is noise
            to whoever knows the parameters; members of an average (variational Bayes, Gibbs) add their ignorance.
        """
        self.require_parameters()
        _, d = self.density.sizes
        given = np.full((1, d), np.nan) if x is None else x
        rows = self._read(given, True, None, noise, in_order=True)
        columns = np.flatnonzero(~rows.seen.any(0))
        if not len(columns):
            raise DataError(
                "predict is of columns that are NaN in every row, found none; log_density(x) says how probable rows "
                "are, clusters(x) of which component"
            )
        others = np.delete(np.arange(d), columns)
        if not missing and not rows.seen[:, others].all():
            row, at = np.argwhere(~rows.seen[:, others])[0]
            raise DataError(
                f"x contains NaN at row {row}, column {others[at]}, which is not NaN in every row: pass missing=True "
                "for cells that were not seen, besides the columns to predict"
            )
        shares = host(self._responsibilities(rows))
        return _as_noise(self.density.conditional(shares, rows.observed, columns), len(self._weights))

    def responsibilities(
        self, x: ArrayLike, *, missing: bool = False, noise: ArrayLike | None = None
    ) -> Float[Array, "n k"]:
        """p(component | x) for every row."""
        return self._responsibilities(self.require_parameters()._read(x, missing, None, noise, in_order=True))

    def clusters(self, x: ArrayLike, *, missing: bool = False, noise: ArrayLike | None = None) -> Categorical:
        """Which component each row is of, as a prediction: probabilities, and the doubt that is left."""
        return Categorical.certain(self.responsibilities(x, missing=missing, noise=noise))

    def labels(self, x: ArrayLike, *, missing: bool = False, noise: ArrayLike | None = None) -> Int[np.ndarray, " n"]:
        """The most probable component of each row; 0 is the one with the largest weight."""
        return np.asarray(self.responsibilities(x, missing=missing, noise=noise)).argmax(1)

    def log_density(self, x: ArrayLike, *, missing: bool = False, noise: ArrayLike | None = None) -> Float[Array, " n"]:
        """log p(x) of each row; rows that no component explains have little of it."""
        return self._log_density(self.require_parameters()._read(x, missing, None, noise, in_order=True))

    def anomaly(self, x: ArrayLike, *, missing: bool = False) -> Float[np.ndarray, " n"]:
        """The probability of a row that is as improbable as this one, or more so: small is an anomaly.

        For Gaussian and categorical columns, and both side by side; see `credo.models.mixture.tails`. Rows like those
        that were learned from have scores that are uniform, or larger; 1 where a row shows nothing.
        """
        rows = self.require_parameters()._read(x, missing, in_order=True)
        return tail(self.density, np.asarray(self._log_weights), rows.observed, np.asarray(self._log_density(rows)))

    def sample(self, n: int = 1, *, seed: int = 0) -> Float[np.ndarray, "n d"]:
        """n rows."""
        return self.simulate(n, seed=seed)[1]

    def simulate(self, n: int = 1, *, seed: int = 0) -> tuple[Int[np.ndarray, " n"], Float[np.ndarray, "n d"]]:
        """n components, and a row of each."""
        check_count(n, "n")
        which, rows = host(_simulated(jr.key(seed), self.require_parameters(), int(n)))
        return np.asarray(which), np.asarray(rows)

    def information_criteria(self, x: ArrayLike, **options: Any) -> dict[str, float]:
        """AIC and BIC, 2p - 2 log p(x) and p log n - 2 log p(x) with p free parameters: less is better."""
        rows = self.statistics(x, **options)
        height, n = float(self.log_evidence_of(rows)), sum(float(part.weights.sum()) for part in rows.parts())
        return {"aic": 2 * self.free - 2 * height, "bic": float(self.free * np.log(n)) - 2 * height}

    @property
    def free(self) -> int:
        """How many numbers of it are free."""
        count = 0
        for path, value in params.learnable(self).items():
            kind, shape = params.constraint_of(self, path).kind, np.shape(value)
            size = int(np.prod(shape))
            if kind == "simplex":
                size -= int(np.prod(shape[:-1], initial=1))
            elif kind == "positive_definite":
                size = size // shape[-1] * (shape[-1] + 1) // 2
            count += size
        return count

    @property
    def _log_weights(self) -> Float[Array, " k"]:
        with np.errstate(divide="ignore"):
            return namespace(self._weights).log(self._weights)

    def _logs(self, data: Any) -> Float[Array, "n k"]:
        return self.density.log_prob(data) + self._log_weights

    def _log_joint(self, rows: Rows) -> Float[Array, "n k"]:
        """log wⱼ pⱼ(x) of each row, rows that miss the same cells together."""
        if is_traced((self, rows)) or rows.complete:
            return self._logs(rows.observed)
        order = grouped(np.asarray(rows.seen))
        logs = self._logs(rows.cut(order).observed)
        out = np.empty_like(logs)
        out[order] = logs
        return out

    def _log_density(self, rows: Rows) -> Float[Array, " n"]:
        logs = self._log_joint(rows)
        return special(logs).logsumexp(logs, axis=1)

    def _responsibilities(self, rows: Rows) -> Float[Array, "n k"]:
        logs = self._log_joint(rows)
        top = special(logs).logsumexp(logs, axis=1, keepdims=True)
        xp = namespace(logs)
        with np.errstate(invalid="ignore"):  # a row that no component can show says nothing of them
            return xp.where(xp.isfinite(top), xp.exp(logs - top), self._weights)


def _as_noise(found: Any, k: int) -> Any:
    """A prediction whose components are one noise to whoever knows the parameters."""
    if isinstance(found, predictive.Mixture):
        return predictive.Mixture(found.weights, found.parts, k)
    if isinstance(found, Categorical):
        return Categorical.certain(found.probs)
    if isinstance(found, Bernoulli):
        return Bernoulli.certain(found.prob)
    return found


@eqx.filter_jit
def _simulated(key: PRNGKeyArray, mixture: AsksOfRows, n: int) -> tuple[Array, Array]:
    k_which, k_rows = jr.split(key)
    which = jr.categorical(k_which, jnp.log(jnp.asarray(mixture._weights)), shape=(n,))
    return which, mixture.density.sample(k_rows, which)
