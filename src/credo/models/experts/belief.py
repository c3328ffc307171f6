"""`Experts`: k regressions, and a softmax gate that says in which region each is to be believed.

    p(y | x) = Σⱼ gⱼ(x) p(y | x, j),    g(x) = softmax(V ψ(x))

    E    rⱼ(x, y) ∝ gⱼ(x) p(y | x, j)
    M    each expert from its shares of the rows (weighted least squares; Newton's method for a likelihood),
         the gate by Newton's method on the shares

Experts are lines with normal noise, N(y | wⱼᵀφ(x) + bⱼ, σⱼ²), or follow a likelihood: p(y | ηⱼ), ηⱼ = wⱼᵀφ(x) + bⱼ.
Where the data have several answers so has the prediction, which is a mixture. What is not known of the parameters
are draws around their mode (`posterior`), or the spread of experts learned from rows weighed at random
(`using=BayesianBootstrap()`). Jacobs, Jordan, Nowlan & Hinton (1991); Jordan & Jacobs (1994), "Hierarchical mixtures of
experts and the EM algorithm".
"""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

import equinox as eqx
import numpy as np
from jaxtyping import Float, Int

from credo.core import params
from credo.core.abilities import HasWeightedRows
from credo.core.arrays import Array, host, is_traced, namespace, special
from credo.core.belief import Belief
from credo.core.checks import (
    ArrayLike,
    check_array,
    check_count,
    check_positive,
    check_real,
    check_table,
    input_names,
)
from credo.core.errors import DataError
from credo.core.linalg import factorize
from credo.core.params import real
from credo.core.predictive import Predictive
from credo.core.pytrees import changed, plain_methods
from credo.core.text import counted
from credo.infer.em import EM
from credo.infer.learning import Evidence
from credo.infer.method import Learner
from credo.models.densities import Regression
from credo.models.densities.clusters import clusters, column_moments
from credo.models.experts.family import ExpertFamily, ExpertRows
from credo.models.experts.gating import gate_prior, gate_step
from credo.models.experts.generalized import GeneralizedRegression
from credo.models.experts.linear import LinearExperts
from credo.models.experts.posterior import observed_information, parameter_draws
from credo.models.features import Features
from credo.models.features.compose import as_features
from credo.models.likelihoods.classes import Label
from credo.models.linear.preparation import standardized
from credo.models.linear.statistics import design

MANY = 2**13
"""Rows times experts from which the normal law at the mode is taken as it is, as that of one expert, without a gate."""


class Expected(NamedTuple):
    """What the experts are to be learned from, and the shares that the gate is to learn, with its inputs."""

    experts: Any
    shares: Float[Array, "n k"]
    gate: Float[Array, "n q"]


class Experts(Belief, HasWeightedRows):
    """A mixture of k experts under a softmax gate.

    Args:
        k: how many experts.
        features: the basis φ of the experts; None is the inputs themselves. `learn` and `fit` standardize its columns.
        gate: the basis ψ of the gate; None is the inputs themselves.
        precision: of the gate's weights before data: small ones allow sharp borders between regions.
        likelihood: how outcomes follow from the linear predictor of an expert, one of `credo.models.likelihoods`; None
            is real numbers with normal noise.
        experts: with numbers, or a prior, of your own: a `Regression` of one column, or a `GeneralizedRegression`.
        gate_weights: V of the first k - 1 experts against the last, shape (1 + size of ψ, k - 1), constants first.

    `fit` learns by EM from several starts. `predict(x)` averages over the parameters' law after the data.
    """

    from_data: ClassVar[tuple[str, ...]] = ("seen", "law")

    k: int = eqx.field(static=True)
    features: Features
    gate: Features
    precision: float = eqx.field(static=True)
    inputs: tuple[str, ...] | None = eqx.field(static=True)
    learned: bool = eqx.field(static=True)
    """Whether the parameters come from data, and follow more of them."""
    experts: Regression | GeneralizedRegression
    seen: ExpertRows | None
    law: Float[Array, "t s"] | None
    """Equally probable draws of the parameters (the numbers of each expert, the gate) after the data."""
    gate_weights: Float[Array, "q c"] | None = real()

    __getattribute__ = plain_methods

    def __init__(
        self,
        k: int,
        features: object = None,
        gate: object = None,
        likelihood: object = None,
        *,
        precision: float | int = 0.01,
        experts: Any = None,
        gate_weights: ArrayLike | None = None,
    ) -> None:
        check_count(k, "k")
        self.k, self.features, self.gate = int(k), as_features(features, "Experts"), as_features(gate, "Experts")
        self.precision = check_real(precision, "precision", 1e-12)
        if likelihood is not None and experts is not None:
            raise DataError("give a likelihood or experts, which have one of their own, not both")
        if likelihood is not None:
            experts = GeneralizedRegression(likelihood)
        self.experts = (
            _family_of(Regression(covariance="diagonal") if experts is None else experts).resized(self.k).experts
        )
        table = None if gate_weights is None else np.asarray(check_array(gate_weights, "gate_weights"), float)
        if table is not None and (table.ndim != 2 or table.shape[1] != self.k - 1):
            raise DataError(f"gate_weights must have shape (inputs + 1, {self.k - 1}), found {table.shape}")
        self.gate_weights = table
        self.inputs, self.learned, self.seen, self.law = None, False, None, None

    @property
    def classes(self) -> tuple[Label, ...] | None:
        """The labels in the order of the predicted probabilities; None for numbers, or before any were seen."""
        return self.experts.classes if isinstance(self.experts, GeneralizedRegression) else None

    # -- data -----------------------------------------------------------------------------------------------

    def told(self, *data: ArrayLike) -> "Experts":
        """The belief that knows its inputs by name, and its classes."""
        if len(data) != 2 or is_traced(data):
            return self
        return changed(
            self, inputs=tuple(input_names(data[0], self.inputs)), experts=self._family.told(data[1]).experts
        )

    def statistics(self, *data: ArrayLike, weights: ArrayLike | None = None) -> ExpertRows:
        """The rows of X and y under the features; a row of weight w counts as w rows."""
        if len(data) != 2:
            raise DataError(f"Experts are conditioned on X and y, found {len(data)} arguments")
        for part in (self.features, self.gate):
            if not part.ready:
                raise DataError(
                    f"{type(part).__name__} still has numbers to choose from the data; use credo.fit, or features.adapt"
                )
        x = check_table(data[0], "X", self.inputs)
        y = self._family.encode(data[1], x.shape[0])
        w = np.ones(len(x)) if weights is None else check_positive(weights, "weights", len(x))
        return ExpertRows(*host((self.features(x), design(self.gate, x, True), y, w)))

    def prepare(self, *data: ArrayLike, **options: Any) -> tuple["Experts", ExpertRows]:
        """Standardized features, a starting point from the data where there is none; and the rows."""
        if len(data) != 2:
            raise DataError(f"Experts learn from X and y, found {len(data)} arguments")
        x = check_table(data[0], "X", self.inputs)
        ready = changed(
            self.unconditioned(),
            features=standardized(self.features, True).adapt(x),
            gate=standardized(self.gate, True).adapt(x),
            experts=self._family.told(data[1]).experts,
            learned=True,
        )
        rows = ready.statistics(*data, **options)
        if not np.ptp(rows.y) > 0:
            raise DataError(
                "y is constant: there is nothing to learn from it; drop the target or give it some variation"
            )
        return ready._started(rows, 0), changed(rows, origin=ready)

    def _started(self, rows: ExpertRows, seed: int) -> "Experts":
        """Experts of clusters of (φ, y), for odd seeds tilted at random with a gate that knows nothing."""
        family = self._family.adapt(rows, seed)
        begun = self.gate_weights if self.gate_weights is not None else np.zeros((rows.gate.shape[1], self.k - 1))
        start = changed(self, experts=family.experts, gate_weights=begun)
        if seed % 2 or self._family.known or self.k == 1:
            return start
        table = np.column_stack([rows.phi, family.marks(np.asarray(rows.y))])
        mean, variance = column_moments(table, np.ones(table.shape, bool))
        centers, _ = clusters(table, self.k, mean, variance, seed)
        near = (((table[:, None] - centers) ** 2) / variance).sum(-1).argmin(1)
        shares = (0.9 * np.eye(self.k)[near] + 0.1 / self.k) * rows.weights[:, None]
        return start.maximize(Expected(family.expected_statistics(rows, shares), shares, rows.gate))

    # -- Bayes' rule ----------------------------------------------------------------------------------------

    def condition_on(self, statistics: ExpertRows) -> "Experts":
        """Draws around the mode, of all rows where some were seen before; numbers that were given stay."""
        self.require_parameters()
        if not self.learned or is_traced((self, statistics)):
            return self
        rows, at = changed(statistics, origin=None), self
        if self.seen is not None:
            rows = self.seen + rows
            at = EM(1).climb(changed(self, seen=None, law=None), rows).belief  # type: ignore[assignment]
        factor = factorize(at.information(rows))
        if not factor.ok:
            return changed(at, seen=rows, law=None)
        density = None if self.k == 1 or rows.y.size * self.k > MANY else lambda theta: at._log_posteriors(theta, rows)
        return changed(
            at, seen=rows, law=parameter_draws(np.asarray(at._vector), np.linalg.inv(factor.root).T, density)
        )

    def doubts(self) -> tuple[str, ...]:
        """Where the data do not determine the parameters."""
        unknown = self.seen is not None and self.law is None
        said = "the parameters are at no maximum, or the data do not determine them: predictions take them as known; "
        return (said + "take fewer experts, or learn with more starts (using=EM(starts=16))",) if unknown else ()

    def evidence_of(self, statistics: ExpertRows) -> Float[Array, ""]:
        """log p(y | X) = Σₙ log Σⱼ gⱼ(xₙ) N(yₙ | …)."""
        logs = self._logs(statistics)
        return statistics.weights @ special(logs).logsumexp(logs, axis=1)

    def log_evidence_of(self, statistics: ExpertRows) -> Float[Array, ""]:
        """`evidence_of`; nothing is compiled for it."""
        self.require_parameters()
        return np.asarray(self.evidence_of(statistics))

    # -- predictions ----------------------------------------------------------------------------------------

    def predict(self, x: ArrayLike) -> Predictive:
        """A mixture of the experts at each row; which expert it is is noise, what is not known of them is ignorance."""
        phi, gate = self._inputs(x)
        numbers, v = self._unpacked(self._draws)
        xp = namespace(phi, gate, v)
        return self._family.predict(numbers, _softmax(xp.einsum("mq,sqc->smc", gate, v), xp), phi)

    def regions(self, x: ArrayLike) -> Float[Array, "m k"]:
        """g(x): how much each expert is believed at each row."""
        _, gate = self._inputs(x)
        return _softmax(gate @ self._gate, namespace(gate, self._gate))

    def answers(self, x: ArrayLike) -> Float[Array, "m k *c"]:
        """What each expert expects at each row; of more than two classes their probabilities."""
        return self._family.answers(self._inputs(x)[0])

    def responsibilities(self, x: ArrayLike, y: ArrayLike) -> Float[Array, "n k"]:
        """p(expert | x, y) of each row."""
        return self.require_parameters()._shares(self.statistics(x, y))[0]

    # -- learning -------------------------------------------------------------------------------------------

    def learner(self, priors: Mapping[str, object]) -> Learner:
        """EM; the gradient where there are priors of another kind."""
        return Evidence(flat=False) if priors else EM(starts=6)

    def expect(self, statistics: ExpertRows) -> tuple[Expected, Float[Array, ""]]:
        """The E-step."""
        shares, total = self._shares(statistics)
        counts = shares * statistics.weights[:, None]
        expected = self._family.expected_statistics(statistics, counts)
        return Expected(expected, counts, statistics.gate), statistics.weights @ total

    def expect_side_by_side(
        self, beliefs: Sequence["Experts"], statistics: ExpertRows
    ) -> list[tuple[Expected, Float[Array, ""]]] | None:
        """`expect` of each, with nothing compiled."""
        return None if is_traced((list(beliefs), statistics)) else [each.expect(statistics) for each in beliefs]

    def maximize(self, expected: Expected, fixed: tuple[str, ...] = ()) -> "Experts":
        """The experts as their family has it, the gate by Newton's method."""
        held = [path for path in fixed if path.startswith("experts.")]
        if held and len(held) < len(params.learnable(self.experts)):
            raise DataError(f"EM learns the experts as a whole, found {', '.join(held)} fixed; fix 'experts'")
        gate = (
            self._gate
            if "gate_weights" in fixed or self.k == 1
            else gate_step(
                np.asarray(expected.gate), np.asarray(expected.shares), np.asarray(self._gate), self.precision
            )
        )
        experts = self.experts if held else self._family.maximize(expected.experts).experts
        return changed(self, experts=experts, gate_weights=gate)

    def log_prior_of_parameters(self) -> Float[Array, ""]:
        """log p(experts) + log p(gate) up to a constant."""
        u, prior = self._gate.ravel(), gate_prior(len(self._gate), self.k, self.precision)
        return self._family.log_prior() - 0.5 * u @ prior.precision @ u

    def restart(self, statistics: ExpertRows, seed: int) -> "Experts | None":
        """Another starting point for what was not given; None where all was."""
        origin = statistics.origin
        if origin is None or set(params.learnable(origin)) == set(params.learnable(self)):
            return None
        return origin._started(statistics, seed)

    def canonical(self) -> "Experts":
        """With the experts in the order of their constant terms, the lowest first, where their order means nothing."""
        if is_traced(self.gate_weights) or not self._family.exchangeable:
            return self
        return self.reordered(np.argsort(np.asarray(self._family.constants), kind="stable"))

    def reordered(self, order: Int[np.ndarray, " k"]) -> "Experts":
        """The same belief with its experts in another order."""
        full = np.column_stack([self._gate, np.zeros(len(self._gate))])[:, order]
        experts = self._family.reordered(order).experts
        return changed(self, experts=experts, gate_weights=full[:, :-1] - full[:, -1:], law=None)

    def row_weights(self, statistics: ExpertRows) -> Float[Array, " n"]:
        """What each row counts for."""
        return statistics.weights

    def reweighted(self, statistics: ExpertRows, weights: Float[np.ndarray, " n"]) -> ExpertRows:
        """The same rows with other weights."""
        return changed(statistics, weights=weights)

    def held(self) -> "Experts":
        """As if its numbers had been given."""
        return changed(self, learned=False, seen=None, law=None)

    # -- what is not known of the parameters ----------------------------------------------------------------

    def information(self, rows: ExpertRows) -> Float[np.ndarray, "s s"]:
        """-∂² log p(y, θ)/∂θ² of θ = (the numbers of each expert, gate)."""
        shares, regions = self._shares(rows)[0], _softmax(rows.gate @ self._gate, np)
        prior = gate_prior(len(self._gate), self.k, self.precision).precision
        return observed_information(self._family, rows, *map(np.asarray, (shares, regions, prior)))

    @property
    def _vector(self) -> Float[Array, " s"]:
        """θ."""
        numbers, gate = self._family.numbers, self._gate
        return namespace(numbers, gate).concatenate([numbers.ravel(), gate.ravel()])

    def _unpacked(self, theta: Float[Array, "t s"]) -> tuple[Float[Array, "t k a"], Float[Array, "t q c"]]:
        """The numbers of the experts and the gate."""
        size, gate = theta.shape[1] - self._gate.size, self._gate.shape
        return theta[:, :size].reshape(len(theta), self.k, -1), theta[:, size:].reshape(len(theta), *gate)

    def _log_posteriors(self, theta: Float[np.ndarray, "t s"], rows: ExpertRows) -> Float[np.ndarray, " t"]:
        """log p(θ | y) up to a constant."""
        numbers, gate = self._unpacked(theta)
        each = self._family.log_probs(numbers.reshape(-1, numbers.shape[2]), rows).reshape(len(rows.y), len(theta), -1)
        regions = _softmax(np.einsum("nq,tqc->ntc", rows.gate, gate), np)
        top = each.max(2)
        height = top + np.log((regions * np.exp(each - top[..., None])).sum(2))
        u, prior = gate.reshape(len(theta), -1), gate_prior(len(self._gate), self.k, self.precision).precision
        return rows.weights @ height + self._family.log_priors(numbers) - 0.5 * np.einsum("ts,sr,tr->t", u, prior, u)

    @property
    def _draws(self) -> Float[Array, "t s"]:
        return self._vector[None] if self.law is None else self.law

    # -- parts ----------------------------------------------------------------------------------------------

    @property
    def _gate(self) -> Float[Array, "q c"]:
        self.require_parameters()
        assert self.gate_weights is not None
        return self.gate_weights

    @property
    def _family(self) -> ExpertFamily:
        return _family_of(self.experts)

    def _shares(self, rows: ExpertRows) -> tuple[Float[Array, "n k"], Float[Array, " n"]]:
        """p(expert | x, y) and log p(y | x) of each row."""
        logs = self._logs(rows)
        total = special(logs).logsumexp(logs, axis=1)
        return namespace(logs).exp(logs - total[:, None]), total

    def _logs(self, rows: ExpertRows) -> Float[Array, "n k"]:
        """log gⱼ(x) N(y | …)."""
        xp = namespace(self._gate, rows.gate)
        eta = rows.gate @ self._gate
        logits = xp.concatenate([eta, xp.zeros((len(rows.gate), 1))], axis=1)
        return self._family.log_prob(rows) + logits - special(logits).logsumexp(logits, axis=1, keepdims=True)

    def _inputs(self, x: ArrayLike) -> tuple[Array, Array]:
        self.require_parameters()
        table = check_table(x, "X", self.inputs)
        phi, gate = self.features(table), design(self.gate, table, True)
        if gate.shape[1] != len(self._gate):
            raise DataError(f"X must have the columns it was learned from, found {table.shape[1]}")
        return (phi, gate) if is_traced((phi, gate)) else host((phi, gate))

    def require_parameters(self) -> "Experts":
        """Itself, if its numbers are known."""
        if self.gate_weights is None or not self._family.known:
            raise DataError("the experts are not known yet; learn from data with credo.fit(experts, X, y)")
        return self

    def __repr__(self) -> str:
        known = "not learned yet" if self.gate_weights is None else repr(self._family)
        return f"{type(self).__name__}({counted(self.k, 'expert')}; {known})"


def _family_of(experts: object) -> ExpertFamily:
    if isinstance(experts, ExpertFamily):
        return experts
    if not isinstance(experts, Regression):
        raise DataError(
            "experts must be a Regression of credo.models.densities or a GeneralizedRegression, found "
            f"{type(experts).__name__}"
        )
    return LinearExperts(experts)


def _softmax(eta: Float[Array, "*n c"], xp: Any) -> Float[Array, "*n k"]:
    """Shares of k = c + 1, the last of which is the reference."""
    logits = xp.concatenate([eta, xp.zeros((*eta.shape[:-1], 1))], axis=-1)
    shares = xp.exp(logits - logits.max(axis=-1, keepdims=True))
    return shares / shares.sum(axis=-1, keepdims=True)
