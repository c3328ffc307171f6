"""Numbers in a network: given the discrete variables they are jointly Gaussian.

Numbers that arrows connect form a component. For each joint state d of the discrete parents D of a component,

    x | d ~ N(μ(d), Σ(d)),   μᵢ = meanᵢ + Σⱼ wᵢⱼ μⱼ,   Σᵢₖ = Σⱼ wᵢⱼ Σⱼₖ (k before i),   Σᵢᵢ = varianceᵢ + Σⱼ wᵢⱼ Σⱼᵢ,

so that what was observed of it is one more factor over D, p(observed | d), in the junction tree of the discrete
variables, and its other numbers are a mixture over d. Exact, and dear only where one component has many discrete
parents. Lauritzen (1992), "Propagation of probabilities, means and variances in mixed graphical association models".
"""

import itertools
import math
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from credo.core import linalg
from credo.core.arrays import Array, namespace
from credo.core.errors import DataError
from credo.core.gaussian import Gaussian
from credo.core.special import LOG_2PI
from credo.models.network.nodes import LinearGaussian, Names, Table

if TYPE_CHECKING:
    from credo.models.network.belief import Network

MOST_STATES = 2**13
"""Joint states of the discrete parents of one component."""


class Component(NamedTuple):
    """Numbers that arrows connect, parents first, and the discrete variables on which they depend."""

    names: Names
    discrete: Names


def components(network: "Network", names: Collection[str], known: Collection[str] = ()) -> list[Component]:
    """The components of the numbers among `names`; discrete variables that are `known` are left out of them."""
    nodes = network.nodes
    numbers = [name for name in network.order if name in names and isinstance(nodes[name], LinearGaussian)]
    found: dict[str, list[str]] = {}
    for name in numbers:
        joined = {id(found[p]): found[p] for p in nodes[name].parents if p in found}
        merged = [each for group in joined.values() for each in group]
        merged.append(name)
        found |= dict.fromkeys(merged, merged)
    place = {name: i for i, name in enumerate(numbers)}
    groups = {id(group): sorted(group, key=place.__getitem__) for group in found.values()}
    made = []
    for group in groups.values():
        parents = dict.fromkeys(p for name in group for p in nodes[name].parents if isinstance(nodes[p], Table))
        made.append(Component(tuple(group), tuple(p for p in parents if p not in known)))
    return made


def laws(network: "Network", component: Component, known: Mapping[str, Any]) -> list[Gaussian]:
    """The joint Gaussian of a component at each joint state of its discrete parents, the last one changing fastest.

    `known` are discrete parents whose state is one for all rows.
    """
    nodes, states = network.nodes, network.states
    shape = tuple(len(states[p]) for p in component.discrete)
    count = math.prod(shape)
    if count > MOST_STATES:
        raise DataError(
            f"the numbers {', '.join(component.names[:4])} depend on {len(shape)} discrete variables with {count:,} "
            f"joint states, more than the {MOST_STATES:,} that an exact answer goes through; observe some of them, or "
            "draw: condition(…, using=LikelihoodWeighting())"
        )
    place = {name: i for i, name in enumerate(component.names)}
    parts = []
    for name in component.names:
        law: Any = nodes[name]
        above = [p for p in law.parents if p in states]
        at = tuple(known[p] if p in known else slice(None) for p in above)
        free = [p for p in above if p not in known]
        mean, variance = (_spread(value[at], free, component.discrete, shape) for value in (law.mean, law.variance))
        each = [_spread(law.weights[(*at, i)], free, component.discrete, shape) for i in range(law.weights.shape[-1])]
        parts.append(([place[p] for p in law.parents if p in place], mean, each, variance))
    return [_joint([(j, mean[c], [w[c] for w in each], v[c]) for j, mean, each, v in parts]) for c in range(count)]


def _spread(value: Any, axes: list[str], wanted: Names, shape: tuple[int, ...]) -> Any:
    """A table over some discrete variables as one over all that are `wanted`, read as a vector."""
    xp = namespace(value)
    turned = xp.transpose(value, sorted(range(len(axes)), key=lambda n: wanted.index(axes[n])))
    wide = tuple(size if name in axes else 1 for name, size in zip(wanted, shape, strict=True))
    return xp.broadcast_to(xp.reshape(turned, wide), shape).reshape(-1)


def _joint(parts: list[tuple[list[int], Array, list[Array], Array]]) -> Gaussian:
    """μ and Σ, one variable after the other."""
    xp = namespace(parts)
    mean: Any = xp.zeros(0)
    covariance: Any = xp.zeros((0, 0))
    for numbers, offset, weights, variance in parts:
        at = np.array(numbers, dtype=int)
        w: Any = xp.stack(weights) if numbers else xp.zeros(0)
        cross = w @ covariance[at]
        own, center = variance + w @ cross[at], offset + w @ mean[at]
        mean = xp.concatenate([mean, xp.reshape(center, (1,))])
        last = xp.concatenate([cross, xp.reshape(own, (1,))])
        covariance = xp.concatenate([xp.concatenate([covariance, cross[:, None]], axis=1), last[None]])
    return Gaussian(mean, covariance)


class Given(NamedTuple):
    """A component after what was observed of it, at each joint state c of its discrete parents, for m rows."""

    log_density: Array
    """log p(observed | c), shape (c, m)."""
    log_peak: Array
    """The logarithm of the density at the mode of the other numbers, shape (c,)."""
    mean: Array
    """Of the other numbers, shape (c, m, q)."""
    covariance: Array
    """Of the other numbers, shape (c, q, q): the same for every row."""
    names: Names
    """The other numbers."""


def given(joints: list[Gaussian], component: Component, numbers: Mapping[str, Any], rows: int) -> Given:
    """Each joint law given the numbers observed, one value or one for each row."""
    seen = [i for i, name in enumerate(component.names) if name in numbers]
    rest = [i for i in range(len(component.names)) if i not in seen]
    xp = namespace(joints, *numbers.values())
    values = [xp.broadcast_to(numbers[component.names[i]], (rows,)) for i in seen]
    observed: Any = xp.stack(values, axis=1) if seen else None
    densities, peaks, means, covariances = [], [], [], []
    for law in joints:
        mean, covariance = law.mean[np.array(rest, int)], law.covariance[np.ix_(rest, rest)]
        center: Any = xp.broadcast_to(mean, (rows, len(rest)))
        density: Any = xp.zeros(rows)
        if seen:
            root = linalg.cholesky(law.covariance[np.ix_(seen, seen)], "covariance of the numbers observed")
            off = linalg.solve_lower(root, (observed - law.mean[np.array(seen, int)]).T)
            half = linalg.solve_lower(root, law.covariance[np.ix_(seen, rest)])
            center = mean + off.T @ half
            covariance = linalg.symmetric_part(covariance - half.T @ half)
            density = -0.5 * ((off**2).sum(0) + linalg.log_determinant(root) + len(seen) * LOG_2PI)
        peak: Any = xp.zeros(())
        if rest:
            peak = -0.5 * (linalg.log_determinant(linalg.cholesky(covariance, "covariance")) + len(rest) * LOG_2PI)
        densities.append(density)
        peaks.append(peak)
        means.append(center)
        covariances.append(covariance)
    names = tuple(component.names[i] for i in rest)
    return Given(xp.stack(densities), xp.stack(peaks), xp.stack(means), xp.stack(covariances), names)


def states_of(network: "Network", component: Component) -> list[tuple[int, ...]]:
    """The joint states in the order of `laws`."""
    return list(itertools.product(*(range(len(network.states[p])) for p in component.discrete)))
