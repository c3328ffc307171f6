"""Causes: what would be if a variable were *set*, not seen; which others must be looked at to learn that from rows.

    do(x)           the arrows into x are cut, x is what it was set to (graph surgery); evidence is of afterwards
    back door       Z blocks every trail into x and holds nothing below x:   p(y | do(x)) = Σ_z p(y | x, z) p(z)
    front door      all of x's effect goes through M:                        Σ_m p(m | x) Σ_x' p(y | x', m) p(x')
    counterfactual  abduction (the noise of each variable from what was seen), action (do), prediction

Pearl (2009), "Causality", sections 3.2, 3.3 and 7.1.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import combinations
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from credo.core.errors import DataError
from credo.core.predictive import Normal
from credo.models.network import graph
from credo.models.network.graph import Parents
from credo.models.network.nodes import LinearGaussian, Node, Table

if TYPE_CHECKING:
    from credo.models.network.belief import Network

MOST_SETS = 200_000
"""Sets of variables that are tried, the smaller first."""


class Adjustment(NamedTuple):
    """How an effect is identified from what can be seen."""

    kind: str
    """"back door" or "front door"."""
    variables: tuple[str, ...]
    formula: str
    also: tuple[tuple[str, ...], ...]
    """Other sets of the same kind that would do and from which nothing can be left out."""

    def __str__(self) -> str:
        listed = "{" + ", ".join(self.variables) + "}"
        return f"{self.kind} {listed}: {self.formula}"


def surgery(network: "Network", settings: Mapping[str, Any]) -> tuple[dict[str, Node], dict[str, Any]]:
    """The laws after some variables were set, each without parents, and the numbers among them as evidence.

    A state, a number, or probabilities of the states (a policy at random).
    """
    nodes, numbers = network.nodes, {}
    if not settings:
        raise DataError('do sets variables: name at least one, e.g. net.do(x="yes")')
    for name, value in settings.items():
        law = nodes[network.check_name(name)]
        if name in (network.evidence or {}):
            raise DataError(
                f"{name!r} was observed already: set it first, then observe what follows: net.do(…).condition(…); for "
                "what would have been, net.counterfactual(…)"
            )
        told = network.statistics({name: value})[name]
        if isinstance(law, LinearGaussian):
            # A number without parents is set by observing it; under this variance its density is one.
            nodes[name] = LinearGaussian((), told, (), 1 / (2 * np.pi))
            numbers[name] = told
        else:
            nodes[name] = Table(law.states, (), np.asarray(told) / np.sum(told))
    below = below_of(network.parents, settings)
    wrong = [name for name in network.evidence or {} if name in below]
    if wrong:
        raise DataError(
            f"{wrong[0]!r} was observed before {', '.join(settings)} was set, and depends on it: observe it after "
            "setting, net.do(…).condition({…}); for what would have been, net.counterfactual(…)"
        )
    return nodes, numbers


def below_of(parents: Parents, names: Iterable[str]) -> set[str]:
    """The variables to which arrows lead from some."""
    children = graph.children_of(parents)
    found: set[str] = set()
    stack = [child for name in names for child in children[name]]
    while stack:
        name = stack.pop()
        if name not in found:
            found.add(name)
            stack.extend(children[name])
    return found


def adjustment(network: "Network", x: str, y: str, latent: Collection[str] = ()) -> Adjustment:
    """The smallest back-door set, or front-door set where there is none, of variables that are not `latent`."""
    parents = network.parents
    x, y = network.check_name(x), network.check_name(y)
    hidden = {network.check_name(name) for name in ([latent] if isinstance(latent, str) else latent)}
    if x == y or x in hidden or y in hidden:
        raise DataError(f"the effect of {x!r} on {y!r} must be of two variables that can be seen")
    if y not in below_of(parents, [x]):
        return Adjustment("back door", (), f"p({y} | do({x})) = p({y}): no arrow leads from {x} to {y}", ())
    back = _minimal(_candidates(parents, x, y, hidden), lambda z: is_back_door(parents, x, y, z))
    if back:
        return Adjustment("back door", back[0], _back_door_formula(x, y, back[0]), tuple(back[1:]))
    between = [n for n in below_of(parents, [x]) if n not in hidden and n in graph.ancestors_of(parents, [y]) - {y}]
    front = _minimal(sorted(between), lambda m: bool(m) and is_front_door(parents, x, y, m))
    if front:
        m = ", ".join(front[0])
        formula = f"p({y} | do({x})) = Σ_{{{m}}} p({m} | {x}) Σ_{x}' p({y} | {x}', {m}) p({x}')"
        return Adjustment("front door", front[0], formula, tuple(front[1:]))
    common = sorted(hidden & graph.ancestors_of(parents, [x]) & graph.ancestors_of(parents, [y]))
    why = f"{', '.join(common)} cannot be seen and drives both" if common else "an open trail cannot be blocked"
    raise DataError(
        f"the effect of {x} on {y} is not identified by a back door or a front door: {why}; observe one of them, find "
        f"a variable through which all of {x}'s effect goes, or set {x} at random (an experiment)"
    )


def _candidates(parents: Parents, x: str, y: str, hidden: Collection[str]) -> list[str]:
    """What may stand in a minimal back-door set: what is above x or y, and not below x."""
    above = graph.ancestors_of(parents, [x, y]) - {x, y}
    return sorted(above - below_of(parents, [x]) - set(hidden))


def _back_door_formula(x: str, y: str, z: Sequence[str]) -> str:
    if not z:
        return f"p({y} | do({x})) = p({y} | {x})"
    names = ", ".join(z)
    return f"p({y} | do({x})) = Σ_{{{names}}} p({y} | {x}, {names}) p({names})"


def _minimal(candidates: Sequence[str], works: Any) -> list[tuple[str, ...]]:
    """The sets that work and from which nothing can be left out, the smaller first."""
    found: list[tuple[str, ...]] = []
    tried = 0
    for size in range(len(candidates) + 1):
        for each in combinations(candidates, size):
            tried += 1
            if tried > MOST_SETS:
                return found
            if not any(set(smaller) <= set(each) for smaller in found) and works(each):
                found.append(each)
        if found and size > min(map(len, found)):
            break  # the smallest and those that are one larger: enough to choose from
    return found


def is_back_door(parents: Parents, x: str, y: str, z: Collection[str]) -> bool:
    """Whether z blocks every trail from x to y that begins with an arrow into x, and holds nothing below x."""
    if set(z) & below_of(parents, [x]):
        return False
    without = {name: tuple(p for p in above if p != x) for name, above in parents.items()}
    return y not in graph.reachable(without, x, set(z))


def is_front_door(parents: Parents, x: str, y: str, m: Collection[str]) -> bool:
    """Whether m is on all ways from x to y, no trail into x leads to m, and x blocks all from m to y's back."""
    cut = {name: above for name, above in parents.items() if name not in m}
    open_way = {name: tuple(p for p in above if p in cut) for name, above in cut.items()}
    if y in below_of(open_way, [x]):
        return False
    if not all(is_back_door(parents, x, each, ()) for each in m):
        return False
    without = {name: tuple(p for p in above if p not in m) for name, above in parents.items()}
    return all(y not in graph.reachable(without, each, {x}) for each in m)


def counterfactual(network: "Network", settings: Mapping[str, Any], seen: Mapping[str, Any], name: str) -> Normal:
    """A number as it would have been under `settings`, in the case in which `seen` was seen.

    x = c + Bx + ε with ε ~ N(0, D): abduction is ε given what was seen, action replaces the rows of B and c of what is
    set, prediction solves for x with the same ε.
    """
    nodes = network.nodes
    wrong = [n for n, law in nodes.items() if isinstance(law, Table)]
    if wrong:
        raise DataError(
            f"a counterfactual needs the noise of each variable, and {wrong[0]!r} is discrete: its table does not say "
            "how noise makes it; only networks of numbers have counterfactuals here, ask net.do(…) instead"
        )
    names = network.order
    place = {n: i for i, n in enumerate(names)}
    offset, noise, weight = np.zeros(len(names)), np.zeros(len(names)), np.zeros((len(names), len(names)))
    for n in names:
        law: Any = nodes[n]
        offset[place[n]], noise[place[n]] = float(law.mean), float(law.variance)
        weight[place[n], [place[p] for p in law.parents]] = law.weights
    told = {network.check_name(n): float(v) for n, v in network.statistics({**seen}).items()}
    told |= {n: float(v) for n, v in (network.evidence or {}).items()}
    total = _solved(weight)  # x = T(c + ε)
    mean, covariance = np.zeros(len(names)), np.diag(noise)
    for n, value in told.items():  # one observation after the other: a rank-one update of the noise
        row = total[place[n]]
        gain = covariance @ row
        variance = row @ gain
        if variance < 1e-12 * float(nodes[n].variance):  # type: ignore[union-attr]
            continue
        mean = mean + gain * (value - row @ (offset + mean)) / variance
        covariance = covariance - np.outer(gain, gain) / variance
    for n, value in settings.items():
        i = place[network.check_name(n)]
        weight[i], offset[i], mean[i] = 0.0, float(network.statistics({n: value})[n]), 0.0
        covariance[i], covariance[:, i] = 0.0, 0.0
    row = _solved(weight)[place[network.check_name(name)]]
    return Normal(row @ (offset + mean), np.maximum(row @ covariance @ row, 0.0), np.zeros(()))


def _solved(weight: np.ndarray) -> np.ndarray:
    """(I - B)⁻¹ of variables in their order: forward substitution."""
    total = np.eye(len(weight))
    for i in range(len(weight)):
        total[i] += weight[i, :i] @ total[:i]
    return total
