"""Bayesian model averaging: several beliefs and how probable each is, as one belief.

    p(y | x, data) = Σₖ p(mₖ | data) p(y | x, data, mₖ),    p(mₖ | data) ∝ p(mₖ) p(data | mₖ).

Hoeting, Madigan, Raftery & Volinsky (1999), "Bayesian model averaging: a tutorial". `Integrated` is an average over
settings of one model's hyperparameters.
"""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Float

from credo.core.abilities import (
    Ability,
    DrawsFunctions,
    DrawsMeans,
    HasCovariance,
    KeepsRows,
    LeavesOneOut,
    PredictsJointly,
    demand,
)
from credo.core.arrays import Array, Numeric, as_float, host, is_traced, namespace, special
from credo.core.belief import Belief
from credo.core.checks import check_vector
from credo.core.device import blas_threads
from credo.core.errors import DataError
from credo.core.method import check_using
from credo.core.params import constant
from credo.core.predictive import Bernoulli, Categorical, Mixture, Predictive, mixture
from credo.core.pytrees import changed

P = TypeVar("P", bound=Predictive)

GAP, MOST_STEPS = 1e-3, 100_000
"""The climb to the best stacking weights ends where at most so much log density is missing, in all rows together."""


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
    def probabilities(self) -> Float[Array, " k"]:
        """p(mₖ), of each belief."""
        return namespace(self.log_weights).exp(self.log_weights)

    def gathered(self, *data: Any) -> tuple[Any, ...]:
        """As all beliefs take the data."""
        for belief in self.beliefs:
            data = belief.gathered(*data)
        return data

    def told(self, *data: Any) -> "Averaged":
        """Each belief with what data say about themselves."""
        return changed(self, beliefs=tuple(belief.told(*data) for belief in self.beliefs))

    @property
    def weights(self) -> Any:
        """The same, by the name that averages have for them."""
        return self.probabilities

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
        data = self.gathered(*data)
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
        return _mixed(self.probabilities, [belief.predict(*x, **options) for belief in self.beliefs])


def _mixed(weights: Float[Array, "k *m"], each: list[Predictive]) -> Predictive:
    alike = None if isinstance(each[0], Categorical | Bernoulli | Mixture) else _stack(each)
    return mixture(weights, each) if alike is None else Mixture(weights, (alike,))


class Integrated(Averaged, HasCovariance, PredictsJointly, DrawsFunctions, KeepsRows, LeavesOneOut):
    """A belief averaged over settings of its hyperparameters, by their posterior probability.

    What it predicts is the mixture, whose spread between members is ignorance. `mode` is the belief at the most
    probable hyperparameters, and what an average has no name for is read from there: its numbers
    (`fitted.kernel.lengthscale`, `fitted.noise`) are those of the most probable hyperparameters. A method of the belief
    that returns a prediction is asked of every member and mixed.
    """

    mode: Belief = constant()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name == "mode":
            raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")
        found = getattr(self.mode, name)
        a_number = name in {field.name for field in dataclasses.fields(self.mode)}
        return found if a_number or not callable(found) else _Spread(self, name)

    @property
    def weights(self) -> Any:
        """The belief's own where it has some, those of a linear model; of the members, see `probabilities`."""
        own = "weights" in {field.name for field in dataclasses.fields(self.mode)}
        return self.mode.weights if own else self.probabilities  # type: ignore[attr-defined]

    def __repr__(self) -> str:
        return f"{self.mode!r}, averaged over {len(self.beliefs)} settings of the hyperparameters"

    def recipients(self, verb: str) -> tuple[Belief, ...]:
        """Methods condition each member, and abilities are the members'; hyperparameters are learned at the mode."""
        return self.beliefs if verb in ("condition", "ability") else (self.mode,)

    @property
    def takes_noise(self) -> bool:  # type: ignore[override]
        """Whether `predict` takes the noise variance of each query."""
        return all(isinstance(each, PredictsJointly) and each.takes_noise for each in self.beliefs)

    # -- Bayes' rule -----------------------------------------------------------------------------------------

    def told(self, *data: Any) -> "Integrated":
        """Every member with what data say about themselves."""
        return Integrated(self.log_weights, tuple(b.told(*data) for b in self.beliefs), self.mode.told(*data))

    def statistics(self, *data: Any, **options: Any) -> tuple[Any, ...]:
        """What each member keeps of the data, and at last what the mode does."""
        return tuple(belief.statistics(*data, **options) for belief in (*self.beliefs, self.mode))

    def condition_on(self, statistics: tuple[Any, ...]) -> "Integrated":
        """Bayes' rule in each member, and between them by their evidence."""
        after = super().condition_on(statistics[:-1])
        return Integrated(after.log_weights, after.beliefs, self.mode.condition_on(statistics[-1]))

    def condition(self, *data: Any, using: object = None, **options: Any) -> Any:
        """Bayes' rule in each member, with the method `using`, and between them by their evidence."""
        after = super().condition(*data, using=using, **options)
        if using is None:
            return after
        return Integrated(after.log_weights, after.beliefs, self.mode.condition(*data, using=using, **options))

    def evidence_of(self, statistics: tuple[Any, ...]) -> Array:
        """log Σₖ p(θₖ) p(data | θₖ)."""
        return super().evidence_of(statistics[:-1])

    def log_evidence_of(self, statistics: tuple[Any, ...]) -> Array:
        """The same, each member's in its own way."""
        each = zip(self.beliefs, statistics[:-1], strict=True)
        joint = self.log_weights + _stacked([belief.log_evidence_of(own) for belief, own in each])
        return special(joint).logsumexp(joint)

    def prepare(self, *data: Any, **options: Any) -> tuple[Any, Any]:
        """What the mode learns again from all that was seen."""
        return self.mode.prepare(*data, **options)

    def doubts(self) -> tuple[str, ...]:
        """Those of the mode."""
        return self.mode.doubts()

    def unconditioned(self) -> Any:
        """The belief at the mode, before any data."""
        return self.mode.unconditioned()

    # -- abilities of the members ------------------------------------------------------------------------------

    def _members(self, ability: type[Ability], who: str) -> tuple[Any, ...]:
        demand(self, ability, who)
        return self.beliefs

    def covariance(self, x: Any, z: Any = None) -> Float[Array, "n m"]:
        """Σₖ wₖ covₖ(x, z) + covₖ[meanₖ(x), meanₖ(z)]: the law of total covariance."""
        members = self._members(HasCovariance, "covariance")
        within = _stacked([each.covariance(x, z) for each in members])
        left = _stacked([each.predict(x).mean for each in members])
        right = left if z is None else _stacked([each.predict(z).mean for each in members])
        xp, w = namespace(self, within), self.probabilities
        left, right = (means - xp.tensordot(w, means, 1) for means in (left, right))
        return xp.tensordot(w, within, 1) + (left * w[:, None]).T @ right

    def mean_draws(self, x: Any, n: int = 1000, *, joint: bool = True, seed: int = 0) -> np.ndarray:
        """See `DrawsMeans`: of each member as many draws as it is probable."""
        members = self._members(DrawsMeans, "mean_draws")
        share = np.asarray(self.probabilities, dtype=float)
        pairs = np.random.default_rng(seed).multinomial(n // 2, share / share.sum())
        drawn = zip(members, pairs, strict=True)
        return np.concatenate([b.mean_draws(x, 2 * int(k), joint=joint, seed=seed) for b, k in drawn if k])

    def predict(self, *x: Any, **options: Any) -> Predictive:
        """Σₖ wₖ p(y | x, θₖ)."""
        if options.get("joint"):
            self._members(PredictsJointly, "predict(joint=True)")
        size = max(max(np.shape(leaf), default=1) for leaf in jax.tree.leaves(self.mode))
        with blas_threads(size):
            return super().predict(*x, **options)

    def sample_functions(
        self, n: int = 1, *, features: int = 2048, seed: int = 0, columns: int | None = None
    ) -> Callable[[Array], Array]:
        """n functions, of each member as many as its weight calls for."""
        members = self._members(DrawsFunctions, "sample_functions")
        counts = np.random.default_rng(seed).multinomial(n, np.asarray(self.probabilities))
        drawn = [(member, int(count)) for member, count in zip(members, counts, strict=True) if count]
        options = {"features": features, "columns": columns}
        return _Functions(
            tuple(each.sample_functions(k, seed=seed + i, **options) for i, (each, k) in enumerate(drawn))
        )

    def seen_inputs(self) -> Any:
        """The inputs of the rows seen; None before any."""
        return self._members(KeepsRows, "seen_inputs")[0].seen_inputs()

    def leave_one_out(self, *data: Any, **options: Any) -> Predictive:
        """The prediction of each row from all others: Σₖ wₖᵢ p(yᵢ | the others, θₖ), with the weights of the others.

        wₖᵢ ∝ wₖ / p(yᵢ | the others, θₖ) where the outcomes are given, y being the second of `data`; of rows that
        were seen the weights are those of all rows.
        """
        each = [member.leave_one_out(*data, **options) for member in self._members(LeavesOneOut, "leave_one_out")]
        if len(data) < 2:
            return _mixed(self.probabilities, each)
        after = self.condition(*data, **options)
        log_weights = after.log_weights[:, None] - np.stack([p.log_prob(np.asarray(data[1], float)) for p in each])
        return _mixed(np.exp(log_weights - special(log_weights).logsumexp(log_weights, axis=0)), each)


class _Functions(eqx.Module):
    """Draws of functions from several beliefs, one after the other."""

    parts: tuple[Callable[[Array], Array], ...]

    def __call__(self, x: Array) -> Array:
        values = [part(x) for part in self.parts]
        return namespace(values).concatenate(values)


class _Spread(eqx.Module):
    """A method of the members of an average: predictions are mixed, all else is the mode's."""

    belief: Integrated
    name: str = eqx.field(static=True)

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        found = getattr(self.belief.mode, self.name)(*arguments, **options)
        named = isinstance(found, dict) and bool(found) and all(isinstance(v, Predictive) for v in found.values())
        if not isinstance(found, Predictive) and not named:
            return found
        each = [getattr(member, self.name)(*arguments, **options) for member in self.belief.beliefs]
        if not isinstance(found, dict):
            return _mixed(self.belief.probabilities, each)
        return {key: _mixed(self.belief.probabilities, [one[key] for one in each]) for key in found}


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


def stacking_weights(log_density: Numeric) -> Float[np.ndarray, " k"]:
    """The weights of k beliefs whose pool predicts n left-out rows best: argmax Σᵢ log Σₖ wₖ pₖᵢ.

    Expectation maximization, which never falls; n (maxₖ gₖ - 1) with gₖ = 1/n Σᵢ pₖᵢ / Σⱼ wⱼ pⱼᵢ bounds what is
    missing, for the sum is concave.

    Args:
        log_density: log pₖᵢ, e.g. `leave_one_out(belief, X, y).log_density` of each belief.
    """
    table = np.atleast_2d(np.asarray(log_density, dtype=float))
    if table.ndim != 2 or not table.size or np.isnan(table).any() or not np.isfinite(table.max(axis=0)).all():
        raise DataError("log_density must hold a number for each belief and row, for each row one that is finite")
    k, n = table.shape
    scaled = np.exp(table - table.max(axis=0))
    weights = np.full(k, 1 / k)
    for _ in range(MOST_STEPS):
        gain = (scaled / (weights @ scaled)).mean(axis=1)
        if n * (gain.max() - 1) <= GAP:
            break
        weights = weights * gain
    return weights / weights.sum()


def _stacked(numbers: list[Array]) -> Float[Array, "k *m"]:
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
