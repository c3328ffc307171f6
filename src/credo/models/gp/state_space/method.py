"""`StateSpace`: conditioning and learning a Gaussian process of one input in O(n)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from credo.core.pytrees import changed
from credo.infer.learning import Evidence, Learned
from credo.infer.method import Learner, Solver
from credo.models.gp.belief import GP
from credo.models.gp.data import Rows
from credo.models.gp.evidence import Priors
from credo.models.gp.staged import STRIDE
from credo.models.gp.state_space.belief import StateSpaceGP
from credo.models.gp.state_space.series import Series, in_order


@dataclass(frozen=True)
class StateSpace(Solver, Learner):
    """The exact posterior and evidence of a `GP` of one input by Kalman filtering, in O(n) time and memory.

        gp.condition(x, y, using=StateSpace())         credo.fit(gp, x, y, using=StateSpace())

    For sums and products of Matern12, Matern32, Matern52, Periodic, Cosine, Constant and White kernels, and trends.
    The result is a `StateSpaceGP`. Särkkä, Solin & Hartikainen (2013), "Spatiotemporal learning via
    infinite-dimensional Bayesian filtering and smoothing".
    """

    starts: int = 3
    window: int = 4096
    """With more rows, starts are tried on so many neighbouring ones; the best is climbed on all."""
    max_steps: int = 200
    tolerance: float = 1e-3
    gain: float = 1e-8
    """A climb ends after a step that gains less than this times the height."""

    needs: ClassVar[tuple[type, ...]] = (GP, StateSpaceGP)

    def adapt(self, belief: Any, statistics: Rows) -> tuple[StateSpaceGP, Series]:
        """The belief as a state that moves, and its rows in the order of time."""
        return as_state_space(belief), in_order(statistics)

    def learn(self, belief: Any, statistics: Rows, fixed: Sequence[str], priors: Priors, seed: int) -> Learned:
        """The belief at the highest evidence × prior found."""
        own, series = self.adapt(belief, statistics)
        climb = Evidence(self.starts, max_steps=self.max_steps, tolerance=self.tolerance, gain=self.gain)
        n = series.n
        if n <= 2 * self.window:
            found = climb.learn(own, series, fixed, priors, seed)
        else:
            neighbours = (n - self.window) // 2 + np.arange(self.window)
            first = climb.learn(own, in_order(series.subset(neighbours)), fixed, priors, seed)
            last = changed(climb, starts=1, flat=False, stride=STRIDE)
            found = last.learn(first.belief.sized(), series, fixed, priors, seed)
            note = f"{self.starts} climbs on {self.window} neighbouring rows; the best went on with all {n}"
            found = found._replace(notes=[*found.notes, note])
        return found._replace(belief=found.belief.sized())


def as_state_space(belief: Any) -> StateSpaceGP:
    """The belief as a `StateSpaceGP`, after the rows that it has seen."""
    if isinstance(belief, StateSpaceGP):
        return belief
    own = StateSpaceGP(belief)
    return own if belief.seen is None else own.condition_on(belief.seen)
