"""Comparing beliefs by their evidence: Bayes factors, posterior probabilities, and BIC and AIC beside them.

Kass & Raftery (1995), "Bayes factors"; MacKay (2003), chapter 28, on why the evidence punishes needless freedom.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from scipy import special

from credo.core.arrays import Numeric
from credo.core.belief import Belief
from credo.core.errors import DataError
from credo.core.params import learnable
from credo.core.predictive import Mixture, Predictive
from credo.evaluate.scores import check_outcomes
from credo.infer.averaging import Averaged, log_prior


class BayesFactor(NamedTuple):
    """How much more probable the data are under one belief than under another."""

    log: float
    """log p(data | a) - log p(data | b)."""

    @property
    def ratio(self) -> float:
        """p(data | a) / p(data | b); infinite where it is too large for a float."""
        with np.errstate(over="ignore"):
            return float(np.exp(self.log))

    @property
    def words(self) -> str:
        """How strong the evidence is, whichever way it points."""
        return in_words(self.log)


def bayes_factor(a: Belief, b: Belief, *data: Numeric) -> BayesFactor:
    """log p(data | a) - log p(data | b), for a against b."""
    return BayesFactor(float(a.log_evidence(*data)) - float(b.log_evidence(*data)))


def in_words(log_factor: float) -> str:
    """The category of a Bayes factor B by 2 log B: 0 to 2, 2 to 6, 6 to 10, above. Kass & Raftery (1995), sec. 3.2."""
    twice = 2 * abs(log_factor)
    if twice < 2:
        return "barely worth mentioning"
    if twice < 6:
        return "positive"
    return "strong" if twice < 10 else "very strong"


class Row(NamedTuple):
    """One belief in a comparison."""

    name: str
    log_evidence: float
    log_bayes_factor: float
    """Against the best: ≤ 0."""
    evidence_against: str
    """How strongly the data speak against it, compared with the best."""
    probability: float
    """p(model | data) among those compared."""
    hyperparameters: int
    """How many learnable numbers it has."""
    bic: float | None
    """k log n - 2 log L̂; None where the belief has no maximum likelihood to offer."""
    aic: float | None
    """2k - 2 log L̂."""


class Comparison(NamedTuple):
    """Beliefs ranked by how probable they made the data."""

    rows: tuple[Row, ...]
    """The most probable first."""
    beliefs: dict[str, Belief]
    """As they were before the data."""
    data: tuple[Numeric, ...]

    @property
    def best(self) -> str:
        """The name of the belief with the highest posterior probability."""
        return self.rows[0].name

    def average(self) -> Averaged:
        """The beliefs conditioned on the data, weighted by their posterior probabilities."""
        with np.errstate(divide="ignore"):
            log_weights = np.log([row.probability for row in self.rows])
        return Averaged(log_weights, tuple(self.beliefs[row.name].condition(*self.data) for row in self.rows))

    def to_rows(self) -> list[dict[str, str | float | int | None]]:
        """One dictionary per belief, e.g. for a data frame."""
        return [row._asdict() for row in self.rows]

    def __str__(self) -> str:
        wide = max(5, *(len(row.name) for row in self.rows))
        head = f"{'model':<{wide}} {'log evidence':>13} {'log B':>9} {'prob':>7} {'hyper':>5} {'BIC':>10} {'AIC':>10}"
        lines = [f"{head}  evidence against", "-" * (len(head) + 25)]
        for row in self.rows:
            bic, aic = (f"{v:.2f}" if v is not None else "-" for v in (row.bic, row.aic))
            lines.append(
                f"{row.name:<{wide}} {row.log_evidence:>13.3f} {row.log_bayes_factor:>9.3f} {row.probability:>7.4f} "
                f"{row.hyperparameters:>5d} {bic:>10} {aic:>10}  {row.evidence_against}"
            )
        return "\n".join(lines)


def compare(beliefs: Mapping[str, Belief], *data: Numeric, weights: Numeric | None = None) -> Comparison:
    """The beliefs ranked by prior × evidence.

    Args:
        beliefs: by name, as they are before the data (after `learn`, if hyperparameters were chosen by it).
        data: what `belief.condition` takes.
        weights: p(model) before the data, up to a factor, in the order of `beliefs`; None is uniform.
    """
    if not isinstance(beliefs, Mapping) or not beliefs:
        raise DataError(f"beliefs must be a dictionary of at least one named belief, found {beliefs!r:.80}")
    evidence = [float(belief.log_evidence(*data)) for belief in beliefs.values()]
    return rank(beliefs, evidence, data, weights, [_criteria(belief, data) for belief in beliefs.values()])


def rank(
    beliefs: Mapping[str, Belief],
    log_evidence: Sequence[float],
    data: tuple[Numeric, ...],
    weights: Numeric | None = None,
    criteria: Sequence[tuple[float | None, float | None]] | None = None,
) -> Comparison:
    """`compare` for beliefs whose evidence is known already; `criteria` are their BIC and AIC."""
    evidence = np.asarray(log_evidence, dtype=float)
    if not np.all(evidence < np.inf) or not np.any(np.isfinite(evidence)):
        found = dict(zip(beliefs, evidence, strict=True))
        raise DataError(f"the log evidence must be a number for every belief, found {found}")
    joint = evidence + np.asarray(log_prior(weights, len(beliefs), "weights"))
    probability = np.exp(joint - special.logsumexp(joint))
    top = int(np.argmax(joint))
    rows = []
    for i, (name, belief) in enumerate(beliefs.items()):
        bic, aic = criteria[i] if criteria is not None else (None, None)
        factor = float(evidence[i] - evidence[top])
        rows.append(
            Row(
                name=name,
                log_evidence=float(evidence[i]),
                log_bayes_factor=factor,
                evidence_against="" if i == top else ("none" if factor > 0 else in_words(factor)),
                probability=float(probability[i]),
                hyperparameters=sum(int(np.size(value)) for value in learnable(belief).values()),
                bic=bic,
                aic=aic,
            )
        )
    order = np.argsort(-joint, kind="stable")
    return Comparison(tuple(rows[i] for i in order), dict(beliefs), data)


def _criteria(belief: Belief, data: tuple[Numeric, ...]) -> tuple[float | None, float | None]:
    offered = getattr(belief, "maximum_log_likelihood", None)
    if offered is None:
        return None, None
    value, parameters = offered(*data)
    n = len(data[-1])  # type: ignore[arg-type]
    return float(parameters * np.log(n) - 2 * value), float(2 * parameters - 2 * value)


class HeldOutEvidence(NamedTuple):
    """How probable held-out rows are, all together, under draws of the parameters; and what Jensen leaves of it."""

    log_evidence: float
    """log E_θ[Πᵢ p(yᵢ | xᵢ, θ)]: the evidence of the rows, given those that were learned from."""
    bound: float
    """E_θ[Σᵢ log p(yᵢ | xᵢ, θ)], which is no larger."""
    standard_error: float
    """Of the bound, from the spread over draws; infinite of a single one."""

    @property
    def gap(self) -> float:
        """How much the bound gives away: nothing where all draws agree."""
        return self.log_evidence - self.bound


def held_out_evidence(draws: Predictive | Sequence[Predictive] | Numeric, y: Numeric | None = None) -> HeldOutEvidence:
    """log p(y | X, training rows) over draws of θ, and its lower bound by Jensen's inequality.

    One draw dominates the expectation where rows are many: then the first number is that of the best draw, less
    log k, and the bound is what can be trusted.

    Args:
        draws: what each of k draws predicts for the rows: a `Mixture` of them, a list of predictions, or the table
            (k, m) of log p(yᵢ | xᵢ, θⱼ).
        y: what happened, with predictions.
    """
    log_weights = None
    if isinstance(draws, Predictive):
        if not isinstance(draws, Mixture) or draws.weights.ndim != 1:
            raise DataError(
                f"a {type(draws).__name__} does not show its draws: pass a Mixture, a list of predictions, one for "
                "each draw, or the table of their log densities"
            )
        at = check_outcomes(draws, _given(y))
        table = np.asarray(draws.each(lambda p: p.log_prob(at), at))
        with np.errstate(divide="ignore"):
            log_weights = np.log(np.asarray(draws.weights))
    elif isinstance(draws, Sequence) and draws and all(isinstance(each, Predictive) for each in draws):
        table = np.stack([np.asarray(each.log_prob(check_outcomes(each, _given(y)))) for each in draws])
    elif y is None:
        table = np.asarray(draws, dtype=float)
    else:
        raise DataError("y goes with predictions; a table of log densities has seen it already")
    if table.ndim != 2 or not table.size or np.isnan(table).any():
        raise DataError(f"draws must give a table (k, m) of log densities, found shape {table.shape} or NaN")
    k, sums = len(table), table.sum(axis=1)
    log_weights = np.full(k, -np.log(k)) if log_weights is None else log_weights
    weights = np.exp(log_weights)
    bound = float(weights[weights > 0] @ sums[weights > 0])
    spread = float(np.sqrt(weights @ (sums - bound) ** 2 * np.sum(weights**2) * k / max(k - 1, 1)))
    return HeldOutEvidence(float(special.logsumexp(sums + log_weights)), bound, spread if k > 1 else np.inf)


def _given(y: Numeric | None) -> Numeric:
    if y is None:
        raise DataError("y is missing: predictions need what happened")
    return y
