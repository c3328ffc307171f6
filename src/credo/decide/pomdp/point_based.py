"""Point-based planning with both bounds: SARSOP, HSVI, PBVI and Perseus as settings of one kernel (`trials`).

All of them back up beliefs that can be reached, and differ in which: those where the gap at the start comes from
(SARSOP, HSVI), a set that grows (PBVI), or a set drawn beforehand (Perseus). Small problems run in NumPy and compile
nothing; large ones in the form compiled by numba, where it is installed.
"""

import signal
import threading
import time
from collections.abc import Iterator
from importlib.util import find_spec
from itertools import cycle
from typing import Any

import numpy as np

from credo.core.errors import DataError
from credo.decide.pomdp.bounds import blind, fib
from credo.decide.pomdp.long_horizon import LARGEST, above, below
from credo.decide.pomdp.methods import HSVI, PBVI, Limits, Perseus, PointBased, warn_stopped
from credo.decide.pomdp.mixed_observability import blocks_of
from credo.decide.pomdp.model import POMDP
from credo.decide.pomdp.plan import AlphaPlan
from credo.decide.pomdp.sawtooth import Sawtooth
from credo.decide.pomdp.trials import DEEPEST, Trials
from credo.decide.pomdp.vectors import AlphaVectors

clock = time.monotonic
"""What `seconds` are measured by; benchmarks take CPU time instead."""
SMALL, PATIENCE = 25, 1.5
"""Up to so many states NumPy tries for so many CPU seconds: enough for tiger, cheese, shuttle and paint."""
SHALLOW, DEEP = 0.95, 0.5
"""The gap that a trial aims at, as a share of the gap at the start. Shallow ones tighten the upper bound, deep ones the
lower; SARSOP takes turns: Hallway after 3 s is at [0.976, 1.191], after 4 s [0.94, 1.195] with shallow ones alone and
[0.977, 1.205] with deep ones."""
REST = 3.0
"""CPU time of trials between two looks at a long horizon, as a multiple of a look's."""
ROOM = 0.7
"""Share of the memory that may be left when beliefs are forgotten; more, and there would be no end of it."""
TOLD = 0.1
"""Seconds between reports of progress."""
WALK, FRUITLESS = 40, 10
"""Steps of a random walk through beliefs, and walks without a new one after which there are no more."""


def solve_points(pomdp: POMDP, method: PointBased, limits: Limits, start: AlphaPlan | None = None) -> AlphaPlan:
    """The plan that a method finds within the limits; `start` is a plan of the same problem to go on from."""
    search = Search(pomdp, method, limits)
    if start is not None:
        search.resume(start)
    reason = search.run()
    return search.plan(reason)


class Search:
    """A kernel at work within its limits."""

    def __init__(self, pomdp: POMDP, method: PointBased, limits: Limits) -> None:
        pomdp.check_ending()
        self.pomdp, self.method, self.limits, self.begun = pomdp, method, limits.within(pomdp), clock()
        self.blocks = blocks_of(pomdp.transitions, pomdp.observations, pomdp.rewards, pomdp.discount, pomdp.start)
        blocks = self.blocks
        self.informed = np.ascontiguousarray(fib(pomdp).T[blocks.state])
        self.below = [(row[blocks.state], a) for a, row in enumerate(blind(pomdp)) if np.isfinite(row).all()]
        self.notes: list[str] = []
        size = blocks.rewards.size * blocks.observations[0].shape[1]
        self.far, self.rested = blocks.discount < 1 and size <= LARGEST, 0.0
        self.rounds, self.remedy = 0, "solve(pomdp, start=plan) goes on from here"
        small = len(blocks.state) <= SMALL
        self.compiled = not small and self._numba()
        self.trials: Any = self._kernel()
        self.patience = time.process_time() + PATIENCE if small else np.inf

    def _numba(self) -> bool:
        if find_spec("numba") is None:
            note = "numba is not installed: the slower NumPy form is used; pip install 'credo[plan]'"
            self.notes += [note] * (note not in self.notes)
            return False
        return True

    def _kernel(self) -> Any:
        """The form that suits: the one place where it is chosen, by size here and by patience in `run`."""
        if self.compiled:
            from credo.decide.pomdp.compiled_trials import CompiledTrials

            begun = clock()
            trials = CompiledTrials(self.blocks, self.below, self.informed)
            trials.trial(np.inf)  # the start alone: numba compiles, which is not of the time asked for
            self.begun += clock() - begun
            return trials
        return Trials(self.blocks, self.below, self.informed)

    def run(self) -> str:
        """Works until the gap is closed, and says why it stopped."""
        told = clock()
        with Interrupt() as interrupted:
            work = self._work()
            while not self.limits.closed(self.trials.lower, self.trials.upper):
                if interrupted:
                    return "interrupted"
                now = clock()
                if self.limits.seconds is not None and now - self.begun >= self.limits.seconds:
                    return f"stopped after {self.limits.seconds:g} seconds"
                if self.trials.size > self.limits.memory and not self._forgets():
                    self.remedy = f"give more memory=; {self.remedy}"
                    return f"the memory limit of {self.limits.memory:.3g} bytes is reached"
                if time.process_time() > self.patience:
                    self.patience = np.inf
                    if self._numba():
                        self.compiled = True
                        self.renew()
                        work = self._work()
                if self.limits.progress is not None and now - told >= TOLD:
                    self.limits.progress(self.trials.lower, self.trials.upper, now - self.begun)
                    told = now
                if next(work, None) is None:
                    self.remedy = f"give {type(self.method).__name__} more beliefs=, or leave using= out"
                    return "its beliefs have no more to gain"
                self.rounds += 1
        return ""

    def _forgets(self) -> bool:
        """Whether room is made by forgetting beliefs that trials will find again; a set of beliefs is kept."""
        if isinstance(self.method, PBVI | Perseus):
            return False
        self.trials.forget()
        return bool(self.trials.size < ROOM * self.limits.memory)

    # ── which beliefs are backed up

    def _work(self) -> Iterator[bool]:
        if isinstance(self.method, PBVI | Perseus):
            return self._sweeps(self.method)
        return self._trials((SHALLOW,) if isinstance(self.method, HSVI) else (SHALLOW, DEEP))

    def _trials(self, widths: tuple[float, ...]) -> Iterator[bool]:
        for width in cycle(widths):
            path = self.trials.trial(width * (self.trials.upper - self.trials.lower))
            yield True
            if self.far and len(path) == DEEPEST:  # cut off, nothing was sure to be gained: a wide one ends by itself
                self.trials.trial(self.blocks.discount**DEEPEST * (self.trials.upper - self.trials.lower))
                self._look_far()
                yield True

    def _look_far(self) -> None:
        """Both bounds to the end of a long horizon, in a share of the time."""
        begun, blocks, trials = time.process_time(), self.blocks, self.trials
        if begun < self.rested:
            return
        points = trials.points()
        for point in above(blocks, trials.corners, points, trials.upper - trials.lower):
            trials.adopt_point(*point)
        for vector in below(blocks, trials.vectors(), [(blocks.home, blocks.start, 0.0), *points]):
            trials.adopt_vector(*vector)
        now = time.process_time()
        self.rested = now + REST * (now - begun)

    def _sweeps(self, method: PBVI | Perseus) -> Iterator[bool]:
        """Perseus draws its beliefs at once and skips those that another's backup improved; PBVI's set doubles."""
        perseus = isinstance(method, Perseus)
        rng = np.random.default_rng(method.seed if isinstance(method, Perseus) else 0)
        known = dict.fromkeys(self.trials.trial(0.0, rng.random(2)))
        while True:
            wanted = method.beliefs if perseus else min(method.beliefs, 2 * len(known))
            fruitless = 0
            while len(known) < wanted and fruitless < FRUITLESS:
                size = len(known)
                known.update(dict.fromkeys(self.trials.trial(0.0, rng.random(2 * WALK))))
                fruitless = fruitless + 1 if len(known) == size else 0
                yield True
            nodes = list(known)
            gained = True
            while gained:
                before = {node: self.trials.bounds(node) for node in nodes}
                for p in rng.permutation(len(nodes)) if perseus else range(len(nodes) - 1, -1, -1):
                    node = nodes[p]
                    self.trials.see(node)
                    if not perseus or self.trials.bounds(node)[0] <= before[node][0]:
                        self.trials.backup(node)
                        yield True
                changes = np.abs([np.subtract(self.trials.bounds(node), before[node]) for node in nodes])
                size = max(abs(self.trials.lower), abs(self.trials.upper))
                gained = bool(changes.max() > 0.01 * self.limits.gap * size)
            if len(known) >= method.beliefs or fruitless == FRUITLESS:
                return

    # ── plans in and out

    def resume(self, start: AlphaPlan) -> None:
        """Takes over both bounds of a plan of the same problem."""
        above, blocks = start.above, self.blocks
        same = isinstance(above, Sawtooth) and start.world.same_dynamics(self.pomdp)
        if not same or not (np.array_equal(above.state, blocks.state) and np.array_equal(above.first, blocks.first)):
            raise DataError("the plan to go on from must be one that a point-based method found for the same problem")
        self._adopt([(values, actions) for _, values, actions in start.vectors.tables], above)

    def renew(self) -> None:
        """A kernel with both bounds of this one, and without its nodes."""
        vectors, above = self.trials.vectors(), self._above()
        self.trials = self._kernel()
        self._adopt(vectors, above)

    def _adopt(self, vectors: Any, above: Sawtooth) -> None:
        for k, (values, actions) in enumerate(vectors):
            for alpha, action in zip(values, actions, strict=True):
                self.trials.adopt_vector(k, alpha, int(action))
        for state in np.flatnonzero(above.corners < self.informed.max(axis=1)):
            k = int(self.blocks.block[state])
            belief = np.zeros(self.blocks.sizes[k])
            belief[state - self.blocks.first[k]] = 1.0
            self.trials.adopt_point(k, belief, float(above.corners[state]))
        for point in above.points:
            self.trials.adopt_point(*point)

    def _above(self) -> Sawtooth:
        return Sawtooth.of(self.blocks, self.informed, self.trials.corners, self.trials.points())

    def plan(self, reason: str) -> AlphaPlan:
        """What was found, with a warning where nobody asked to stop there."""
        lower, upper = float(self.trials.lower), float(max(self.trials.upper, self.trials.lower))
        if reason and (self.limits.seconds is None or not reason.startswith("stopped after")):
            warn_stopped(reason, lower, upper, self.remedy)
        self.trials.forget()  # what follows needs room for a copy of the rest
        found = self.trials.vectors()
        states = [self.blocks.state[a:b] for a, b in zip(self.blocks.first[:-1], self.blocks.first[1:], strict=True)]
        vectors = AlphaVectors.of_blocks(states, [v for v, _ in found], [a for _, a in found], self.pomdp.shape[0])
        return AlphaPlan(
            self.pomdp,
            vectors.actions,
            upper - lower,
            self.rounds,
            "stopped" if reason else "converged",
            type(self.method).__name__,
            vectors,
            lower,
            upper,
            above=self._above(),
            notes=tuple(self.notes + [reason] * bool(reason)),
        )


class Interrupt:
    """Ctrl-C is kept until a trial is done: `with Interrupt() as interrupted`, true once it was pressed."""

    def __init__(self) -> None:
        self._pressed = False
        self._old: Any = None

    def __enter__(self) -> "Interrupt":
        if threading.current_thread() is threading.main_thread():
            self._old = signal.signal(signal.SIGINT, self._press)
        return self

    def __exit__(self, *_: object) -> None:
        if self._old is not None:
            signal.signal(signal.SIGINT, self._old)

    def __bool__(self) -> bool:
        return self._pressed

    def _press(self, *_: object) -> None:
        if self._pressed:
            raise KeyboardInterrupt
        self._pressed = True
