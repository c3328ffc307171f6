"""`Predictive`: what every prediction can be asked, whatever it predicts.

For real outcomes and counts the doubt is the variance, and the law of total variance splits it:

    Var[y] = E[Var[y | θ]] + Var[E[y | θ]]        total = aleatoric + epistemic

For classes the doubt is the entropy, and the mutual information of the outcome and θ is the ignorance:

    H[y] = E[H[y | θ]] + I[y; θ]                  total = aleatoric + epistemic

Depeweg et al. (2018), "Decomposition of uncertainty in Bayesian deep learning".
"""

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, ClassVar, NamedTuple, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Float, PRNGKeyArray

from credo.core.arrays import Array, Numeric, is_traced, put
from credo.core.errors import DataError
from credo.core.predictive.count_table import BLOCK, SLACK, count_quantiles

GRID = 4097

P = TypeVar("P", bound="Predictive")
Index = int | slice | Sequence[int] | Sequence[bool] | np.ndarray | Array | tuple[int | slice, ...]


class Interval(NamedTuple):
    """The central interval that holds the outcome with a given probability."""

    lower: Array
    upper: Array

    @property
    def width(self) -> Array:
        """upper - lower."""
        return self.upper - self.lower


class Predictive(eqx.Module):
    """A distribution over outcomes, one for each of m queries (or a single one, shape ())."""

    discrete: ClassVar[bool] = False
    """Whether outcomes are whole numbers."""

    if TYPE_CHECKING:  # to the reader and the type checker these are properties …

        @property
        @abstractmethod
        def mean(self) -> Array:
            """E[y]; for classes the vector of probabilities."""

        @property
        @abstractmethod
        def aleatoric(self) -> Array:
            """The doubt that more data would not remove: noise."""

        @property
        @abstractmethod
        def epistemic(self) -> Array:
            """The doubt that more data would remove: ignorance."""

    else:  # … that a subclass may also keep as a field, which an abstract property would forbid.
        mean: eqx.AbstractVar[Array]
        aleatoric: eqx.AbstractVar[Array]
        epistemic: eqx.AbstractVar[Array]

    @property
    def total(self) -> Array:
        """aleatoric + epistemic: the variance, for classes the entropy."""
        return self.aleatoric + self.epistemic

    @property
    def variance(self) -> Array:
        """Var[y]."""
        return self.total

    @property
    def std(self) -> Array:
        """The standard deviation of y."""
        return jnp.sqrt(self.variance)

    @abstractmethod
    def log_prob(self, y: Numeric) -> Array:
        """log p(y), one number per query."""

    @abstractmethod
    def cdf(self, y: Numeric) -> Array:
        """P(Y ≤ y), one number per query."""

    @abstractmethod
    def entropy(self) -> Array:
        """H[y] in nats (differential entropy for real outcomes)."""

    @abstractmethod
    def _quantile(self, q: Array) -> Array:
        """The q-quantile for a scalar q."""

    @abstractmethod
    def _draw(self, key: PRNGKeyArray) -> Array:
        """One joint draw of all outcomes."""

    def quantile(self, q: Numeric) -> Array:
        """The smallest y with P(Y ≤ y) ≥ q; for k levels q the result has k rows."""
        return _quantiles(self, check_levels(q, "q"))

    @property
    def median(self) -> Array:
        """The 0.5-quantile."""
        return self.quantile(0.5)

    def interval(self, level: Numeric = 0.95) -> Interval:
        """The central interval that holds y with probability `level`."""
        half = check_levels(level, "level") / 2
        return Interval(self.quantile(0.5 - half), self.quantile(0.5 + half))

    def sample(self, n: int = 1, *, seed: int = 0) -> Array:
        """n draws of the outcomes, shape (n, m): joint over the queries where the prediction knows how they covary."""
        return self.draw(jr.key(seed), n)

    def draw(self, key: PRNGKeyArray, n: int) -> Array:
        """`sample` with an explicit JAX key."""
        return _draws(self, jr.split(key, n))

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the batch of queries: (m,), or () for a single outcome."""
        return self.aleatoric.shape

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("this prediction is of a single outcome and has no length")
        return self.shape[0]

    def __getitem__(self: P, index: Index) -> P:
        """The predictions at some of the queries; what they know of each other is dropped."""
        where = jnp.asarray(index) if isinstance(index, list) else index
        return jax.tree.map(lambda leaf: leaf[where], self.marginal())

    def marginal(self: P) -> P:
        """The same predictions, each on its own: without the covariance between queries."""
        return self


class Marginals(Predictive):
    """A vector outcome: every question about its size is answered for each coordinate on its own."""

    @property
    @abstractmethod
    def marginals(self) -> Predictive:
        """Each coordinate on its own."""

    @property
    def aleatoric(self) -> Array:
        """The noise variance of each coordinate."""
        return self.marginals.aleatoric

    @property
    def epistemic(self) -> Array:
        """The variance of each coordinate that comes from not knowing the parameters."""
        return self.marginals.epistemic

    def cdf(self, y: Numeric) -> Array:
        """P(Yᵢ ≤ yᵢ) for each coordinate."""
        return self.marginals.cdf(y)

    def quantile(self, q: Numeric) -> Array:
        """The quantiles of each coordinate."""
        return self.marginals.quantile(q)

    def _quantile(self, q: Array) -> Array:
        return self.marginals._quantile(q)

    def __getitem__(self, index: Index) -> Predictive:  # type: ignore[override]
        """Some of the coordinates, each on its own."""
        return self.marginals[index]


# Compiled once for each kind and shape: searches and draws are loops, which JAX would compile anew at every call.
@eqx.filter_jit
def _quantiles(prediction: Predictive, q: Array) -> Array:
    return prediction._quantile(q) if q.ndim == 0 else jax.vmap(prediction._quantile)(q)


@eqx.filter_jit
def _draws(prediction: Predictive, keys: Array) -> Array:
    return jax.vmap(prediction._draw)(keys)


def check_levels(q: Numeric, name: str) -> Float[Array, "..."]:
    """Probabilities strictly between 0 and 1."""
    levels = jnp.asarray(q, dtype=float)
    if not is_traced(levels) and not bool(jnp.all((levels > 0) & (levels < 1))):
        raise DataError(f"{name} must lie strictly between 0 and 1, found {q}; write 95 % as 0.95")
    return levels


def invert_cdf(cdf: Callable[[Array], Array], q: Array, low: Array, high: Array) -> Array:
    """The y in [low, high] with cdf(y) = q, to the last bits that float64 can tell.

    Inverse quadratic interpolation inside a bracket: Chandrupatla (1997), "A new hybrid quadratic/bisection algorithm".
    About ten evaluations instead of sixty. x1 is the newest point, [x1, x2] the bracket, x3 the point that x1
    replaced; f = cdf - q.
    """
    State = tuple[Array, ...]
    eps = jnp.finfo(float).eps

    def spread(x1: Array, x2: Array) -> Array:
        return (2 * eps * jnp.maximum(jnp.abs(x1), jnp.abs(x2)) + 1e-300) / (jnp.abs(x2 - x1) + 1e-300)

    def unfinished(state: State) -> Array:
        step, _, x1, x2, _, f1, f2, _ = state
        done = (spread(x1, x2) > 0.5) | (f1 == 0) | (f2 == 0)
        return (step < 100) & ~jnp.all(done)

    def advance(state: State) -> State:
        step, t, x1, x2, x3, f1, f2, f3 = state
        x = x1 + t * (x2 - x1)
        f = cdf(x) - q
        same = jnp.sign(f) == jnp.sign(f1)
        x3, f3 = jnp.where(same, x1, x2), jnp.where(same, f1, f2)
        x2, f2 = jnp.where(same, x2, x1), jnp.where(same, f2, f1)
        x1, f1 = x, f
        xi, phi = _ratio(x1 - x2, x3 - x2), _ratio(f1 - f2, f3 - f2)
        smooth = (phi**2 < xi) & ((1 - phi) ** 2 < 1 - xi)
        quadratic = _ratio(f1, f2 - f1) * _ratio(f3, f2 - f3) + (
            _ratio(x3 - x1, x2 - x1) * _ratio(f1, f3 - f1) * _ratio(f2, f3 - f2)
        )
        least = jnp.minimum(spread(x1, x2), 0.5)
        t = jnp.clip(jnp.where(smooth, quadratic, 0.5), least, 1 - least)
        return step + 1, t, x1, x2, x3, f1, f2, f3

    low, high = jnp.broadcast_arrays(low, high)
    f_low, f_high = cdf(low) - q, cdf(high) - q
    start: State = (jnp.asarray(0), jnp.full(low.shape, 0.5), low, high, high, f_low, f_high, f_high)
    _, _, x1, x2, _, f1, f2, _ = jax.lax.while_loop(unfinished, advance, start)
    return jnp.where(jnp.abs(f1) <= jnp.abs(f2), x1, x2)


def _ratio(top: Array, bottom: Array) -> Array:
    """top / bottom, and 0 where the bottom is: a step that is then not taken."""
    zero = bottom == 0
    return jnp.where(zero, 0.0, top / jnp.where(zero, 1.0, bottom))


def search_counts(prediction: Predictive, q: Array) -> Array:
    """The q-quantile of counts by bisection, between the bounds of Cantelli's inequality (one-sided Chebyshev)."""
    low = jnp.maximum(jnp.floor(prediction.mean - prediction.std * jnp.sqrt((1 - q) / q)) - 1, -1.0)
    high = jnp.ceil(prediction.mean + prediction.std * jnp.sqrt(q / (1 - q))) + 1

    def halve(_: Array | int, bracket: tuple[Array, Array]) -> tuple[Array, Array]:
        lo, hi = bracket
        middle = jnp.floor((lo + hi) / 2)
        enough = prediction.cdf(middle) >= q - SLACK
        return jnp.where(enough, lo, middle), jnp.where(enough, middle, hi)

    return jax.lax.fori_loop(0, 64, halve, (low, high))[1]


def tabled_quantile(prediction: Predictive, q: Numeric) -> Array:
    """The quantiles of counts: from a table where the prediction is concrete and its counts are not large."""
    levels = check_levels(q, "q")
    if not is_traced(prediction, levels):
        mean, std = np.asarray(prediction.mean), np.asarray(prediction.std)
        found = count_quantiles(
            lambda y: np.asarray(_masses(prediction, jnp.asarray(float(y)))), mean, std, np.atleast_1d(levels)
        )
        if found is not None:
            return put(found if levels.ndim else found[0])
    return _quantiles(prediction, levels)


@eqx.filter_jit
def _masses(prediction: Predictive, first: Array) -> Array:
    return jnp.exp(jax.lax.map(prediction.log_prob, first + jnp.arange(BLOCK, dtype=float)))


def integrate_on_grid(integrand: Callable[[Array], Array], center: Array, scale: Array) -> Array:
    """∫ f by the trapezoidal rule in t, y = center + scale·sinh(t): fine in the middle, far in the tails."""
    t = jnp.linspace(-20.0, 20.0, GRID)

    def at(step: Array) -> Array:
        return integrand(center + scale * jnp.sinh(step)) * scale * jnp.cosh(step)

    return jnp.sum(jax.lax.map(at, t, batch_size=256), axis=0) * (t[1] - t[0])


def sum_over_counts(summand: Callable[[Array], Array], mean: Array, std: Array) -> Array:
    """Σ f(y) over the counts y near the mean, in strides where the spread is far wider than the grid."""
    reach = 30 * std + 30
    low = jnp.maximum(jnp.floor(mean - reach), 0.0)
    stride = jnp.maximum(jnp.ceil((mean + reach - low) / GRID), 1.0)
    each = jax.lax.map(lambda i: summand(low + stride * i), jnp.arange(GRID, dtype=float), batch_size=256)
    return jnp.sum(each, axis=0) * stride
