"""What `Experts` asks of its experts: to be learned from shares of the rows, and to show their numbers as vectors.

`LinearExperts` are regressions with normal noise, each in closed form; `GeneralizedRegression` is for counts, classes
and heavy tails.
"""

from abc import abstractmethod
from typing import Any, Generic, TypeVar

import equinox as eqx
import numpy as np
from jaxtyping import Float, Int

from credo.core.arrays import Array, namespace
from credo.core.checks import ArrayLike
from credo.core.predictive import Predictive
from credo.models.densities import Observed

F = TypeVar("F", bound="ExpertFamily[Any]")
S = TypeVar("S")
"""What an M-step is made of."""


class ExpertRows(eqx.Module):
    """The rows under the features: inputs of the experts, of the gate (a 1 in front), and outcomes."""

    phi: Float[Array, "n p"]
    gate: Float[Array, "n q"]
    y: Float[Array, " n"]
    weights: Float[Array, " n"]
    origin: Any = None
    """The belief before its starting point was chosen, for other ones."""

    def __add__(self, other: "ExpertRows") -> "ExpertRows":
        pairs = ((getattr(self, n), getattr(other, n)) for n in ("phi", "gate", "y", "weights"))
        return ExpertRows(*(np.concatenate(pair) for pair in pairs))

    @property
    def observed(self) -> Observed:
        """Outcomes as a density has them."""
        xp = namespace(self.y)
        return Observed(self.y[:, None], xp.ones((len(self.y), 1), bool), self.phi, complete=True)


class ExpertFamily(eqx.Module, Generic[S]):
    """k experts of one kind, p(y | x, j), and the prior of each."""

    # -- learning -------------------------------------------------------------------------------------------

    @property
    @abstractmethod
    def experts(self) -> Any:
        """As the belief shows them."""

    @property
    @abstractmethod
    def known(self) -> bool:
        """Whether their numbers are known."""

    @abstractmethod
    def resized(self: F, k: int) -> F:
        """The same experts, k of them; numbers that were given must agree."""

    def told(self: F, y: ArrayLike) -> F:
        """With what outcomes say about themselves (classes)."""
        return self

    @abstractmethod
    def encode(self, y: ArrayLike, n: int) -> Float[Array, " n"]:
        """n outcomes as numbers, checked."""

    @abstractmethod
    def marks(self, y: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
        """Outcomes on a scale on which clusters of rows are sought."""

    @abstractmethod
    def adapt(self: F, rows: ExpertRows, seed: int) -> F:
        """With a prior and starting numbers from the rows, where they have not been given."""

    @abstractmethod
    def expected_statistics(self, rows: ExpertRows, shares: Float[Array, "n k"]) -> S:
        """What `maximize` needs of rows that count for each expert by a share."""

    @abstractmethod
    def maximize(self: F, statistics: S) -> F:
        """argmax Σ shares · log p(y | x, j) + log p(numbers), or higher than before."""

    @abstractmethod
    def log_prior(self) -> Float[Array, ""]:
        """log p(numbers) up to a constant."""

    @abstractmethod
    def log_prob(self, rows: ExpertRows) -> Float[Array, "n k"]:
        """log p(y | x, j)."""

    @abstractmethod
    def reordered(self: F, order: Int[np.ndarray, " k"]) -> F:
        """The same experts in another order."""

    @property
    def exchangeable(self) -> bool:
        """Whether their priors are the same: then their order means nothing."""
        return True

    @property
    @abstractmethod
    def constants(self) -> Float[Array, " k"]:
        """A constant term of each, by which they are ordered."""

    # -- their numbers as vectors ---------------------------------------------------------------------------

    @property
    @abstractmethod
    def numbers(self) -> Float[Array, "k a"]:
        """The a unconstrained numbers of each expert."""

    @abstractmethod
    def log_probs(self, numbers: Float[Array, "b a"], rows: ExpertRows) -> Float[Array, "n b"]:
        """log p(y | x) of experts with these numbers."""

    @abstractmethod
    def log_priors(self, numbers: Float[Array, "b k a"]) -> Float[Array, " b"]:
        """log p of all experts' numbers, as they are here, up to a constant."""

    @abstractmethod
    def scores(self, rows: ExpertRows) -> Float[Array, "n k a"]:
        """∂ log p(y | x, j)/∂ numbersⱼ of each row."""

    @abstractmethod
    def curvature(self, rows: ExpertRows, shares: Float[Array, "n k"]) -> Float[np.ndarray, "k a a"]:
        """-∂² (Σ shares · log p(y | x, j) + log p(numbersⱼ))/∂ numbersⱼ²."""

    @abstractmethod
    def predict(
        self, numbers: Float[Array, "s k a"], regions: Float[Array, "s m k"], phi: Float[Array, "m p"]
    ) -> Predictive:
        """The mixture at s equally probable settings of all numbers; which expert it is is noise at each of them."""

    @abstractmethod
    def answers(self, phi: Float[Array, "m p"]) -> Float[Array, "m k *c"]:
        """What each expert expects at each row; of more than two classes their probabilities."""


def mixed_weights(regions: Float[Array, "s m k"]) -> Float[Array, "sk m"]:
    """The weights of all experts of all settings, as a `Mixture` has them."""
    s, m, k = regions.shape
    return namespace(regions).swapaxes(regions, 1, 2).reshape(s * k, m) / s
