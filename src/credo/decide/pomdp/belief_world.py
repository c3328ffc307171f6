"""A POMDP whose probabilities are known, as a world to search in: its states are beliefs, with bounds on their values.

Planning offline and searching online help each other (Ross, Pineau, Paquet & Chaib-draa 2008, "Online planning
algorithms for POMDPs", JAIR 32, section 3.5): point-based trials from the start make α-vectors, whose policy is what
a search counts on beyond its tree, and upper bounds, by which it leaves actions alone that cannot be best. A step draws
an observation; its reward is the expected one.
"""

from bisect import bisect_right
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np

from credo.decide.pomdp import point_based
from credo.decide.pomdp.belief import BeliefState
from credo.decide.pomdp.methods import SARSOP, Limits
from credo.decide.pomdp.model import POMDP
from credo.decide.pomdp.plan import AlphaPlan
from credo.decide.pomdp.simulators import FiniteWorld, Generator, Lookahead, Moved, Policy
from credo.decide.pomdp.vectors import INSIDE

MEMORY = 1.0e9
"""Bytes of nodes and vectors, beyond which the nodes are begun anew."""


class Outcomes(NamedTuple):
    """What an action at a belief leads to."""

    sums: list[float]
    """Running sums of the probabilities."""
    nodes: list[Any]
    observations: list[int]
    reward: float
    known: list[float | None]
    """The values of nodes whose bounds meet."""
    ahead: Lookahead


class BeliefWorld(FiniteWorld):
    """Beliefs of a POMDP; `plan` is one to count on, else trials are made for so many `seconds`."""

    def __init__(self, pomdp: POMDP, seconds: float, plan: AlphaPlan | None = None) -> None:
        super().__init__(pomdp)
        self._search = point_based.Search(pomdp, SARSOP(), Limits(seconds=seconds))
        if plan is not None:
            self._search.resume(plan)
        else:
            self._search.begun = point_based.clock()  # the bounds that it begins with are not counted
            self._search.run()
        self.trials = self._search.trials
        self.trials.children(self.trials.root, 0)  # numba compiles, before the clock of a step runs
        self._outcomes: dict[tuple[Any, int], Outcomes] = {}

    def begin(self, random: Generator) -> Any:
        """The start belief."""
        return self.trials.root

    def outcomes(self, node: Any, action: int) -> Outcomes:
        """What an action leads to; looked up once."""
        found = self._outcomes.get((node, action))
        if found is None:
            after = self.trials.children(node, action)
            bounds = [self.trials.bounds(child) for child in after.nodes]
            known = [low if self._search.limits.closed(low, high) else None for low, high in bounds]
            chances = after.probabilities.tolist()
            value = after.reward + self.discount * sum(p * low for p, (low, _) in zip(chances, bounds, strict=True))
            ahead = Lookahead(value, dict(zip(after.observations, chances, strict=True)))
            found = Outcomes(list(accumulate(chances)), after.nodes, after.observations, after.reward, known, ahead)
            self._outcomes[node, action] = found
        return found

    def step(self, state: Any, action: int, random: Generator) -> tuple[Any, int, float, bool]:
        """A belief that follows; it is over where its value is known, which is then paid."""
        sums, nodes, observations, reward, known, _ = self.outcomes(state, action)
        k = min(bisect_right(sums, random.random() * sums[-1]), len(nodes) - 1)
        value = known[k]
        if value is None:
            return nodes[k], observations[k], reward, False
        return nodes[k], observations[k], reward + self.discount * value, True

    def step_many(self, states: Any, action: int, random: Generator) -> Moved:
        """Of scenarios that share their belief."""
        sums, nodes, observations, reward, *_ = self.outcomes(states[0], action)
        n = len(states)
        k = np.minimum(np.searchsorted(sums, random.random(n) * sums[-1], side="right"), len(nodes) - 1).tolist()
        after, seen = [nodes[each] for each in k], [observations[each] for each in k]
        return Moved(after, seen, np.full(n, reward), np.zeros(n, dtype=bool))

    def lookahead(self, state: Any, action: int) -> Lookahead:
        """By the probabilities of what may be seen."""
        return self.outcomes(state, action).ahead

    def worth(self, state: Any) -> list[int]:
        """Actions whose upper bound is at least the lower bound of the belief."""
        self.trials.see(state)
        lower, uppers = self.trials.bounds(state)[0], np.array(self.trials.uppers(state))
        order = np.argsort(uppers, kind="stable")
        return order[(uppers[order] >= lower) | (order == order[-1])].tolist()

    def value(self, state: Any, steps: int, random: Generator, policy: Policy | None) -> float:
        """What the plan earns from a belief on, at least."""
        return self.floor(state)[0]

    def floor(self, state: Any) -> tuple[float, int]:
        """What the plan earns, and its action."""
        self.trials.see(state)
        return float(self.trials.bounds(state)[0]), self.trials.action(state)

    def lower(self, states: Any, steps: int, random: Generator, policy: Policy | None) -> tuple[float, int]:
        """What the plan earns, and its action."""
        return self.floor(states[0])

    def upper(self, states: Any, steps: int) -> float:
        """The upper bound of the belief."""
        return float(self.trials.bounds(states[0])[1])

    # ── what is believed: probabilities, exactly

    def believe(self, n: int, random: Generator) -> BeliefState:
        """The start."""
        return self.pomdp.belief()

    def updated(self, belief: BeliefState, action: int, seen: Any, random: Generator) -> BeliefState:
        """By Bayes' rule."""
        return belief.condition(action, self.code(seen))

    def draws(self, belief: BeliefState, n: int, random: Generator) -> list[Any]:
        """The node of the belief, so many times."""
        if self.trials.size > MEMORY:
            self.trials.forget()
            self._outcomes.clear()
        blocks, node = self._search.blocks, self.trials.root
        if not np.array_equal(belief.probs, self.pomdp.start):
            inside = belief.probs[blocks.state]
            holds = np.flatnonzero(np.add.reduceat(inside, blocks.first[:-1]) >= INSIDE)
            k = int(holds[np.argmax(holds != blocks.home)])  # copies of the start's states have the fewest vectors
            node = self.trials.node(k, inside[blocks.first[k] : blocks.first[k + 1]])
            self.trials.see(node)
        return [node] * n
