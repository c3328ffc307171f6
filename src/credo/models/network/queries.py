"""Questions to a network, as factors of a junction tree.

What was observed is removed before triangulating; variables below which nothing was observed or asked (barren ones) and
those that the observed ones separate from the question are left out. One row of evidence and many go the same way: of
many, each factor has the rows as its last axis. Koller & Friedman (2009), section 9.3.2; Shachter (1986).
"""

import math
from collections.abc import Callable, Collection, Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from credo.core.arrays import Array, namespace
from credo.core.predictive import Mixture, Normal, Predictive
from credo.models.network import graph, junction_tree, linear_gaussian
from credo.models.network.nodes import LinearGaussian, Names, Table
from credo.models.network.observed import Observed, restricted
from credo.models.network.predictions import States
from credo.models.network.triangulation import Tree
from credo.models.network.triangulation import junction_tree as tree_of

if TYPE_CHECKING:
    from credo.models.network.belief import Network

CHUNK = 2**18
"""Cells of the largest clique over the rows that are done at once."""


class Problem(NamedTuple):
    """Factors over the variables that are not known, and their tree."""

    variables: Names
    tree: Tree
    factors: list[Array]
    log_scale: Any


Source = tuple[Names, Callable[[], tuple[Any, Any, bool]]]
"""A factor before it is made: the variables it is over, and what makes it: (table, log scale, whether it has rows)."""


def posed(
    network: "Network",
    names: Collection[str],
    observed: Observed,
    query: Names = (),
    *,
    connected: bool = False,
    peaks: bool = False,
) -> Problem:
    """The factors of some variables, the barren ones left out, and their tree; the root holds `query`.

    Args:
        network: whose laws they are.
        names: the variables that matter: those asked and observed, and all above them.
        observed: what is known of them.
        query: discrete variables that the answer is about.
        connected: leave out what has nothing to do with the query; then the evidence is not complete.
        peaks: multiply the density of numbers that were not observed at its mode, for explanations.
    """
    sources = sources_of(network, names, observed, peaks)
    if connected:
        sources = reached(sources, observed, query)
    free = {n for scope, _ in sources for n in scope if n not in observed.known} | set(query)
    variables = tuple(name for name in network.names if name in free)
    place = {name: i for i, name in enumerate(variables)}
    states = network.states
    sizes = tuple(len(states[name]) for name in variables)
    scopes = tuple(tuple(place[n] for n in scope if n not in observed.known) for scope, _ in sources)
    tree = tree_of(sizes, scopes, tuple(sorted(place[q] for q in query)))
    junction_tree.check_size(tree, variables)
    factors, log_scale = [], observed.log_scale
    for scope, make in sources:
        table, scale, has_rows = make()
        factors.append(table if has_rows else restricted(scope, table, observed))
        log_scale = log_scale + scale
    return Problem(variables, tree, factors, log_scale)


def sources_of(network: "Network", names: Collection[str], observed: Observed, peaks: bool) -> list[Source]:
    """The tables of some variables, the likelihoods of states, and what was observed of each component of numbers."""
    found: list[Source] = []
    for name, law in zip(network.names, network.laws, strict=True):
        if name in names and isinstance(law, Table):
            found.append(((*law.parents, name), lambda law=law: (law.values, 0.0, False)))  # type: ignore[misc]
            if name in observed.soft:
                found.append(((name,), lambda name=name: (observed.soft[name], 0.0, False)))  # type: ignore[misc]
    if observed.numbers or peaks:
        matter = names if peaks else graph.ancestors_of(network.parents, observed.numbers)
        for component in linear_gaussian.components(network, matter, observed):
            if peaks or any(name in observed.numbers for name in component.names):

                def likelihood(component: linear_gaussian.Component = component) -> tuple[Any, Any, bool]:
                    told = linear_gaussian.given(network, component, observed)
                    logs: Any = told.log_density + (told.log_peak if peaks else 0.0)
                    shape, top = tuple(len(network.states[p]) for p in component.discrete), logs.max(0)
                    table = namespace(logs).exp(logs - top).reshape(*shape, len(top))
                    return (table, top, True) if observed.rows else (table[..., 0], top[0], False)

                found.append((component.discrete, likelihood))
    return found


def reached(sources: list[Source], observed: Observed, query: Names) -> list[Source]:
    """The factors that have to do with the query, over variables that are not known."""
    using: dict[str, list[int]] = {}
    for f, (scope, _) in enumerate(sources):
        for name in scope:
            if name not in observed.known:
                using.setdefault(name, []).append(f)
    seen, stack, kept = set(query), list(query), set()
    while stack:
        for f in using.get(stack.pop(), []):
            if f not in kept:
                kept.add(f)
                new = [n for n in sources[f][0] if n not in seen and n not in observed.known]
                seen.update(new)
                stack.extend(new)
    return [source for f, source in enumerate(sources) if f in kept]


def relevant(network: "Network", query: Iterable[str], observed: Observed) -> set[str]:
    """The variables that are not barren: those asked and observed, and all above them."""
    return graph.ancestors_of(network.parents, {*query, *observed.names})


def log_evidence(network: "Network", observed: Observed) -> Any:
    """log p(observed)."""
    if not observed.names:
        return np.zeros(())
    problem = posed(network, relevant(network, (), observed), observed)
    return junction_tree.collect(problem.tree, problem.factors).log_total + problem.log_scale


def states_given(network: "Network", query: Names, observed: Observed) -> tuple[Any, Any]:
    """P(query | observed) with an axis for each discrete variable asked, then rows; and log p of what matters."""
    problem = posed(network, relevant(network, query, observed), observed, query, connected=True)
    place = {name: i for i, name in enumerate(problem.variables)}
    asked = [place[q] for q in query]
    if not observed.rows:
        law, total = junction_tree.joint(problem.tree, problem.factors, asked)
        return law, total + problem.log_scale
    most = max((math.prod(c.shape) for c in problem.tree.cliques), default=1)
    (rows,), step = observed.rows, max(1, CHUNK // most)
    parts = []
    for start in range(0, rows, step):
        cut = [f if f.shape[-1] == 1 else f[..., start : start + step] for f in problem.factors]
        parts.append(junction_tree.joint(problem.tree, cut, asked, (min(step, rows - start),)))
    return np.concatenate([p for p, _ in parts], axis=-1), np.concatenate([log for _, log in parts]) + problem.log_scale


def numbers_given(network: "Network", name: str, observed: Observed) -> tuple[Any, linear_gaussian.Given, Any]:
    """The weights of the joint states of the discrete parents of a number's component, its laws there, and log p."""
    names = graph.ancestors_of(network.parents, {name, *observed.numbers})
    component = next(c for c in linear_gaussian.components(network, names, observed) if name in c.names)
    told = linear_gaussian.given(network, component, observed)
    rows = observed.rows or (1,)
    if not component.discrete:
        return np.ones((1, *rows)), told, told.log_density[0] if observed.rows else told.log_density[0, 0]
    weights, total = states_given(network, component.discrete, observed)
    return weights.reshape(-1, *rows), told, total


def predicted(network: "Network", name: str, observed: Observed) -> tuple[Predictive, Any]:
    """The law of one variable, and log p of what matters for it."""
    law = network.nodes[name]
    if isinstance(law, Table):
        if name in observed.known:
            probs = np.broadcast_to(np.eye(len(law.states))[observed.known[name]], (*observed.rows, len(law.states)))
            return States.certain_of(probs, law.states), np.zeros(observed.rows)
        probs, total = states_given(network, (name,), observed)
        return States.certain_of(probs.T if observed.rows else probs, law.states), total
    if name in observed.numbers:
        value = np.broadcast_to(np.asarray(observed.numbers[name], dtype=float), observed.rows)
        return Normal(value, np.zeros_like(value), np.zeros_like(value)), np.zeros(observed.rows)
    weights, told, total = numbers_given(network, name, observed)
    q = told.names.index(name)
    mean, variance = told.mean[..., q], told.covariance[..., q, q]
    return mixed(weights, mean, variance, observed.rows), total


def mixed(weights: Any, mean: Any, variance: Any, rows: tuple[int, ...]) -> Predictive:
    """Σ wₖ N(meanₖ, varianceₖ) of each row; which k it is is noise, not ignorance."""
    xp = namespace(weights, mean, variance)
    if not rows:
        weights, mean, variance = weights[:, 0], mean[:, 0], variance[:, 0]
    spread = xp.broadcast_to(variance, mean.shape)
    if len(mean) == 1:
        return Normal(mean[0], spread[0], xp.zeros_like(mean[0]))
    return Mixture(weights, (Normal(mean, spread, xp.zeros_like(mean)),), within=len(mean))


def most_probable(network: "Network", observed: Observed) -> tuple[dict[str, Any], float]:
    """The most probable values of all variables together, and the logarithm of their density with the evidence's."""
    problem = posed(network, set(network.names), observed, peaks=True)
    chosen, value = junction_tree.most_probable(problem.tree, problem.factors, len(problem.variables))
    codes = {**observed.known, **dict(zip(problem.variables, chosen, strict=True))}
    found: dict[str, Any] = {name: network.states[name][code] for name, code in codes.items()}
    seen = Observed(codes, {}, observed.numbers, 0.0)
    for component in linear_gaussian.components(network, network.names, seen):
        told = linear_gaussian.given(network, component, seen)
        found |= {name: float(told.mean[0, 0, i]) for i, name in enumerate(told.names)}
        found |= {name: float(observed.numbers[name]) for name in component.names if name in observed.numbers}
    return {name: found[name] for name in network.names}, value + float(problem.log_scale)


def marginals(network: "Network", observed: Observed, names: Collection[str]) -> dict[str, Any]:
    """The law of each variable: probabilities of states, or the mean and the standard deviation of a number."""
    problem = posed(network, relevant(network, names, observed), observed)
    found, total = junction_tree.marginals(problem.tree, problem.factors)
    junction_tree.check_possible(np.asarray(total + problem.log_scale), "what was observed")
    laws = dict(zip(problem.variables, found, strict=True))
    answer: dict[str, Any] = {}
    nodes = network.nodes
    numbers = {name: {"mean": float(value), "std": 0.0} for name, value in observed.numbers.items()}
    for name in reversed(network.order):  # children first: their components have those above them
        if name in names and name not in numbers and isinstance(nodes[name], LinearGaussian):
            weights, told, _ = numbers_given(network, name, observed)
            mean = weights[:, 0] @ told.mean[:, 0]
            within = np.diagonal(told.covariance[:, 0], axis1=1, axis2=2)
            spread = weights[:, 0] @ (within + (told.mean[:, 0] - mean) ** 2)
            for n, m, v in zip(told.names, mean.tolist(), spread.tolist(), strict=True):
                numbers.setdefault(n, {"mean": m, "std": math.sqrt(v)})
    for name in names:
        law = nodes[name]
        if isinstance(law, LinearGaussian):
            answer[name] = numbers[name]
        elif name in observed.known:
            answer[name] = {state: float(i == observed.known[name]) for i, state in enumerate(law.states)}
        else:
            probs: Any = laws[name]
            answer[name] = dict(zip(law.states, probs.tolist(), strict=True))
    return answer
