"""Bayesian model averaging: several beliefs and how probable each is, as one belief.

    p(y | x, data) = Σₖ p(mₖ | data) p(y | x, data, mₖ),    p(mₖ | data) ∝ p(mₖ) p(data | mₖ).

Hoeting, Madigan, Raftery & Volinsky (1999), "Bayesian model averaging: a tutorial".
"""

from collections.abc import Sequence
from typing import Any, TypeVar

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Float

from credo.core.arrays import Array, Numeric, as_float, host, is_traced, namespace, special
from credo.core.belief import Belief
from credo.core.checks import check_vector
from credo.core.errors import DataError
from credo.core.method import check_using
from credo.core.predictive import Bernoulli, Categorical, Mixture, Predictive, mixture

P = TypeVar("P", bound=Predictive)


def _normalize(log_weights: Numeric) -> Array:
    weights = as_float(log_weights)
    with np.errstate(invalid="ignore"):  # all -infinity: `__check_init__` says so
        return weights - special(weights).logsumexp(weights)


class Averaged(Belief):
    """The mixture of beliefs; data move each belief and, by its evidence, its weight."""

    log_weights: Float[Array, " k"] = eqx.field(converter=_normalize)
    """log p(mₖ), brought to sum to one in probability."""
    beliefs: tuple[Belief, ...] = eqx.field(converter=tuple)

    def __check_init__(self) -> None:
        if not self.beliefs or self.log_weights.shape != (len(self.beliefs),):
            raise DataError(
                f"log_weights must hold one number per belief ({len(self.beliefs)}), found shape "
                f"{self.log_weights.shape}"
            )
        if not is_traced(self.log_weights) and np.any(np.isnan(self.log_weights)):
            raise DataError("log_weights cannot be normalized: some are NaN, or all are -infinity")

    @property
    def weights(self) -> Float[Array, " k"]:
        """p(mₖ), the probability of each belief."""
        return namespace(self.log_weights).exp(self.log_weights)

    def statistics(self, *data: Any, **options: Any) -> tuple[Any, ...]:
        """What each belief keeps of the data."""
        return tuple(belief.statistics(*data, **options) for belief in self.beliefs)

    def condition_on(self, statistics: tuple[Any, ...]) -> "Averaged":
        """Bayes' rule in each belief and between them: p(mₖ | data) ∝ p(mₖ) p(data | mₖ)."""
        pairs = list(zip(self.beliefs, statistics, strict=True))
        evidence = _stacked([belief.log_evidence_of(each) for belief, each in pairs])
        return Averaged(self.log_weights + evidence, tuple(b.condition_on(each) for b, each in pairs))

    def condition(self, *data: Any, using: object = None, **options: Any) -> Any:
        """Bayes' rule in each belief, with the method `using`, and between them by their evidence."""
        if using is None:
            return super().condition(*data, **options)
        check_using(using, self, "condition")
        evidence = _stacked([belief.log_evidence(*data, **options) for belief in self.beliefs])
        conditioned = tuple(belief.condition(*data, using=using, **options) for belief in self.beliefs)
        return Averaged(self.log_weights + evidence, conditioned)

    def recipients(self, verb: str) -> tuple[Belief, ...]:
        """A method conditions each belief."""
        return self.beliefs if verb == "condition" else (self,)

    def evidence_of(self, statistics: tuple[Any, ...]) -> Array:
        """log Σₖ p(mₖ) p(data | mₖ)."""
        pairs = zip(self.beliefs, statistics, strict=True)
        joint = self.log_weights + _stacked([belief.evidence_of(each) for belief, each in pairs])
        return special(joint).logsumexp(joint)

    def prepare(self, *data: Any, **options: Any) -> tuple["Averaged", tuple[Any, ...]]:
        """Each belief with its data-driven choices made, and what it keeps of the data."""
        prepared, statistics = zip(*(belief.prepare(*data, **options) for belief in self.beliefs), strict=True)
        return Averaged(self.log_weights, prepared), statistics

    def predict(self, *x: Any, **options: Any) -> Predictive:
        """Σₖ p(mₖ) p(y | x, mₖ)."""
        each = [belief.predict(*x, **options) for belief in self.beliefs]
        alike = None if isinstance(each[0], Categorical | Bernoulli | Mixture) else _stack(each)
        return mixture(self.weights, each) if alike is None else Mixture(self.weights, (alike,))


def average(beliefs: Sequence[Belief], log_evidence: Any, prior: Any = None) -> Averaged:
    """The beliefs, weighted by prior × evidence.

    Args:
        beliefs: beliefs that were conditioned on the data already.
        log_evidence: log p(data | mₖ) for each, from before they were conditioned.
        prior: p(mₖ) up to a factor; None is uniform.
    """
    evidence = check_vector(log_evidence, "log_evidence", len(beliefs))
    return Averaged(evidence + log_prior(prior, len(beliefs)), tuple(beliefs))


def log_prior(prior: Any, k: int, name: str = "prior") -> Array:
    """log p(mₖ) from weights ≥ 0 (None: uniform); `name` is what errors call them."""
    if prior is None:
        return np.full(k, -np.log(k))
    weights, xp = check_vector(prior, name, k), namespace(prior)
    if not is_traced(weights) and (np.any(weights < 0) or not np.any(weights > 0)):
        raise DataError(f"{name} must hold weights ≥ 0 that are not all zero, found {weights.tolist()}")
    with np.errstate(divide="ignore"):
        return xp.log(weights / weights.sum())


def _stacked(numbers: list[Array]) -> Float[Array, " k"]:
    numbers = host(numbers)
    return namespace(numbers).stack(numbers)


def _stack(members: list[P]) -> P | None:
    """The members with their arrays stacked along a first axis, or None where they are not alike."""
    structures: list[object] = [jax.tree.structure(each) for each in members]
    columns = list(zip(*(jax.tree.leaves(each) for each in members), strict=False))
    if len(members) == 1 or any(each != structures[0] for each in structures[1:]):
        return None
    if not columns or any(len({np.shape(leaf) for leaf in column}) > 1 for column in columns):
        return None
    return jax.tree.unflatten(jax.tree.structure(members[0]), [namespace(column).stack(column) for column in columns])
