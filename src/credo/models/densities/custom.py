"""Densities of one's own: any log-likelihood that JAX can differentiate, learned by gradient."""

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int, PRNGKeyArray, PyTree

from credo.core.arrays import Array, as_float, host, is_traced
from credo.core.errors import DataError
from credo.core.modules import FlatModule
from credo.core.padding import bucket, pad_rows
from credo.core.params import real
from credo.core.predictive import Predictive
from credo.core.pytrees import changed
from credo.models.densities.base import Density, Inputs, Observed


def _each(function: Callable[[PyTree], PyTree], params: PyTree) -> PyTree:
    """The function of every leaf, of which modules are one."""
    return jax.tree.map(function, params, is_leaf=lambda node: isinstance(node, eqx.Module))


class Free(eqx.Module):
    """A learnable real number or array of them."""

    value: Float[Array, "..."] = real()


class Learned(eqx.Module):
    """An equinox network whose weights are learned."""

    flat: FlatModule
    weights: Float[Array, " p"] = real()


def _free(leaf: PyTree) -> eqx.Module:
    """What is given as something to learn: an array, a network, or a module that says itself what may be learned."""
    if not isinstance(leaf, eqx.Module):
        return Free(as_float(leaf))
    return Learned(*FlatModule.of(leaf)) if callable(leaf) else leaf


def _given(node: PyTree) -> PyTree:
    """What it was given as."""
    if isinstance(node, Learned):
        return node.flat.module(node.weights)
    return node.value if isinstance(node, Free) else node


class CustomDensity(Density):
    """log p(x | k) = log_likelihood(params, x, u)[k].

    Args:
        log_likelihood: from the parameters, a row x (d,) and its inputs u (c,) or None, to k log densities.
        params: a pytree. Arrays in dictionaries, lists and tuples are learned as real numbers, and so are the weights
            of an equinox network (any module that can be called); for positive or otherwise constrained numbers pass
            an equinox Module whose fields say so (`credo.core.params.positive`).
        sample: (key, params, components (n,), inputs) -> (n, d), for simulation.
        predict: (params, probs (n, k), inputs) -> Predictive, for forecasts.
    """

    log_likelihood: Callable[..., Array] = eqx.field(static=True)
    sampler: Callable[..., Array] | None = eqx.field(static=True)
    predictor: Callable[..., Predictive] | None = eqx.field(static=True)
    params: PyTree

    def __init__(
        self,
        log_likelihood: Callable[..., Array],
        params: PyTree,
        *,
        sample: Callable[..., Array] | None = None,
        predict: Callable[..., Predictive] | None = None,
    ) -> None:
        if not callable(log_likelihood):
            raise DataError(f"log_likelihood must be a function of (params, x, u), found {log_likelihood!r}")
        self.k = self.columns = None
        self.log_likelihood, self.sampler, self.predictor = log_likelihood, sample, predict
        self.params = _each(_free, params)

    @property
    def uses_inputs(self) -> bool:
        """It may."""
        return True

    @property
    def values(self) -> PyTree:
        """The parameters as they were given to the constructor."""
        return _each(_given, self.params)

    def check(self, data: Observed) -> None:
        """Rows must be whole or missing: nothing is known of how to integrate an entry out."""
        seen = data.seen
        partial = seen.any(1) & ~seen.all(1)
        if partial.any():
            row = int(np.argmax(partial))
            raise DataError(
                f"CustomDensity needs whole rows, found row {row} without column {np.argmin(seen[row])}; drop the "
                "row's other entries, or fill it"
            )

    def adapt(self, data: Observed, *, seed: int = 0) -> "CustomDensity":
        """As it is: the parameters were given; seeds > 0 move the real ones by a tenth, for another start."""
        if seed == 0:
            return self
        rng = np.random.default_rng(seed)

        def move(node: PyTree) -> PyTree:
            if isinstance(node, Learned):
                return Learned(node.flat, node.weights + 0.1 * rng.normal(size=node.weights.shape))
            if not isinstance(node, Free):
                return node
            step = rng.normal(size=node.value.shape) * 0.1
            return Free(node.value + step * np.maximum(np.abs(node.value), 1.0))

        return changed(self, params=_each(move, self.params))

    def log_prob(self, data: Observed) -> Float[Array, "n k"]:
        """log_likelihood for every row."""
        if is_traced(self, data):
            return _log_likelihoods(self, data)
        n, length = len(data.x), bucket(len(data.x))
        inputs = None if data.inputs is None else pad_rows(data.inputs, length)
        rows = Observed(pad_rows(data.x, length), pad_rows(data.seen, length), inputs, data.complete)
        return host(_compiled_log_likelihoods(self, rows))[:n]

    def sample(self, key: PRNGKeyArray, which: Int[Array, " n"], inputs: Inputs = None) -> Float[Array, "n d"]:
        """What the given function draws."""
        if self.sampler is None:
            raise DataError(
                "this CustomDensity cannot be simulated; pass sample=function(key, params, components, inputs)"
            )
        return jnp.asarray(self.sampler(key, self.values, which, inputs), dtype=float)

    def predictive(self, probs: Float[Array, "n k"], inputs: Inputs = None) -> Predictive:
        """What the given function predicts."""
        if self.predictor is None:
            raise DataError("this CustomDensity cannot predict; pass predict=function(params, probs, inputs)")
        prediction = self.predictor(self.values, probs, inputs)
        assert isinstance(prediction, Predictive)
        return prediction


def _log_likelihoods(density: CustomDensity, data: Observed) -> Float[Array, "n k"]:
    k, values = density.sizes[0], density.values
    each = jax.vmap(lambda x, u: jnp.asarray(density.log_likelihood(values, x, u), dtype=float), (0, 0))
    table = each(data.x, data.inputs)
    if table.shape != (len(data.x), k):
        raise DataError(
            f"log_likelihood must return {k} numbers, one for each component, found shape {table.shape[1:]}"
        )
    return jnp.where(data.seen[:, :1], table, 0.0)


_compiled_log_likelihoods = eqx.filter_jit(_log_likelihoods)
