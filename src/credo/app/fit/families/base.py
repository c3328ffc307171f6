"""`Family`: a kind of model that a table or a series is tried with.

    propose ─▶ learn each, by `credo.fit` ─▶ follow ─▶ … ─▶ the chosen one `again` on all rows ─▶ its `sections`

A family knows what suits the data and what follows from what was learned; the search knows no family by name.
"""

import abc
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from credo.core.belief import Belief
from credo.infer.learning import Learned, fit

if TYPE_CHECKING:
    from credo.app.fit.search import Data, Fitted
    from credo.app.report.page import Section


class Candidate(NamedTuple):
    """A model to try."""

    name: str
    about: str
    """What it assumes, in a sentence."""
    belief: Any
    """A belief, as it is before the data."""
    seconds: float = 0.1
    """How long learning it is expected to take on a plain machine; what is tried in a given time depends on that."""
    using: Callable[[], object] | None = None
    """What makes the method of learning, where it is not the belief's own; a deadline begins when learning does."""
    options: Mapping[str, Any] = MappingProxyType({})
    """What else `credo.fit` takes."""
    refused: str = ""
    """Why it is not tried."""
    approximate: bool = False
    """Whether what its method says of itself belongs into the description."""
    baseline: bool = False
    """Whether it looks at no input: what a model must beat to be worth anything."""


class Family(abc.ABC):
    """A kind of model."""

    kinds: ClassVar[tuple[str, ...]] = ("number",)
    """The targets that it serves: "number", "classes", "count" or "series"."""

    @abc.abstractmethod
    def propose(self, data: "Data") -> list[Candidate]:
        """What suits the data, the simplest first."""

    def follow(self, done: "Sequence[Fitted]", data: "Data") -> list[Candidate]:
        """What to try after these of the family; it is asked again until nothing is new."""
        return []

    def learn(self, candidate: Candidate, data: "Data", rows: Any, seed: int) -> Learned:
        """The candidate after these rows."""
        arguments, options = data.examples(rows, candidate)
        method: dict[str, Any] = {} if candidate.using is None else {"using": candidate.using()}
        return fit(candidate.belief, *arguments, report=True, seed=seed, **options, **method, **candidate.options)

    def evidence(self, learned: Learned, candidate: Candidate, data: "Data", rows: Any) -> float:
        """The log evidence by which the candidate is compared with others."""
        return learned.log_evidence

    def again(self, best: "Fitted") -> Candidate:
        """The same model for other rows."""
        return best.candidate

    def kept(self, belief: Belief) -> Belief:
        """What of the belief goes into the file."""
        return belief

    def sections(self, fitted: "Fitted", data: "Data", chosen: bool) -> "list[Section]":
        """What only this family has to say about a model, for the report; the chosen one has learned from all rows."""
        return []
