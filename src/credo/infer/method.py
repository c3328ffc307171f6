"""The four kinds of methods of beliefs: what `condition` and `fit` take as `using=`.

    Learner            chooses what is not integrated over, or averages over it
    Approximation      of any log density over a pytree
    RowApproximation   of a prior and a sum over rows, some rows at a time
    Solver             another form of some families' Bayes' rule

| | `condition` | `fit` |
| --- | --- | --- |
| Learner | those that `integrate`: what they return is conditioned already | chooses, then Bayes' rule |
| Approximation | of a belief with a log density | of the hyperparameters: the belief averaged over their draws |
| RowApproximation | of a belief whose likelihood is a sum over rows | - |
| Solver | in its form | hyperparameters in its form, then Bayes' rule in it |
"""

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from credo.core import params
from credo.core.abilities import HasLogDensity, HasRows
from credo.core.belief import Belief, warned
from credo.core.checks import check_count
from credo.core.errors import DataError
from credo.core.method import Method
from credo.infer.posterior import Posterior, trusted
from credo.infer.priors import Priors

if TYPE_CHECKING:
    from credo.infer.learning import Learned
    from credo.infer.rows import RowDensity
    from credo.infer.target import Target


COUNTS = dict.fromkeys(["chains", "draws", "thin", "members", "cores", "starts", "max_steps", "max_draws", "steps"], 1)
COUNTS |= dict.fromkeys(["max_depth", "particles", "moves", "most", "paths", "history", "points", "passes"], 1)
COUNTS |= {"batch": 1, "rank": 1, "warmup": 0}
"""The settings of methods that are whole numbers, and the least that each may be."""

NUMBERS: dict[str, tuple[Callable[[Any], bool], str]] = (
    dict.fromkeys(["tolerance", "spread", "gain"], (lambda v: v >= 0, "a number of at least 0"))
    | dict.fromkeys(
        ["step_size", "offset", "width", "widest", "degrees", "memory"], (lambda v: v > 0, "a positive number")
    )
    | dict.fromkeys(["ess", "target_acceptance"], (lambda v: 0 < v < 1, "a share between 0 and 1"))
    | dict.fromkeys(["burn", "jitter", "negligible"], (lambda v: 0 <= v < 1, "a share in [0, 1)"))
    | {"decay": (lambda v: 0 <= v <= 1, "in [0, 1]")}
)
"""The settings that are numbers, and what they must be: a name means the same in every method."""


def check_settings(method: Any) -> None:
    """`DataError` unless the settings of a method make sense; one that may be None is left to the method."""
    for setting in dataclasses.fields(method):
        name, value = setting.name, getattr(method, setting.name)
        if value is None and setting.default is None:
            continue
        if name in COUNTS:
            check_count(value, name, COUNTS[name])
        elif name in NUMBERS:
            good, words = NUMBERS[name]
            try:
                fine = not isinstance(value, bool) and abs(float(value)) < float("inf") and good(float(value))
            except (TypeError, ValueError):
                fine = False
            if not fine:
                raise DataError(f"{name} must be {words}, found {value!r}")


class _Checked(Method):
    """A method whose settings are looked at when it is made."""

    def __post_init__(self) -> None:
        check_settings(self)


def _in_words(needs: type | tuple[type, ...]) -> str:
    each = needs if isinstance(needs, tuple) else (needs,)
    return f"it needs {' or '.join(vars(cls).get('in_words', f'a {cls.__name__}') for cls in each)}"


class _OfFamilies(Method):
    """A method for the beliefs of some classes or abilities."""

    needs: ClassVar[type | tuple[type, ...]] = Belief

    def serves(self, subject: object, verb: str) -> bool:
        """Beliefs that are, or can do, what is needed."""
        return isinstance(subject, self.needs)

    def needs_of(self, subject: object, verb: str) -> str:
        """Which those are."""
        return _in_words(self.needs)


class Learner(_OfFamilies, _Checked, ABC):
    """Chooses what is not integrated over (hyperparameters, parameters of hidden variables), or averages over it."""

    integrates: ClassVar[bool] = False
    """Whether it averages over what it learns: then `condition` takes it, too."""

    @abstractmethod
    def learn(self, belief: Any, statistics: Any, fixed: Sequence[str], priors: Priors, seed: int) -> "Learned":
        """The belief with its numbers chosen, and how they were."""

    def longer(self) -> str:
        """What to ask for where it stopped too early."""
        return "Evidence(max_steps=1000) or EM(max_steps=1000)"

    def serves(self, subject: object, verb: str) -> bool:
        """`condition` takes those that integrate."""
        return isinstance(subject, self.needs) and (verb != "condition" or self.integrates)

    def needs_of(self, subject: object, verb: str) -> str:
        """What to call instead, or what it needs."""
        if isinstance(subject, self.needs):
            return f"it chooses numbers, call credo.fit(…, using={type(self).__name__}(…))"
        return _in_words(self.needs)

    def condition(self, belief: Any, *data: object, **options: Any) -> Any:
        """`fit`: numbers that are averaged over are not chosen first."""
        from credo.infer.learning import fit

        return fit(belief, *data, using=self, **options)


class Approximation(_Checked, ABC):
    """Approximates any log density over a pytree of numbers."""

    members: int = 32
    """Draws of the hyperparameters over which `fit` averages a belief."""

    @abstractmethod
    def run(self, target: "Target", seed: int = 0) -> Posterior:
        """The posterior of a target, with notes on whether to trust it."""

    def serves(self, subject: object, verb: str) -> bool:
        """`condition`: beliefs with a log density; `fit`: those with hyperparameters."""
        if verb == "condition":
            return isinstance(subject, HasLogDensity)
        return isinstance(subject, Belief) and bool(params.learnable(subject))

    def needs_of(self, subject: object, verb: str) -> str:
        """Which of the two is missing."""
        if verb != "condition":
            return "it draws hyperparameters, and there are none"
        more = ", call credo.fit to average over its hyperparameters" if params.learnable(subject) else ""
        return f"{_in_words(HasLogDensity)}{more}"

    def condition(self, belief: Any, *data: object, seed: int = 0, priors: object = None, **options: Any) -> Any:
        """The belief after the data, its numbers known as well as the method can tell."""
        statistics = belief.statistics(*data, **options)
        own = belief.by(self)
        if own is not None:
            return own.condition_on(statistics)
        return belief.given(trusted(self.run(belief.target(statistics, priors), seed)), statistics)


class RowApproximation(_Checked, ABC):
    """Approximates a density that is a prior and a sum over rows, some rows at a time."""

    @abstractmethod
    def run_density(self, density: "RowDensity", data: Any, seed: int = 0) -> Posterior:
        """The posterior of the numbers of a row density, with notes on whether to trust it."""

    def serves(self, subject: object, verb: str) -> bool:
        """`condition` of beliefs whose likelihood is a sum over rows."""
        return verb == "condition" and isinstance(subject, HasRows)

    def needs_of(self, subject: object, verb: str) -> str:
        """A sum over rows, to condition on."""
        return _in_words(HasRows) if verb == "condition" else "it conditions on rows, call belief.condition(…, using=…)"

    def condition(self, belief: Any, *data: object, seed: int = 0, **options: Any) -> Any:
        """The belief after the data, its numbers known as well as the method can tell."""
        statistics = belief.statistics(*data, **options)
        density, columns = belief.row_density(statistics)
        return belief.given(trusted(self.run_density(density, columns, seed)), statistics)


class Solver(_OfFamilies, ABC):
    """Another form of some families' Bayes' rule."""

    learns: ClassVar[bool] = True
    """Whether `fit` chooses hyperparameters first."""

    def adapt(self, belief: Any, statistics: Any) -> tuple[Any, Any]:
        """The belief, and the statistics, in a form in which hyperparameters are learned, too."""
        return belief, statistics

    def condition(self, belief: Any, *data: object, **options: Any) -> Any:
        """Bayes' rule in the form of this method."""
        own, statistics = self.adapt(belief, belief.statistics(*data, **options))
        return warned(own.condition_on(statistics))

    def conclude(self, belief: Any, statistics: Any, data: tuple[object, ...], options: Mapping[str, object]) -> Any:
        """The last step of `fit`: Bayes' rule of a belief that was adapted and whose hyperparameters are chosen."""
        return belief.condition_on(statistics)

    def serves(self, subject: object, verb: str) -> bool:
        """`learn` takes those with a form of their own to learn in."""
        return isinstance(subject, self.needs) and (verb != "learn" or type(self).adapt is not Solver.adapt)

    def needs_of(self, subject: object, verb: str) -> str:
        """What to call instead, or what it needs."""
        if isinstance(subject, self.needs):
            return "it conditions, call credo.fit or belief.condition"
        return _in_words(self.needs)
