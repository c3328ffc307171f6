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
from collections.abc import Collection
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from credo.core import linalg
from credo.core.arrays import Array, namespace
from credo.core.errors import DataError
from credo.core.special import LOG_2PI
from credo.models.network import graph
from credo.models.network.nodes import LinearGaussian, Names, Table
from credo.models.network.observed import Observed, restricted

if TYPE_CHECKING:
    from credo.models.network.belief import Network

LARGEST = 2**26
"""Numbers of the means and covariances at all joint states of the discrete parents of one component: 0.5 GiB."""


class Component(NamedTuple):
    """Numbers that arrows connect, parents first, and the discrete variables on which they depend."""

    names: Names
    discrete: Names


def components(network: "Network", names: Collection[str], observed: Observed) -> list[Component]:
    """The components of the numbers among `names`; what was observed connects nothing."""
    nodes, order = network.nodes, {name: i for i, name in enumerate(network.order)}
    within = sorted((n for n in names if isinstance(nodes[n], LinearGaussian)), key=order.__getitem__)
    edges = {frozenset((p, n)) for n in within for p in nodes[n].parents if p not in observed.numbers}
    return [component_of(network, group, observed) for group in graph.connected(within, edges)]


def component_of(network: "Network", names: Names, observed: Observed) -> Component:
    """Numbers with the discrete variables on which they depend and which are not known."""
    nodes = network.nodes
    parents = dict.fromkeys(p for name in names for p in nodes[name].parents if isinstance(nodes[p], Table))
    return Component(names, tuple(p for p in parents if p not in observed.known))


class Given(NamedTuple):
    """A component after what was observed of it, at each joint state c of its discrete parents, for m rows.

    r is 1 where the same states are known in all rows, else m.
    """

    log_density: Array
    """log p(observed | c), shape (c, m)."""
    log_peak: Array
    """The logarithm of the density at the mode of the other numbers, shape (c, r)."""
    mean: Array
    """Of the other numbers, shape (c, m, q)."""
    covariance: Array
    """Of the other numbers, shape (c, r, q, q)."""
    names: Names
    """The other numbers."""


def given(network: "Network", component: Component, observed: Observed) -> Given:
    """The moments at each joint state of the discrete parents, the last one changing fastest."""
    nodes, states, numbers = network.nodes, network.states, observed.numbers
    shape = tuple(len(states[p]) for p in component.discrete)
    (rows,) = observed.rows or (1,)
    varied = any(np.ndim(observed.known.get(p, 0)) for name in component.names for p in nodes[name].parents)
    check_size(component, shape, rows, rows if varied else 1, sum(name not in numbers for name in component.names))
    count, xp = math.prod(shape), namespace(network.laws, *numbers.values())
    log_density, log_peak = xp.zeros((count, rows)), xp.zeros((count, rows if varied else 1))
    mean, covariance = xp.zeros((count, rows, 0)), xp.zeros((*log_peak.shape, 0, 0))
    left: list[str] = []
    for name in component.names:
        law: Any = nodes[name]
        scope = tuple(p for p in law.parents if p in states)
        parents = [p for p in law.parents if p not in states]
        weights = {p: _spread(law.weights[..., i], scope, component, shape, observed) for i, p in enumerate(parents)}
        center: Any = _spread(law.mean, scope, component, shape, observed)
        own: Any = _spread(law.variance, scope, component, shape, observed)
        log_peak = log_peak - 0.5 * (LOG_2PI + xp.log(own))
        cross: Any = xp.zeros(covariance.shape[:3])
        for parent, weight in weights.items():
            if parent in numbers:
                center = center + weight * numbers[parent]
            else:
                j = left.index(parent)
                center, cross = center + weight * mean[..., j], cross + weight[..., None] * covariance[..., j, :]
        for parent, weight in weights.items():
            own = own if parent in numbers else own + weight * cross[..., left.index(parent)]
        if name in numbers:
            off = numbers[name] - center
            log_own = LOG_2PI + xp.log(own)
            log_density, log_peak = log_density - 0.5 * (log_own + off**2 / own), log_peak + 0.5 * log_own
            gain = cross / own[..., None]
            mean = mean + off[..., None] * gain
            covariance = covariance - gain[..., :, None] * cross[..., None, :]
        else:
            mean = xp.concatenate([mean, xp.broadcast_to(center, (count, rows))[..., None]], axis=-1)
            last = xp.concatenate([cross, xp.broadcast_to(own, cross.shape[:2])[..., None]], axis=-1)
            wider = xp.concatenate([covariance, cross[..., None]], axis=-1)
            covariance = xp.concatenate([wider, last[..., None, :]], axis=-2)
            left.append(name)
    return Given(log_density, log_peak, mean, covariance, tuple(left))


def drawn(told: Given, state: np.ndarray, row: np.ndarray, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """The other numbers at joint states of the discrete parents, in rows of what was observed: a draw each."""
    values = np.empty((len(state), len(told.names)))
    laws = state * told.covariance.shape[1] + row % told.covariance.shape[1]
    for law in np.unique(laws) if told.names else ():
        at = np.flatnonzero(laws == law)
        covariance = told.covariance.reshape(-1, *told.covariance.shape[2:])[law]
        root = np.asarray(linalg.cholesky(covariance, "covariance"))
        values[at] = told.mean[state[at], row[at]] + rng.normal(size=(len(at), len(told.names))) @ root.T
    return {name: values[:, i] for i, name in enumerate(told.names)}


def check_size(component: Component, shape: tuple[int, ...], rows: int, varied: int, free: int) -> None:
    """`DataError` where the moments would not fit into memory."""
    count = math.prod(shape)
    size = count * (rows * (1 + free) + varied * free**2)
    if size > LARGEST:
        of_rows = f", for {rows:,} rows at once" if rows > 1 else ""
        raise DataError(
            f"the numbers {', '.join(component.names[:4])} hang together and depend on {len(shape)} discrete variables "
            f"({', '.join(component.discrete[:6])}) with {count:,} joint states{of_rows}: an exact answer goes through "
            f"all of them, {8 * size / 2**30:.3g} GiB (at most {8 * LARGEST / 2**30:g} are used); observe some of the "
            "variables, or draw: condition(…, using=LikelihoodWeighting())"
        )


def _spread(value: Any, scope: Names, component: Component, shape: tuple[int, ...], observed: Observed) -> Any:
    """A table over some discrete variables as one over all of a component, shape (c, rows or 1)."""
    table, xp = restricted(scope, value, observed), namespace(value)
    table = table if observed.rows else table[..., None]
    free = [component.discrete.index(p) for p in scope if p not in observed.known]
    turned = xp.transpose(table, (*sorted(range(len(free)), key=free.__getitem__), len(free)))
    wide = tuple(size if axis in free else 1 for axis, size in enumerate(shape))
    whole = xp.broadcast_to(xp.reshape(turned, (*wide, table.shape[-1])), (*shape, table.shape[-1]))
    return whole.reshape(-1, table.shape[-1])
