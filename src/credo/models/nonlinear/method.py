"""What `using=` names here: how the law of a hidden state is carried through non-linear functions."""

from abc import abstractmethod
from typing import ClassVar, Generic, TypeVar

import equinox as eqx
import numpy as np
from jaxtyping import Bool, Float

from credo.core.abilities import Ability
from credo.core.arrays import Array, is_traced
from credo.core.errors import DataError, NotConverged, NotPositiveDefinite
from credo.core.gaussian import Gaussian
from credo.core.predictive import Predictive
from credo.infer.method import Solver
from credo.models.nonlinear.laws import Cloud
from credo.models.nonlinear.model import Dynamics
from credo.models.sequences import Sequences
from credo.models.state_laws import FilteredStates

L = TypeVar("L", bound=Gaussian | Cloud)
"""How the law of a state is represented."""
T = TypeVar("T")

FINE, STEP, OBSERVE, COVARIANCE, LOST = range(5)
"""What may be wrong with a row."""


class FiltersStates(Ability):
    """A hidden state whose law can be represented in several ways."""

    in_words: ClassVar[str] = "a StateSpaceModel"

    @abstractmethod
    def by(self, method: object) -> "FiltersStates":
        """The same belief, to be carried on by a method."""


class StateMethod(eqx.Module, Solver, Generic[L]):
    """How p(zₜ | x₁…xₜ) is represented and computed."""

    needs: ClassVar[type] = FiltersStates

    def adapt(self, belief: FiltersStates, statistics: T) -> tuple[FiltersStates, T]:
        """The belief carried on by this method."""
        return belief.by(self), statistics

    @abstractmethod
    def blank(self, model: Dynamics) -> L:
        """The law before any data, in the form that `run` begins with; a first row does not read it."""

    @abstractmethod
    def adopt(self, law: Gaussian | Cloud) -> L:
        """A law of the state that another method left, in the form of this one."""

    @abstractmethod
    def run(self, model: Dynamics, before: L, rows: Sequences) -> tuple[L, Array, Array]:
        """The law after the last row, log p(xₜ | x₁…xₜ₋₁) and what was wrong with each row."""

    @abstractmethod
    def filter(self, model: Dynamics, before: L, rows: Sequences) -> tuple[FilteredStates, Array]:
        """The law of each row, and what was wrong with it."""

    @abstractmethod
    def smooth(self, model: Dynamics, before: L, rows: Sequences) -> tuple[FilteredStates, Array]:
        """p(zₜ | x₁…x_T), and what was wrong with each row."""

    @abstractmethod
    def forecast(
        self, model: Dynamics, before: L, first: Bool[Array, " s"], inputs: Float[Array, "s c"] | None
    ) -> tuple[Predictive, Array]:
        """The outcomes of the next rows, and what was wrong with each."""


def check_status(status: Array, value: T, what: str = "row") -> T:
    """`value`, or an error that names the first row where something was wrong, and what."""
    if is_traced(status):
        return eqx.error_if(value, (status != FINE).any(), "a row of the data could not be filtered")
    bad = np.flatnonzero(status)
    if not len(bad):
        return value
    row, code = int(bad[0]), int(status[bad[0]])
    if code == STEP:
        raise DataError(
            f"step returned a state that is not finite, on the way to {what} {row}; the state may have left where step "
            "is defined: bound it there, or lower process_noise"
        )
    if code == OBSERVE:
        raise DataError(f"observe (or log_likelihood) is not finite at {what} {row}; bound it where the state may go")
    if code == COVARIANCE:
        raise NotPositiveDefinite(
            f"a covariance is not positive definite at {what} {row}: observation_noise is singular, or Unscented has "
            "negative weights; raise observation_noise, or choose kappa ≥ 0 and alpha = 1"
        )
    raise NotConverged(
        f"all particles have weight 0 at {what} {row}: none of them can have shown it; raise n, or process_noise, "
        "or give the likelihood heavier tails"
    )
