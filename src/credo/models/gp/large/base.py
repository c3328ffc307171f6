"""What the approximations of a Gaussian process share: the prior of a `GP`, the rows, and how they are asked.

A member is another form of the same belief: it has the learnable numbers of the `GP`, knows its `method`, and says
how rows become a posterior (`condition_on`) and a posterior values of the function (`posterior_at`).
"""

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar

import equinox as eqx
import numpy as np
from jaxtyping import Float

from credo.core import params
from credo.core.abilities import DrawsFunctions, HasCovariance, PredictsJointly
from credo.core.arrays import Array
from credo.core.errors import DataError
from credo.core.params import positive
from credo.core.pytrees import changed
from credo.infer.learning import Evidence, Learned
from credo.infer.method import Learner, Solver
from credo.kernels import Kernel
from credo.models.gp.base import FunctionValues
from credo.models.gp.belief import GP, PredictsOutcomes
from credo.models.gp.data import Rows
from credo.models.gp.evidence import Priors
from credo.models.gp.means import Mean
from credo.models.gp.staged import STRIDE, Staged

L = TypeVar("L", bound="LargeGP")

CHUNK = 2**22
"""The entries of a table of rows and features, or of rows and neighbours, that exist at a time."""

FIRST_ROWS = 256
"""Of so many random rows, conditioned exactly, learning takes its start."""
BELOW, ABOVE = 4.0, 1.5
"""How far that may be from the typical: few rows take a column that matters a little for one that does not matter, and
from an endless lengthscale no climb comes back."""
WORTH = 0.25
"""Nats a row that the bound may cost before it is asked whether lengthscales that were given are far off."""


class LargeGP(PredictsOutcomes):
    """A Gaussian process by an approximation whose cost grows with n, not n³.

    It comes from `GP(...).condition(X, y, using=...)` and has the learnable numbers of the `GP`.
    """

    kernel: Kernel
    mean: Mean
    method: Any = eqx.field(static=True)
    """The approximation, with its settings."""
    noise: Any = positive(None, unset=1.0)

    def __init__(self, gp: GP, method: Any):
        """The prior of a `GP`."""
        self.kernel, self.mean, self.noise, self.inputs = gp.kernel, gp.mean, gp.noise, gp.inputs
        self.method, self.seen, self.solved = method, None, None

    def like(self: L, gp: GP) -> L:
        """The same approximation of another prior."""
        return changed(self, kernel=gp.kernel, mean=gp.mean, noise=gp.noise, inputs=gp.inputs)

    # -- data ------------------------------------------------------------------------------------------------

    def prepare(self: L, *data: Any, **options: Any) -> tuple[L, Rows]:
        """Starting values in the units of the data where nothing was seen, and all rows, seen and new."""
        if self.seen is not None:
            return super().prepare(*data, **options)
        plain, rows = self.as_gp().prepare(*data, **options)
        return self.like(plain), rows

    def in_units(self: L, rows: Rows) -> L:
        """Starting values in the units of the data."""
        return self.like(self.as_gp().in_units(rows))

    def learner(self, priors: dict[str, Any]) -> Any:
        """Its method."""
        return self.method

    # -- predictions -----------------------------------------------------------------------------------------

    def function_at(self, rows: Array, joint: bool = False) -> FunctionValues:
        """The function at checked rows."""
        return super().function_at(rows, joint) if self.solved is None else self.posterior_at(rows, joint)

    @abstractmethod
    def posterior_at(self, rows: Array, joint: bool) -> FunctionValues:
        """The function at checked rows after data, a few at a time: in bounded memory."""

    def __repr__(self) -> str:
        return f"{super().__repr__()[:-1]}, by {self.method})"


class WeightSpaceGP(LargeGP, HasCovariance, DrawsFunctions, PredictsJointly):
    """A member of finitely many weights, which knows how all queries covary."""

    def __init__(self, gp: GP, method: Any):
        """The prior of a `GP`."""
        super().__init__(gp, method)

    def covariance(self, x: object, z: object = None) -> Float[Array, "m q"]:
        """The covariance of the function between two sets of queries, as it is believed now."""
        rows, columns = (self.queries(v) for v in (x, x if z is None else z))
        return self.prior.kernel.between(rows, columns) if self.solved is None else self.covariance_at(rows, columns)

    @abstractmethod
    def covariance_at(self, x: Float[Array, "m d"], z: Float[Array, "q d"]) -> Float[Array, "m q"]:
        """The posterior covariance of the function between checked rows."""


@dataclass(frozen=True)
class LargeMethod(Solver, Learner):
    """What the methods share: another form of a `GP`, whose hyperparameters are learned in that form."""

    needs: ClassVar[tuple[type, ...]] = (GP, LargeGP)
    belief: ClassVar[type]
    """What it makes of a `GP`."""

    @property
    @abstractmethod
    def max_steps(self) -> int:
        """Of a climb."""

    def longer(self) -> str:
        """The same with five times the steps: exact learning is no remedy."""
        return f"{type(self).__name__}(max_steps={5 * self.max_steps})"

    def form(self, gp: GP) -> Any:
        """The `GP` in this form, before data."""
        return self.belief(gp, self)

    def adapt(self, belief: Any, statistics: Rows) -> tuple[Any, Rows]:
        """The belief in this form, after the rows that it has seen; the rows as they are."""
        same = type(belief) is self.belief
        if same and (belief.seen is None or belief.method == self):
            return changed(belief, method=self), statistics
        own = self.form(belief.as_gp() if isinstance(belief, LargeGP) else belief.unconditioned())
        return (own if belief.seen is None else own.condition_on(belief.seen)), statistics

    def start(self, belief: Any, rows: Rows, fixed: Sequence[str], priors: Priors, seed: int) -> Any:
        """The belief with the hyperparameters of a few random rows, conditioned exactly."""
        if rows.n <= FIRST_ROWS:
            return belief
        few, slots = rows.at_most(FIRST_ROWS, seed), params.layout(belief, fixed)
        found = Staged(starts=2).learn(belief.as_gp(), few, fixed, priors, seed).belief
        typical, near = (np.array(params.to_vector(b, slots)) for b in (belief, found))
        held = params.from_vector(belief, slots, np.clip(near, typical - BELOW, typical + ABOVE))
        lost = float(found.evidence_of(few)) - float(held.as_gp().evidence_of(few))
        if lost < WORTH * few.n:
            return held
        for slot in slots:
            if slot.path.endswith("lengthscale"):  # far off if all are: one alone is of a column that does not matter
                part = slice(slot.start, slot.stop)
                least = (near - typical)[part].min()
                typical[part] += least - np.clip(least, -BELOW, ABOVE)
        return params.from_vector(belief, slots, np.clip(near, typical - BELOW, typical + ABOVE))

    def climb(self, belief: Any, rows: Rows, fixed: Sequence[str], priors: Priors, seed: int, **ends: Any) -> Learned:
        """The belief at the maximum of its evidence that is uphill from where it is."""
        climber = Evidence(starts=1, tolerance=1e-2, flat=False, **({"stride": STRIDE, "gain": 1e-5} | ends))
        return climber.learn(belief, rows, fixed, priors, seed)


def in_chunks(length: int, width: int) -> list[slice]:
    """The rows in chunks whose tables of this width have some million entries."""
    size = max(CHUNK // max(width, 1), 16)
    return [slice(i, min(i + size, length)) for i in range(0, length, size)] or [slice(0, 0)]


def check_one_of(value: object, name: str, known: Sequence[str]) -> None:
    """`DataError` unless the setting is one of the known words."""
    if value not in known:
        raise DataError(f"{name} must be one of {', '.join(known)}, found {value!r}")


def joined(parts: Sequence[tuple[Array, Array]]) -> tuple[Array, Array]:
    """The arrays of chunks, one after another."""
    if len(parts) == 1:
        return parts[0]
    first, second = (np.concatenate(each) for each in zip(*parts, strict=True))
    return first, second
