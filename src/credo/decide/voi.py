"""The value of information: what an observation is worth to the decision it would inform.

    VOI(x) = min_a E[L(a, Y)] - E_{y ~ p(y | x)} min_a E[L(a, Y) | (x, y)]  ≥ 0

Raiffa & Schlaifer (1961), "Applied statistical decision theory"; Howard (1966), "Information value theory".
"""

from typing import Any

from credo.core.arrays import Array, as_float, namespace
from credo.core.belief import Belief
from credo.core.checks import check_count, check_table
from credo.core.errors import DataError
from credo.core.predictive import Predictive
from credo.core.predictive.expectation import alone, expectation, outcome_nodes
from credo.decide.bayes import LossLike, as_loss, decide
from credo.decide.losses import Loss

MOST = 1000
"""Outcomes of a real observation that can be tried."""


def value_of_information(belief: Belief, x: Any, loss: LossLike, at: Any, cost: Any = 0.0, *, n: int = 20) -> Array:
    """What observing the outcome at each candidate x would be worth, minus its `cost`.

    The belief is conditioned on the outcomes that it expects at x, each counted with its probability: every
    class, every count where they are few, else `n` Gauss-Hermite points. Losses of several decisions add up.

    Args:
        belief: the belief now.
        x: candidates, shape (c, d); None for a belief that has no inputs, e.g. a coin.
        loss: of the decisions.
        at: inputs of the decisions, shape (m, d); None for a belief that has no inputs.
        cost: of an observation, one for all or one per candidate, in the units of the loss.
        n: how many outcomes of a real observation are tried.

    Returns one number per candidate (a single one where x is None), positive where observing pays.
    """
    chosen = as_loss(loss)
    check_count(n, "n")
    if not isinstance(belief, Belief):
        raise DataError(f"the value of information is that to a belief, found {type(belief).__name__}")
    if n > MOST:
        raise DataError(f"n must be at most {MOST} outcomes, found {n}")
    queries = () if at is None else (at,)
    candidates: list[tuple[Any, ...]] = [()]
    if x is not None:
        table = check_table(x, "x", getattr(belief, "inputs", None))
        candidates = [(table[i : i + 1],) for i in range(len(table))]
    try:
        now = risk(belief.predict(*queries), chosen)
        belief.predict(*candidates[0])
    except TypeError:
        raise DataError(
            f"{type(belief).__name__} predicts at inputs: give the candidates x and the decisions' at="
        ) from None
    values = []
    for candidate in candidates:
        outcomes, weights = outcome_nodes(alone(belief.predict(*candidate)), n)
        after = [
            weight * risk(belief.condition(*candidate, y[None]).predict(*queries), chosen)
            for y, weight in zip(outcomes.ravel(), weights.ravel(), strict=True)
        ]
        values.append(now - sum(after))
    net = namespace(values).stack(values) - as_float(cost)
    return net[0] if x is None else net


def value_of_perfect_information(prediction: Predictive, loss: LossLike) -> Array:
    """min_a E[L(a, Y)] - E[min_a L(a, Y)]: what it is worth to know the outcome before acting, per query.

    No observation can be worth more.
    """
    chosen = as_loss(loss)
    return decide(prediction, chosen).expected_loss - expectation(alone(prediction), chosen.least_loss)


def risk(prediction: Predictive, loss: Loss) -> Array:
    """Σ over queries of min_a E[L(a, Y)]."""
    return decide(prediction, loss).expected_loss.sum()
