"""What a method returns: a belief about the numbers of a model, with a verdict on whether to trust it.

`Posterior` is what models and users ask: draws as pytrees, means, deviations and quantiles in natural units.
`NormalApproximation` is a normal law of the unconstrained vector (Laplace, variational); `Draws` are of Markov chains.
"""

from abc import abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING

import equinox as eqx
import jax
import numpy as np
from jaxtyping import ArrayLike, Float, PyTree

from credo.core.arrays import Array, namespace
from credo.core.checks import check_count
from credo.core.linalg import log_determinant, solve_lower
from credo.infer.target import ParameterSpace, short

SUMMARY_DRAWS = 4000


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
        return " ".join(self.notes) if self.notes else "No sign of trouble."

    def summary(self) -> str:
        """A table of means, standard deviations and 90 % intervals by name, and the verdict."""
        rows: list[tuple[str, ...]] = [("", "mean", "sd", "5 %", "95 %")]
        for path, draws in self.space.by_path(self.values).items():
            flat = np.asarray(draws).reshape(len(draws), -1)
            for i, column in enumerate(flat.T):
                name = path if flat.shape[1] == 1 else f"{path}[{i}]"
                low, high = np.quantile(column, [0.05, 0.95])
                rows.append((name or "θ", *(short(v) for v in (column.mean(), column.std(), low, high))))
        widths = [max(len(row[i]) for row in rows) for i in range(5)]
        lines = ["  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]) for row in rows]
        return "\n".join([*lines, "", self.verdict])


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
