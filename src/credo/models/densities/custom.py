"""Emissions of one's own: any log-likelihood that JAX can differentiate, learned by gradient."""

from collections.abc import Callable
from typing import Any, NoReturn

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from credo.core.errors import DataError
from credo.core.params import real
from credo.core.predictive import Predictive
from credo.models.densities.base import Emission, sizes


class Free(eqx.Module):
    """A learnable real number or array of them."""

    value: Float[Array, "..."] = real()


class Custom(Emission):
    """log p(xₜ | zₜ = k) = log_likelihood(params, xₜ, uₜ)[k].

    Args:
        log_likelihood: from the parameters, a row x (d,) and its inputs u (c,) or None, to k log densities.
        params: a pytree. Arrays in dictionaries, lists and tuples are learned as real numbers; for positive or
            otherwise constrained ones pass an equinox Module whose fields say so (`credo.core.params.positive`).
        sample: (key, params, states (t,), inputs) -> (t, d), for simulation.
        predict: (params, probs (m, k), inputs) -> Predictive, for forecasts.
    """

    states: int | None = eqx.field(static=True)
    columns: int | None = eqx.field(static=True)
    log_likelihood: Callable[..., Any] = eqx.field(static=True)
    sampler: Callable[..., Any] | None = eqx.field(static=True)
    predictor: Callable[..., Any] | None = eqx.field(static=True)
    params: Any

    def __init__(
        self,
        log_likelihood: Callable[..., Any],
        params: Any,
        *,
        sample: Callable[..., Any] | None = None,
        predict: Callable[..., Any] | None = None,
    ) -> None:
        if not callable(log_likelihood):
            raise DataError(f"log_likelihood must be a function of (params, x, u), found {log_likelihood!r}")
        self.states = self.columns = None
        self.log_likelihood, self.sampler, self.predictor = log_likelihood, sample, predict
        self.params = jax.tree.map(
            lambda leaf: leaf if isinstance(leaf, eqx.Module) else Free(jnp.asarray(leaf, dtype=float)),
            params,
            is_leaf=lambda node: isinstance(node, eqx.Module),
        )

    @property
    def values(self) -> Any:
        """The parameters as they were given to the constructor."""
        return jax.tree.map(
            lambda node: node.value if isinstance(node, Free) else node,
            self.params,
            is_leaf=lambda node: isinstance(node, eqx.Module),
        )

    def check(self, x: np.ndarray, seen: np.ndarray) -> None:
        """Rows must be whole or missing: nothing is known of how to integrate an entry out."""
        partial = seen.any(1) & ~seen.all(1)
        if partial.any():
            row = int(np.argmax(partial))
            column = int(np.argmin(seen[row]))
            raise DataError(
                f"Custom emissions need whole rows, found row {row} without column {column}; drop the row's other "
                "entries, or fill it"
            )

    def prepare(self, x: np.ndarray, seen: np.ndarray, inputs: np.ndarray | None, seed: int) -> "Custom":
        """As it is: the parameters were given; seeds > 0 move the real ones by a tenth, for another start."""
        if seed == 0:
            return self
        rng = np.random.default_rng(seed)

        def move(node: Any) -> Any:
            if not isinstance(node, Free):
                return node
            step = rng.normal(size=node.value.shape) * 0.1
            return Free(node.value + step * jnp.maximum(jnp.abs(node.value), 1.0))

        moved = jax.tree.map(move, self.params, is_leaf=lambda node: isinstance(node, eqx.Module))
        return eqx.tree_at(lambda e: e.params, self, moved)

    def log_prob(
        self,
        x: Float[Array, "t d"],
        seen: Bool[Array, "t d"],
        inputs: Float[Array, "t c"] | None = None,
        *,
        complete: bool = False,
    ) -> Float[Array, "t k"]:
        """log_likelihood for every row."""
        k, values = sizes(self)[0], self.values
        each = jax.vmap(lambda x, u: jnp.asarray(self.log_likelihood(values, x, u), dtype=float), (0, 0))
        table = each(x, inputs)
        if table.shape != (x.shape[0], k):
            raise DataError(
                f"log_likelihood must return {k} numbers, one for each state, found shape {table.shape[1:]}"
            )
        return jnp.where(seen[:, :1], table, 0.0)

    def expect(self, x: Any, seen: Any, weight: Any, inputs: Any = None, *, complete: bool = False) -> NoReturn:
        """There are no sufficient statistics: `DataError`."""
        _only_by_gradient()

    def maximize(self, statistics: Any) -> NoReturn:
        """There is no closed form: `DataError`."""
        _only_by_gradient()

    def log_prior(self) -> Float[Array, ""]:
        """0; `learn` takes priors by path."""
        return jnp.zeros(())

    def draw(self, key: PRNGKeyArray, statistics: Any) -> NoReturn:
        """There is no conjugate posterior: `DataError`."""
        _only_by_gradient()

    def believe(self, statistics: Any) -> NoReturn:
        """There is no conjugate posterior: `DataError`."""
        _only_by_gradient()

    def expected_log_prob(self, q: Any, x: Any, seen: Any, inputs: Any = None, *, complete: bool = False) -> NoReturn:
        """There is no conjugate posterior: `DataError`."""
        _only_by_gradient()

    def divergence(self, q: Any) -> NoReturn:
        """There is no conjugate posterior: `DataError`."""
        _only_by_gradient()

    def center(self, q: Any) -> NoReturn:
        """There is no conjugate posterior: `DataError`."""
        _only_by_gradient()

    def sample(
        self, key: PRNGKeyArray, states: Int[Array, " t"], inputs: Float[Array, "t c"] | None = None
    ) -> Float[Array, "t d"]:
        """What the given function draws."""
        if self.sampler is None:
            raise DataError(
                "this Custom emission cannot be simulated; pass sample=function(key, params, states, inputs)"
            )
        return jnp.asarray(self.sampler(key, self.values, states, inputs), dtype=float)

    def predictive(self, probs: Float[Array, "m k"], inputs: Float[Array, "m c"] | None = None) -> Predictive:
        """What the given function predicts."""
        if self.predictor is None:
            raise DataError("this Custom emission cannot predict; pass predict=function(params, probs, inputs)")
        prediction = self.predictor(self.values, probs, inputs)
        assert isinstance(prediction, Predictive)
        return prediction


def _only_by_gradient() -> NoReturn:
    raise DataError("Custom emissions have no closed form to learn by; learn with using=Evidence()")
