"""A belief is a value: conditioning it on data gives another belief, and it predicts.

Every model derives from `Belief`. The two verbs that users call, `condition` and `log_evidence`, are
written once here in terms of three things that a model provides:

    statistics(*data)          what the model keeps of the data (sufficient statistics, where they exist)
    condition_on(statistics)   Bayes' rule on them
    evidence_of(statistics)    log p(data | belief) from them, traceable by JAX

so that a loop over hyperparameters passes over the data once.
"""

import warnings
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

import equinox as eqx
import numpy as np
from jaxtyping import Float

from credo.core.arrays import Array, host
from credo.core.errors import DataError, NotConvergedWarning
from credo.core.method import TakesMethods, check_using, methods_of
from credo.core.params import Layout, Prior
from credo.core.predictive import Predictive
from credo.core.pytrees import changed

B = TypeVar("B", bound="Belief")
S = TypeVar("S")
"""What a belief keeps of the data."""


class Integration(NamedTuple):
    """What a family says of integrating over its hyperparameters by default, see `infer.hyper.importance`."""

    rows: int
    """How many rows, or outcomes, there are to learn from."""
    priors: Mapping[str, Prior] = MappingProxyType({})
    """By path: in the integral these take the place of `default_priors`, which `learn` uses."""
    firm: Any = None
    """The belief with proper priors of its own, where those it is learned with are improper or too wide to average."""
    units: Mapping[str, Any] = MappingProxyType({})
    """By path, of unconstrained coordinates that have those of the data."""
    climber: Any = None
    """The belief whose learner ends near the mode of the unconstrained numbers, where its own ends elsewhere."""


class Belief(eqx.Module, TakesMethods, Generic[S]):
    """What is believed, before or after seeing data: prior and posterior are the same kind of thing."""

    from_data: ClassVar[tuple[str, ...]] = ()
    """The fields that hold what data said, None before any; empty where data change the prior's own numbers."""

    @abstractmethod
    def statistics(self, *data: Any, **options: Any) -> S:
        """What the data say to this belief: checked arrays, or sufficient statistics where they exist."""

    @abstractmethod
    def condition_on(self, statistics: S) -> Any:
        """Bayes' rule on `statistics`."""

    @abstractmethod
    def evidence_of(self, statistics: S) -> Array:
        """log p(data | belief) from `statistics`; traceable."""

    @abstractmethod
    def predict(self, *x: Any, **options: Any) -> Predictive:
        """The posterior predictive distribution at x."""

    def condition(self, *data: Any, using: object = None, **options: Any) -> Any:
        """p(θ | data) ∝ p(data | θ) p(θ): the belief after seeing `data`.

        `using` names the inference method; None is the exact or best one for the model.
        """
        data = self.gathered(*data)
        told = self.told(*data)
        if using is not None:
            return check_using(using, told, "condition").condition(told, *data, **options)
        return warned(told.condition_on(told.statistics(*data, **options)))

    def gathered(self, *data: Any) -> tuple[Any, ...]:
        """The data as tables, where they come in chunks and the belief keeps all rows."""
        return data

    def told(self, *data: Any) -> Any:
        """The belief with what data say about themselves (names of columns, classes), where it was not told yet."""
        return self

    def returned(self) -> Any:
        """The belief in the form in which `learn` returns it: itself, where it is not learned in another."""
        return self

    def by(self, method: object) -> Any:
        """The belief in a form of its own of an approximation; None where it has none."""
        return None

    @property
    def methods(self) -> dict[str, tuple[str, ...]]:
        """The names of the methods that `condition` and `fit` take as `using=`, which follow from its abilities."""
        return {verb: tuple(sorted(cls.__name__ for cls in methods_of(self, verb))) for verb in ("condition", "fit")}

    def doubts(self) -> tuple[str, ...]:
        """Why not to trust what `condition` found by itself, in words; each is a `NotConvergedWarning`."""
        return ()

    def log_evidence(self, *data: Any, **options: Any) -> Array:
        """log p(data | belief) = log ∫ p(data | θ) p(θ) dθ."""
        data = self.gathered(*data)
        told = self.told(*data)
        return told.log_evidence_of(told.statistics(*data, **options))

    def log_evidence_of(self, statistics: S) -> Array:
        """`evidence_of`, compiled."""
        return host(_evidence(self, statistics))

    def log_evidences_of(self, beliefs: Sequence[Any], statistics: S) -> Float[Array, " b"]:
        """`log_evidence_of` of beliefs that differ from this one in their numbers, side by side where it can."""
        return np.asarray([float(each.log_evidence_of(statistics)) for each in beliefs])

    def unconditioned(self: B) -> B:
        """The belief before any data, with the hyperparameters it has; the names of inputs and classes stay."""
        if not self.from_data:
            raise DataError(
                f"a {type(self).__name__} keeps nothing but what it believes now; keep the prior to go back to it"
            )
        return changed(self, **dict.fromkeys(self.from_data))

    def choose(self, statistics: S) -> tuple[Any, str] | None:
        """Another form of Bayes' rule for so many data, and why, where the user names no method; None: its own."""
        return None

    def learned_from(self, statistics: S) -> tuple[S, list[str]]:
        """What `learn` looks at of the data, and in words what it leaves out; conditioning is on all of them."""
        return statistics, []

    def learner(self, priors: dict[str, Prior]) -> Any:
        """The method that `learn` uses when the user names none; None leaves it to `learn`."""
        return None

    def default_priors(self, statistics: S) -> dict[str, Any]:
        """Weakly informative priors by path for `learn`, where the model has some."""
        return {}

    def log_prior_of_parameters(self) -> Array | float:
        """log p(θ) of what is learned under the model's own priors, up to a constant; 0 where it has none."""
        return 0.0

    def integration(self, statistics: S) -> Integration | None:
        """How `fit` integrates over hyperparameters where data are few; None: it chooses them, however few."""
        return None

    def objective(self, slots: Layout, statistics: S, priors: dict[str, Prior]) -> Any:
        """log p(data | θ) + log p(θ) of the unconstrained vector with its gradient; None leaves it to `learn`."""
        return None

    def prepare(self, *data: Any, **options: Any) -> tuple[Any, S]:
        """The belief with its data-driven choices made (scales, domains, starting values), and the statistics.

        `learn` begins with this; a belief that has nothing to choose is returned as it is.
        """
        return self, self.statistics(*data, **options)


def warned(belief: B) -> B:
    """The belief, with a warning where it says itself that it is not to be trusted."""
    for doubt in belief.doubts() if isinstance(belief, Belief) else ():
        warnings.warn(f"do not trust this posterior as it is: {doubt}", NotConvergedWarning, stacklevel=4)
    return belief


@eqx.filter_jit
def _evidence(belief: Belief[S], statistics: S) -> Array:
    return belief.evidence_of(statistics)
