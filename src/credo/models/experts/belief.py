"""`Experts`: k linear regressions, and a softmax gate that says in which region each is to be believed.

    p(y | x) = Σⱼ gⱼ(x) N(y | wⱼᵀφ(x) + bⱼ, σⱼ²),    g(x) = softmax(V ψ(x))

    E    rⱼ(x, y) ∝ gⱼ(x) N(y | wⱼᵀφ(x) + bⱼ, σⱼ²)
    M    each expert by weighted least squares under its conjugate prior, the gate by Newton's method on shares r

Where the data have several answers so has the prediction, which is a mixture. What is not known of the parameters
is the normal law at their mode (Laplace), with the observed information by Louis's identity: the information of the
complete data less the covariance of their score over which expert it was. Jacobs, Jordan, Nowlan & Hinton (1991);
Jordan & Jacobs (1994); Louis (1982), "Finding the observed information matrix when using the EM algorithm".
"""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

import equinox as eqx
import numpy as np
from jaxtyping import Float, Int

from credo.core import params
from credo.core.abilities import HasExpectations
from credo.core.arrays import Array, host, is_traced, namespace, special
from credo.core.belief import Belief
from credo.core.checks import (
    ArrayLike,
    check_array,
    check_count,
    check_positive,
    check_real,
    check_table,
    check_vector,
    input_names,
)
from credo.core.errors import DataError
from credo.core.linalg import factorize
from credo.core.params import real
from credo.core.predictive import Mixture, Normal, Predictive
from credo.core.pytrees import changed, plain_methods
from credo.core.text import counted
from credo.infer.em import EM
from credo.infer.learning import Evidence
from credo.infer.method import Learner
from credo.models.densities import Observed, Regression
from credo.models.densities.clusters import clusters, column_moments
from credo.models.experts.gating import gate_prior, gate_step
from credo.models.features import Features
from credo.models.features.compose import as_features
from credo.models.linear.preparation import standardized
from credo.models.linear.statistics import design

DRAWS = 32
"""Of the parameters, over which predictions average; they come in pairs around the mode."""


class ExpertRows(eqx.Module):
    """The rows under the features: inputs of the experts, of the gate (a 1 in front), and outcomes."""

    phi: Float[Array, "n p"]
    gate: Float[Array, "n q"]
    y: Float[Array, " n"]
    weights: Float[Array, " n"]
    origin: Any = None
    """The belief before its starting point was chosen, for other ones."""

    def __add__(self, other: "ExpertRows") -> "ExpertRows":
        pairs = ((getattr(self, n), getattr(other, n)) for n in ("phi", "gate", "y", "weights"))
        return ExpertRows(*(np.concatenate(pair) for pair in pairs))

    @property
    def observed(self) -> Observed:
        """Outcomes as a density has them."""
        xp = namespace(self.y)
        return Observed(self.y[:, None], xp.ones((len(self.y), 1), bool), self.phi, complete=True)


class Expected(NamedTuple):
    """The experts' moments, and the shares that the gate is to learn, with its inputs."""

    experts: Any
    shares: Float[Array, "n k"]
    gate: Float[Array, "n q"]


class Experts(Belief, HasExpectations):
    """A mixture of k linear experts under a softmax gate.

    Args:
        k: how many experts.
        features: the basis φ of the experts; None is the inputs themselves. `learn` and `fit` standardize its columns.
        gate: the basis ψ of the gate; None is the inputs themselves.
        precision: of the gate's weights before data: small ones allow sharp borders between regions.
        experts: a `Regression` with numbers, or a prior, of your own; it has k components and one column.
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
    experts: Regression
    seen: ExpertRows | None
    law: Float[Array, "s s"] | None
    """The root of the covariance of the parameters (coefficients, log σ², gate) after the data."""
    gate_weights: Float[Array, "q c"] | None = real()

    __getattribute__ = plain_methods

    def __init__(
        self,
        k: int,
        features: object = None,
        gate: object = None,
        *,
        precision: float | int = 0.01,
        experts: Any = None,
        gate_weights: ArrayLike | None = None,
    ) -> None:
        check_count(k, "k")
        self.k, self.features, self.gate = int(k), as_features(features, "Experts"), as_features(gate, "Experts")
        self.precision = check_real(precision, "precision", 1e-12)
        experts = Regression(covariance="diagonal") if experts is None else experts
        if not isinstance(experts, Regression):
            raise DataError(f"experts must be a Regression of credo.models.densities, found {type(experts).__name__}")
        self.experts = experts.resized(self.k, 1)
        table = None if gate_weights is None else np.asarray(check_array(gate_weights, "gate_weights"), float)
        if table is not None and (table.ndim != 2 or table.shape[1] != self.k - 1):
            raise DataError(f"gate_weights must have shape (inputs + 1, {self.k - 1}), found {table.shape}")
        self.gate_weights = table
        self.inputs, self.learned, self.seen, self.law = None, False, None, None

    # -- data -----------------------------------------------------------------------------------------------

    def told(self, *data: ArrayLike) -> "Experts":
        """The belief that knows its inputs by name."""
        if len(data) != 2 or is_traced(data):
            return self
        return changed(self, inputs=tuple(input_names(data[0], self.inputs)))

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
        y = check_vector(data[1], "y", x.shape[0])
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
            learned=True,
        )
        rows = ready.statistics(*data, **options)
        if not np.ptp(rows.y) > 0:
            raise DataError(
                "y is constant: there is nothing to learn from it; drop the target or give it some variation"
            )
        return ready._started(rows, 0), changed(rows, origin=ready)

    def _started(self, rows: ExpertRows, seed: int) -> "Experts":
        """Regressions on clusters of (φ, y), for odd seeds tilted at random with a gate that knows nothing."""
        experts = self.experts.adapt(rows.observed, seed=seed)
        begun = self.gate_weights if self.gate_weights is not None else np.zeros((rows.gate.shape[1], self.k - 1))
        start = changed(self, experts=experts, gate_weights=begun)
        if seed % 2 or self.experts.weights is not None or self.k == 1:
            return start
        table = np.column_stack([rows.phi, rows.y])
        mean, variance = column_moments(table, np.ones(table.shape, bool))
        centers, _ = clusters(table, self.k, mean, variance, seed)
        near = (((table[:, None] - centers) ** 2) / variance).sum(-1).argmin(1)
        shares = (0.9 * np.eye(self.k)[near] + 0.1 / self.k) * rows.weights[:, None]
        return start.maximize(Expected(experts.expected_statistics(rows.observed, shares), shares, rows.gate))

    # -- Bayes' rule ----------------------------------------------------------------------------------------

    def condition_on(self, statistics: ExpertRows) -> "Experts":
        """The normal law at the mode, of all rows where some were seen before; numbers that were given stay."""
        self.require_parameters()
        if not self.learned or is_traced((self, statistics)):
            return self
        rows, at = changed(statistics, origin=None), self
        if self.seen is not None:
            rows = self.seen + rows
            at = EM(1).climb(changed(self, seen=None, law=None), rows).belief  # type: ignore[assignment]
        factor = factorize(at.information(rows))
        root = np.linalg.inv(factor.root).T if bool(factor.ok) else None
        return changed(at, seen=rows, law=root)

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
        xp = namespace(phi, gate, self)
        weights, mean, variance = [], [], []
        for theta in self._draws():
            coefficients, log_variance, v = self._unpacked(theta)
            g = _softmax(gate @ v, xp)
            weights.append(g.T)
            mean.append(coefficients[:, :-1] @ phi.T + coefficients[:, -1:])
            variance.append(xp.broadcast_to(xp.exp(log_variance)[:, None], g.T.shape))
        m, n = xp.concatenate(mean), len(weights)
        return Mixture(xp.concatenate(weights) / n, (Normal(m, xp.concatenate(variance), xp.zeros_like(m)),), self.k)

    def regions(self, x: ArrayLike) -> Float[Array, "m k"]:
        """g(x): how much each expert is believed at each row."""
        _, gate = self._inputs(x)
        return _softmax(gate @ self._gate, namespace(gate, self._gate))

    def answers(self, x: ArrayLike) -> Float[Array, "m k"]:
        """What each expert says at each row."""
        phi, _ = self._inputs(x)
        coefficients = self.experts.coefficients[:, 0]
        center = self.experts.center
        return (phi - (0.0 if center is None else center)) @ coefficients[:, :-1].T + coefficients[:, -1]

    def responsibilities(self, x: ArrayLike, y: ArrayLike) -> Float[Array, "n k"]:
        """p(expert | x, y) of each row."""
        logs = self.require_parameters()._logs(self.statistics(x, y))
        return np.exp(logs - special(logs).logsumexp(logs, axis=1, keepdims=True))

    # -- learning -------------------------------------------------------------------------------------------

    def learner(self, priors: Mapping[str, object]) -> Learner:
        """EM; the gradient where there are priors of another kind."""
        return Evidence(flat=False) if priors else EM(starts=6)

    def expect(self, statistics: ExpertRows) -> tuple[Expected, Float[Array, ""]]:
        """The E-step."""
        logs = self._logs(statistics)
        total = special(logs).logsumexp(logs, axis=1)
        shares = namespace(logs).exp(logs - total[:, None]) * statistics.weights[:, None]
        moments = self.experts.expected_statistics(statistics.observed, shares)
        return Expected(moments, shares, statistics.gate), statistics.weights @ total

    def expect_side_by_side(
        self, beliefs: Sequence["Experts"], statistics: ExpertRows
    ) -> list[tuple[Expected, Float[Array, ""]]] | None:
        """`expect` of each, with nothing compiled."""
        return None if is_traced((list(beliefs), statistics)) else [each.expect(statistics) for each in beliefs]

    def maximize(self, expected: Expected, fixed: tuple[str, ...] = ()) -> "Experts":
        """The experts in closed form, the gate by Newton's method."""
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
        experts = self.experts if held else self.experts.maximize(expected.experts)
        return changed(self, experts=experts, gate_weights=gate)

    def log_prior_of_parameters(self) -> Float[Array, ""]:
        """log p(experts) + log p(gate) up to a constant."""
        u, prior = self._gate.ravel(), gate_prior(len(self._gate), self.k, self.precision)
        return self.experts.log_prior() - 0.5 * u @ prior.precision @ u

    def restart(self, statistics: ExpertRows, seed: int) -> "Experts | None":
        """Another starting point for what was not given; None where all was."""
        origin = statistics.origin
        if origin is None or set(params.learnable(origin)) == set(params.learnable(self)):
            return None
        return origin._started(statistics, seed)

    def canonical(self) -> "Experts":
        """With the experts in the order of their constant terms, the lowest first, where their order means nothing."""
        if is_traced(self.gate_weights) or not self.experts.exchangeable:
            return self
        return self.reordered(np.argsort(np.asarray(self.experts.coefficients)[:, 0, -1], kind="stable"))

    def reordered(self, order: Int[np.ndarray, " k"]) -> "Experts":
        """The same belief with its experts in another order."""
        full = np.column_stack([self._gate, np.zeros(len(self._gate))])[:, order]
        return changed(self, experts=self.experts.reordered(order), gate_weights=full[:, :-1] - full[:, -1:], law=None)

    # -- what is not known of the parameters ----------------------------------------------------------------

    def information(self, rows: ExpertRows) -> Float[np.ndarray, "s s"]:
        """-∂² log p(y, θ)/∂θ² of θ = (coefficients, log σ², gate): Louis's identity and the priors' curvature."""
        k, c, variance = self.k, self.k - 1, self._variances
        v = self.experts.design(len(rows.y), rows.phi)
        p, q = v.shape[1], rows.gate.shape[1]
        size = k * (p + 1) + q * c
        logs = self._logs(rows)
        share = np.exp(logs - special(logs).logsumexp(logs, axis=1, keepdims=True))
        error = (rows.y - self.experts._origin[0])[:, None] - v @ self._coefficients.T
        g = _softmax(rows.gate @ self._gate, np)
        scores = np.zeros((len(v), k, size))  # of the complete data, were it expert j
        complete = np.zeros((size, size))
        for j in range(k):
            own, at = slice(j * p, (j + 1) * p), k * p + j
            scores[:, j, own] = (error[:, j] / variance[j])[:, None] * v
            scores[:, j, at] = 0.5 * (error[:, j] ** 2 / variance[j] - 1)
            r = share[:, j] * rows.weights
            complete[own, own] = (v * (r / variance[j])[:, None]).T @ v
            complete[own, at] = complete[at, own] = v.T @ (r * error[:, j] / variance[j])
            complete[at, at] = 0.5 * r @ error[:, j] ** 2 / variance[j]
            shown = np.eye(k)[j, :c] - g[:, :c]
            scores[:, j, k * (p + 1) :] = (rows.gate[:, :, None] * shown[:, None, :]).reshape(len(v), q * c)
        bend = np.eye(c) * g[:, :c, None] - g[:, :c, None] * g[:, None, :c]
        both = np.einsum("n,nq,nr,nab->qarb", rows.weights, rows.gate, rows.gate, bend, optimize=True)
        complete[k * (p + 1) :, k * (p + 1) :] = both.reshape(q * c, q * c)
        mean = np.einsum("nk,nks->ns", share, scores)
        weighted = scores * np.sqrt(share * rows.weights[:, None])[..., None]
        flat = weighted.reshape(-1, size)
        hidden = flat.T @ flat - (mean * rows.weights[:, None]).T @ mean
        return complete - hidden + self._prior_curvature(size)

    def _prior_curvature(self, size: int) -> Float[np.ndarray, "s s"]:
        """Of the conjugate law of each expert, about log σ², and of the gate."""
        law, k, variance = self.experts._law, self.k, self._variances
        p, out = self._coefficients.shape[1], np.zeros((size, size))
        for j in range(k):
            own, at = slice(j * p, (j + 1) * p), k * p + j
            off = self._coefficients[j] - law.mean[j, 0]
            pull = law.precision[j, 0] @ off
            out[own, own] = law.precision[j, 0] / variance[j]
            out[own, at] = out[at, own] = -pull / variance[j]
            out[at, at] = (law.scale[j, 0] + 0.5 * off @ pull) / variance[j]
        gate = slice(k * (p + 1), size)
        out[gate, gate] = gate_prior(len(self._gate), k, self.precision).precision
        return out

    def _draws(self) -> list[Array]:
        """θ at the mode, or drawn from its law in pairs around the mode; the same ones each time."""
        xp = namespace(self._coefficients, self._gate)
        center = xp.concatenate([self._coefficients.ravel(), xp.log(self._variances), self._gate.ravel()])
        if self.law is None:
            return [center]
        z = np.random.default_rng(0).normal(size=(DRAWS // 2, len(center))) @ self.law.T
        return [center + sign * each for each in z for sign in (1, -1)]

    def _unpacked(self, theta: Array) -> tuple[Array, Array, Array]:
        """(coefficients for φ itself, log σ², gate)."""
        k, p = self.k, self._coefficients.shape[1]
        local, rest = theta[: k * p].reshape(k, p), theta[k * p :]
        origin, center = self.experts._origin[0], self.experts.center
        shift = origin - (0.0 if center is None else local[:, :-1] @ center)
        constant = local[:, -1] + shift
        coefficients = namespace(local).concatenate([local[:, :-1], constant[:, None]], axis=1)
        return coefficients, rest[:k], rest[k:].reshape(self._gate.shape)

    # -- parts ----------------------------------------------------------------------------------------------

    @property
    def _gate(self) -> Float[Array, "q c"]:
        self.require_parameters()
        assert self.gate_weights is not None
        return self.gate_weights

    @property
    def _coefficients(self) -> Float[Array, "k p"]:
        """Of the design of the experts, for y - origin."""
        return self.experts._local[:, 0]

    @property
    def _variances(self) -> Float[Array, " k"]:
        return self.experts._covariances[:, 0]

    def _logs(self, rows: ExpertRows) -> Float[Array, "n k"]:
        """log gⱼ(x) N(y | …)."""
        xp = namespace(self._gate, rows.gate)
        eta = rows.gate @ self._gate
        logits = xp.concatenate([eta, xp.zeros((len(rows.gate), 1))], axis=1)
        return self.experts.log_prob(rows.observed) + logits - special(logits).logsumexp(logits, axis=1, keepdims=True)

    def _inputs(self, x: ArrayLike) -> tuple[Array, Array]:
        self.require_parameters()
        table = check_table(x, "X", self.inputs)
        phi, gate = self.features(table), design(self.gate, table, True)
        if gate.shape[1] != len(self._gate):
            raise DataError(f"X must have the columns it was learned from, found {table.shape[1]}")
        return (phi, gate) if is_traced((phi, gate)) else host((phi, gate))

    def require_parameters(self) -> "Experts":
        """Itself, if its numbers are known."""
        if self.gate_weights is None or not params.learnable(self.experts):
            raise DataError("the experts are not known yet; learn from data with credo.fit(experts, X, y)")
        return self

    def __repr__(self) -> str:
        known = (
            "not learned yet" if self.gate_weights is None else f"noise {np.sqrt(np.asarray(self._variances)).round(3)}"
        )
        return f"{type(self).__name__}({counted(self.k, 'expert')}; {known})"


def _softmax(eta: Float[Array, "n c"], xp: Any) -> Float[Array, "n k"]:
    """Shares of k = c + 1, the last of which is the reference."""
    logits = xp.concatenate([eta, xp.zeros((len(eta), 1))], axis=1)
    shares = xp.exp(logits - logits.max(axis=1, keepdims=True))
    return shares / shares.sum(axis=1, keepdims=True)
