"""Several beliefs asked together: predictions averaged with weights that are given, equal, or learned by stacking.

    p(y | x) = Σₖ wₖ pₖ(y | x),    stacking: w maximizes Σᵢ log Σₖ wₖ pₖ(yᵢ | all rows but i) on the simplex

Averaging by evidence (`compare(...).average()`) believes that one of the beliefs is true, and with many rows puts all
weight on one. Where none is, an equal vote is often better than any voter, in its means too: their errors differ.
Clemen (1989), "Combining forecasts"; Yao, Vehtari, Simpson & Gelman (2018), "Using stacking to average Bayesian
predictive distributions".
"""

from collections.abc import Mapping, Sequence
from typing import Any

from credo.core.arrays import Numeric
from credo.core.belief import Belief
from credo.core.errors import DataError
from credo.evaluate.validation import leave_one_out, seeded
from credo.infer.averaging import Averaged, log_prior, stacking_weights
from credo.infer.learning import prepare_and_learn


def pool(
    beliefs: Mapping[str, Belief] | Sequence[Belief],
    X: Numeric,
    y: Numeric,
    weights: Numeric | str = "equal",
    *,
    learn: bool = True,
    seed: int = 0,
    **options: Any,
) -> Averaged:
    """Each belief fitted to the data, as one belief that averages their predictions.

    The weights are those of the next prediction. Data that come later move them by Bayes' rule, as they move each
    belief; to vote again, pool again.

    Args:
        beliefs: e.g. `[GP(), WarpedGP()]`.
        X: inputs, one row for each outcome.
        y: outcomes.
        weights: "equal", "stacking", or a number for each belief.
        learn: whether each learns its hyperparameters; else they stay as they are.
        seed: of learning.
        options: of `credo.fit`.
    """
    members = list(beliefs.values() if isinstance(beliefs, Mapping) else beliefs)
    if not members:
        raise DataError("beliefs is empty; pass at least one, e.g. credo.pool([credo.GP(), credo.WarpedGP()], X, y)")
    if isinstance(weights, str) and weights not in ("equal", "stacking"):
        raise DataError(f"weights must be 'equal', 'stacking' or a number for each belief, found {weights!r}")
    log_weights = log_prior(None if isinstance(weights, str) else weights, len(members), "weights")
    settings = seeded(options, seed, learn)
    if learn:
        members = [_learned(each, X, y, **settings) for each in members]
    if isinstance(weights, str) and weights == "stacking":
        left_out = [leave_one_out(each, X, y).log_density for each in members]
        log_weights = log_prior(stacking_weights(left_out), len(members))
    of_rows = {name: value for name, value in options.items() if name not in ("using", "fixed", "priors")}
    return Averaged(log_weights, tuple(each.condition(X, y, **of_rows) for each in members))


def _learned(
    belief: Belief,
    X: Numeric,
    y: Numeric,
    *,
    seed: int,
    using: Any = None,
    fixed: Any = (),
    priors: Any = None,
    **rows: Any,
) -> Belief:
    """What `fit` would condition: hyperparameters chosen, or averaged over where data are few."""
    return prepare_and_learn(belief, (X, y), using, fixed, priors, seed, rows)[0].belief
