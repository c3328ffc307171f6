"""DESPOT: search with bounds in a tree of sampled scenarios, regularized by the size of the policy.

Somani, Ye, Hsu & Lee (2013), "DESPOT: online POMDP planning with regularization"; Ye et al. (2017), JAIR 58. A node
holds the scenarios that agree with its history; values are sums over scenarios, discounted to the root.
"""

import time
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

import numpy as np

from credo.core.checks import check_count, check_real
from credo.decide.pomdp.online import Node as Tree
from credo.decide.pomdp.online import OnlinePlanner
from credo.decide.pomdp.simulators import Generator, Policy, World


class Node:
    """Scenarios after a history, with bounds on what can be earned from here."""

    __slots__ = ("branches", "children", "default", "default_action", "depth", "lower", "share", "states", "upper")

    def __init__(self, search: "Search", states: Any, depth: int) -> None:
        self.states, self.depth = states, depth
        self.share = len(states) / search.scenarios * search.world.discount**depth
        """The weight of the scenarios, discounted to the root."""
        left = max(search.depth - depth, 0)
        earned, self.default_action = (
            search.world.lower(states, left, search.random, search.policy) if left else (0.0, 0)
        )
        self.default = self.lower = self.share * earned
        self.upper = max(self.share * search.world.upper(states, left) if left else 0.0, self.lower)
        self.children: list[dict[Hashable, Node]] | None = None
        self.branches: list[float] = []
        """What each action pays at once, less the regularization."""


class Search:
    """One search from scenarios of a belief."""

    def __init__(self, method: "DESPOT", world: World, states: Any, policy: Policy | None, random: Generator) -> None:
        self.world, self.random = world, random
        self.depth, self.regularization, self.scenarios = method.depth, method.regularization, len(states)
        self.policy = policy
        self.root = Node(self, states, 0)

    def trial(self, until: float) -> None:
        """Down by the largest upper bound and the largest gap to where it is small, then the bounds back up."""
        path, node = [self.root], self.root
        while node.depth < self.depth and (time.monotonic() < until or self.root.children is None):
            if node.children is None:
                self.expand(node)
            uppers = self.totals(node, "upper")
            children = node.children[int(np.argmax(uppers))]  # type: ignore[index]
            good = 0.95 * (self.root.upper - self.root.lower) / self.scenarios  # a gap, for each scenario
            excess = {seen: child.upper - child.lower - good * len(child.states) for seen, child in children.items()}
            if not excess or max(excess.values()) <= 0:
                break
            node = children[max(excess, key=lambda seen: excess[seen])]
            path.append(node)
        for each in reversed(path):
            if each.children is not None:
                each.upper = min(each.upper, max(each.default, max(self.totals(each, "upper"))))
                each.lower = max(each.default, max(self.totals(each, "lower")))

    def expand(self, node: Node) -> None:
        """All actions, on the same random numbers."""
        node.children, seed = [], int(self.random.integers(2**63))
        for action in range(len(self.world.actions)):
            moved = self.world.step_many(node.states, action, np.random.default_rng(seed))
            node.branches.append(node.share * float(np.mean(moved.rewards)) - self.regularization)
            groups: dict[Hashable, list[int]] = {}
            seen = moved.seen.tolist() if isinstance(moved.seen, np.ndarray) else moved.seen
            for k, (what, over) in enumerate(zip(seen, moved.over.tolist(), strict=True)):
                if not over:
                    groups.setdefault(what, []).append(k)
            node.children.append(
                {
                    what: Node(self, self.world.chosen(moved.states, np.array(rows)), node.depth + 1)
                    for what, rows in groups.items()
                }
            )

    def totals(self, node: Node, bound: str) -> list[float]:
        """The "upper" or "lower" bound of each action."""
        assert node.children is not None
        each = zip(node.branches, node.children, strict=True)
        return [paid + sum(getattr(child, bound) for child in children.values()) for paid, children in each]


@dataclass(frozen=True)
class DESPOT(OnlinePlanner):
    """Trials in a tree of `scenarios`, of which each action of the policy costs `regularization`.

    Bounds come from the world: those of point-based trials of a POMDP; of a simulator, random actions and its
    `reward_max`. `trials` are made where no `seconds` are given.
    """

    scenarios: int = 500
    trials: int = 200
    regularization: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_count(self.scenarios, "scenarios")
        check_count(self.trials, "trials")
        check_real(self.regularization, "regularization", 0)

    def search(self, world: World, belief: Any, random: Generator, root: Tree) -> int:
        """Trials until the bounds of the root meet, or the time is used up."""
        until, policy = self.clock(), self.default(world, belief, random)
        search = Search(self, world, world.draws(belief, self.scenarios, random), policy, random)
        top, done = search.root, 0
        while done < self.trials if self.seconds is None else time.monotonic() < until or not done:
            search.trial(until)
            done += 1
            if top.upper - top.lower <= 1e-6 * max(abs(top.upper), 1e-12):
                break
        if top.children is None or top.default >= max(lowers := search.totals(top, "lower")):
            return top.default_action
        return int(np.argmax(lowers))
