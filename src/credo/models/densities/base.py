"""Densities p(x | k, u; θ) of a row x given its component k = 1 … K, with priors of θ and ways to learn it.

A density is a frozen pytree whose parameters are plain learnable fields. What it can do besides is an ability:

    Density          log_prob (traceable: any can be learned by gradient), sample, predictive, adapt
    HasStatistics    expected_statistics, maximize (closed form), log_prior: the parts of EM
    HasDraws         draw_statistics (what is latent besides the component is drawn), draw (θ given them): Gibbs
    IsConjugate      variational_posterior (q(θ)), expected_log_prob, kl_to_prior, posterior_mean: variational Bayes
    HasPredictive    log_predictive, log_marginal, sample_predictive, several: θ integrated out in closed form

`prior` is "weak" (taken from the data by `adapt`), None (maximum likelihood) or given. Without a prior `maximize` still
adds a floor, a fixed 1e-10 to 1e-6 of one observation, so that no variance, rate or probability becomes zero;
`log_prior` then is the matching term, which is as small.
"""

import dataclasses
from abc import abstractmethod
from collections.abc import Callable
from typing import Any, Generic, NamedTuple, TypeVar

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Bool, Float, Int, PRNGKeyArray

from credo.core.arrays import Array, namespace, special
from credo.core.checks import check_count
from credo.core.errors import DataError
from credo.core.predictive import Predictive
from credo.core.pytrees import changed, plain_methods
from credo.core.text import counted

Inputs = Float[Array, "n c"] | None
D = TypeVar("D", bound="Density")
S = TypeVar("S")
"""Expected statistics, a pytree; those of two data sets add."""
Q = TypeVar("Q")
"""What is believed of θ."""

ENTRIES = 2**22
"""Numbers of rows and components that are held in memory together."""
ALMOST_NONE = 1e-10
"""A component with less weight than this has no rows: without a prior it keeps its parameters."""


class Observed(NamedTuple):
    """Rows, which of their entries were seen (x is 0 elsewhere), and their inputs u."""

    x: Float[Array, "n d"]
    seen: Bool[Array, "n d"]
    inputs: Inputs = None
    complete: bool = False
    """Whether it is certain that every row was seen in full or not at all, which saves work."""
    noise: Float[Array, "n d d"] | None = None
    """The covariance of a noise of each row's own, for densities that take one."""

    @property
    def any_seen(self) -> Bool[Array, "n 1"]:
        """Which rows show something."""
        return namespace(self.seen).any(self.seen, axis=1, keepdims=True)

    def cut(self, rows: "slice | np.ndarray") -> "Observed":
        """Some of the rows."""
        inputs, noise = (None if each is None else each[rows] for each in (self.inputs, self.noise))
        return Observed(self.x[rows], self.seen[rows], inputs, self.complete, noise)

    def refuse(self, wrong: Callable[[np.ndarray], np.ndarray], expected: str) -> None:
        """`DataError` that names the first entry that was seen and is wrong."""
        found = np.asarray(self.seen) & wrong(np.asarray(self.x))
        if found.any():
            row, column = np.argwhere(found)[0]
            raise DataError(f"x must hold {expected}, found {self.x[row, column]:g} at row {row}, column {column}")


class Density(eqx.Module):
    """p(x | k, u; θ) of `k` components in `columns` columns; both may be unknown until `resized`."""

    k: int | None = eqx.field(static=True)
    columns: int | None = eqx.field(static=True)

    __getattribute__ = plain_methods

    def __repr__(self) -> str:
        sizes = {"component": self.k, "column": self.columns}
        shown = ", ".join(counted(n, noun) for noun, n in sizes.items() if n is not None)
        return f"{type(self).__name__}({shown})"

    @property
    def sizes(self) -> tuple[int, int]:
        """(k, columns), once they are known."""
        if self.k is None or self.columns is None:
            raise DataError(
                f"the density {type(self).__name__} does not know its shape yet; call resized(components, columns)"
            )
        return self.k, self.columns

    def resized(self: D, k: int, columns: int) -> D:
        """The same density for so many components and columns; what was given before must agree."""
        check_count(k, "k")
        check_count(columns, "columns")
        for name, known, asked in (("components", self.k, k), ("columns", self.columns, columns)):
            if known is not None and known != asked:
                raise DataError(
                    f"the density {type(self).__name__} was given for {known} {name}, found {asked}; "
                    "give parameters of matching shapes, or leave them out"
                )
        return changed(self, k=int(k), columns=int(columns))

    @property
    def uses_inputs(self) -> bool:
        """Whether p(x | k, u) depends on inputs u."""
        return False

    def able(self, ability: type) -> bool:
        """Whether it has an ability, one of the classes above."""
        return isinstance(self, ability)

    def check(self, data: Observed) -> None:
        """`DataError` for seen data outside the support, naming row and column."""

    def reordered(self: D, order: Int[np.ndarray, " k"]) -> D:
        """The same density with its components in another order; their priors are alike."""

        def moved(value: object, learnable: bool) -> object:
            if isinstance(value, Density):
                return value.reordered(order)
            if isinstance(value, tuple) and value and all(isinstance(each, Density) for each in value):
                return tuple(each.reordered(order) for each in value)
            by_component = learnable and isinstance(value, np.ndarray | jax.Array) and value.shape[:1] == (self.k,)
            return value[order] if by_component else value  # type: ignore[index]

        found = {f.name: moved(getattr(self, f.name), "constraint" in f.metadata) for f in dataclasses.fields(self)}
        return changed(self, **found)

    @property
    def exchangeable(self) -> bool:
        """Whether the priors of all components are the same: then their order means nothing."""
        fields = [v if isinstance(v, tuple) else (v,) for v in vars(self).values()]
        inner = [v for each in fields for v in each if isinstance(v, Density)]
        leaves = [np.asarray(leaf) for leaf in jax.tree.leaves(vars(self).get("prior"))]
        own = all(np.all(leaf == leaf[:1]) for leaf in leaves if leaf.shape[:1] == (self.k,))
        return own and all(each.exchangeable for each in inner)

    def to_integrate(self: D) -> D | None:
        """With a proper prior under which an average over its parameters is one of few rows; None where it has none."""
        return None

    def units(self) -> dict[str, Array]:
        """By path, the units of unconstrained parameters that are measured in those of the data."""
        return {}

    def _known(self, value: Array | None) -> Array:
        """A parameter, once it is known."""
        if value is None:
            raise DataError(f"the density {type(self).__name__} has no parameters yet; give them, or adapt it to data")
        return value

    @abstractmethod
    def adapt(self: D, data: Observed, *, seed: int = 0) -> D:
        """With starting parameters and the weak prior from the data, where they have not been given."""

    @abstractmethod
    def log_prob(self, data: Observed) -> Float[Array, "n k"]:
        """log p(seen entries of x | k): the others are integrated out; 0 for a row with nothing seen."""

    @abstractmethod
    def sample(self, key: PRNGKeyArray, which: Int[Array, " n"], inputs: Inputs = None) -> Float[Array, "n d"]:
        """One row of each of the components `which`."""

    @abstractmethod
    def predictive(self, probs: Float[Array, "n k"], inputs: Inputs = None) -> Predictive:
        """Rows whose components are known by their probabilities; each column on its own for d > 1."""

    def conditional(self, probs: Float[Array, "n k"], data: Observed, columns: Int[np.ndarray, " m"]) -> Predictive:
        """Some `columns` of rows of which others were seen, given the components' probabilities after those.

        Columns are independent within a component, unless a density says more.
        """
        found = self.predictive(probs)
        return found if len(found.shape) < 2 else found[:, columns if len(columns) > 1 else int(columns[0])]


class HasStatistics(Density, Generic[S]):
    """A density whose weighted log-likelihood depends on the data through sums, with a maximum in closed form."""

    @abstractmethod
    def expected_statistics(self, data: Observed, weight: Float[Array, "n k"]) -> S:
        """Σ weightₙₖ E[s(xₙ)]: expected sufficient statistics; those of two data sets add."""

    def expectation(
        self, data: Observed, log_weights: Float[Array, " k"], weight: Float[Array, " n"]
    ) -> tuple[Float[Array, " k"], S, Float[Array, ""]]:
        """The E-step of a mixture: Σ r, Σ r E[s(x)] for r ∝ wₖ pₖ(x), and Σ log p(x); rows count by their weights."""
        (k, d), n = self.sizes, len(data.x)
        most = max(ENTRIES // (k * d * (1 if data.complete and data.noise is None else d)), 1)
        if n > most and namespace(self, data) is np:
            cuts = [slice(i, i + most) for i in range(0, n, most)]
            parts = [self.expectation(data.cut(each), log_weights, weight[each]) for each in cuts]
            return jax.tree.map(lambda *each: sum(each[1:], start=each[0]), *parts)
        logs = self.log_prob(data) + log_weights
        total = special(logs).logsumexp(logs, axis=1)
        share = namespace(logs).exp(logs - total[:, None]) * weight[:, None]
        return share.sum(0), self.expected_statistics(data, share), weight @ total

    @abstractmethod
    def maximize(self: D, statistics: S) -> D:
        """argmax of Σ weight · log p + log prior, in closed form."""

    @abstractmethod
    def log_prior(self) -> Float[Array, ""]:
        """log p(θ) up to a constant: what `maximize` adds to the log-likelihood."""


class HasDraws(HasStatistics[S]):
    """A density whose parameters can be drawn given statistics."""

    def draw_statistics(self, key: PRNGKeyArray, data: Observed, which: Int[Array, " n"]) -> S:
        """The statistics where the component of each row is known: what else is latent is drawn, not averaged."""
        return self.expected_statistics(data, jax.nn.one_hot(which, self.sizes[0], dtype=data.x.dtype))

    @abstractmethod
    def draw(self: D, key: PRNGKeyArray, statistics: S) -> D:
        """θ ~ p(θ | statistics)."""


class IsConjugate(HasDraws[S], Generic[S, Q]):
    """A density with a conjugate prior, over which it can be averaged."""

    @abstractmethod
    def variational_posterior(self, statistics: S) -> Q:
        """q(θ): the conjugate prior updated with the statistics."""

    @abstractmethod
    def expected_log_prob(self, q: Q, data: Observed) -> Float[Array, "n k"]:
        """E_q[log p(seen entries of x | θₖ)]."""

    @abstractmethod
    def kl_to_prior(self, q: Q) -> Float[Array, ""]:
        """KL(q ‖ prior) in nats."""

    @abstractmethod
    def posterior_mean(self: D, q: Q) -> D:
        """The density with the mean of q as its parameters."""

    def expected_statistics_under(self, q: Q, data: Observed, weight: Float[Array, "n k"]) -> S:
        """The expected statistics where what is latent besides the component follows q."""
        return self.posterior_mean(q).expected_statistics(data, weight)


class HasPredictive(IsConjugate[S, Q]):
    """A conjugate density of which θ can be integrated out: the next row (Student-t and the like) and the evidence."""

    @abstractmethod
    def with_prior(self: D, data: Observed) -> D:
        """With the weak prior from the data, where none was given; the parameters stay as they are."""

    @abstractmethod
    def without_prior(self: D) -> D:
        """The same density, of which `maximize` is maximum likelihood."""

    @abstractmethod
    def log_predictive(self, q: Q, data: Observed) -> Float[Array, "n k"]:
        """log ∫ p(seen entries of x | θₖ) q(θ) dθ of each row on its own."""

    @abstractmethod
    def log_marginal(self, before: Q, after: Q) -> Float[Array, ""]:
        """log ∫ p(rows | θ) before(θ) dθ, where `after` is `before` updated with the rows, but for `log_base`."""

    def log_base(self, data: Observed) -> Float[Array, " n"]:
        """The part of log p(x | θ) that does not depend on θ and that statistics forget, of each row."""
        return np.zeros(len(data.x))

    @abstractmethod
    def sample_predictive(
        self, rng: np.random.Generator, q: Q, which: Int[np.ndarray, " n"]
    ) -> Float[np.ndarray, "n d"]:
        """A row of each of the components `which`, each with a θ of its own from q."""

    @abstractmethod
    def several(self: D, q: Q, n: int, seed: int) -> D:
        """A density of n·k components, n draws of θ after each other; the same numbers in NumPy and JAX."""


ABILITIES: dict[type, tuple[str, str]] = {
    HasStatistics: ("EM", "sufficient statistics to maximize by"),
    HasDraws: ("Gibbs sampling", "posterior to draw its parameters from"),
    IsConjugate: ("variational Bayes", "conjugate posterior to average over"),
    HasPredictive: ("closed-form prediction", "closed form of its posterior predictive"),
}
"""What each is for, and what a density without it lacks."""


def require(density: Density, ability: type) -> Any:
    """The density itself, where it has the ability; otherwise a `DataError` that says how to learn it instead."""
    if density.able(ability):
        return density
    others = "".join(f", {way}" for has, (way, _) in ABILITIES.items() if density.able(has))
    raise DataError(
        f"{type(density).__name__} has no {ABILITIES[ability][1]}; learn it by gradient (using=Evidence()){others}"
    )


def read_prior(prior: object, *kinds: type) -> tuple[bool, Any]:
    """Whether the prior is "weak", and the prior that was given, None or of one of the kinds; else a `DataError`."""
    weak = isinstance(prior, str) and prior == "weak"
    if prior is not None and not weak and not isinstance(prior, kinds):
        names = ", ".join(kind.__name__ for kind in kinds)
        raise DataError(f'prior must be "weak", None (maximum likelihood) or one of {names}, found {prior!r}')
    return weak, None if weak else prior


def require_prior(prior: object, what: str) -> Any:
    """The prior itself, where there is one."""
    if prior is None:
        raise DataError(
            f'{what} needs a prior of the parameters, found None; pass prior="weak" and adapt it to data, or give one'
        )
    return prior


def parameter_table(given: object, name: str, positive: bool = False) -> np.ndarray:
    """Parameters (components, columns) as a checked table; a vector is one column."""
    table = np.asarray(given, dtype=float)
    table = table[:, None] if table.ndim == 1 else table
    if table.ndim != 2 or not np.isfinite(table).all() or (positive and not np.all(table > 0)):
        kind = "positive" if positive else "finite"
        raise DataError(f"{name} must be a table of {kind} numbers (components, columns), found {given!r}")
    return table
