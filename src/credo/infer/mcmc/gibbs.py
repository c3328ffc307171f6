"""`Gibbs`: one part of θ after another, each drawn from its law given all the others.

    θⱼ ~ p(θⱼ | θ₋ⱼ, data),    j = 1 … J, and again

A conditional is a function the user writes, or the description of a conjugate part (`conjugate_blocks`):

    normal mean      θ ~ N(m, v),      yᵢ ~ N(θ, σ²)     →  N((m/v + Σy/σ²) V, V),  V = 1/(1/v + n/σ²)
    variance         σ² ~ IG(a, b),    yᵢ ~ N(μ, σ²)     →  IG(a + n/2, b + ½ Σ(y - μ)²)
    probabilities    π ~ Dir(α),       zᵢ ~ Cat(π)       →  Dir(α + counts)
    rate             λ ~ Gamma(a, b),  yᵢ ~ Poisson(λt)  →  Gamma(a + Σy, b + Σt)

Geman & Geman (1984); Gelfand & Smith (1990); Gelman et al. (2013), ch. 2-3, 11.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any, NamedTuple, TypeAlias

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jax.scipy import stats
from jax.scipy.special import gammaln, xlogy
from jaxtyping import Array, Float, PRNGKeyArray, PyTree

from credo.core.arrays import put
from credo.core.errors import DataError
from credo.infer.mcmc.chains import Hint, Info, Sampler, Tuning
from credo.infer.mcmc.metropolis import check_like
from credo.infer.target import ParameterSpace, Target

AGREES = 1e-6
"""How well the ratio of two conditional densities must agree with that of the joint density."""


class Place(NamedTuple):
    """Where the cycle is."""

    position: Float[Array, " k"]


@dataclasses.dataclass(frozen=True)
class Gibbs(Sampler):
    """Cycles through conditional laws, in the order in which they are given.

    Args:
        conditionals: by path, a function (key, θ, *data) -> a draw of that part in natural units; the path of a part
            with several numbers ("group"), or "" for all, draws them together. Together they name every number.
        chains, draws, warmup, thin, keep, memory, start, spread, cores, progress: see `Sampler`.
    """

    conditionals: Any

    def __post_init__(self) -> None:
        """The conditionals as a tuple: settings are hashable."""
        if isinstance(self.conditionals, Mapping):
            object.__setattr__(self, "conditionals", tuple(self.conditionals.items()))

    def prepare(self, target: Target, u: np.ndarray, seed: int) -> tuple[Hint, Float[np.ndarray, "c k"]]:
        """Starting points, once the conditionals were seen to cover θ, in the right shapes, and to be right."""
        space = target.space
        paths = [slot.path for slot in space.slots]
        named: list[str] = []
        for path, draw in self.conditionals:
            where = [paths[i] for i in _below(space, path)]
            if not where:
                raise DataError(f"conditionals name {path!r}, but θ has the numbers: {', '.join(paths)}")
            found = jax.eval_shape(draw, jr.key(0), space.template, *target.data)
            check_like(space, found, f"the conditional of {path!r}", where)
            if hasattr(draw, "log_prob"):
                self._compare(target, path, draw, u)
            named += where
        missing = [path for path in paths if path not in named]
        if missing:
            raise DataError(f"there is no conditional for {', '.join(missing)}: give one, or take it out of init")
        return super().prepare(target, u, seed)

    def _compare(self, target: Target, path: str, draw: "Conjugate", u: np.ndarray) -> None:
        """`DataError` where a described conditional is not the conditional of the target."""
        gap = float(_disagreement(target, put(u), path, draw))
        if not gap < AGREES:
            raise DataError(
                f"the conditional of {path!r}, {draw.law!r}, is not that of the log density: the logs of their ratios "
                f"at two points differ by {gap:.3g}; check priors, and which data the part stands behind"
            )

    def tune(self, target: Target, key: PRNGKeyArray, u: Float[Array, " k"], hint: Hint) -> tuple[Array, Tuning]:
        """Burn-in."""
        return self.burn(target, key, u, None), None

    def begin(self, target: Target, u: Float[Array, " k"], tuning: Tuning) -> Place:
        """The position is all there is."""
        return Place(u)

    def step(self, target: Target, key: PRNGKeyArray, state: Place, tuning: Tuning) -> tuple[Place, Info]:
        """One cycle."""
        theta = target.space.tree(state.position)
        for (path, draw), k in zip(self.conditionals, jr.split(key, len(self.conditionals)), strict=True):
            theta = _with(target.space, theta, path, draw(k, theta, *target.data))
        return Place(target.space.vector(theta)), Info.plain(jnp.ones(()))


def _below(space: ParameterSpace, path: str) -> list[int]:
    """Which leaves a path names."""
    return [i for i, s in enumerate(space.slots) if path in ("", s.path) or s.path.startswith(f"{path}.")]


def _with(space: ParameterSpace, theta: PyTree, path: str, new: PyTree) -> PyTree:
    leaves, tree = jax.tree.flatten(theta)
    for i, value in zip(_below(space, path), jax.tree.leaves(new), strict=True):
        leaves[i] = jnp.asarray(value, dtype=float)
    return jax.tree.unflatten(tree, leaves)


@eqx.filter_jit
def _disagreement(target: Target, u: Float[Array, " k"], path: str, draw: Any) -> Array:
    """|Δ log p(θ) - Δ log p(θⱼ | θ₋ⱼ)| between two values of a part, relative to their size."""
    theta = target.space.tree(u)
    values = [draw(key, theta, *target.data) for key in jr.split(jr.key(0))]
    joint = [target.function(_with(target.space, theta, path, v), *target.data) for v in values]
    alone = [draw.log_prob(v, theta, *target.data) for v in values]
    size = 1 + jnp.abs(joint[0]) + jnp.abs(alone[0])
    return jnp.abs((joint[1] - joint[0]) - (alone[1] - alone[0])) / size


# -- conjugate parts ------------------------------------------------------------------------------------------


Numbers: TypeAlias = Any
"""A number, an array, the path of a part of θ, or a function of (θ, *data)."""


@dataclasses.dataclass(frozen=True)
class Mean:
    """θ ~ N(mean, variance) behind observations N(θ, noise).

    In this and the other descriptions `observed` and `group` say where to look: a whole number is an item of the data,
    a text is a path in θ, and a function of (θ, *data) may compute it. Other settings are numbers, paths or functions.
    Where the part is a vector, `group` says to which of its entries each observation belongs.
    """

    mean: Numbers = 0.0
    variance: Numbers = 1.0
    noise: Numbers = 1.0
    observed: Numbers = 0
    group: Numbers | None = None


@dataclasses.dataclass(frozen=True)
class Variance:
    """σ² ~ InverseGamma(shape, scale) behind observations N(mean, σ²); `mean` one number or one for each of them."""

    shape: Numbers = 1.0
    scale: Numbers = 1.0
    mean: Numbers = 0.0
    observed: Numbers = 0
    group: Numbers | None = None


@dataclasses.dataclass(frozen=True)
class Probabilities:
    """π ~ Dirichlet(alpha) behind classes 0 … k - 1; `alpha` one number for all classes or one for each."""

    alpha: Numbers = 1.0
    observed: Numbers = 0


@dataclasses.dataclass(frozen=True)
class Rate:
    """λ ~ Gamma(shape, rate) behind counts Poisson(λ exposure)."""

    shape: Numbers = 1.0
    rate: Numbers = 1.0
    exposure: Numbers = 1.0
    observed: Numbers = 0
    group: Numbers | None = None


Law = Mean | Variance | Probabilities | Rate


def conjugate_blocks(laws: Mapping[str, Any]) -> dict[str, "Conjugate"]:
    """Conditionals for `Gibbs` from descriptions of conjugate parts, by path.

    Each is compared with the log density before it is used, so a description that does not fit is refused.
    """
    for path, law in laws.items():
        if not isinstance(law, Law):
            raise DataError(
                f"{path!r} must be described by Mean, Variance, Probabilities or Rate, found {type(law).__name__}"
            )
    return {path: Conjugate(path, law) for path, law in laws.items()}


@dataclasses.dataclass(frozen=True)
class Conjugate:
    """The conditional law of a conjugate part, as a function that draws and one that tells its density."""

    path: str
    law: Law

    def __call__(self, key: PRNGKeyArray, theta: PyTree, *data: PyTree) -> Array:
        """A draw."""
        like = _part(theta, self.path)
        first, second = self._parameters(like, theta, data)
        if isinstance(self.law, Mean):
            return first + jnp.sqrt(second) * jr.normal(key, jnp.shape(like))
        if isinstance(self.law, Probabilities):
            return jr.dirichlet(key, first)
        draw = jr.gamma(key, jnp.broadcast_to(first, jnp.shape(like)))
        return second / draw if isinstance(self.law, Variance) else draw / second

    def log_prob(self, value: Array, theta: PyTree, *data: PyTree) -> Array:
        """The log density of a value of the part."""
        first, second = self._parameters(_part(theta, self.path), theta, data)
        if isinstance(self.law, Mean):
            return stats.norm.logpdf(value, first, jnp.sqrt(second)).sum()
        if isinstance(self.law, Probabilities):
            return xlogy(first - 1, value).sum() - gammaln(first).sum() + gammaln(first.sum())
        if isinstance(self.law, Variance):
            inverse = stats.gamma.logpdf(1 / value, first, scale=1 / second)
            return (inverse - 2 * jnp.log(value)).sum()
        return stats.gamma.logpdf(value, first, scale=1 / second).sum()

    def _parameters(self, like: Array, theta: PyTree, data: tuple[PyTree, ...]) -> tuple[Array, Array]:
        """Mean and variance, shape and scale, or the Dirichlet's α twice."""

        def look(what: Numbers) -> Array:
            return jnp.asarray(what(theta, *data) if callable(what) else _part(theta, what), dtype=float)

        law = self.law
        observed = data[law.observed] if isinstance(law.observed, int) else look(law.observed)
        if isinstance(law, Probabilities):
            classes = jnp.ravel(observed).astype(int)
            alpha = look(law.alpha) + jnp.zeros(jnp.shape(like)).at[classes].add(1.0)
            return alpha, alpha
        members = law.group if law.group is None or not isinstance(law.group, int) else data[law.group]
        members = look(members) if isinstance(members, str) or callable(members) else members

        def total(values: Array) -> Array:
            """Sums over the observations of each entry."""
            values = jnp.broadcast_to(values, jnp.shape(observed))
            if members is not None:
                return jnp.zeros(jnp.shape(like)).at[jnp.asarray(members).astype(int)].add(values)
            return values if jnp.shape(like) == jnp.shape(observed) != () else values.sum()

        if isinstance(law, Mean):
            noise = look(law.noise)
            variance = 1 / (1 / look(law.variance) + total(1 / noise))
            return variance * (look(law.mean) / look(law.variance) + total(observed / noise)), variance
        if isinstance(law, Variance):
            gaps = observed - look(law.mean)
            return look(law.shape) + 0.5 * total(jnp.ones(())), look(law.scale) + 0.5 * total(gaps**2)
        return look(law.shape) + total(observed), look(law.rate) + total(look(law.exposure))


def _part(theta: PyTree, what: Any) -> Any:
    """The part of θ at a path; anything but a text is itself."""
    if not isinstance(what, str):
        return what
    named = {
        jax.tree_util.keystr(path, simple=True, separator="."): leaf
        for path, leaf in jax.tree_util.tree_flatten_with_path(theta)[0]
    }
    if what not in named:
        raise DataError(f"there is no {what!r} in θ; it has {', '.join(named)}")
    return named[what]
