"""Exact value iteration: the whole value function as α-vectors, by incremental pruning.

Cassandra, Littman & Zhang (1997), "Incremental pruning"; White (1991). A backup makes for every action the cross-sum
over observations of the vectors that may follow, pruned after each addition; a vector is kept if at some belief it is
above all others, which a linear program decides (HiGHS). Between backups that are exact, vectors are improved at the
beliefs where they were best (Zhang & Zhang 2001, JAIR 14), which takes the place of most of them.
"""

import time
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from jaxtyping import Float, Int
from scipy.optimize import linprog

from credo.core.checks import check_count
from credo.core.errors import DataError, NotConverged
from credo.decide.pomdp.bounds import blind, fib
from credo.decide.pomdp.methods import Limits, ValueIteration, warn_stopped
from credo.decide.pomdp.model import POMDP
from credo.decide.pomdp.plan import AlphaPlan
from credo.decide.pomdp.vectors import AlphaVectors

Vectors = Float[np.ndarray, "_ s"]
Points = Float[np.ndarray, "_ s"]
PRUNED = 1e-9
"""What a vector must be above the others somewhere, relative to the largest value."""
PRECISE = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}
"""The tightest tolerances of HiGHS."""
POINT_SWEEPS = 200


class Stage(NamedTuple):
    """Vectors with their actions, and beliefs at which each was found to be best."""

    vectors: Vectors
    actions: Int[np.ndarray, " n"]
    points: Points


class TooMuch(Exception):
    """The time or the number of vectors that was allowed is used up: which."""


def value_iteration(pomdp: POMDP, method: ValueIteration, limits: Limits, horizon: int | None = None) -> AlphaPlan:
    """Backups until the bounds are as close as asked for, or as many as there are steps."""
    s, limits = pomdp.shape[0], limits.within(pomdp)
    backup = Backup(pomdp, limits.seconds, method.max_vectors)
    corners = np.eye(s)
    if horizon is not None:
        return _finite(pomdp, backup, Stage(np.zeros((1, s)), np.zeros(1, int), corners), horizon)
    pomdp.check_ending()
    if pomdp.discount == 1:
        raise DataError("exact value iteration needs a discount below 1, or a horizon; leave using= out")
    lows = blind(pomdp)
    stage = Stage(lows, np.arange(len(lows)), corners)
    gamma, upper, done = pomdp.discount, float((fib(pomdp) @ pomdp.start).max()), 0
    reason = f"max_steps={method.max_steps} is reached"
    try:
        while done < method.max_steps:
            done += 1
            after = backup.exact(stage)
            ahead = max(backup.farthest(each, stage.vectors)[0] for each in after.vectors) * backup.unit + backup.lost
            bound = float((after.vectors @ pomdp.start).max()) + backup.lost + gamma / (1 - gamma) * max(ahead, 0.0)
            upper, stage = min(upper, bound), after
            lower = float((stage.vectors @ pomdp.start).max())
            if limits.progress is not None:
                limits.progress(lower, upper, time.monotonic() - backup.began)
            if limits.closed(lower, upper):
                reason = ""
                break
            stage = backup.at_points(stage)
    except TooMuch as error:
        reason = str(error)
    vectors = AlphaVectors.dense(stage.vectors, stage.actions)
    lower = float((stage.vectors @ pomdp.start).max())
    upper, status = max(upper, lower), "stopped" if reason else "converged"
    if reason and not reason.startswith("stopped after"):
        warn_stopped(reason, lower, upper, "allow more, or take a point-based method, which most problems need")
    found = (pomdp, stage.actions, upper - lower, done, status, "incremental pruning", vectors, lower, upper)
    return AlphaPlan(*found, notes=(reason,) * bool(reason))


def _finite(pomdp: POMDP, backup: "Backup", last: Stage, horizon: int) -> AlphaPlan:
    check_count(horizon, "horizon")
    stages, lost = [last], 0.0
    for k in range(horizon):
        try:
            stages.append(backup.exact(stages[-1]))
        except TooMuch as error:
            done = f"{error}, when {k} of {horizon} steps were done"
            raise NotConverged(f"{done}; allow more, or a shorter horizon") from None
        lost = backup.lost + pomdp.discount * lost
    sets = [AlphaVectors.dense(each.vectors, each.actions) for each in stages[:0:-1]]
    lower = float((stages[-1].vectors @ pomdp.start).max())
    first = stages[-1].actions
    found = (pomdp, first, lost, horizon, "converged", "incremental pruning", sets[0], lower, lower + lost)
    return AlphaPlan(*found, tuple(sets[1:]))


class Backup:
    """HV(b) = maxₐ r·b + γ Σₒ max_α Σₛ' P(s', o | b, a) α(s'), as vectors."""

    def __init__(self, pomdp: POMDP, seconds: float | None, most: int) -> None:
        self.pomdp, self.most = pomdp, most
        self.began = time.monotonic()
        self.until = np.inf if seconds is None else self.began + seconds
        self.steps = []
        for moves, shows in zip(pomdp.transitions, pomdp.observations, strict=True):
            columns = shows.toarray().T
            self.steps.append([moves @ sp.diags_array(each) for each in columns if each.any()])
        self.unit = 1.0
        self.lost = 0.0
        """What pruning may have taken from the value in one backup."""

    def exact(self, stage: Stage) -> Stage:
        """All vectors of the next value function that are best somewhere."""
        self.unit = max(float(np.abs(stage.vectors).max()), float(np.abs(self.pomdp.rewards).max()), 1e-300)
        self.lost = PRUNED * self.unit * (1 + max(2 * len(each) for each in self.steps))
        vectors, actions, points = [], [], stage.points
        for a, steps in enumerate(self.steps):
            parts = []
            for step in steps:
                ahead, points = self.purge(self.pomdp.discount * (step @ stage.vectors.T).T, points)
                parts.append(ahead)
            parts.sort(key=len)
            total = parts[0]
            for part in parts[1:]:
                if len(total) * len(part) > 40 * self.most:
                    raise self.too_many()
                total, points = self.purge((total[:, None] + part[None]).reshape(-1, total.shape[1]), points)
            vectors.append(total + self.pomdp.rewards[:, a])
            actions.append(np.full(len(total), a))
        every, labels = np.concatenate(vectors), np.concatenate(actions)
        kept, points = self.keep(every, points)
        if len(kept) > self.most:
            raise self.too_many()
        return Stage(every[kept], labels[kept], points)

    def at_points(self, stage: Stage) -> Stage:
        """Backups at the beliefs of the stage alone, until they bring little; each is again a lower bound."""
        points, vectors, actions = stage.points, stage.vectors, stage.actions
        for _ in range(POINT_SWEEPS):
            self.check_time()
            by_action = np.repeat(self.pomdp.rewards.T[:, None], len(points), axis=1)
            for own, steps in zip(by_action, self.steps, strict=True):
                for step in steps:
                    ahead = self.pomdp.discount * (step @ vectors.T).T
                    own += ahead[(points @ ahead.T).argmax(axis=1)]
            values = (by_action * points).sum(axis=2)
            best, label = values.max(axis=0), values.argmax(axis=0)
            made = by_action[label, np.arange(len(points))]
            scores = points @ vectors.T
            gain = best - scores.max(axis=1)
            old = scores.argmax(axis=1)
            made = np.where((gain > 0)[:, None], made, vectors[old])
            label = np.where(gain > 0, label, actions[old])
            vectors, first = np.unique(made, axis=0, return_index=True)
            actions = label[first]
            if gain.max() <= PRUNED * self.unit:
                break
        every, labels = np.concatenate([vectors, stage.vectors]), np.concatenate([actions, stage.actions])
        kept = pointwise(every)  # with those that are best between the points: no belief may lose
        return Stage(every[kept], labels[kept], points)

    def purge(self, vectors: Vectors, points: Points) -> tuple[Vectors, Points]:
        """The vectors that are best somewhere."""
        kept, found = self.keep(vectors, points)
        return vectors[kept], found

    def keep(self, vectors: Vectors, points: Points) -> tuple[Int[np.ndarray, " k"], Points]:
        """Which vectors are above all others at some belief, and the beliefs that show it (Lark's algorithm)."""
        candidates = pointwise(vectors)
        winners = np.unique((points @ vectors[candidates].T).argmax(axis=1))
        kept: list[int] = candidates[winners].tolist()
        left: list[int] = np.delete(candidates, winners).tolist()
        shown = [points]
        while left:
            self.check_time()
            above, belief = self.farthest(vectors[left[-1]], vectors[kept])
            if above <= PRUNED:
                left.pop()
                continue
            at = left[int((vectors[left] @ belief).argmax())]
            kept.append(at)
            left.remove(at)
            shown.append(belief[None])
        every = np.concatenate(shown)
        best = (every @ vectors[kept].T).argmax(axis=1)
        first = np.unique(best, return_index=True)[1]  # one belief for each vector, and the corners
        corners = len(vectors[0])
        keep_points = np.union1d(np.arange(corners), first)
        return np.array(sorted(kept)), every[keep_points]

    def farthest(self, vector: Float[np.ndarray, " s"], others: Vectors) -> tuple[float, Float[np.ndarray, " s"]]:
        """max over beliefs b of d·unit with b·(vector - other) ≥ d·unit for all others, and where."""
        n, s = others.shape
        rows = np.concatenate([(others - vector) / self.unit, np.ones((n, 1))], axis=1)
        total = np.append(np.ones(s), 0.0)[None]
        goal = np.append(np.zeros(s), -1.0)
        bounds = [(0, None)] * s + [(None, None)]
        found = linprog(goal, rows, np.zeros(n), total, [1.0], bounds, method="highs", options=PRECISE)
        if found.status != 0:
            raise NotConverged(f"HiGHS found no solution of a dominance test: {found.message}")
        belief = np.maximum(found.x[:s], 0.0)
        return float(-found.fun), belief / belief.sum()

    def check_time(self) -> None:
        """Stops where the time is used up."""
        if time.monotonic() > self.until:
            raise TooMuch(f"stopped after {self.until - self.began:g} seconds")

    def too_many(self) -> TooMuch:
        """More vectors than were allowed."""
        return TooMuch(f"more vectors are needed than max_vectors={self.most} allows")


def pointwise(vectors: Vectors) -> Int[np.ndarray, " k"]:
    """Vectors that no other one is at least as large as in all states; the first of equal ones."""
    _, first = np.unique(vectors, axis=0, return_index=True)
    order = first[np.argsort(-vectors[first].sum(axis=1), kind="stable")]
    kept: list[int] = []
    for k in order:  # only a vector of a larger sum can dominate
        if not kept or not (vectors[kept] >= vectors[k]).all(axis=1).any():
            kept.append(int(k))
    return np.array(kept)
