"""Networks too wide for an exact answer: weighted draws, and chains that change one variable at a time.

    LikelihoodWeighting   draws along the arrows, weighted by the likelihood of what was observed
    NetworkGibbs          xᵢ ~ p(xᵢ | Markov blanket) ∝ p(xᵢ | parents) Π p(child | its parents), one i after the other

Every answer has a standard error, and the draws a verdict: how many independent ones they are worth, and whether chains
agree. Koller & Friedman (2009), sections 12.2 and 12.3.
"""

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Float

from credo.core.arrays import Array
from credo.core.belief import Belief, warned
from credo.core.errors import DataError, NotConverged
from credo.core.predictive import Mixture, Normal, Predictive
from credo.core.pytrees import changed
from credo.infer.diagnostics import effective_sample_size, potential_scale_reduction, split
from credo.infer.method import Solver, check_settings
from credo.models.network import graph, sampling
from credo.models.network.belief import Evidence, Network
from credo.models.network.nodes import LinearGaussian, Node, Table
from credo.models.network.observed import Observed
from credo.models.network.predictions import States

LEAST_ESS = 200
"""Independent draws that an answer should be worth: a standard error of at most 0.035 for a probability."""
LARGEST_RHAT = 1.05
PARTS = 1000
"""Kernels of the density of a number."""


class DrawnNetwork(Belief[Evidence]):
    """A network known by joint draws: weighted ones of one chain, or equal ones of several."""

    network: Network
    draws: dict[str, Array]
    """Indices of states, and numbers, shape (chains, draws)."""
    weights: Float[Array, "c n"]
    log_total: Float[Array, ""] | None
    """log p(observed) where the method knows it."""

    def statistics(self, observed: Any) -> Evidence:
        """See `Network.statistics`."""
        return self.network.statistics(observed)

    def condition_on(self, statistics: Evidence) -> "DrawnNetwork":
        """The draws weighted by how likely they make the new evidence; of states, for no draw has a given number."""
        weights = self._likelihoods(statistics) * self.weights
        if not np.any(weights > 0):
            raise DataError(f"no draw agrees with {', '.join(statistics)}; condition the network itself on all at once")
        total = None if self.log_total is None else self.log_total + np.log(weights.sum())
        known = changed(self.network, evidence={**(self.network.evidence or {}), **statistics})
        return changed(self, network=known, weights=weights / weights.sum(), log_total=total)

    def evidence_of(self, statistics: Evidence) -> Array:
        """log Σ wᵢ p(evidence | draw i)."""
        with np.errstate(divide="ignore"):
            return np.log((self._likelihoods(statistics) * self.weights).sum())

    def log_evidence_of(self, statistics: Evidence) -> Array:
        """`evidence_of`, in NumPy."""
        return self.evidence_of(statistics)

    def _likelihoods(self, statistics: Evidence) -> np.ndarray:
        found = np.ones(np.shape(self.weights))
        for name, likelihood in statistics.items():
            if isinstance(self.network.nodes[name], LinearGaussian):
                raise DataError(f"no draw of {name!r} has a given number; condition the network itself on all at once")
            found *= np.asarray(likelihood)[self.draws[name]]
        return found

    def predict(self, name: str) -> Predictive:
        """One variable: the weights of its states among the draws, or its mean and variance."""
        law = self.network.nodes[self.network.check_name(name)]
        if isinstance(law, Table):
            return States.certain_of(self._shares(name, len(law.states)), law.states)
        values, weights = np.ravel(self.draws[name]), np.ravel(self.weights)
        if np.ptp(values) == 0:
            return Normal(values[0], np.zeros(()), np.zeros(()))
        levels = (np.arange(PARTS) + 0.5) / PARTS  # systematic resampling: draws at equal steps of their weights
        order = np.argsort(values)
        some = order[np.minimum(np.searchsorted(np.cumsum(weights[order]), levels), len(values) - 1)]
        mean = float(weights @ values)
        spread = float(weights @ (values - mean) ** 2)
        width = 0.3 * PARTS**-0.4  # a kernel density estimate, drawn together so that the variance stays
        each = Normal(
            mean + np.sqrt(1 - width) * (values[some] - mean), np.full(len(some), width * spread), np.zeros(len(some))
        )
        return Mixture(np.full(len(some), 1 / len(some)), (each,), within=len(some))

    def _shares(self, name: str, k: int) -> np.ndarray:
        return np.bincount(np.ravel(self.draws[name]), np.ravel(self.weights), minlength=k)

    def marginals(self) -> dict[str, dict[str, float]]:
        """See `Network.marginals`."""
        found: dict[str, dict[str, float]] = {}
        for name, law in self.network.nodes.items():
            if isinstance(law, Table):
                found[name] = dict(zip(law.states, self._shares(name, len(law.states)).tolist(), strict=True))
            else:
                mean = float((self.weights * self.draws[name]).sum())
                variance = float((self.weights * (self.draws[name] - mean) ** 2).sum())
                found[name] = {"mean": mean, "std": float(np.sqrt(variance))}
        return found

    def standard_errors(self, name: str) -> dict[str, float]:
        """The standard error of each probability of `predict`, or of the mean of a number."""
        law = self.network.nodes[self.network.check_name(name)]
        what = {s: self.draws[name] == i for i, s in enumerate(law.states)} if isinstance(law, Table) else None
        columns = {"mean": self.draws[name]} if what is None else what
        return {label: self._error(np.asarray(values, dtype=float)) for label, values in columns.items()}

    def _error(self, values: np.ndarray) -> float:
        off = values - (self.weights * values).sum()
        if len(values) == 1:  # independent draws with weights: Σ w² (f - f̂)²
            return float(np.sqrt((self.weights**2 * off**2).sum()))
        ess = effective_sample_size(split(values[..., None]))[0]
        return float(np.sqrt((self.weights * off**2).sum() / max(ess, 1.0)))

    @property
    def ess(self) -> float:
        """How many independent draws they are worth: 1/Σw², or of chains the least over the variables that move."""
        if len(self.weights) == 1:
            return float(1 / (self.weights**2).sum())
        moved = self._moved()
        return float(effective_sample_size(split(moved)).min()) if moved.shape[2] else float(self.weights.size)

    @property
    def rhat(self) -> float:
        """The largest potential scale reduction of the chains; 1 for independent draws."""
        moved = self._moved()
        return float(potential_scale_reduction(split(moved)).max()) if len(self.weights) > 1 and moved.shape[2] else 1.0

    def _moved(self) -> np.ndarray:
        columns = [np.asarray(v, dtype=float) for v in self.draws.values() if np.ptp(v) > 0]
        return np.stack(columns, axis=-1) if columns else np.zeros((*np.shape(self.weights), 0))

    def doubts(self) -> tuple[str, ...]:
        """Too few independent draws, chains that disagree, zeros that a chain cannot cross."""
        found = []
        if self.ess < LEAST_ESS:
            found.append(f"the draws are worth {self.ess:.0f} independent ones, not {LEAST_ESS}; raise draws")
        if self.rhat > LARGEST_RHAT:
            zeros = any(isinstance(law, Table) and np.any(law.values == 0) for law in self.network.laws)
            why = "tables with zeros keep a chain in a part of the states" if zeros else "run them longer"
            found.append(f"the chains disagree (R-hat {self.rhat:.2f}): {why}")
        return tuple(found)


class _Sampler(Solver):
    """A method of drawing from a network given what was observed."""

    needs: ClassVar[type | tuple[type, ...]] = Network

    def __post_init__(self) -> None:
        check_settings(self)

    def serves(self, subject: object, verb: str) -> bool:
        """`condition`, of networks."""
        return isinstance(subject, Network) and verb == "condition"

    def needs_of(self, subject: object, verb: str) -> str:
        """What to call instead, or what it needs."""
        return "it draws given evidence, call network.condition" if verb != "condition" else "it needs a Network"

    def condition(self, belief: Any, *data: object, seed: int = 0, **options: Any) -> Any:
        """The network known by draws given what was observed."""
        after = belief.condition_on(belief.statistics(*data, **options))
        return warned(self.drawn(after, np.random.default_rng(seed)))

    @abstractmethod
    def drawn(self, network: Network, rng: np.random.Generator) -> DrawnNetwork:
        """The draws."""


@dataclass(frozen=True)
class LikelihoodWeighting(_Sampler):
    """Draws along the arrows with what was observed held fixed, each weighted by Π p(observed | its parents)."""

    draws: int = 10_000

    def drawn(self, network: Network, rng: np.random.Generator) -> DrawnNetwork:
        """Independent draws, whose mean weight is the probability of the evidence."""
        codes, logs = sampling.forward(network, network.observed, self.draws, rng)
        top = logs.max()
        if not np.isfinite(top):
            raise NotConverged(
                f"none of {self.draws:,} draws agrees with what was observed: it is impossible, or rare; raise draws, "
                "or condition without using="
            )
        weights = np.exp(logs - top)
        total = top + np.log(weights.mean())
        return DrawnNetwork(network, {n: v[None] for n, v in codes.items()}, (weights / weights.sum())[None], total)


@dataclass(frozen=True)
class NetworkGibbs(_Sampler):
    """Gibbs sampling: one variable after the other from its law given its Markov blanket, in chains side by side."""

    draws: int = 1000
    chains: int = 8
    warmup: int = 200

    def drawn(self, network: Network, rng: np.random.Generator) -> DrawnNetwork:
        """Chains that begin at draws along the arrows, weighted by the evidence."""
        observed = network.observed
        start, logs = sampling.forward(network, observed, max(1000, 10 * self.chains), rng)
        if not np.any(np.isfinite(logs)):
            raise NotConverged("no chain finds a beginning that agrees with what was observed; use LikelihoodWeighting")
        weights = np.exp(logs - logs.max())
        first = rng.choice(len(logs), size=self.chains, p=weights / weights.sum())
        state = {name: values[first] for name, values in start.items()}
        moving = [n for n in network.order if n not in observed.known and n not in observed.numbers]
        below, nodes = graph.children_of(network.parents), network.nodes
        kept: dict[str, list[np.ndarray]] = {name: [] for name in network.names}
        for step in range(self.warmup + self.draws):
            for name in moving:
                state[name] = _redrawn(nodes, name, below[name], state, observed, rng)
            if step >= self.warmup:
                for name, values in kept.items():
                    values.append(state[name])
        chains: dict[str, Array] = {name: np.stack(values, axis=1) for name, values in kept.items()}
        shape = (self.chains, self.draws)
        return DrawnNetwork(network, chains, np.full(shape, 1 / (self.chains * self.draws)), None)


def _redrawn(
    nodes: Mapping[str, Node],
    name: str,
    children: list[str],
    state: dict[str, Any],
    observed: Observed,
    rng: np.random.Generator,
) -> np.ndarray:
    """A variable of every chain from its law given all others."""
    law = nodes[name]
    if isinstance(law, LinearGaussian):
        mean, variance = sampling.center_of(nodes, law, state)
        precision, pull = 1 / variance, mean / variance
        for child in children:  # xᶜ = a + w x + noise
            of: Any = nodes[child]
            rest, noise = sampling.center_of(nodes, of, {**state, name: np.zeros_like(state[name])})
            one, _ = sampling.center_of(nodes, of, {**state, name: np.ones_like(state[name])})
            precision, pull = precision + (one - rest) ** 2 / noise, pull + (one - rest) * (state[child] - rest) / noise
        return np.asarray(pull / precision + rng.normal(size=len(state[name])) / np.sqrt(precision))
    k, chains = len(law.states), len(state[name])
    with np.errstate(divide="ignore"):
        logs = np.log(np.broadcast_to(sampling.rows_of(law, state), (chains, k)))
        if name in observed.soft:
            logs = logs + np.log(observed.soft[name])
        tried = {n: v[:, None] for n, v in state.items()} | {name: np.arange(k)[None]}
        for child in children:
            of = nodes[child]
            if isinstance(of, Table):
                logs = logs + np.log(np.asarray(of.values)[(*(tried[p] for p in of.parents), tried[child])])
            else:
                mean, variance = sampling.center_of(nodes, of, tried)
                logs = logs - 0.5 * ((tried[child] - mean) ** 2 / variance + np.log(variance))
    return sampling.categories(np.exp(logs - logs.max(1, keepdims=True)), rng)
