"""Values that travel far: a window of states moves away from where the rewards are, and settles what it leaves behind.

On a large grid with one goal, value iteration updates every state until the last one has heard of the goal. Here a
window of neighbouring distances is swept instead; a level is taken in at the far end at each sweep, and levels leave at
the near end once they have stopped changing. Each state is updated while its value is in the making, and no longer.
Modified policy iteration then makes the whole right, and gives the certificate.
"""

from dataclasses import dataclass, replace

import numpy as np

from credo.decide.mdp.bellman import Ruler
from credo.decide.mdp.graph import Levels, levels
from credo.decide.mdp.model import MDP, Vector
from credo.decide.mdp.plan import DiscountedPlan, MDPPlanner
from credo.decide.mdp.policy_iteration import ModifiedPolicyIteration
from credo.decide.mdp.value_iteration import Ordered

MAX_WORK = 80.0
"""Sweeps over all states that the window may be worth, before it is taken for a bad idea."""
WIDEST = 24
"""Levels in the window. Where moves may fail values travel by less than a level a sweep: a front that ran ahead of them
would only make the window wider."""


@dataclass(frozen=True)
class Wavefront(MDPPlanner):
    """A moving window of Bellman updates in the order of distance, and then modified policy iteration."""

    def solve(self, world: MDP, tolerance: float, start: Vector | None = None) -> DiscountedPlan:
        """The window's pass, then sweeps over everything."""
        return self.along(world, levels(world), tolerance, start)

    def along(self, world: MDP, found: Levels, tolerance: float, start: Vector | None = None) -> DiscountedPlan:
        """The same, where the levels are known."""
        blocks = Ordered(world, found)
        v, passes = travel(blocks, blocks.begin(start), tolerance / (Ruler(world).factor + 1) / 4)
        rest = ModifiedPolicyIteration().solve(world, tolerance, blocks.back(v))
        return replace(rest, iterations=rest.iterations + passes, method="wavefront")


def travel(blocks: Ordered, v: Vector, small: float) -> tuple[Vector, int]:
    """One pass of the window; the values, and the work in sweeps over all states."""
    s, bounds = len(v), blocks.bounds
    near, far, work = 0, 0, 0
    while bounds[near] < s and work < MAX_WORK * s:
        far = min(far + 1, near + WIDEST, len(bounds) - 1)
        low, high = int(bounds[near]), int(bounds[far])
        new = blocks.update(v, low, high)
        moving = np.abs(new - v[low:high]) > small
        v[low:high] = new
        work += high - low
        first = int(np.argmax(moving))
        # The window keeps the whole level of the first state that still moves.
        near = int(np.searchsorted(bounds, low + first, side="right")) - 1 if moving[first] else far
    return v, 1 + work // s
