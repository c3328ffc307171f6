"""Numbers in a network: given the discrete variables they are jointly Gaussian.

Numbers that arrows connect form a component; an arrow out of a number that was observed connects nothing, it shifts its
child. Components meet in their discrete parents D alone. For each joint state d of these a component is gone through
along its arrows: a number i with parents j is joined to those before it,

    μᵢ = meanᵢ + Σⱼ wᵢⱼ μⱼ,   Σᵢₖ = Σⱼ wᵢⱼ Σⱼₖ,   Σᵢᵢ = varianceᵢ + Σⱼ wᵢⱼ Σⱼᵢ,

and where it was observed to be v, p(observed | d) takes a factor N(v | μᵢ, Σᵢᵢ) and the others their gain, μₖ + Σₖᵢ
(v - μᵢ)/Σᵢᵢ and Σₖₗ - ΣₖᵢΣᵢₗ/Σᵢᵢ. So what was observed is one more factor over D in the junction tree of the discrete
variables, and other numbers are a mixture over d. The cliques are those of the strong junction tree; the answer is the
whole mixture, not its first two moments.

Lauritzen (1992), "Propagation of probabilities, means and variances in mixed graphical association models"; Lauritzen &
Jensen (2001), "Stable local computation with conditional Gaussian distributions".
"""

import math
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from credo.core.arrays import Array, namespace
from credo.core.errors import DataError
from credo.core.special import LOG_2PI
from credo.models.network import graph
from credo.models.network.nodes import LinearGaussian, Names, Table

if TYPE_CHECKING:
    from credo.models.network.belief import Network

LARGEST = 2**26
"""Numbers of the means and covariances at all joint states of the discrete parents of one component: 0.5 GiB."""


class Component(NamedTuple):
    """Numbers that arrows connect, parents first, and the discrete variables on which they depend."""

    names: Names
    discrete: Names


def components(
    network: "Network", names: Collection[str], known: Collection[str], numbers: Collection[str]
) -> list[Component]:
    """The components of the numbers among `names`; what is `known`, and `numbers` that were, connects nothing."""
    nodes, order = network.nodes, {name: i for i, name in enumerate(network.order)}
    within = sorted((n for n in names if isinstance(nodes[n], LinearGaussian)), key=order.__getitem__)
    edges = {frozenset((p, n)) for n in within for p in nodes[n].parents if p not in numbers}
    found = []
    for group in graph.connected(within, edges):
        parents = dict.fromkeys(p for name in group for p in nodes[name].parents if isinstance(nodes[p], Table))
        found.append(Component(group, tuple(p for p in parents if p not in known)))
    return found


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


def given(
    network: "Network", component: Component, known: Mapping[str, Any], numbers: Mapping[str, Any], rows: int = 1
) -> Given:
    """The moments at each joint state of the discrete parents, the last one changing fastest.

    `known` are discrete parents whose state is one for all rows; `numbers` were observed, one value or one for each row.
    """
    nodes, states = network.nodes, network.states
    shape = tuple(len(states[p]) for p in component.discrete)
    check_size(component, shape, rows, sum(name not in numbers for name in component.names))
    count, xp = math.prod(shape), namespace(network.laws, *numbers.values())
    log_density, log_peak = xp.zeros((count, rows)), xp.zeros(count)
    mean, covariance = xp.zeros((count, rows, 0)), xp.zeros((count, 0, 0))
    left: list[str] = []
    for name in component.names:
        law: Any = nodes[name]
        above = [p for p in law.parents if p in states]
        at = tuple(known[p] if p in known else slice(None) for p in above)
        spread = [component.discrete.index(p) for p in above if p not in known]
        variance = _spread(law.variance[at], spread, shape)
        center: Any = _spread(law.mean[at], spread, shape)[:, None]
        cross: Any = xp.zeros(covariance.shape[:2])
        for i, parent in enumerate(p for p in law.parents if p not in states):
            weight = _spread(law.weights[(*at, i)], spread, shape)[:, None]
            if parent in numbers:
                center = center + weight * numbers[parent]
            else:
                j = left.index(parent)
                center, cross = center + weight * mean[:, :, j], cross + weight * covariance[:, j]
        # wᵀΣw of the parents: their rows of the cross-covariance, weighted once more
        own = variance + sum(
            _spread(law.weights[(*at, i)], spread, shape) * cross[:, left.index(parent)]
            for i, parent in enumerate(p for p in law.parents if p not in states)
            if parent not in numbers
        )
        log_peak = log_peak - 0.5 * (LOG_2PI + xp.log(variance))
        if name in numbers:
            off = numbers[name] - center
            log_density = log_density - 0.5 * (LOG_2PI + xp.log(own)[:, None] + off**2 / own[:, None])
            log_peak = log_peak + 0.5 * (LOG_2PI + xp.log(own))
            gain = cross / own[:, None]
            mean = mean + off[..., None] * gain[:, None]
            covariance = covariance - gain[:, :, None] * cross[:, None]
        else:
            mean = xp.concatenate([mean, xp.broadcast_to(center, (count, rows))[..., None]], axis=2)
            last = xp.concatenate([cross, own[:, None]], axis=1)
            covariance = xp.concatenate([xp.concatenate([covariance, cross[..., None]], axis=2), last[:, None]], axis=1)
            left.append(name)
    return Given(log_density, log_peak, mean, covariance, tuple(left))


def check_size(component: Component, shape: tuple[int, ...], rows: int, free: int) -> None:
    """`DataError` where the moments would not fit into memory."""
    count = math.prod(shape)
    if count * (1 + free) * (rows + free) > LARGEST:
        of_rows = f", for {rows:,} rows at once" if rows > 1 else ""
        raise DataError(
            f"the numbers {', '.join(component.names[:4])} hang together and depend on {len(shape)} discrete variables "
            f"({', '.join(component.discrete[:6])}) with {count:,} joint states{of_rows}: an exact answer goes through "
            f"all of them, {8 * count * (1 + free) * (rows + free) / 2**30:.3g} GiB; observe some of the variables, "
            "or draw: condition(…, using=LikelihoodWeighting())"
        )


def _spread(value: Any, axes: list[int], shape: tuple[int, ...]) -> Any:
    """A table over some discrete variables (their places among all) as one over all, read as a vector."""
    xp = namespace(value)
    turned = xp.transpose(value, sorted(range(len(axes)), key=axes.__getitem__))
    wide = tuple(size if axis in axes else 1 for axis, size in enumerate(shape))
    return xp.broadcast_to(xp.reshape(turned, wide), shape).reshape(-1)
