"""What a belief may be able to do beyond predicting: small abstract classes that it derives from.

A method or a verb asks for an ability with `isinstance`; what a belief takes follows from what it derives from, and
nothing is found out by trying. Each says in words what it is, for refusals (`demand`).
"""

from abc import abstractmethod
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, ClassVar, Generic, TypeGuard, TypeVar

import equinox as eqx
import numpy as np
from jaxtyping import Float

from credo.core.arrays import Array
from credo.core.belief import Belief
from credo.core.checks import ArrayLike
from credo.core.errors import DataError
from credo.core.method import TakesMethods
from credo.core.params import Prior
from credo.core.predictive import Predictive

S = TypeVar("S")
"""What a belief keeps of the data."""
E = TypeVar("E")
"""Expected statistics."""


BLOCK = 800
"""Of how many rows at once the covariance is computed where groups of them need not be compared."""
FUNCTIONS, FEATURES = 50, 1024
"""Pairs of whole functions that are averaged over rows, and the features of each."""


class Ability(eqx.Module):
    """The root of all abilities."""

    in_words: ClassVar[str]
    """What a belief with it has, as in "it needs …"."""


class HasLogDensity(Ability, Generic[S]):
    """log p(data, θ) of the unknown numbers θ, for methods that approximate any log density."""

    in_words: ClassVar[str] = "a log density of its unknown numbers"

    @abstractmethod
    def target(self, statistics: S, priors: dict[str, Prior] | None = None) -> Any:
        """log p(data, θ) as an `infer.Target`; `priors` by path make hyperparameters unknown, too."""

    @abstractmethod
    def given(self, posterior: Any, statistics: S) -> Belief:
        """The belief with what a method found about θ."""


class HasRows(Ability, Generic[S]):
    """log p(θ) and one log p(rowᵢ | θ) for each row, for methods that look at a few rows at a time."""

    in_words: ClassVar[str] = "a log likelihood that is a sum over rows"

    @abstractmethod
    def row_density(self, statistics: S) -> tuple[Any, tuple[Array, ...]]:
        """The prior and the likelihood of rows as an `infer.rows.RowDensity`, and the columns of the rows."""

    @abstractmethod
    def given(self, posterior: Any, statistics: S) -> Belief:
        """The belief with what a method found about θ."""


class HasExpectations(Ability, Generic[S, E]):
    """Hidden variables z with closed-form E- and M-steps, for `EM`."""

    in_words: ClassVar[str] = "hidden variables with closed-form expectations"

    @abstractmethod
    def expect(self, statistics: S) -> tuple[E, Float[Array, ""]]:
        """Expected statistics of (x, z) under p(z | x, θ), and log p(x | θ); traceable."""

    @abstractmethod
    def maximize(self, expected: E, fixed: tuple[str, ...] = ()) -> "HasExpectations[S, E]":
        """argmax_θ E[log p(x, z | θ)] + log p(θ) of what is not `fixed`; traceable."""

    def expect_side_by_side(self, beliefs: Sequence[Any], statistics: S) -> list[tuple[E, Float[Array, ""]]] | None:
        """`expect` of several beliefs at once in NumPy; None where one compiled program for each is quicker."""
        return None

    def canonical(self) -> Any:
        """The same belief in the form by which runs are compared: hidden states or components in a fixed order."""
        return self

    @abstractmethod
    def restart(self, statistics: S, seed: int) -> "HasExpectations[S, E] | None":
        """Another starting point; None where the user gave the start."""

    @abstractmethod
    def log_prior_of_parameters(self) -> Any:
        """log p(θ) as `maximize` sees it, up to a constant; 0 for maximum likelihood."""


class HasConjugateLaws(HasExpectations[S, E]):
    """Hidden variables, and conjugate laws of all parameters given those, for `VariationalBayes`: q(z) q(θ)."""

    in_words: ClassVar[str] = "hidden variables and conjugate laws of its parameters"

    @abstractmethod
    def improve(self, expected: E, statistics: S) -> tuple[Any, E, Float[Array, ""]]:
        """q(θ) given expected statistics, those under the q(z) that follows from it, and the bound on log p(x)."""

    @abstractmethod
    def center_of(self, q: Any) -> Any:
        """The belief at the mean of q."""

    @abstractmethod
    def drawn_from(self, keys: Any, q: Any) -> Any:
        """Beliefs with parameters drawn from q, along a leading axis; one for each key."""

    @abstractmethod
    def averaged(self, drawn: Any, statistics: S) -> Belief:
        """The average over beliefs drawn from their law after the data."""

    def begin(self, statistics: S) -> E | None:
        """Expected statistics that the first turn begins with; None for those of `expect`."""
        return None

    def extrapolated(self, turns: tuple[E, E, E], longest: float) -> tuple[E, float] | None:
        """Where three successive turns lead to, at most so many of them ahead, and how many; None for no such guess."""
        return None

    def merged(self, expected: E) -> list[E]:
        """Expected statistics with two hidden kinds taken for one, for each pair that both have rows; none by default.

        Two components that share the rows of one kind are a maximum of the bound that no step leaves.
        """
        return []


class HasWeightedRows(HasExpectations[S, E]):
    """Parameters learned from rows each of which counts by a weight, for `BayesianBootstrap`."""

    in_words: ClassVar[str] = "rows that count by weights"

    @abstractmethod
    def row_weights(self, statistics: S) -> Float[Array, " n"]:
        """What each row counts for."""

    @abstractmethod
    def reweighted(self, statistics: S, weights: Float[np.ndarray, " n"]) -> S:
        """The same rows with other weights."""

    @abstractmethod
    def held(self) -> Any:
        """The belief with its parameters as if they had been given: more rows do not move them."""


class HasPointEstimates(Ability):
    """Closed forms of the usual single guesses: beliefs without ignorance, whose predictions are all noise."""

    in_words: ClassVar[str] = "closed-form point estimates"

    @abstractmethod
    def maximum_likelihood(self, *data: Any, **options: Any) -> Belief:
        """argmax p(data | θ)."""

    @abstractmethod
    def maximum_a_posteriori(self, *data: Any, **options: Any) -> Belief:
        """argmax p(data | θ) p(θ)."""

    @abstractmethod
    def plug_in(self, *data: Any, **options: Any) -> Belief:
        """E[θ | data], as if it were known."""


class LeavesOneOut(Ability):
    """p(yᵢ | the other rows) without conditioning n times."""

    in_words: ClassVar[str] = "a closed form of leaving each row out"

    @abstractmethod
    def leave_one_out(self, *data: Any, **options: Any) -> Predictive:
        """The prediction of each row from all others."""


class DrawsMeans(Ability):
    """Draws of what is expected of outcomes, averaged over rows: what a change of the rows' inputs would do."""

    in_words: ClassVar[str] = "draws of what it expects"

    @abstractmethod
    def mean_draws(self, x: ArrayLike, n: int = 1000, *, joint: bool = True, seed: int = 0) -> np.ndarray:
        """1/r Σᵢ E[y | θ, xᵢ] over the r rows of each group at n draws of θ.

        Args:
            x: the rows of each group, shape (g, r, d).
            n: how many draws; they come in pairs around the mean, the same ones for every x of the same shape.
            joint: whether groups are to be compared, draw by draw; without it each is alone, which may be cheaper.
            seed: of the draws.

        Returns:
            Shape (n, g): numbers, counts for an exposure of one, probabilities of the second class; of more classes
            (n, g, k).
        """

    def mean_sampler(self, n: int = 1000, *, joint: bool = True, seed: int = 0) -> Callable[[ArrayLike], np.ndarray]:
        """`mean_draws` of many x, with what is the same for all of them done once."""
        return partial(self.mean_draws, n=n, joint=joint, seed=seed)


def in_blocks(x: ArrayLike, joint: bool, drawn: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    """`mean_draws` of all groups at once, or where they need not be compared of some at a time."""
    groups = np.asarray(x, dtype=float)
    rows = groups.shape[0] * groups.shape[1]
    if joint or rows <= BLOCK:
        return drawn(groups)
    return np.concatenate([drawn(part) for part in np.array_split(groups, -(-rows // BLOCK))], axis=1)


def normal_pairs(mean: np.ndarray, covariance: np.ndarray, n: int, seed: int) -> np.ndarray:
    """n draws of a normal law, in pairs around its mean; the covariance may be singular."""
    values, vectors = np.linalg.eigh(covariance)
    z = np.random.default_rng(seed).normal(size=(n // 2, len(mean))) @ (vectors * np.sqrt(np.maximum(values, 0.0))).T
    return mean + np.concatenate([z, -z])


class HasCovariance(DrawsMeans):
    """Covariances of the mean between queries."""

    in_words: ClassVar[str] = "covariances between predictions"

    def mean_draws(self, x: ArrayLike, n: int = 1000, *, joint: bool = True, seed: int = 0) -> np.ndarray:
        """See `DrawsMeans`: averages of jointly normal values are jointly normal."""

        def drawn(groups: np.ndarray) -> np.ndarray:
            g, r, d = groups.shape
            rows = groups.reshape(g * r, d)
            mean = np.asarray(self.predict(rows).mean).reshape(g, r).mean(axis=1)  # type: ignore[attr-defined]
            covariance = self.scale_of_covariance() * np.asarray(self.covariance(rows, rows))
            return normal_pairs(mean, covariance.reshape(g, r, g, r).mean(axis=(1, 3)), n, seed)

        return in_blocks(x, joint, drawn)

    def scale_of_covariance(self) -> float:
        """What `covariance` is in units of: 1, or the noise variance where that is unknown."""
        return 1.0

    @abstractmethod
    def covariance(self, x: ArrayLike, z: ArrayLike | None = None) -> Float[Array, "n m"]:
        """cov(f(x), f(z) | data)."""


class SeesNovelty(Ability):
    """A density of the inputs: it knows which are like nothing seen."""

    in_words: ClassVar[str] = "a density of its inputs"

    @abstractmethod
    def novelty(self, x: ArrayLike) -> Float[np.ndarray, " n"]:
        """The probability of inputs as surprising as these, or more: uniform for rows like those seen, else small."""


class DrawsFunctions(DrawsMeans):
    """Draws of whole functions, which can be asked anywhere and again."""

    in_words: ClassVar[str] = "draws of whole functions"

    def mean_draws(self, x: ArrayLike, n: int = 1000, *, joint: bool = True, seed: int = 0) -> np.ndarray:
        """See `DrawsMeans`: averages of drawn functions and of their mirror images; of many draws `FUNCTIONS` pairs."""
        return self._averages(self._drawn(n, seed, np.shape(x)[-1]), x)

    def mean_sampler(self, n: int = 1000, *, joint: bool = True, seed: int = 0) -> Callable[[ArrayLike], np.ndarray]:
        """See `DrawsMeans`: the functions are drawn once, after data."""
        if isinstance(self, HasCovariance):  # whose averages need no functions
            return super().mean_sampler(n, joint=joint, seed=seed)
        return partial(self._averages, self._drawn(n, seed, None))

    def _drawn(self, n: int, seed: int, columns: int | None) -> Callable[[Array], Array]:
        return self.sample_functions(max(min(n // 2, FUNCTIONS), 1), features=FEATURES, seed=seed, columns=columns)

    def _averages(self, functions: Callable[[Array], Array], x: ArrayLike) -> np.ndarray:
        groups = np.asarray(x, dtype=float)
        g, r, d = groups.shape
        rows = groups.reshape(g * r, d)
        some = np.asarray(functions(rows)).reshape(-1, g, r).mean(axis=2)
        mean = np.asarray(self.predict(rows).mean).reshape(g, r).mean(axis=1)  # type: ignore[attr-defined]
        return np.concatenate([some, 2 * mean - some])

    @abstractmethod
    def sample_functions(
        self, n: int = 1, *, features: int = 2048, seed: int = 0, columns: int | None = None
    ) -> Callable[[Array], Array]:
        """n functions of the belief: of inputs (m, d) values (n, m)."""


class KeepsRows(Ability):
    """The inputs it has been conditioned on."""

    in_words: ClassVar[str] = "the inputs it has seen"

    @abstractmethod
    def seen_inputs(self) -> Float[Array | np.ndarray, "n d"] | None:
        """The inputs of the rows seen; None before any."""


class PredictsJointly(Ability):
    """Joint predictions: how the outcomes of several queries covary."""

    in_words: ClassVar[str] = "joint predictions of several queries"
    takes_noise: ClassVar[bool] = False
    """Whether `predict` takes the noise variance of each query."""

    @abstractmethod
    def predict(self, x: ArrayLike, *, joint: bool = False) -> Predictive:
        """The prediction of each query; with `joint`, of all of them together."""


def able(belief: object, ability: type) -> TypeGuard[Any]:
    """Whether the belief, and each member of an average over hyperparameters, has the ability."""
    members = belief.recipients("ability") if isinstance(belief, TakesMethods) else ()
    return isinstance(belief, ability) and all(isinstance(each, ability) for each in members)


def demand(belief: object, ability: type[Ability], who: str) -> None:
    """`DataError` unless the belief has the ability, in the words of `who` needs it."""
    if not able(belief, ability):
        name = type(belief.recipients("ability")[0] if isinstance(belief, TakesMethods) else belief).__name__
        raise DataError(f"{who} needs {ability.in_words}, which {name} does not have")
