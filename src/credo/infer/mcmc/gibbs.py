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
from typing import Any, ClassVar, NamedTuple, TypeAlias

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import PRNGKeyArray, PyTree
from numpyro import distributions as dist

from credo.core.arrays import Array
from credo.core.errors import DataError
from credo.infer.mcmc.adaptation import StepSizeAndMetric
from credo.infer.mcmc.chains import Info, Prepared, Sampler, Vector
from credo.infer.mcmc.metropolis import KeyData, check_like, key_data, key_of
from credo.infer.target import ParameterSpace, Target

AGREES = 1e-6
"""How well the ratio of two conditional densities must agree with that of the joint density."""


class Place(NamedTuple):
    """Where the cycle is."""

    position: Vector


@dataclasses.dataclass(frozen=True)
class Gibbs(Sampler[Place, KeyData]):
    """Cycles through conditional laws, in the order in which they are given.

    Args:
        conditionals: by path, a function (key, θ, *data) -> a draw of that part in natural units; the path of a part
            with several numbers ("group"), or "" for all, draws them together. Together they name every number.
        chains, draws, warmup, thin, keep, memory, start, spread, cores, progress: see `Sampler`.
    """

    compiled: ClassVar[tuple[str, ...]] = ("conditionals",)
    conditionals: Any

    def __post_init__(self) -> None:
        """The conditionals as a tuple: settings are hashable."""
        super().__post_init__()
        if isinstance(self.conditionals, Mapping):
            object.__setattr__(self, "conditionals", tuple(self.conditionals.items()))

    def prepare(self, target: Target, u: np.ndarray, seed: int) -> Prepared:
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
            if isinstance(draw, Conjugate):
                _compare(target, path, draw, u)
            named += where
        missing = [path for path in paths if path not in named]
        if missing:
            raise DataError(f"there is no conditional for {', '.join(missing)}: give one, or take it out of init")
        return super().prepare(target, u, seed)

    def begin(self, target: Target, u: Vector, tuning: StepSizeAndMetric) -> Place:
        """The position is all there is."""
        return Place(u)

    def random_numbers(self, rng: np.random.Generator, n: int, k: int, exploring: bool = False) -> KeyData:
        """The keys of cycles."""
        return key_data(rng, n)

    def step(self, target: Target, random: KeyData, state: Place, tuning: StepSizeAndMetric) -> tuple[Place, Info]:
        """One cycle."""
        theta = target.space.tree(state.position)
        keys = jr.split(key_of(random), len(self.conditionals))
        for (path, draw), k in zip(self.conditionals, keys, strict=True):
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


def _compare(target: Target, path: str, draw: "Conjugate", u: np.ndarray) -> None:
    """`DataError` where a described conditional is not the conditional of the target."""
    gap = float(_disagreement(target, u, path, draw))
    if not gap < AGREES:
        raise DataError(
            f"the conditional of {path!r}, {draw.law!r}, is not that of the log density: the logs of their ratios "
            f"at two points differ by {gap:.3g}; check priors, and which data the part stands behind"
        )


@eqx.filter_jit
def _disagreement(target: Target, u: Vector, path: str, draw: "Conjugate") -> Array:
    """|Δ log p(θ) - Δ log p(θⱼ | θ₋ⱼ)| between two values of a part, relative to their size."""
    theta = target.space.tree(u)
    values = [draw(key, theta, *target.data) for key in jr.split(jr.key(0))]
    joint = [target.function(_with(target.space, theta, path, v), *target.data) for v in values]
    alone = [draw.log_prob(v, theta, *target.data) for v in values]
    size = 1 + jnp.abs(joint[0]) + jnp.abs(alone[0])
    return jnp.abs((joint[1] - joint[0]) - (alone[1] - alone[0])) / size


# -- conjugate parts ------------------------------------------------------------------------------------------


Numbers: TypeAlias = object
"""A number, an array, the path of a part of θ, or a function of (θ, *data)."""


class Seen(NamedTuple):
    """What a conditional law depends on: the part as it is, all of θ, and the data."""

    part: Array
    theta: PyTree
    data: tuple[PyTree, ...]

    def look(self, what: Numbers) -> Array:
        """The numbers that are meant."""
        found = what(self.theta, *self.data) if callable(what) else _part(self.theta, what)
        return jnp.asarray(found, dtype=float)

    def item(self, what: Numbers) -> Array:
        """Those in the data where a whole number is given."""
        return jnp.asarray(self.data[what]) if isinstance(what, int) else self.look(what)

    def total(self, values: Array, law: "Mean | Variance | Rate") -> Array:
        """Sums over the observations of each entry of the part."""
        values = jnp.broadcast_to(values, jnp.shape(self.item(law.observed)))
        if law.group is not None:
            return jnp.zeros(jnp.shape(self.part)).at[self.item(law.group).astype(int)].add(values)
        return values if jnp.shape(self.part) == values.shape != () else values.sum()


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

    def given(self, seen: Seen) -> dist.Distribution:
        """The conditional law."""
        noise, before = seen.look(self.noise), seen.look(self.variance)
        variance = 1 / (1 / before + seen.total(1 / noise, self))
        mean = variance * (seen.look(self.mean) / before + seen.total(seen.item(self.observed) / noise, self))
        return dist.Normal(mean, jnp.sqrt(variance))


@dataclasses.dataclass(frozen=True)
class Variance:
    """σ² ~ InverseGamma(shape, scale) behind observations N(mean, σ²); `mean` one number or one for each of them."""

    shape: Numbers = 1.0
    scale: Numbers = 1.0
    mean: Numbers = 0.0
    observed: Numbers = 0
    group: Numbers | None = None

    def given(self, seen: Seen) -> dist.Distribution:
        """The conditional law."""
        squares = (seen.item(self.observed) - seen.look(self.mean)) ** 2
        shape = seen.look(self.shape) + 0.5 * seen.total(jnp.ones(()), self)
        return dist.InverseGamma(shape, seen.look(self.scale) + 0.5 * seen.total(squares, self))


@dataclasses.dataclass(frozen=True)
class Probabilities:
    """π ~ Dirichlet(alpha) behind classes 0 … k - 1; `alpha` one number for all classes or one for each."""

    alpha: Numbers = 1.0
    observed: Numbers = 0

    def given(self, seen: Seen) -> dist.Distribution:
        """The conditional law."""
        classes = jnp.ravel(seen.item(self.observed)).astype(int)
        counts = jnp.zeros(jnp.shape(seen.part)).at[classes].add(1.0)
        return dist.Dirichlet(seen.look(self.alpha) + counts)


@dataclasses.dataclass(frozen=True)
class Rate:
    """λ ~ Gamma(shape, rate) behind counts Poisson(λ exposure)."""

    shape: Numbers = 1.0
    rate: Numbers = 1.0
    exposure: Numbers = 1.0
    observed: Numbers = 0
    group: Numbers | None = None

    def given(self, seen: Seen) -> dist.Distribution:
        """The conditional law."""
        shape = seen.look(self.shape) + seen.total(seen.item(self.observed), self)
        return dist.Gamma(shape, seen.look(self.rate) + seen.total(seen.look(self.exposure), self))


Law = Mean | Variance | Probabilities | Rate


def conjugate_blocks(laws: Mapping[str, object]) -> dict[str, "Conjugate"]:
    """Conditionals for `Gibbs` from descriptions of conjugate parts, by path.

    Each is compared with the log density before it is used, so a description that does not fit is refused.
    """
    blocks = {}
    for path, law in laws.items():
        if not isinstance(law, Law):
            raise DataError(
                f"{path!r} must be described by Mean, Variance, Probabilities or Rate, found {type(law).__name__}"
            )
        blocks[path] = Conjugate(path, law)
    return blocks


@dataclasses.dataclass(frozen=True)
class Conjugate:
    """The conditional law of a conjugate part, as a function that draws and one that tells its density."""

    path: str
    law: Law

    def __call__(self, key: PRNGKeyArray, theta: PyTree, *data: PyTree) -> Array:
        """A draw."""
        return self._given(theta, data).sample(key)

    def log_prob(self, value: Array, theta: PyTree, *data: PyTree) -> Array:
        """The log density of a value of the part."""
        return self._given(theta, data).log_prob(value).sum()

    def _given(self, theta: PyTree, data: tuple[PyTree, ...]) -> dist.Distribution:
        part = _part(theta, self.path)
        given = self.law.given(Seen(part, theta, data))
        return given.expand(jnp.shape(part)[: jnp.ndim(part) - given.event_dim])


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
