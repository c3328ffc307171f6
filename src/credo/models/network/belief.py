"""`Network`: a Bayesian network, p(x₁, …, xₙ) = Πᵢ p(xᵢ | parents of xᵢ), and what was observed of it.

Pearl (1988), "Probabilistic reasoning in intelligent systems"; Koller & Friedman (2009), chapters 3, 9 and 10.
"""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import equinox as eqx
import numpy as np

from credo.core.arrays import Array, as_float, is_traced
from credo.core.belief import Belief
from credo.core.checks import check_real
from credo.core.errors import DataError
from credo.core.predictive import Predictive
from credo.core.pytrees import changed, plain_methods
from credo.core.text import counted
from credo.models.network import (
    causes,
    discovery,
    dynamic,
    edge_posterior,
    files,
    frames,
    graph,
    ignorance,
    junction_tree,
    learning,
    queries,
    rows,
    sampling,
)
from credo.models.network.nodes import LinearGaussian, Names, Node, NoisyOr, Table, node_of
from credo.models.network.observed import Observed, observed_of

Evidence = dict[str, Array]
"""What was observed: the likelihood of each state (0 and 1 where it is known) by variable; numbers as they are."""


class Network(Belief[Evidence]):
    """p(x₁, …, xₙ) = Πᵢ p(xᵢ | parents of xᵢ): discrete, linear-Gaussian and conditional-Gaussian variables.

        Network({
            "cloudy": {"yes": 0.5, "no": 0.5},
            "rain": ("cloudy", {"yes": [0.8, 0.2], "no": [0.2, 0.8]}),
            "wet": (["rain", "sprinkler"], [[[0.99, 0.01], [0.9, 0.1]], [[0.9, 0.1], [0.0, 1.0]]]),
            "temperature": LinearGaussian(["rain"], mean=[12.0, 18.0], variance=4.0), …
        }, states=("yes", "no"))

    Args:
        nodes: the law of each variable by name, see `nodes.node_of`; parents in any order.
        states: the names of the states where a law does not say: for all such variables, or by name. Else 0, 1, ….
    """

    from_data: ClassVar[tuple[str, ...]] = ("evidence",)

    names: Names = eqx.field(static=True)
    laws: tuple[Node, ...]
    evidence: Evidence | None = None
    __getattribute__ = plain_methods

    def __init__(
        self, nodes: Mapping[str, Any], *, states: Sequence[str] | Mapping[str, Sequence[str]] | None = None
    ) -> None:
        if not isinstance(nodes, Mapping) or not nodes:
            raise DataError(f"nodes must be the laws of variables by name, found {nodes!r:.60}")
        self.names = tuple(str(name) for name in nodes)
        self.laws = _checked(_built(nodes, states))

    @property
    def nodes(self) -> dict[str, Node]:
        """The law of each variable by name."""
        return dict(zip(self.names, self.laws, strict=True))

    @property
    def parents(self) -> dict[str, Names]:
        """The parents of each variable by name."""
        return {name: law.parents for name, law in self.nodes.items()}

    @property
    def states(self) -> dict[str, Names]:
        """The states of each discrete variable by name."""
        return {name: law.states for name, law in self.nodes.items() if isinstance(law, Table)}

    @property
    def edges(self) -> list[tuple[str, str]]:
        """The arrows, (parent, child)."""
        return [(parent, name) for name, parents in self.parents.items() for parent in parents]

    def with_nodes(self, nodes: Mapping[str, Node]) -> "Network":
        """The network with some laws replaced or added; what was observed stays."""
        return changed(type(self)({**self.nodes, **nodes}), evidence=self.evidence)

    def told(self, *data: Any) -> Any:
        """Itself for what was observed of one case; in the form in which tables are learned for a frame of many."""
        return learning.TableLearning.of(self) if len(data) == 1 and frames.is_frame(self, data[0]) else self

    def statistics(self, observed: Any) -> Evidence:
        """What `{name: state, likelihoods of its states, or a number}` says."""
        if not isinstance(observed, Mapping):
            raise DataError(f"evidence must be what was observed by name, found a {type(observed).__name__}")
        return {str(name): self._likelihood(str(name), value) for name, value in observed.items()}

    def _likelihood(self, name: str, value: Any) -> Array:
        node = self.nodes[self.check_name(name)]
        if isinstance(node, LinearGaussian):
            return np.asarray(check_real(value, f"the evidence on {name!r}"))
        if np.ndim(value) == 0:
            likelihood = np.zeros(len(node.states))
            likelihood[state_index(name, value, node.states)] = 1.0
            return likelihood
        soft = as_float(value, f"the evidence on {name!r}")
        if soft.shape != (len(node.states),) or not np.all((soft >= 0) & np.isfinite(soft)) or not soft.any():
            raise DataError(
                f"soft evidence on {name!r} must be a likelihood ≥ 0 of each state ({', '.join(node.states)}), "
                f"not all zero, found {value!r}"
            )
        return soft

    def check_name(self, name: object) -> str:
        """The name, or `DataError` where no variable has it."""
        if not isinstance(name, str) or name not in self.names:
            raise DataError(f"there is no variable {name!r} in the network; it has {_listed(self.names)}")
        return name

    def condition_on(self, statistics: Evidence) -> "Network":
        """p(x | evidence): likelihoods multiply those of earlier evidence."""
        both = dict(self.evidence or {})
        for name, value in statistics.items():
            if name in both and isinstance(self.nodes[name], LinearGaussian) and both[name] != value:
                raise DataError(f"{name!r} was observed to be {both[name]:g} and cannot be {value:g} too")
            both[name] = both[name] * value if name in both and isinstance(self.nodes[name], Table) else value
        return changed(self, evidence=both)

    def evidence_of(self, statistics: Evidence) -> Array:
        """log p(evidence | what was observed before); -inf where it is impossible."""
        both = self.condition_on(statistics).evidence
        now = queries.log_evidence(self, observed_of(self, both))
        return now - queries.log_evidence(self, observed_of(self, self.evidence)) if self.evidence else now

    def log_evidence_of(self, statistics: Evidence) -> Array:
        """`evidence_of`, in NumPy."""
        return self.evidence_of(statistics)

    @property
    def observed(self) -> Observed:
        """What was observed, as states that are known, likelihoods and numbers."""
        return observed_of(self, self.evidence)

    @property
    def probability_of_evidence(self) -> float:
        """p(what was observed), a density where numbers are among it."""
        return float(np.exp(queries.log_evidence(self, self.observed)))

    def predict(self, name: str, frame: Any = None) -> Predictive:
        """One variable given what was observed: `States`, a `Normal`, or a `Mixture` of them.

        Args:
            name: the variable.
            frame: rows of further evidence, columns by name (a data frame, or a dict of columns), with empty cells for
                what was not observed: one prediction for each row, in one pass.
        """
        self.check_name(name)
        if frame is None:
            law, _ = queries.predicted(self, name, self.observed)
            if self.evidence and not is_traced(self):  # all of it, not only what says something of the variable
                junction_tree.check_possible(queries.log_evidence(self, self.observed), "what was observed")
            return ignorance.with_ignorance(self, name, law, None)
        columns = frames.coded(self, frame)
        if not columns or not len(next(iter(columns.values()))):
            raise DataError("the frame is empty: it has no rows; at least one is needed")
        law = rows.predicted_rows(self, name, columns, self.observed)
        return ignorance.with_ignorance(self, name, law, columns)

    def marginals(self, names: Sequence[str] | None = None) -> dict[str, dict[str, float]]:
        """Every variable (or those named): {name: {state: probability}}, {name: {"mean": …, "std": …}} for numbers."""
        asked = self.names if names is None else tuple(map(self.check_name, names))
        return queries.marginals(self, self.observed, asked)

    def explain(self) -> "Explanation":
        """The most probable explanation: the values of all variables together that maximize p(x | observed)."""
        observed = self.observed
        values, best = queries.most_probable(self, observed)
        total = float(queries.log_evidence(self, observed))
        junction_tree.check_possible(np.asarray(best), "what was observed")
        return Explanation(values, best - total)

    @property
    def order(self) -> list[str]:
        """The variables, parents before children."""
        return graph.order_of(self.parents)

    @property
    def factorization(self) -> str:
        """The joint law as a product: p(a) p(b | a) …."""
        parts = ((name, self.parents[name]) for name in self.order)
        return " ".join(f"p({name} | {', '.join(above)})" if above else f"p({name})" for name, above in parts)

    def markov_blanket(self, name: str) -> set[str]:
        """Parents, children and the children's other parents: given these, nothing else says anything of it."""
        return graph.markov_blanket(self.parents, self.check_name(name))

    def moral_graph(self) -> set[frozenset[str]]:
        """The edges of the undirected graph in which each variable and its parents are all connected."""
        return graph.moral_edges(self.parents)

    def trails(self, x: str, y: str, given: Sequence[str] = (), most: int = 100) -> list[graph.Trail]:
        """The trails between two variables, the shorter first, and whether each is open given others."""
        return graph.trails(self.parents, self.check_name(x), self.check_name(y), self._given(given), most)

    def d_separated(self, x: str, y: str, given: Sequence[str] = ()) -> graph.Separation:
        """Whether y says nothing of x given others, whatever the tables are, and why: the trails that are open.

        What the network was conditioned on by states that are known is given, too.
        """
        return graph.d_separation(self.parents, self.check_name(x), self.check_name(y), self._given(given))

    def _given(self, given: Sequence[str]) -> set[str]:
        known = {*self.observed.known, *self.observed.numbers}
        return {*(map(self.check_name, [given] if isinstance(given, str) else given)), *known}

    def do(self, settings: Mapping[str, Any] | None = None, /, **named: Any) -> "Network":
        """The network after variables were *set*: what made them what they are no longer does. Evidence of afterwards
        follows: `net.do(x="yes").condition({…})`. Probabilities of states are a setting at random.
        """
        nodes, numbers = causes.surgery(self, {**(settings or {}), **named})
        evidence = {**(self.evidence or {}), **numbers}
        return changed(type(self)(nodes), evidence=evidence or None)

    def adjustment(self, x: str, y: str, latent: Sequence[str] = ()) -> "causes.Adjustment":
        """What to look at to learn the effect of x on y from rows in which x was seen, not set: the smallest back-door
        set, else a front-door set. `latent` cannot be looked at. Effects that only other formulas identify are refused.
        """
        return causes.adjustment(self, x, y, latent)

    def counterfactual(self, name: str, do: Mapping[str, Any], seen: Mapping[str, Any] | None = None) -> Predictive:
        """A number as it would have been had others been set, in the very case seen; for networks of numbers."""
        return causes.counterfactual(self, do, seen or {}, name)

    @classmethod
    def learn_structure(cls, frame: Any, score: Any = None, **options: Any) -> "Network":
        """A network with arrows and tables learned from a frame; see `discovery.learn_structure` for its options."""
        return discovery.learn_structure(frame, score, **options)

    @staticmethod
    def edge_probabilities(frame: Any, score: Any = None, **options: Any) -> "edge_posterior.EdgeProbabilities":
        """How probable each arrow is given a frame; see `discovery.edge_probabilities` for its options."""
        return discovery.edge_probabilities(frame, score, **options)

    def distance(self, other: "Network") -> int:
        """The structural Hamming distance of the equivalence classes: in how many pairs of variables they differ."""
        return discovery.distance(self, other)

    def equivalence_class(self) -> "discovery.EquivalenceClass":
        """The arrows that every network has that no table can tell from this one, and those that may be turned."""
        return discovery.equivalence_class(self)

    def unrolled(self, t: int) -> "Network":
        """A dynamic network of two slices over t steps: x and x' (the next step's x) become x[0], x[1], …, x[t - 1]."""
        return changed(type(self)(dynamic.unrolled(self.nodes, t)))

    def sample(self, n: int, *, seed: int = 0) -> dict[str, np.ndarray]:
        """n joint draws given what was observed, as columns by name: exact, one variable after the other."""
        return sampling.draws(self, n, seed)

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> "Network":
        """A network from a BIF or an XMLBIF file."""
        return cls(files.read(path))

    def write(self, path: str | os.PathLike[str]) -> Path:
        """Writes BIF, or XMLBIF where the name ends in .xml or .xmlbif; what was observed is not part of it."""
        return files.write(self.nodes, path)

    def plot(self, *, ax: Any = None, **options: Any) -> Any:
        """The variables and arrows, with what was observed and how it changed each variable; see `plots.network`."""
        from credo import plots  # which loads matplotlib and networkx when it is asked

        return plots.network(self, ax=ax, **options)

    def __str__(self) -> str:
        seen = f", {counted(len(self.evidence), 'observation')}" if self.evidence else ""
        return f"Network of {counted(len(self.names), 'variable')} and {counted(len(self.edges), 'arrow')}{seen}"


class Explanation(dict[str, Any]):
    """The values of a most probable explanation by name, and the logarithm of their probability given the evidence."""

    def __init__(self, values: Mapping[str, Any], log_probability: float) -> None:
        super().__init__(values)
        self.log_probability = log_probability


def state_index(name: str, value: object, states: Names) -> int:
    """The index of a state by its name."""
    text = str(value)
    if text not in states:
        raise DataError(f"{name!r} has the states {_listed(states)}, found {value!r}")
    return states.index(text)


def _built(
    nodes: Mapping[str, Any], states: Sequence[str] | Mapping[str, Sequence[str]] | None
) -> dict[str, Node | NoisyOr]:
    """The laws as nodes; rows by states of parents are read after the parents."""
    named = states if isinstance(states, Mapping) else {}
    default = None if states is None or isinstance(states, Mapping) else tuple(states)
    extra = [name for name in named if name not in nodes]
    if extra:
        raise DataError(f"states has {extra[0]!r}, which is no variable of the network")
    built: dict[str, Node | NoisyOr] = {}
    known: dict[str, Names] = {}
    left = {str(name): law for name, law in nodes.items()}
    while left:
        before = len(left)
        for name in list(left):
            try:
                law = node_of(name, left[name], named.get(name, default), known)
            except DataError:
                wanted = left[name][0] if isinstance(left[name], tuple) else ()
                waiting = [p for p in ([wanted] if isinstance(wanted, str) else wanted) if p in left and p != name]
                if not waiting:
                    raise
                continue
            built[name] = law
            known |= {} if isinstance(law, LinearGaussian) else {name: law.states}
            del left[name]
        if len(left) == before:
            parents = {name: list(np.atleast_1d(left[name][0])) for name in left}
            graph.order_of({name: tuple(p for p in parents[name] if p in left) for name in left})
            raise DataError(f"the tables of {_listed(list(left))} cannot be read")
    return {str(name): built[str(name)] for name in nodes}


def _checked(nodes: Mapping[str, Node | NoisyOr]) -> tuple[Node, ...]:
    for name, law in nodes.items():
        absent = [p for p in law.parents if p not in nodes]
        if absent:
            raise DataError(f"{name!r} has the parent {absent[0]!r}, which is no variable of the network; add its law")
    graph.order_of({name: law.parents for name, law in nodes.items()})
    states = {name: law.states for name, law in nodes.items() if not isinstance(law, LinearGaussian)}
    checked: list[Node] = []
    for name, law in nodes.items():
        numbers = [p for p in law.parents if p not in states]
        of = [states[p] for p in law.parents if p in states]
        if isinstance(law, LinearGaussian):
            checked.append(law.checked(name, of, len(numbers)))
            continue
        if numbers:
            raise DataError(
                f"{name!r} is discrete and its parent {numbers[0]!r} is a number: only numbers may depend on numbers; "
                "turn the arrow round, or cut the number into intervals"
            )
        checked.append((law.table(name, of) if isinstance(law, NoisyOr) else law).checked(name, of))
    return tuple(checked)


def _listed(names: Sequence[str], most: int = 12) -> str:
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")
