"""What a campaign says: why a point, which is best, whether to go on, and where the optimum is believed to be."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Int

from credo.core.arrays import host
from credo.core.checks import check_real
from credo.core.errors import DataError
from credo.decide.acquisition import UpperConfidenceBound
from credo.decide.campaign.model import Model
from credo.decide.campaign.problem import Best, Observations, Problem
from credo.decide.maximize import maximize
from credo.decide.pareto import non_dominated
from credo.decide.space.parameters import Value

DRAWS, CANDIDATES = 64, 512
"""Functions drawn, and the points they are drawn at, to say how much better the optimum may be."""
PROMISING = 3
"""How many of the best trials are searched around."""
CAUTION = 1.0
"""Standard deviations below the mean at which noisy trials are compared."""
SURE = 0.1
"""A standard deviation below which nothing is explored, in units of that of the outcomes."""


def explain(problem: Problem, model: Model, mean: np.ndarray, std: np.ndarray) -> tuple[str, str]:
    """Whether a point with these beliefs, in standard units, exploits or explores, and a sentence that says so."""
    first = model.objectives[0]
    there, doubt = first.natural(mean[0]), first.scale * std[0]
    name = problem.objectives[0]
    if len(problem.signs) > 1:
        return "front", f"Pushes the Pareto front: {name} is expected at {there:.4g} ± {doubt:.2g}."
    best = first.fitted().max()
    better = "above" if first.sign > 0 else "below"
    if mean[0] > best:
        return "exploit", (
            f"Exploits: {name} is expected at {there:.4g} ± {doubt:.2g}, {better} the best so far "
            f"({first.natural(best):.4g})."
        )
    z = (best - mean[0]) / max(std[0], 1e-300)
    if std[0] < SURE:
        return "exploit", (
            f"Refines: {name} is expected at {there:.4g} ± {doubt:.2g}, close to the best so far "
            f"({first.natural(best):.4g})."
        )
    return "explore", (
        f"Explores: {name} is expected at {there:.4g} only, but with ± {doubt:.2g} little is known there; the best so "
        f"far ({first.natural(best):.4g}) is {z:.1f} standard deviations away."
    )


def best(problem: Problem, seen: Observations, model: Model) -> Best:
    """The trial whose noise-free outcome is believed best, among those that are more likely feasible than not.

    With fidelities, the one that is believed best at the fidelity that counts. With noise, of many trials some are
    lucky: the one with the largest mean less a standard deviation.
    """
    if len(problem.signs) > 1:
        raise DataError("with several objectives there is no single best point; ask for the front()")
    surrogate, rows = model.objectives[0], at_target(problem, model.rows)
    there = host(surrogate.belief.predict(rows))
    exact = problem.noise is None and problem.fidelity is None
    means, stds = surrogate.fitted() if exact else there.mean, np.sqrt(there.epistemic)
    heights = means if problem.noise is None else means - CAUTION * stds
    feasible = _feasible(problem, model)
    top = int(np.argmax(np.where(feasible, heights, -np.inf) if feasible.any() else heights))
    std = surrogate.scale * float(stds[top])
    mean, at = surrogate.natural(float(means[top])), int(model.places[top])
    interval = (mean - 1.96 * std, mean + 1.96 * std)
    return Best(dict(seen.points[at]), float(seen.values[at, 0]), mean, interval, int(seen.numbers[at]))


def at_target(problem: Problem, rows: np.ndarray) -> np.ndarray:
    """The rows, with the fidelity that counts."""
    column = problem.fidelity_column
    if column is None:
        return rows
    moved = rows.copy()
    moved[:, column] = 1.0
    return moved


def front(problem: Problem, seen: Observations) -> Int[np.ndarray, " f"]:
    """The positions in the record of trials that no other dominates, as measured, by the first objective.

    Only those that keep all bounds count, and none that earlier campaigns brought.
    """
    good = np.flatnonzero(seen.feasible(problem) & np.isfinite(seen.values).all(axis=1) & ~seen.warm)
    if not len(good):
        return good
    kept = good[non_dominated(np.asarray(problem.signs) * seen.values[good])]
    return kept[np.argsort(seen.values[kept, 0], kind="stable")]


def _feasible(problem: Problem, model: Model) -> np.ndarray:
    """Which rows of the model are more likely feasible than not."""
    out = np.ones(len(model.rows), dtype=bool)
    for each, bound in zip(model.constraints, problem.constraints, strict=True):
        mean = host(each.belief.predict(model.rows)).mean
        level = each.standard(bound.limit)
        out &= mean <= level if bound.at_most else mean >= level
    return out


class Advice(NamedTuple):
    """Whether it is worth going on."""

    stop: bool
    expected_regret: float
    """E[optimum - the best point], in the user's units."""
    message: str


def advice(problem: Problem, model: Model, tolerance: float = 0.0) -> Advice:
    """How much better the optimum is believed to be than the best trial: draws of the function, and their maxima.

    Args:
        problem: what is looked for.
        model: what is believed after the record.
        tolerance: the expected regret, in the user's units, that is small enough to stop.
    """
    if len(problem.signs) > 1:
        raise DataError("advice is for one objective; with several look at how the hypervolume grows")
    tolerance = check_real(tolerance, "tolerance", 0)
    surrogate, space = model.objectives[0], problem.space
    top = model.rows[int(np.argmax(surrogate.fitted()))]
    candidates = space.sample_rows(CANDIDATES, seed=problem.seed + 1)
    rng = np.random.default_rng(problem.seed)
    closer = space.snap(np.clip(top + 0.05 * rng.normal(size=(CANDIDATES // 4, space.width)), 0.0, 1.0))
    points = at_target(problem, np.concatenate([top[None], candidates, closer]))
    draws = np.asarray(surrogate.belief.sample(points, DRAWS, seed=problem.seed))
    regret = surrogate.scale * float(np.mean(draws.max(axis=1) - draws[:, 0]))
    stop = regret <= tolerance
    name = problem.objectives[0]
    message = f"The optimum of {name} is expected to be {regret:.2g} better than the best point so far" + (
        f", within the tolerance of {tolerance:g}: stop." if stop else "; going on may pay." if tolerance else "."
    )
    return Advice(stop, regret, message)


def predicted_optimum(problem: Problem, model: Model, seed: int = 0) -> tuple[dict[str, Value], float, float]:
    """Where the mean of the objective is highest, with mean and standard deviation there in the user's units."""
    surrogate = model.objectives[0]
    near = model.rows[np.argsort(-surrogate.fitted())[:PROMISING]]
    found = maximize(UpperConfidenceBound(np.zeros(())), surrogate.belief, problem.space, near=near, seed=seed)
    return (
        problem.space.decode(found.x[None])[0],
        float(surrogate.natural(found.mean[0])),
        surrogate.scale * float(found.std[0]),
    )
