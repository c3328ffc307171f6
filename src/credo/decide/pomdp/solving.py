"""What `credo.solve` asks of a POMDP: the default planner, the limits it works in, and the bounds as they close."""

from collections.abc import Callable
from math import log
from typing import Any

from credo.core.checks import check_count, check_real
from credo.core.errors import DataError
from credo.decide.mdp.problem import Effort, Planner, Question
from credo.decide.pomdp.methods import HORIZON, SARSOP, Limits, POMDPPlanner, ValueIteration
from credo.decide.pomdp.model import POMDP
from credo.decide.pomdp.plan import AlphaPlan
from credo.infer.progress import Progress, Show


def question(pomdp: POMDP, horizon: int | None, criterion: str, effort: Effort) -> Question:
    """For ever by both bounds, SARSOP where nothing else is named; for some steps by exact value iteration."""
    if criterion != "discounted":
        raise DataError(f"criterion must be 'discounted' for a POMDP, found {criterion!r}")
    if horizon is not None:
        check_count(horizon, "horizon")
    limits = limits_of(effort)

    def answer(using: Planner | None, _: float) -> AlphaPlan:
        """The plan of a method; options that it does not heed are refused."""
        method: Any = using or (SARSOP() if horizon is None else ValueIteration())
        heeded = set(method.heeds) - ({"gap"} if horizon is not None else set())
        left, name = effort._replace(progress=None, **dict.fromkeys(heeded)), type(method).__name__
        left.refuse(name if horizon is None else f"{name} with a horizon", "leave it out")
        if effort.start is not None and not isinstance(effort.start, AlphaPlan):
            raise DataError(f"start must be a plan of a POMDP, found {type(effort.start).__name__}")
        return _shown(method, pomdp, limits, horizon, effort)

    return Question("solve" if horizon is None else HORIZON, answer, tolerance=None)


def limits_of(effort: Effort) -> Limits:
    """The limits, checked."""
    given = {name: getattr(effort, name) for name in ("gap", "seconds", "memory")}
    checked: dict[str, Any] = {name: check_real(value, name) for name, value in given.items() if value is not None}
    for name, value in checked.items():
        if not value > 0:
            raise DataError(f"{name} must be positive, found {value:g}")
    return Limits(**checked)


def _shown(method: POMDPPlanner, pomdp: POMDP, limits: Limits, horizon: int | None, effort: Effort) -> AlphaPlan:
    start: Any = effort.start  # checked by `question`
    with Progress(effort.progress, "planning") as say:
        return method.plan(pomdp, limits._replace(progress=teller(say, limits)), horizon, start)


def teller(say: Show, limits: Limits) -> Callable[[float, float, float], None]:
    """Both bounds in words; the share that is done is of the time, or of the way of the gap on a logarithmic scale."""
    widest = 0.0

    def tell(lower: float, upper: float, seconds: float) -> None:
        nonlocal widest
        gap = (upper - lower) / max(abs(lower), abs(upper), 1e-12)
        widest = max(widest, gap)
        closed = 1.0 if gap <= limits.gap else log(widest / gap) / log(widest / limits.gap)
        share = closed if limits.seconds is None else max(closed, seconds / limits.seconds)
        say(min(1.0, share), f"{lower:.6g} ≤ V ≤ {upper:.6g}")

    return tell
