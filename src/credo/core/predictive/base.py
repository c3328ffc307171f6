"""`Predictive`: what every prediction can be asked, whatever it predicts.

For real outcomes and counts the doubt is the variance, and the law of total variance splits it:

    Var[y] = E[Var[y | θ]] + Var[E[y | θ]]        total = aleatoric + epistemic

For classes the doubt is the entropy, and the mutual information of the outcome and θ is the ignorance:

    H[y] = E[H[y | θ]] + I[y; θ]                  total = aleatoric + epistemic

Depeweg et al. (2018), "Decomposition of uncertainty in Bayesian deep learning".
"""

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, TypeVar

import equinox as eqx
import jax
import jax.random as jr
import numpy as np
from jaxtyping import Float, PRNGKeyArray

from credo.core.arrays import Array, Numeric, as_float, host, is_traced, namespace
from credo.core.checks import check_count
from credo.core.errors import DataError
from credo.core.loops import over_nodes

P = TypeVar("P", bound="Predictive")
Index = int | slice | None | Sequence[int] | Sequence[bool] | Array | tuple["Index", ...]


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
    elementwise: ClassVar[bool] = True
    """Whether every leaf has the queries as its leading axes: a stack of such predictions is one of them."""

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
        return namespace(self).sqrt(self.variance)

    @abstractmethod
    def log_prob(self, y: Numeric) -> Array:
        """log p(y), one number per query."""

    @abstractmethod
    def cdf(self, y: Numeric) -> Array:
        """P(Y ≤ y), one number per query."""

    def entropy(self) -> Array:
        """H[y] = E[-log p(Y)] in nats (differential entropy for real outcomes)."""
        from credo.core.predictive.expectation import expectation

        return expectation(self, lambda y: -self.log_prob(y))

    @abstractmethod
    def _quantile(self, q: Array) -> Array:
        """The q-quantile, for levels q that broadcast against the queries."""

    @abstractmethod
    def _draw(self, key: PRNGKeyArray) -> Array:
        """One joint draw of all outcomes."""

    def quantile(self, q: Numeric) -> Array:
        """The smallest y with P(Y ≤ y) ≥ q; for k levels q the result has k rows."""
        levels = check_levels(q, "q")
        if levels.ndim == 0:
            return self._quantile(levels)
        levels, xp = levels.reshape(*levels.shape, *[1] * len(self.shape)), namespace(self, levels)
        return over_nodes(xp, self._quantile, (levels,), size_of(self))

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
        check_count(n, "n")
        return self.draw(jr.key(seed), int(n))

    def draw(self, key: PRNGKeyArray, n: int) -> Array:
        """`sample` with an explicit JAX key."""
        return host(_draws(self, key, n))

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
        where, xp = as_index(index, self.shape), namespace(self, index)
        return jax.tree.map(lambda leaf: xp.asarray(leaf)[where], self.marginal())

    def __iter__(self) -> Iterator["Predictive"]:
        return (self[i] for i in range(len(self)))

    def __array__(self, dtype: object = None, copy: object = None) -> np.ndarray:
        """Refused: which of its numbers is meant?"""
        raise DataError(
            f"a {type(self).__name__} is a distribution, not numbers: take its mean, std, quantile(q) or sample(n)"
        )

    def marginal(self: P) -> P:
        """The same predictions, each on its own: without the covariance between queries."""
        return self


class Marginals(Predictive):
    """A vector outcome: every question about its size is answered for each coordinate on its own."""

    elementwise: ClassVar[bool] = False

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


@eqx.filter_jit
def _draws(prediction: Predictive, key: PRNGKeyArray, n: int) -> Array:
    return jax.vmap(prediction._draw)(jr.split(key, n))


def as_index(index: Index, shape: tuple[int, ...]) -> Index:
    """An index that either library takes: lists become arrays; what lies outside is refused, where JAX would clamp."""
    where: Any = np.asarray(index) if isinstance(index, list) else index
    if not is_traced(where):
        np.broadcast_to(np.zeros(()), shape)[where]  # raises IndexError
    return where


def optional_float(value: Numeric | None) -> Array | None:
    """`as_float`, and None for None."""
    return None if value is None else as_float(value)


def size_of(prediction: Predictive) -> int:
    """How many numbers one answer takes to compute: those of the largest leaf."""
    return max(np.size(leaf) for leaf in jax.tree.leaves(prediction.marginal()))


def check_levels(q: Numeric, name: str) -> Float[Array, "..."]:
    """Probabilities strictly between 0 and 1."""
    levels = as_float(q, name)
    if not is_traced(levels) and not np.all((levels > 0) & (levels < 1)):
        raise DataError(f"{name} must lie strictly between 0 and 1, found {q}; write 95 % as 0.95")
    return levels
