"""Where a campaign looks next.

    design (Sobol) ─▶ a surrogate of each outcome ─▶ an acquisition, times the chances of success ─▶ its maximum

Everything follows from the record of trials: nothing is kept between suggestions but the hyperparameters, which are on
record themselves. Trials that are still out count as if they had come back with what is expected of them (kriging
believer: Ginsbourger, Le Riche & Carraro 2010), so that several workers look at different points.
"""

from collections.abc import Sequence

import numpy as np

from credo.core.device import blas_threads
from credo.decide.acquisition import Constrained, ExpectedImprovement, Feasibility, NoisyExpectedImprovement
from credo.decide.acquisition.base import Acquisition
from credo.decide.acquisition.cost import MultiFidelity
from credo.decide.acquisition.hypervolume import ExpectedHypervolumeImprovement
from credo.decide.campaign import trust_region
from credo.decide.campaign.advice import PROMISING, explain
from credo.decide.campaign.model import Model, model_of
from credo.decide.campaign.problem import Observations, Problem
from credo.decide.campaign.trial import Hyper, Suggestion
from credo.decide.maximize import Part, maximize
from credo.decide.space.parameters import Point

MANY = 10
"""Encoded columns above which the search keeps to a trust region."""


def suggest(
    problem: Problem,
    seen: Observations,
    pending: Sequence[Point],
    n: int,
    seed: int,
    warm: Sequence[Hyper] | None = None,
) -> list[Suggestion]:
    """n points to try next.

    Args:
        problem: what is looked for, and where.
        seen: the record, failures included.
        pending: points that are being tried now.
        n: how many points.
        seed: of everything random; different for every call.
        warm: `Model.hyper` of the last suggestion; None takes it from the record.
    """
    done = int(np.isfinite(seen.values).all(axis=1).sum()) if len(seen.points) else 0
    tried = len(seen.points) + len(pending)
    standing = _standing(problem, seen)
    wanted = problem.initial - tried if standing is None else standing.missing - len(pending)
    out = [_design(problem, tried + i) for i in range(min(n, max(wanted, 0)))]
    if done < min(2, problem.initial):
        out += [_design(problem, tried + i) for i in range(len(out), n)]
    if len(out) == n:
        return out
    with blas_threads(tried):
        model = model_of(problem, seen if standing is None else seen.since(standing.start), warm)
        region = None if standing is None else standing.region
        within = None if region is None else region.box(model.objectives[0].lengthscales)
        waiting = [*pending, *(each.point for each in out)]
        for i in range(n - len(out)):
            found = _next(problem, model, waiting, within, seed + i)
            out.append(found)
            waiting.append(found.point)
    return out


def _design(problem: Problem, position: int) -> Suggestion:
    point = problem.space.sample(1, seed=problem.seed, skip=position)[0]
    reason = f"Design: point {position + 1} of {problem.initial} that cover the space before anything is known."
    return Suggestion(point, "design", reason)


def _standing(problem: Problem, seen: Observations) -> trust_region.Standing | None:
    """Where the search with trust regions stands; None where there are few dimensions or several objectives."""
    if problem.space.width <= MANY or len(problem.signs) > 1 or not len(seen.points):
        return None
    return trust_region.replay(seen.rows, problem.signs[0] * seen.values[:, 0], problem.initial)


def _next(problem: Problem, model: Model, waiting: Sequence[Point], within: Part, seed: int) -> Suggestion:
    space = problem.space
    after = model.after(space.encode(waiting))
    acquisition = acquisition_of(problem, after, seed)
    heights = model.objectives[0].fitted() if len(model.objectives) == 1 else np.zeros(len(model.rows))
    near = model.rows[np.argsort(-heights, kind="stable")[:PROMISING]]
    avoid = after.tried if space.is_finite else None
    found = maximize(acquisition, after.beliefs, space, near=near, within=within, avoid=avoid, seed=seed)
    row = _apart(found.x, after.tried, problem, seed)
    point = space.decode(row[None])[0]
    objective = model.objectives[0]
    mean, std = objective.natural(found.mean[0]), objective.scale * found.std[0]
    kind, reason = explain(problem, model, found.mean, found.std)
    return Suggestion(point, kind, reason, float(mean), float(std), float(found.value), model.hyper)


def _apart(row: np.ndarray, rows: np.ndarray, problem: Problem, seed: int) -> np.ndarray:
    """The row, moved a little where it has been tried already to the last digit: that would teach nothing."""
    if not problem.space.is_continuous or np.abs(rows - row).max(axis=1).min() > 1e-9:
        return row
    return np.clip(row + 1e-3 * np.random.default_rng(seed).normal(size=row.shape), 0.0, 1.0)


def acquisition_of(problem: Problem, model: Model, seed: int = 0) -> Acquisition:
    """The acquisition, prepared: the problem's own or expected improvement, times the chances of success.

    Where outcomes are said to be noisy nobody knows which was best: the improvement is averaged over what it may be.
    """
    several = len(model.objectives) > 1
    feasibilities = [
        Feasibility(each.belief, np.asarray(each.standard(bound.limit)), at_most=bound.at_most)
        for each, bound in zip(model.constraints, problem.constraints, strict=True)
    ]
    if model.success is not None:
        half = np.asarray(model.success.standard(0.5))
        feasibilities.append(Feasibility(model.success.belief, half, at_most=False, with_noise=True))
    chosen = problem.chosen_acquisition
    if chosen is None:
        if several:
            chosen = ExpectedHypervolumeImprovement()
        elif problem.noise is not None and problem.fidelity is None:
            chosen = NoisyExpectedImprovement()
        elif feasibilities or problem.fidelity is not None:
            chosen = ExpectedImprovement()
        else:
            return ExpectedImprovement(model.objectives[0].fitted().max())
    whole = Constrained(chosen, feasibilities) if feasibilities else chosen
    if problem.fidelity_column is not None and not several:
        whole = MultiFidelity(whole, model.cost, problem.fidelity_column)
    return whole.prepared(model.beliefs, seed=seed)
