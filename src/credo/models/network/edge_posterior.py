"""How probable each arrow is, over all graphs that could have made the table, not in the best one alone.

    EveryGraph   exact: Σ over all graphs, each as probable as any other before the data; up to 12 variables
    OrderMCMC    draws of orders ≺; the sum over all graphs of an order is a product:
                 p(D | ≺) = Πⱼ Σ_{P before j} exp score(j, P),    P(i → j | ≺, D) is the share of the terms with i in P
    Bootstrap    how often a search finds the arrow in tables of rows drawn anew, with replacement

All graphs on S are counted by their sinks T, by inclusion and exclusion:

    Z(S) = Σ_{∅ ≠ T ⊆ S} (-1)^{|T| + 1} Z(S∖T) Π_{j ∈ T} Aⱼ(S∖T),    Aⱼ(U) = Σ_{P ⊆ U} exp score(j, P)

Under `OrderMCMC` a graph is as probable before the data as it has orders, which favours sparse ones.

Friedman & Koller (2003), "Being Bayesian about network structure"; Tian & He (2009), "Computing posterior probabilities
of structural features in Bayesian networks"; Friedman, Goldszmidt & Wyner (1999), "Data analysis with Bayesian
networks: a bootstrap approach".
"""

import warnings
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from itertools import combinations

import numpy as np
from jaxtyping import Float
from scipy.special import logsumexp

from credo.core.errors import DataError, NotConvergedWarning
from credo.core.method import Method
from credo.infer.method import check_settings
from credo.models.network.scores import Columns
from credo.models.network.structure import HillClimb, StructureProblem, StructureSearch, as_mask

MOST_GRAPHS = 12
"""Variables of which all graphs are summed over: 3^12 terms for each pair of them."""
APART = 0.1
"""Chains whose probabilities of an arrow differ by more (two standard errors) have not converged."""


@dataclass(frozen=True, eq=False)
class EdgeProbabilities:
    """P(parent → child | table) for every pair of variables."""

    names: tuple[str, ...]
    matrix: Float[np.ndarray, "d d"]
    """Row → column."""
    error: Float[np.ndarray, "d d"]
    """The standard error of each, 0 where it is exact."""

    def __getitem__(self, arrow: tuple[str, str]) -> float:
        """P(parent → child), e.g. `probabilities["smoke", "lung"]`."""
        return float(self.matrix[self._at(arrow[0]), self._at(arrow[1])])

    def _at(self, name: str) -> int:
        if name not in self.names:
            raise DataError(f"there is no variable {name!r}; there are {', '.join(self.names)}")
        return self.names.index(name)

    @property
    def adjacent(self) -> Float[np.ndarray, "d d"]:
        """P(there is an arrow, either way)."""
        return self.matrix + self.matrix.T

    def likely(self, least: float = 0.5) -> dict[tuple[str, str], float]:
        """The arrows that are at least so probable, the most probable first."""
        found = {(self.names[i], self.names[j]): float(self.matrix[i, j]) for i, j in np.argwhere(self.matrix >= least)}
        return dict(sorted(found.items(), key=lambda item: -item[1]))

    def __str__(self) -> str:
        rows = [f"{p:11.3f}  {a} → {b}" for (a, b), p in self.likely(0.05).items()]
        return "\n".join(["probability  arrow", *rows])


class EdgeMethod(Method, ABC):
    """A way to average over graphs: what `Network.edge_probabilities` takes as `using=`."""

    def __post_init__(self) -> None:
        check_settings(self)

    def serves(self, subject: object, verb: str) -> bool:
        """Tables whose arrows are asked for."""
        return isinstance(subject, StructureProblem) and verb == "edge_probabilities"

    def needs_of(self, subject: object, verb: str) -> str:
        """What to call."""
        return "it averages over graphs, call credo.Network.edge_probabilities(frame, using=…)"

    @abstractmethod
    def edges(self, problem: StructureProblem, seed: int = 0) -> EdgeProbabilities:
        """The probability of every arrow."""


@dataclass(frozen=True)
class EveryGraph(EdgeMethod):
    """The sum over all graphs; up to 12 variables."""

    def edges(self, problem: StructureProblem, seed: int = 0) -> EdgeProbabilities:
        """Z of the graphs with an arrow, over Z of all: only Aⱼ is another, over the sets with i in them."""
        local = problem.all_scores(MOST_GRAPHS, "draw orders with using=OrderMCMC()")
        d, size = problem.d, 1 << problem.d
        masks = np.arange(size)
        pairs = [(i, j) for j in range(d) for i in range(d) if not problem.forbidden[i, j]]
        log_a = np.stack([_over_subsets(row) for row in local])
        with_i = np.stack(
            [_over_subsets(np.where((masks >> i) & 1, local[j], -np.inf)) for i, j in pairs] or [local[0]]
        )
        child = np.array([j for _, j in pairs] or [0])
        log_z = np.full((size, len(child) + 1), -np.inf)  # the last column is of all graphs
        log_z[0] = 0.0
        for s in range(1, size):
            inner = masks[: s + 1][masks[: s + 1] & ~s == 0][:-1]
            sinks = s ^ inner
            member = (sinks[:, None] >> np.arange(d)) & 1 == 1
            common = np.where(member, log_a[:, inner].T, 0.0)
            total = common.sum(1)
            terms = log_z[inner] + total[:, None]
            has = member[:, child]
            own = np.where(has, with_i[:, inner].T, 0.0)
            rest = log_z[inner, :-1] + total[:, None] - np.where(has, common[:, child], 0.0)
            with np.errstate(invalid="ignore"):
                terms[:, :-1] = np.where(np.isneginf(rest) | np.isneginf(own), -np.inf, rest + own)
            signs = np.where(np.bitwise_count(sinks) % 2 == 1, 1.0, -1.0)
            log_z[s] = _signed_sum(terms, signs)
        out = np.zeros((d, d))
        for (i, j), z in zip(pairs, log_z[-1, :-1], strict=False):
            out[i, j] = np.exp(z - log_z[-1, -1])
        return EdgeProbabilities(problem.names, out, np.zeros((d, d)))


def _over_subsets(log_values: Float[np.ndarray, " m"]) -> Float[np.ndarray, " m"]:
    """log Σ_{P ⊆ U} exp of a function of sets, for every U."""
    out = log_values.copy()
    for i in range(len(out).bit_length() - 1):
        halves = out.reshape(-1, 2, 1 << i)
        halves[:, 1] = np.logaddexp(halves[:, 0], halves[:, 1])
    return out


def _signed_sum(terms: Float[np.ndarray, "m e"], signs: Float[np.ndarray, " m"]) -> Float[np.ndarray, " e"]:
    top = terms.max(0)
    shift = np.where(np.isfinite(top), top, 0.0)
    total = signs @ np.exp(terms - shift)
    with np.errstate(divide="ignore"):
        return shift + np.log(np.maximum(total, 0.0))


@dataclass(frozen=True)
class OrderMCMC(EdgeMethod):
    """Metropolis-Hastings over orders of the variables, with the sum over the graphs of each in closed form.

    Args:
        chains: independent ones, from random orders; where they disagree, a warning says so.
        draws: orders kept of each chain.
        thin: proposals between those.
        warmup: proposals before.
        most: how many parents a variable may have.
        candidates: of how many others a variable's parents are chosen: those with the highest scores.
    """

    chains: int = 4
    draws: int = 250
    thin: int = 10
    warmup: int = 1000
    most: int = 4
    candidates: int = 12

    def edges(self, problem: StructureProblem, seed: int = 0) -> EdgeProbabilities:
        """The mean over chains, with the standard error of their disagreement."""
        families = [self._families(problem, j) for j in range(problem.d)]
        rngs = [np.random.default_rng([seed, chain]) for chain in range(self.chains)]
        means = np.stack([self._chain(families, problem.d, rng) for rng in rngs])
        error = means.std(0, ddof=1) / np.sqrt(len(means)) if len(means) > 1 else np.full(means.shape[1:], np.nan)
        if np.nanmax(error, initial=0.0) > APART / 2:
            i, j = np.unravel_index(int(np.nanargmax(error)), error.shape)
            warnings.warn(
                f"the chains of orders disagree: {problem.names[i]} → {problem.names[j]} has probabilities from "
                f"{means[:, i, j].min():.2f} to {means[:, i, j].max():.2f}; raise draws= or thin= of OrderMCMC",
                NotConvergedWarning,
                stacklevel=3,
            )
        return EdgeProbabilities(problem.names, means.mean(0), error)

    def _families(self, problem: StructureProblem, j: int) -> "_Families":
        """The sets of parents of a variable, and their scores."""
        required = as_mask(problem.required[:, j])
        free = [int(i) for i in np.flatnonzero(~problem.forbidden[:, j] & ~problem.required[:, j])]
        alone = problem.score(j, required)
        gains = [problem.score(j, required | 1 << i) - alone for i in free]
        free = [free[i] for i in np.argsort(gains)[::-1][: self.candidates]]
        room = min(self.most, problem.max_parents) - required.bit_count()
        sets = [sum(1 << i for i in each) for k in range(max(room, 0) + 1) for each in combinations(free, k)]
        return _Families([each | required for each in sets], [problem.score(j, each | required) for each in sets])

    def _chain(self, families: list["_Families"], d: int, rng: np.random.Generator) -> Float[np.ndarray, "d d"]:
        order = [int(i) for i in rng.permutation(d)]
        heights = self._heights(families, order, 0, d)
        for _ in range(100):  # a white list may leave a random order impossible: begin at the first possible one
            if np.isfinite(sum(heights)):
                break
            order = [int(i) for i in rng.permutation(d)]
            heights = self._heights(families, order, 0, d)
        total, kept = np.zeros((d, d)), 0
        for step in range(self.warmup + self.draws * self.thin):
            a, b = sorted(int(i) for i in rng.choice(d, size=2, replace=False)) if d > 1 else (0, 0)
            if rng.random() < 0.5:
                b = min(a + 1, d - 1)
            proposed = order.copy()
            proposed[a], proposed[b] = order[b], order[a]
            new = self._heights(families, proposed, a, b + 1)
            change = sum(new) - sum(heights[a : b + 1])
            if np.log(rng.random()) < change or not np.isfinite(sum(heights)):
                order, heights[a : b + 1] = proposed, new
            if step >= self.warmup and (step - self.warmup) % self.thin == 0:
                before = 0
                for j in order:
                    total[:, j] += families[j].shares(before, d)
                    before |= 1 << j
                kept += 1
        return total / kept

    @staticmethod
    def _heights(families: list["_Families"], order: list[int], start: int, stop: int) -> list[float]:
        """log Σ_P exp score(j, P) of the variables at some places of an order."""
        before, out = sum(1 << i for i in order[:start]), []
        for j in order[start:stop]:
            out.append(families[j].height(before))
            before |= 1 << j
        return out


class _Families:
    """The sets of parents of one variable that are looked at, and sums over those that come before it in an order."""

    def __init__(self, sets: list[int], scores: list[float]):
        members = sorted({i for each in sets for i in range(each.bit_length()) if (each >> i) & 1})
        self.members, self.all = members, sum(1 << i for i in members)
        place = {i: 1 << k for k, i in enumerate(members)}
        self.sets = np.array([sum(place[i] for i in members if (each >> i) & 1) for each in sets])
        self.scores = np.array(scores)
        self.has = (self.sets[:, None] >> np.arange(len(members))) & 1 == 1
        self._known: dict[int, float] = {}

    def _allowed(self, before: int) -> np.ndarray:
        there = sum(1 << k for k, i in enumerate(self.members) if (before >> i) & 1)
        return self.sets & ~there == 0

    def height(self, before: int) -> float:
        """log Σ_P exp score over the sets before it."""
        before &= self.all
        if before not in self._known:
            allowed = self.scores[self._allowed(before)]
            self._known[before] = float(logsumexp(allowed)) if len(allowed) else -np.inf
        return self._known[before]

    def shares(self, before: int, d: int) -> Float[np.ndarray, " d"]:
        """P(i is a parent | order) for every i."""
        allowed = self._allowed(before & self.all)
        out = np.zeros(d)
        if self.members:
            out[self.members] = np.exp(self.scores[allowed] - self.height(before)) @ self.has[allowed]
        return out


@dataclass(frozen=True)
class Bootstrap(EdgeMethod):
    """How often a search finds an arrow in tables whose rows are drawn anew: how stable it is, not how probable.

    Args:
        draws: tables drawn.
        search: how each is searched.
    """

    draws: int = 50
    search: StructureSearch = field(default_factory=HillClimb)

    def edges(self, problem: StructureProblem, seed: int = 0) -> EdgeProbabilities:
        """The share of tables."""
        rng, columns = np.random.default_rng(seed), problem.columns
        counts = np.ones(len(columns.codes[0])) if columns.weights is None else columns.weights
        total = np.zeros((problem.d, problem.d))
        codes = np.stack(columns.codes, axis=1)
        for _ in range(self.draws):
            weights = rng.multinomial(int(counts.sum()), counts / counts.sum()).astype(float)
            drawn = Columns(columns.names, codes, columns.cardinalities, columns.numbers, weights)
            total += self.search.search(problem.with_columns(drawn)).adjacency
        share = total / self.draws
        return EdgeProbabilities(problem.names, share, np.sqrt(share * (1 - share) / self.draws))


def choose_edge_method(problem: StructureProblem) -> EdgeMethod:
    """All graphs where they can be summed over, else draws of orders."""
    return EveryGraph() if problem.d <= MOST_GRAPHS - 2 else OrderMCMC()
