"""Joint draws of all variables: forward along the arrows, or back through a junction tree given what was observed.

Forward: each variable given its parents, n draws at a time; with evidence its likelihood is the weight of a draw
(likelihood weighting, Fung & Chang, 1990). Back: a clique given what it shares with its parent, from the roots of the
tree; these draws are exact. Koller & Friedman (2009), sections 12.1 and 12.2.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from credo.core.checks import check_count
from credo.core.special import LOG_2PI
from credo.models.network import junction_tree, linear_gaussian, queries
from credo.models.network.nodes import LinearGaussian, Node, Table

if TYPE_CHECKING:
    from credo.models.network.belief import Network
    from credo.models.network.observed import Observed

BLOCK = 2**22
"""Numbers that are compared at once."""


def draws(network: "Network", n: int, seed: int) -> dict[str, np.ndarray]:
    """n joint draws given what was observed, states by name."""
    check_count(n, "n")
    rng, observed = np.random.default_rng(seed), network.observed
    if observed.names:
        codes = given_evidence(network, observed, int(n), rng)
    else:
        codes, _ = forward(network, observed, int(n), rng)
    return named(network, codes)


def named(network: "Network", codes: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Columns of states' names, and of numbers."""
    states = network.states
    return {
        name: np.asarray(states[name], dtype=object)[codes[name]] if name in states else codes[name]
        for name in network.names
    }


def rows_of(law: Table, codes: Mapping[str, np.ndarray]) -> np.ndarray:
    """The row of the table at the states of the parents, shape (n, k)."""
    return np.asarray(law.values)[tuple(codes[p] for p in law.parents)]


def center_of(nodes: Mapping[str, Node], law: LinearGaussian, codes: Mapping[str, Any]) -> tuple[Any, Any]:
    """The mean and the variance of a number at its parents' values."""
    at = tuple(codes[p] for p in law.parents if isinstance(nodes[p], Table))
    mean: Any = np.asarray(law.mean)[at]
    weights = np.asarray(law.weights)[at]
    for i, p in enumerate(p for p in law.parents if isinstance(nodes[p], LinearGaussian)):
        mean = mean + weights[..., i] * codes[p]
    return mean, np.asarray(law.variance)[at]


def forward(
    network: "Network", observed: "Observed", n: int, rng: np.random.Generator
) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """n draws, variables that were observed at what they are, and the logarithm of each draw's likelihood."""
    codes: dict[str, np.ndarray] = {}
    log_weights, nodes = np.full(n, observed.log_scale), network.nodes
    for name in network.order:
        law = nodes[name]
        if isinstance(law, LinearGaussian):
            mean, variance = center_of(nodes, law, codes)
            if name in observed.numbers:
                codes[name] = np.full(n, float(observed.numbers[name]))
                log_weights += -0.5 * ((codes[name] - mean) ** 2 / variance + np.log(variance) + LOG_2PI)
            else:
                codes[name] = mean + np.sqrt(variance) * rng.normal(size=n)
            continue
        rows = rows_of(law, codes)
        if name in observed.known:
            codes[name] = np.full(n, observed.known[name])
            likelihood = np.broadcast_to(rows[..., observed.known[name]], (n,))
        else:
            if name in observed.soft:  # drawn from the product: the weight is what it is divided by
                rows = rows * np.asarray(observed.soft[name])
            likelihood = np.broadcast_to(rows.sum(-1), (n,))
            codes[name] = categories(np.broadcast_to(rows, (n, len(law.states))), rng)
        with np.errstate(divide="ignore"):
            log_weights = log_weights + np.log(likelihood) if name in observed.names else log_weights
    return codes, log_weights


def categories(weights: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """An index for each row of weights ≥ 0, which need not sum to one; never one whose weight is zero."""
    below = np.cumsum(weights, axis=1)
    u = rng.random(len(weights)) * below[:, -1]
    return np.minimum((below <= u[:, None]).sum(1), weights.shape[1] - 1)


def given_evidence(network: "Network", observed: "Observed", n: int, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """n exact draws given what was observed: discrete variables back through the tree, then the numbers."""
    problem = queries.posed(network, set(network.names), observed)
    found = junction_tree.collect(problem.tree, problem.factors)
    junction_tree.check_possible(found.log_total + problem.log_scale, "what was observed")
    codes: dict[str, np.ndarray] = {name: np.full(n, state) for name, state in observed.known.items()}
    drawn: dict[int, np.ndarray] = {}
    for clique, table in zip(reversed(problem.tree.cliques), reversed(found.tables), strict=True):
        shared = np.zeros(n, dtype=int)
        for axis, i in enumerate(clique.scope[: clique.joined]):
            shared = shared * clique.shape[axis] + drawn[i]
        rows = table.reshape(clique.shared, -1)
        step = max(1, BLOCK // rows.shape[1])
        cells = np.concatenate([categories(rows[shared[i : i + step]], rng) for i in range(0, n, step)])
        for i, state in zip(
            clique.scope[clique.joined :], np.unravel_index(cells, clique.shape[clique.joined :]), strict=True
        ):
            drawn[i] = state
    codes |= {name: drawn[i] for i, name in enumerate(problem.variables)}
    for component in linear_gaussian.components(network, network.names, observed):
        codes |= _numbers(network, component, observed, codes, n, rng)
    return codes


def _numbers(
    network: "Network",
    component: linear_gaussian.Component,
    observed: "Observed",
    codes: Mapping[str, np.ndarray],
    n: int,
    rng: np.random.Generator,
) -> dict[str, np.ndarray]:
    """The numbers of one component given the discrete variables and those observed."""
    told = linear_gaussian.given(network, component, observed)
    state = np.zeros(n, dtype=int)
    for p in component.discrete:
        state = state * len(network.states[p]) + codes[p]
    found = linear_gaussian.drawn(told, state, np.zeros(n, dtype=int), rng)
    return found | {name: np.full(n, float(v)) for name, v in observed.numbers.items() if name in component.names}
