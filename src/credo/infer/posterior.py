"""What a method returns: a belief about the numbers of a model, with a verdict on whether to trust it.

`Posterior` is what models and users ask: draws as pytrees, means, deviations and quantiles in natural units.
`NormalApproximation` is a normal law of the unconstrained vector (Laplace, variational), `LowRankNormal` one of very
many numbers; `Draws` are of Markov chains.
"""

import warnings
from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeVar

import equinox as eqx
import jax
import numpy as np
from jaxtyping import ArrayLike, Float, PyTree

from credo.core.arrays import Array, as_float, namespace, special
from credo.core.bijectors import BIJECTORS
from credo.core.checks import check_count
from credo.core.errors import NotConvergedWarning
from credo.core.linalg import log_determinant, solve_lower
from credo.infer.target import ParameterSpace, short

SUMMARY_DRAWS = 4000
LARGEST = 10_000_000
"""Numbers in a table of draws."""

ALONE = ("real", "positive", "unit_interval")
"""Constraints under which a number is a function of one coordinate of u, so that its law is known."""


class Posterior(eqx.Module):
    """A law of the unconstrained vector of a space; its `notes` say in words what is wrong with it, if anything."""

    if TYPE_CHECKING:  # fields of every subclass, wherever it has them

        @property
        def space(self) -> ParameterSpace: ...  # noqa: D102

        @property
        def notes(self) -> tuple[str, ...]: ...  # noqa: D102
    else:
        space: eqx.AbstractVar[ParameterSpace]
        notes: eqx.AbstractVar[tuple[str, ...]]

    @property
    def caution(self) -> str:
        """What the method cannot see, whatever it has found; "" where that goes without saying."""
        return ""

    @abstractmethod
    def vectors(self, n: int, rng: np.random.Generator) -> Float[Array, "n k"]:
        """n draws of the unconstrained vector."""

    @abstractmethod
    def kept(self) -> Float[Array, "n k"]:
        """The vectors that summaries are made of."""

    def sample(self, n: int, seed: int = 0) -> PyTree:
        """n draws: the pytree with a leading axis of n."""
        check_count(n, "n, the number of draws,")
        return self.space.tree(self.vectors(n, np.random.default_rng(seed)))

    @property
    def values(self) -> PyTree:
        """The pytree of all draws that are kept, with them as the leading axis."""
        return self.space.tree(self.kept())

    @property
    def mean(self) -> PyTree:
        """E[θ | data], as a pytree."""
        return jax.tree.map(lambda v: v.mean(0), self.values)

    @property
    def std(self) -> PyTree:
        """The posterior standard deviations, as a pytree."""
        return jax.tree.map(lambda v: v.std(0), self.values)

    def quantile(self, q: ArrayLike | Sequence[float]) -> PyTree:
        """The posterior quantiles, as a pytree; with several q they are the leading axis."""
        return jax.tree.map(lambda v: namespace(v).quantile(v, np.asarray(q), axis=0), self.values)

    @property
    def verdict(self) -> str:
        """Whether to trust it, in words."""
        return " ".join([*(self.notes or ["No sign of trouble."]), *([self.caution] if self.caution else [])])

    def summary(self) -> str:
        """A table of means, standard deviations and 90 % intervals by name, and the verdict."""
        rows: list[tuple[str, ...]] = [("", "mean", "sd", "5 %", "95 %")]
        answers = [self.mean, self.std, *(self.quantile(q) for q in (0.05, 0.95))]
        for path, *found in zip(self.space.by_path(answers[0]), *map(jax.tree.leaves, answers), strict=True):
            for i, numbers in enumerate(zip(*map(np.ravel, found), strict=True)):
                name = path if np.size(found[0]) == 1 else f"{path}[{i}]"
                rows.append((name or "θ", *map(short, numbers)))
        widths = [max(len(row[i]) for row in rows) for i in range(5)]
        lines = ["  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]) for row in rows]
        return "\n".join([*lines, "", self.verdict])


P = TypeVar("P", bound=Posterior)


def trusted(posterior: P) -> P:
    """The posterior, with a `NotConvergedWarning` where its own verdict says not to trust it."""
    if posterior.notes:
        warnings.warn(f"do not trust this posterior as it is: {posterior.verdict}", NotConvergedWarning, stacklevel=5)
    return posterior


class NormalApproximation(Posterior):
    """u ~ N(center, root rootᵀ), cut at nothing: a normal law of the unconstrained vector."""

    space: ParameterSpace
    center: Float[Array, " k"]
    root: Float[Array, "k k"]
    """The lower Cholesky factor of the covariance."""
    log_evidence: Float[Array, ""]
    """Laplace: log p(data), approximately. Variational: the ELBO, a lower bound on it."""
    notes: tuple[str, ...] = eqx.field(static=True, default=())

    def vectors(self, n: int, rng: np.random.Generator) -> Float[Array, "n k"]:
        """center + root z."""
        return self.center + rng.standard_normal((n, self.space.size)) @ self.root.T

    def kept(self) -> Float[Array, "n k"]:
        """Draws with a fixed seed, in pairs around the center."""
        z = np.random.default_rng(0).standard_normal((SUMMARY_DRAWS // 2, self.space.size))
        return self.center + np.concatenate([z, -z]) @ self.root.T

    def _each(self, alone: Callable[[str, Array, Array], Array], of_draws: Callable[[Array], Array]) -> PyTree:
        """`alone` of numbers that stand alone (by the kind of the constraint, mean and deviation of u), else of draws.

        Simplexes, matrices and ordered vectors mix the coordinates of u.
        """
        deviation, drawn = namespace(self.root).sqrt((self.root**2).sum(-1)), None
        leaves: list[Array] = []
        for slot in self.space.slots:
            kind, part = slot.constraint.kind, slice(slot.start, slot.stop)
            if kind not in ALONE:
                drawn = jax.tree.leaves(self.values) if drawn is None else drawn
                leaves.append(of_draws(drawn[len(leaves)]))
            else:
                leaves.append(alone(kind, *(v[part].reshape(slot.shape) for v in (self.center, deviation))))
        return jax.tree.unflatten(jax.tree.structure(self.space.template), leaves)

    @property
    def mean(self) -> PyTree:
        """E[θ | data], as a pytree; in closed form, where there is one."""
        return self._each(lambda *law: _moments(*law)[0], lambda v: v.mean(0))

    @property
    def std(self) -> PyTree:
        """The posterior standard deviations, as a pytree."""
        return self._each(lambda *law: _moments(*law)[1], lambda v: v.std(0))

    def quantile(self, q: ArrayLike | Sequence[float]) -> PyTree:
        """The posterior quantiles, as a pytree; with several q they are the leading axis."""
        levels = as_float(q, "q")
        z = special().ndtri(levels)

        def alone(kind: str, center: Array, deviation: Array) -> Array:
            return BIJECTORS[kind].forward(center + deviation * z.reshape((*z.shape, *[1] * center.ndim)))

        return self._each(alone, lambda v: namespace(v).quantile(v, levels, axis=0))

    @property
    def mode(self) -> PyTree:
        """The pytree at the center."""
        return self.space.tree(self.center)

    @property
    def covariance(self) -> Float[Array, "k k"]:
        """Of the unconstrained vector."""
        return self.root @ self.root.T

    def log_prob(self, u: Float[Array, "*n k"]) -> Float[Array, "*n"]:
        """The log density of the unconstrained vector, or of each of many."""
        z = solve_lower(self.root, (u - self.center).T)
        return -0.5 * ((z * z).sum(0) + log_determinant(self.root) + self.space.size * np.log(2 * np.pi))


class LowRankNormal(Posterior):
    """u = center + scale ∘ z₁ + factor z₂: a normal law of many numbers, with their variances and a few directions."""

    space: ParameterSpace
    center: Float[Array, " k"]
    scale: Float[Array, " k"]
    factor: Float[Array, "k r"]
    notes: tuple[str, ...] = eqx.field(static=True, default=())

    def vectors(self, n: int, rng: np.random.Generator) -> Float[Array, "n k"]:
        """n draws."""
        k, r = self.factor.shape
        return self.center + rng.standard_normal((n, k)) * self.scale + rng.standard_normal((n, r)) @ self.factor.T

    def kept(self) -> Float[Array, "n k"]:
        """Draws with a fixed seed, as many as fit."""
        return self.vectors(int(np.clip(LARGEST // self.space.size, 100, SUMMARY_DRAWS)), np.random.default_rng(0))


def _moments(kind: str, center: Array, deviation: Array) -> tuple[Array, Array]:
    """Mean and standard deviation of θ(u), u ~ N(center, deviation²): e^u is log-normal, 1/(1 + e⁻ᵘ) by quadrature."""
    xp = namespace(center, deviation)
    if kind == "real":
        return center, deviation
    if kind == "positive":
        mean = xp.exp(center + 0.5 * deviation**2)
        return mean, mean * xp.sqrt(xp.expm1(deviation**2))
    z = special().ndtri((np.arange(SUMMARY_DRAWS) + 0.5) / SUMMARY_DRAWS).reshape(-1, *[1] * center.ndim)
    values = BIJECTORS[kind].forward(center + deviation * z)
    return values.mean(0), values.std(0)
