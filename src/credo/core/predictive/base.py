"""`Predictive`: what every prediction can be asked, whatever it predicts.

For real outcomes and counts the doubt is the variance, and the law of total variance splits it:

    Var[y] = E[Var[y | θ]] + Var[E[y | θ]]        total = aleatoric + epistemic

For classes the doubt is the entropy, and the mutual information of the outcome and θ is the ignorance:

    H[y] = E[H[y | θ]] + I[y; θ]                  total = aleatoric + epistemic

Depeweg et al. (2018), "Decomposition of uncertainty in Bayesian deep learning".
"""

from abc import abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
from jaxtyping import Array, Float, PRNGKeyArray

from credo.core.errors import DataError

GRID = 4097


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
    def log_prob(self, y: Any) -> Array:
        """log p(y), one number per query."""

    @abstractmethod
    def cdf(self, y: Any) -> Array:
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

    def quantile(self, q: Any) -> Array:
        """The smallest y with P(Y ≤ y) ≥ q; for k levels q the result has k rows."""
        levels = check_levels(q, "q")
        return _quantiles(self, levels) if levels.ndim == 0 else jax.vmap(_quantiles, (None, 0))(self, levels)

    @property
    def median(self) -> Array:
        """The 0.5-quantile."""
        return self.quantile(0.5)

    def interval(self, level: Any = 0.95) -> Interval:
        """The central interval that holds y with probability `level`."""
        half = check_levels(level, "level") / 2
        return Interval(_quantiles(self, 0.5 - half), _quantiles(self, 0.5 + half))

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

    def __getitem__(self, index: Any) -> Any:
        """The predictions at some of the queries; what they know of each other is dropped."""
        alone = self.marginal()
        return jax.tree.map(lambda leaf: leaf[index], alone)

    def marginal(self) -> Any:
        """The same predictions, each on its own: without the covariance between queries."""
        return self


# Compiled once for each kind and shape: searches and draws are loops, which JAX would compile anew at every call.
@eqx.filter_jit
def _quantiles(prediction: Predictive, q: Array) -> Array:
    return prediction._quantile(q)


@eqx.filter_jit
def _draws(prediction: Predictive, keys: Array) -> Array:
    return jax.vmap(prediction._draw)(keys)


def check_levels(q: Any, name: str) -> Float[Array, "..."]:
    """Probabilities strictly between 0 and 1."""
    levels = jnp.asarray(q, dtype=float)
    if not isinstance(levels, jax.core.Tracer) and not bool(jnp.all((levels > 0) & (levels < 1))):
        raise DataError(f"{name} must lie strictly between 0 and 1, found {q}; write 95 % as 0.95")
    return levels


def to_array(value: Any) -> Any:
    """Field converter: anything numeric to a float64 JAX array."""
    return jnp.asarray(value, dtype=float)


def invert_cdf(cdf: Callable[[Array], Array], q: Array, low: Array, high: Array, discrete: bool = False) -> Array:
    """The smallest y in (low, high] with cdf(y) ≥ q, by bisection to the last bit that float64 can tell."""

    def halve(_: Any, bracket: tuple[Array, Array]) -> tuple[Array, Array]:
        lo, hi = bracket
        middle = jnp.floor((lo + hi) / 2) if discrete else (lo + hi) / 2
        enough = cdf(middle) >= q
        return jnp.where(enough, lo, middle), jnp.where(enough, middle, hi)

    return jax.lax.fori_loop(0, 64, halve, (low, high))[1]


def cantelli_bracket(mean: Array, std: Array, q: Array) -> tuple[Array, Array]:
    """Where the q-quantile of any distribution with this mean and std must lie (one-sided Chebyshev)."""
    return mean - std * jnp.sqrt((1 - q) / q), mean + std * jnp.sqrt(q / (1 - q))


def entropy_on_grid(log_prob: Callable[[Array], Array], center: Array, scale: Array) -> Array:
    """-∫ p log p by the trapezoidal rule in t, y = center + scale·sinh(t): fine in the middle, far in the tails."""
    t = jnp.linspace(-20.0, 20.0, GRID)

    def at(step: Array) -> Array:
        log_p = log_prob(center + scale * jnp.sinh(step))
        density = jnp.exp(log_p)
        return -jnp.where(density > 0, density * log_p, 0.0) * scale * jnp.cosh(step)

    return jnp.sum(jax.lax.map(at, t, batch_size=256), axis=0) * (t[1] - t[0])
