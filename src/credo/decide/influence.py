"""Influence diagrams: a Bayesian network with decisions and utilities, and the policy of highest expected utility.

    Choice(options, sees)        a decision: what can be done, and what is known when it is taken
    Utility(parents, values)     what comes of it: a number for each joint state of its parents; several add up

Decisions are taken in their order, each knowing what the earlier ones knew and did (no forgetting). From the last to
the first, each becomes the table that puts all probability on the best option given what it sees:

    δ(sees) = argmax_d Σ_utilities E[U | sees, d],    the later decisions by their own δ

What it sees and does not matter (d-separated from the utilities that it moves) is left out. What another observation is
worth is how much higher the best policy then scores; of a variable itself that is perfect information.

Howard & Matheson (1984), "Influence diagrams"; Cooper (1988) and Shachter & Peot (1992) for decisions as chance
variables; Raiffa (1968) for the oil wildcatter.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
from jaxtyping import Float

from credo.core.checks import check_real
from credo.core.errors import DataError
from credo.models.network import LinearGaussian, Network, Table, queries
from credo.models.network import graph as arrows
from credo.models.network.causes import below_of

TIE = 1e-12
"""Options whose utilities differ by less, relative to the largest, are equally good: the first is taken."""


class Choice:
    """A decision: what can be done, and what is known when it is taken."""

    def __init__(self, options: Sequence[str], sees: Sequence[str] | str = ()):
        self.options = tuple(str(each) for each in options)
        self.sees = (sees,) if isinstance(sees, str) else tuple(sees)
        if len(set(self.options)) < 2 or len(set(self.options)) < len(self.options):
            raise DataError(f"a choice is between at least two different options, found {self.options}")


class Utility:
    """A number for each joint state of the parents: `values` has an axis for each of them."""

    def __init__(self, parents: Sequence[str] | str, values: Any):
        self.parents = (parents,) if isinstance(parents, str) else tuple(parents)
        self.values = np.asarray(values, dtype=float)


@dataclass(frozen=True)
class Policy:
    """What to do in each case that can be seen."""

    decision: str
    sees: tuple[str, ...]
    """What matters of what is seen."""
    actions: dict[tuple[str, ...], str]
    """The option for each joint state of that which can be."""

    def __getitem__(self, seen: Mapping[str, str] | Sequence[str] | str) -> str:
        """The option where so much is seen, by name or in the order of `sees`."""
        key = tuple(str(seen[name]) for name in self.sees) if isinstance(seen, Mapping) else seen
        case = (key,) if isinstance(key, str) else tuple(key)
        if case not in self.actions:
            raise DataError(f"{self.decision!r} never sees {', '.join(self.sees) or 'anything'} = {', '.join(case)}")
        return self.actions[case]

    def __str__(self) -> str:
        if not self.sees:
            return f"{self.decision}: {self.actions[()]}"
        cases = [
            f"  {', '.join(f'{n} = {s}' for n, s in zip(self.sees, seen, strict=True))}: {action}"
            for seen, action in self.actions.items()
        ]
        return "\n".join([f"{self.decision}, given {', '.join(self.sees)}:", *cases])


@dataclass(frozen=True)
class BestPolicy:
    """What `credo.decide` says of an influence diagram."""

    policies: dict[str, Policy]
    expected_utility: float
    network: Network
    """The network in which the decisions are taken by the policies: it can be asked as any other."""

    def __getitem__(self, decision: str) -> Policy:
        """The policy of a decision."""
        if decision not in self.policies:
            raise DataError(f"there is no decision {decision!r}; there are {', '.join(self.policies)}")
        return self.policies[decision]

    def __str__(self) -> str:
        return "\n".join([*map(str, self.policies.values()), f"expected utility {self.expected_utility:.6g}"])


class InfluenceDiagram:
    """Chance variables as in `credo.Network`, `Choice`s and `Utility`s by name; the choices in the order in which
    they are taken.

        InfluenceDiagram({
            "weather": {"sun": 0.7, "rain": 0.3},
            "forecast": ("weather", {"sun": [0.7, 0.2, 0.1], "rain": [0.15, 0.25, 0.6]}),
            "umbrella": Choice(["take", "leave"], sees=["forecast"]),
            "comfort": Utility(["weather", "umbrella"], [[20, 100], [70, 0]]),
        }, states={"forecast": ("sunny", "cloudy", "rainy")})
    """

    def __init__(self, nodes: Mapping[str, Any], *, states: Any = None):
        self.choices = {str(name): node for name, node in nodes.items() if isinstance(node, Choice)}
        self.utilities = {str(name): node for name, node in nodes.items() if isinstance(node, Utility)}
        if not self.choices or not self.utilities:
            raise DataError("an influence diagram needs a Choice and a Utility; for chance alone use credo.Network")
        even = {
            name: Table(node.options, (), np.full(len(node.options), 1 / len(node.options)))
            for name, node in self.choices.items()
        }
        chance = {name: node for name, node in nodes.items() if name not in self.choices and name not in self.utilities}
        named = {n: s for n, s in states.items() if n not in self.choices} if isinstance(states, Mapping) else states
        self.network = Network({**even, **chance}, states=named)
        self._check()

    def _check(self) -> None:
        net, later = self.network, list(self.choices)
        numbers = [name for name, law in net.nodes.items() if isinstance(law, LinearGaussian)]
        if numbers:
            raise DataError(
                f"{numbers[0]!r} is a number: influence diagrams have discrete variables; cut it into states"
            )
        for name, utility in self.utilities.items():
            shape = tuple(len(net.states[net.check_name(p)]) for p in utility.parents)
            if utility.values.shape != shape or not np.isfinite(utility.values).all():
                raise DataError(
                    f"the utility {name!r} must be finite numbers with an axis for each of "
                    f"{', '.join(utility.parents)}, shape {shape}; found shape {utility.values.shape}"
                )
        for name, choice in self.choices.items():
            below = below_of(net.parents, later) | set(later)
            for seen in choice.sees:
                if net.check_name(seen) in below:
                    raise DataError(f"{name!r} cannot see {seen!r}: it follows from {name!r}, or a later decision")
            later.remove(name)

    def seeing(self, decision: str, *more: str) -> "InfluenceDiagram":
        """The diagram in which a decision sees more."""
        choice = self.choices[self._decision(decision)]
        wider = Choice(choice.options, tuple(dict.fromkeys((*choice.sees, *more))))
        return self._changed({**self.choices, decision: wider}, self.network)

    def condition(self, observed: Mapping[str, Any]) -> "InfluenceDiagram":
        """The diagram when something is known before the first decision."""
        below = below_of(self.network.parents, self.choices) | set(self.choices)
        wrong = [name for name in observed if name in below]
        if wrong:
            raise DataError(
                f"{wrong[0]!r} follows from a decision: it cannot be known before; let the decision see it, "
                f"Choice(…, sees=[{wrong[0]!r}])"
            )
        return self._changed(self.choices, self.network.condition(observed))

    def _changed(self, choices: dict[str, Choice], network: Network) -> "InfluenceDiagram":
        other = object.__new__(InfluenceDiagram)
        other.choices, other.utilities, other.network = choices, self.utilities, network
        other._check()
        return other

    def _decision(self, name: str | None) -> str:
        if name is None and len(self.choices) == 1:
            return next(iter(self.choices))
        if name not in self.choices:
            raise DataError(f"there is no decision {name!r}; there are {', '.join(self.choices)}")
        return name

    def solve(self) -> BestPolicy:
        """The best policy, from the last decision to the first."""
        net, policies = self.network, {}
        memory: dict[str, tuple[str, ...]] = {}
        known: tuple[str, ...] = ()
        for name, choice in self.choices.items():
            known = tuple(dict.fromkeys((*known, *choice.sees)))
            memory[name] = tuple(seen for seen in known if seen not in (net.evidence or {}))
            known = (*known, name)
        for name in reversed(self.choices):
            options = self.choices[name].options
            sees = self._that_matter(net, name, memory[name])
            values = self._utility(net, (*sees, name))
            top = np.abs(values).max(initial=0.0)
            best = np.argmax(values >= values.max(-1, keepdims=True) - TIE * top, axis=-1)
            net = net.with_nodes({name: Table(options, sees, np.eye(len(options))[best])})
            possible = np.asarray(queries.states_given(net, sees, net.observed)[0] if sees else 1.0).ravel() > 0
            cases = product(*(net.states[seen] for seen in sees))
            chosen = zip(cases, best.ravel(), possible, strict=True)
            policies[name] = Policy(name, sees, {case: options[i] for case, i, can_be in chosen if can_be})
        ordered = {name: policies[name] for name in self.choices}
        return BestPolicy(ordered, float(self._utility(net, ())), net)

    def _that_matter(self, net: Network, decision: str, sees: tuple[str, ...]) -> tuple[str, ...]:
        """What a decision sees and matters: not d-separated, given the rest, from the utilities that it moves."""
        moved = {u for u, utility in self.utilities.items() if self._moves(net, decision, utility)}
        parents = {**net.parents, **{u: self.utilities[u].parents for u in moved}}
        kept = list(sees)
        for seen in sees:
            given = {*(each for each in kept if each != seen), decision, *net.observed.known}
            if not moved & arrows.reachable(parents, seen, given):
                kept.remove(seen)
        return tuple(kept)

    @staticmethod
    def _moves(net: Network, decision: str, utility: Utility) -> bool:
        return decision in arrows.ancestors_of(net.parents, utility.parents)

    def _utility(self, net: Network, names: tuple[str, ...]) -> Float[np.ndarray, "..."]:
        """Σ_utilities Σ U P(names, parents of U | what is known), with an axis for each of `names`."""
        total: Any = np.zeros(tuple(len(net.states[name]) for name in names))
        decision = names[-1] if names else None
        for utility in self.utilities.values():
            if decision is not None and not self._moves(net, decision, utility):
                continue
            fixed = net.observed.known
            free = tuple(p for p in utility.parents if p not in fixed)
            values = utility.values[tuple(fixed.get(p, slice(None)) for p in utility.parents)]
            asked = tuple(dict.fromkeys((*names, *free)))
            if not asked:
                total = total + values
                continue
            probability = np.asarray(queries.states_given(net, asked, net.observed)[0])
            shape = [len(net.states[a]) if a in free else 1 for a in asked]
            order = sorted(range(len(free)), key=lambda i, free=free, asked=asked: asked.index(free[i]))  # type: ignore[misc]
            weighed = probability * values.transpose(order).reshape(shape)
            total = total + weighed.sum(axis=tuple(range(len(names), len(asked))))
        return np.asarray(total)

    def expected_utility(self, policy: Mapping[str, str]) -> float:
        """The expected utility of doing the same whatever is seen: an option for each decision."""
        net = self.network
        for name, choice in self.choices.items():
            if policy.get(name) not in choice.options:
                raise DataError(f"{name!r} must be one of {', '.join(choice.options)}, found {policy.get(name)!r}")
            known = np.eye(len(choice.options))[choice.options.index(policy[name])]
            net = net.with_nodes({name: Table(choice.options, (), known)})
        return float(self._utility(net, ()))

    def value_of_information(self, variable: str, at: str | None = None, cost: float = 0.0) -> float:
        """How much it is worth to see a variable before a decision (None: the only one), less its cost."""
        more = self.seeing(self._decision(at), self.network.check_name(variable))
        return more.solve().expected_utility - self.solve().expected_utility - check_real(cost, "cost")

    def value_of_perfect_information(self, at: str | None = None) -> float:
        """How much it is worth to see all chance variables that the decisions from this one on do not move."""
        decision = self._decision(at)
        later = list(self.choices)[list(self.choices).index(decision) :]
        moved = below_of(self.network.parents, later) | set(self.choices)
        free = [name for name in self.network.names if name not in moved and name not in (self.network.evidence or {})]
        matter = arrows.ancestors_of(self.network.parents, {p for u in self.utilities.values() for p in u.parents})
        seen = [name for name in free if name in matter]
        return self.seeing(decision, *seen).solve().expected_utility - self.solve().expected_utility
