"""`ClassConditional`: sequences told apart by a belief about them for each class, such as an HMM.

    P(class | x) ∝ p(x | class) P(class),    P(class) from a Dirichlet with one count before data for each class

Each class has its own copy of the belief: conditioned on the sequences of that class where that is closed form
(`MarkovSequence`), else with its numbers learned from them, and then taken as known. What a prediction does not know is
noise. Rabiner (1989), "A tutorial on hidden Markov models", section V.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
from jaxtyping import Float

from credo.core.arrays import Array
from credo.core.belief import Belief
from credo.core.errors import DataError
from credo.core.predictive import Bernoulli, Categorical
from credo.core.pytrees import changed
from credo.core.special import log_rising
from credo.infer.learning import Learned, learn, learned_together
from credo.infer.method import Learner
from credo.infer.optimize import CONVERGED
from credo.infer.priors import Priors
from credo.models.conjugate.base import Conjugate
from credo.models.likelihoods.classes import Bernoulli as Two
from credo.models.likelihoods.classes import Categorical as Several
from credo.models.likelihoods.classes import Classes, Label
from credo.models.sequences import one_by_one


class Labelled(NamedTuple):
    """Sequences, and the position of the class of each."""

    sequences: list[Any]
    codes: np.ndarray
    options: "Options"


class Options(NamedTuple):
    """What goes with sequences: a table of inputs for each, and whether NaN is an entry that was not observed."""

    inputs: list[Any] | None
    missing: bool

    @classmethod
    def of(cls, inputs: Any, missing: bool, sequences: int) -> "Options":
        """Checked: inputs for each of so many sequences."""
        tables = None if inputs is None else _listed(inputs, "inputs")
        if tables is not None and len(tables) != sequences:
            raise DataError(f"inputs must have a table for each of the {sequences} sequences, found {len(tables)}")
        return cls(tables, bool(missing))

    def some(self, which: list[int]) -> dict[str, Any]:
        """As arguments, of some of the sequences."""
        found: dict[str, Any] = {"missing": True} if self.missing else {}
        return found if self.inputs is None else found | {"inputs": [self.inputs[i] for i in which]}

    def one(self, i: int) -> dict[str, Any]:
        """As arguments, of one of them."""
        found = self.some([i])
        return found | {"inputs": found["inputs"][0]} if "inputs" in found else found


class ClassConditional(Belief[Labelled]):
    """p(x | class) p(class) for sequences x: `credo.fit(ClassConditional(credo.HMM(2)), sequences, labels)`.

    Args:
        belief: what is believed of the sequences of one class before data: an `HMM`, an `LDS`, a `MarkovSequence`, or
            any other belief that is learned from a list of sequences and has a `log_evidence` of one.
    """

    from_data: ClassVar[tuple[str, ...]] = ("members", "counts")

    belief: Belief
    members: tuple[Belief, ...] | None
    """The belief of each class, learned."""
    counts: Float[Array, " k"] | None
    """How many sequences of each class were seen."""
    likelihood: Classes
    """Which classes there are."""

    def __init__(self, belief: object):
        if not isinstance(belief, Belief):
            raise DataError(f"ClassConditional takes a belief about sequences, found {type(belief).__name__}")
        self.belief, self.members, self.counts, self.likelihood = belief, None, None, Several()

    @property
    def classes(self) -> tuple[Label, ...] | None:
        """The labels in the order of the predicted probabilities; None before any were seen."""
        return self.likelihood.classes

    # -- data ------------------------------------------------------------------------------------------------

    def told(self, *data: Any) -> "ClassConditional":
        """The belief that knows its classes."""
        if len(data) != 2 or self.classes is not None:
            return self
        found = Several().found(data[1], 2, None)
        return changed(self, likelihood=Two(found) if len(found) == 2 else Several(found))

    def statistics(self, *data: Any, inputs: Any = None, missing: bool = False) -> Labelled:
        """Sequences and their labels; `inputs` is a list of tables, one for each, where the belief takes some."""
        if len(data) != 2:
            raise DataError(f"a ClassConditional is conditioned on sequences and labels, found {len(data)} argument(s)")
        sequences = _listed(data[0])
        codes = np.asarray(self.told(*data).likelihood.encode(data[1])).astype(int)
        if len(codes) != len(sequences):
            raise DataError(f"there must be a label for each of the {len(sequences)} sequences, found {len(codes)}")
        return Labelled(sequences, codes, Options.of(inputs, missing, len(sequences)))

    def prepare(self, *data: Any, **options: Any) -> tuple["ClassConditional", Labelled]:
        """The belief with a start for each class, and the data; what was learned before is learned anew."""
        fresh = changed(self.told(*data), members=None, counts=None)
        found = fresh.statistics(*data, **options)
        begun = (_begun(self.belief, own, options) for own, options in fresh.grouped(found))
        return changed(fresh, members=tuple(begun)), found

    def grouped(self, statistics: Labelled) -> list[tuple[list[Any], dict[str, Any]]]:
        """The sequences of each class, and what goes with them."""
        places = [np.flatnonzero(statistics.codes == code).tolist() for code in range(len(self.classes or ()))]
        return [([statistics.sequences[i] for i in which], statistics.options.some(which)) for which in places]

    def learner(self, priors: Any) -> "EachClass":
        """Each class on its own."""
        return EachClass()

    # -- Bayes' rule -----------------------------------------------------------------------------------------

    def condition_on(self, statistics: Labelled) -> "ClassConditional":
        """The shares of the classes after more sequences; what is believed of each class stays as it was learned."""
        self.learned()
        return changed(self, counts=self._counted() + self._count(statistics))

    def evidence_of(self, statistics: Labelled) -> Float[Array, ""]:
        """Σ log p(x | class) of the sequences, and log P(classes) under the Dirichlet."""
        members, options = self.learned(), statistics.options
        rows = enumerate(zip(statistics.sequences, statistics.codes, strict=True))
        own = sum(float(members[code].log_evidence(x, **options.one(i))) for i, (x, code) in rows)
        before, new = 1.0 + self._counted(), self._count(statistics)
        return own + log_rising(before, new).sum() - log_rising(before.sum(), new.sum())

    def log_evidence_of(self, statistics: Labelled) -> Float[Array, ""]:
        """`evidence_of`."""
        return self.evidence_of(statistics)

    def learned(self) -> tuple[Belief, ...]:
        """The belief of each class."""
        if self.members is None:
            raise DataError("what is believed of each class is not learned yet: credo.fit(belief, sequences, labels)")
        return self.members

    def _count(self, statistics: Labelled) -> Float[np.ndarray, " k"]:
        return np.bincount(statistics.codes, minlength=len(self.classes or ())).astype(float)

    def _counted(self) -> Float[Array, " k"]:
        return np.zeros(len(self.classes or ())) if self.counts is None else self.counts

    def _log_densities(self, sequences: list[Any], options: Options) -> Float[np.ndarray, "n k"]:
        """log p(x | class)."""
        rows = [(x, options.one(i)) for i, x in enumerate(sequences)]
        return np.array([[float(member.log_evidence(x, **more)) for member in self.learned()] for x, more in rows])

    # -- predictions -----------------------------------------------------------------------------------------

    def predict(self, sequences: Any, *, inputs: Any = None, missing: bool = False) -> Bernoulli | Categorical:
        """P(class | sequence) of each; the numbers of the classes are taken as known."""
        sequences = _listed(sequences)
        shares = 1.0 + self._counted()
        log_joint = self._log_densities(sequences, Options.of(inputs, missing, len(sequences))) + np.log(
            shares / shares.sum()
        )
        if not np.isfinite(log_joint.max(axis=1)).all():
            row = int(np.argmin(np.isfinite(log_joint.max(axis=1))))
            raise DataError(f"sequence {row} is impossible under every class")
        probs = np.exp(log_joint - log_joint.max(axis=1, keepdims=True))
        probs /= probs.sum(axis=1, keepdims=True)
        return Bernoulli.certain(probs[:, 1]) if len(shares) == 2 else Categorical.certain(probs)

    def __repr__(self) -> str:
        seen = "nothing" if self.counts is None else f"{int(self.counts.sum())} sequences of {len(self.counts)} classes"
        return f"ClassConditional({self.belief!r}, seen {seen})"


@dataclass(frozen=True)
class EachClass(Learner):
    """Learns the belief of each class from its sequences, by that belief's own method."""

    needs: ClassVar[type] = ClassConditional

    def learn(
        self, belief: ClassConditional, statistics: Labelled, fixed: Sequence[str], priors: Priors, seed: int
    ) -> Learned:
        """The beliefs at their maxima; of the optima, which belong to one class each, none are listed."""
        found: list[Learned] = []
        for member, (own, options) in zip(belief.learned(), belief.grouped(statistics), strict=True):
            if isinstance(member, Conjugate):  # Bayes' rule has said it all
                value = float(belief.belief.log_evidence(own))
                found.append(Learned(member, CONVERGED, value, [], {}, []))
            else:
                found.append(learn(belief.belief, own, fixed=fixed, seed=seed, report=True, **options))
        together = changed(belief, members=tuple(each.belief for each in found))
        names = map(str, belief.classes or ())
        return learned_together(together, dict(zip(names, found, strict=True)), "members")


def _begun(belief: Belief, sequences: list[Any], options: dict[str, Any]) -> Belief:
    """The belief after the sequences where that is closed form, else where learning starts."""
    if isinstance(belief, Conjugate):
        return belief.condition(sequences, **options)
    return belief.prepare(sequences, **options)[0]


def _listed(sequences: Any, name: str = "sequences") -> list[Any]:
    """The sequences one by one."""
    sequences = one_by_one(sequences)
    if not isinstance(sequences, list | tuple) or not sequences or np.ndim(sequences[0]) == 0:
        raise DataError(
            f"{name} must be a list of arrays, one for each sequence, found "
            f"{'an empty list' if isinstance(sequences, list | tuple) and not sequences else type(sequences).__name__}"
        )
    return list(sequences)
