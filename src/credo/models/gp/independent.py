"""`Independent`: several outputs, a Gaussian process or a linear model for each."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import equinox as eqx
import numpy as np
from jaxtyping import Float

from credo.core.arrays import Array, is_traced, namespace
from credo.core.belief import Belief
from credo.core.errors import DataError
from credo.core.predictive import Normal, Predictive
from credo.infer.learning import Evidence, Learned, learned_together
from credo.infer.method import Learner
from credo.models.gp.belief import GP
from credo.models.gp.evidence import Priors
from credo.models.gp.hyperpriors import below
from credo.models.linear import Linear

Outcomes = Any
"""`Rows` of a GP, `Seen` of a Linear."""
RowsOfOutputs = tuple[Outcomes | None, ...]


class Independent(Belief):
    """One belief for each column of Y; what is learned of one says nothing of the others.

    Y has shape (n, p) with NaN where an outcome is missing.

    Args:
        gps: the beliefs, one for each output: `GP`s or `Linear`s.
    """

    gps: tuple[GP | Linear, ...] = eqx.field(converter=tuple)

    def __check_init__(self) -> None:
        if not self.gps or not all(isinstance(gp, GP | Linear) for gp in self.gps):
            raise DataError("Independent takes a GP or a Linear for each output, e.g. [credo.GP(), credo.GP()]")
        if any(isinstance(gp, Linear) and (gp.is_robust or gp.noise_law.integrated) for gp in self.gps):
            raise DataError("Independent has normal predictions: a Linear in it needs a plain noise variance")

    def told(self, *data: Any) -> "Independent":
        """Each belief with the names of its inputs."""
        return Independent(tuple(gp.told(*data) for gp in self.gps))

    def statistics(self, *data: Any, **options: Any) -> RowsOfOutputs:
        """The rows of each output; None where all its outcomes are missing."""
        x, columns = self._columns(data)
        pairs = zip(self.gps, columns, strict=True)
        return tuple(None if column is None else gp.statistics(x, column, **options) for gp, column in pairs)

    def prepare(self, *data: Any, **options: Any) -> tuple["Independent", RowsOfOutputs]:
        """Each belief with its starting values, and its rows."""
        x, columns = self._columns(data)
        prepared: list[tuple[GP | Linear, Outcomes | None]] = []
        for i, (gp, column) in enumerate(zip(self.gps, columns, strict=True)):
            if column is None and gp.seen is None:
                raise DataError(f"every outcome of output {i} is missing; there is nothing to learn from")
            prepared.append(gp.prepare(x, column, **options) if column is not None else gp.prepare())
        return Independent(tuple(gp for gp, _ in prepared)), tuple(rows for _, rows in prepared)

    def _columns(self, data: tuple[Any, ...]) -> tuple[Any, list[Any]]:
        if len(data) != 2:
            raise DataError(f"a belief about several outputs is conditioned on X and Y, found {len(data)} argument(s)")
        return data[0], [column if _present(column) else None for column in split_outputs(data[1], len(self.gps))]

    def default_priors(self, statistics: RowsOfOutputs) -> dict[str, Any]:
        """Those of each belief."""
        out: dict[str, Any] = {}
        for i, (gp, rows) in enumerate(zip(self.gps, statistics, strict=True)):
            out |= {} if rows is None else below(f"gps.{i}", gp.default_priors(rows))
        return out

    def learner(self, priors: dict[str, Any]) -> Any:
        """Each on its own."""
        return PerOutput()

    def condition_on(self, statistics: RowsOfOutputs) -> "Independent":
        """Each posterior."""
        pairs = zip(self.gps, statistics, strict=True)
        return Independent(tuple(gp if rows is None else gp.condition_on(rows) for gp, rows in pairs))

    def evidence_of(self, statistics: RowsOfOutputs) -> Float[Array, ""]:
        """Σ log p(yⱼ | X)."""
        pairs = zip(self.gps, statistics, strict=True)
        return sum((gp.evidence_of(rows) for gp, rows in pairs if rows is not None), start=np.zeros(()))

    def unconditioned(self) -> "Independent":
        """Each belief before any data."""
        return Independent(tuple(gp.unconditioned() for gp in self.gps))

    def predict(self, x: object, *, joint: bool = False) -> Predictive:
        """p(Y* | x*, data), Normal of shape (m, p).

        `joint` keeps the covariance of the functions over (m·p), the outputs of a query side by side.
        """
        each: list[Any] = [gp.predict(x, joint=joint) for gp in self.gps]
        xp = namespace(each)
        mean, aleatoric, epistemic = (
            xp.stack([getattr(q, name) for q in each], axis=1) for name in ("mean", "aleatoric", "epistemic")
        )
        if not joint:
            return Normal(mean, aleatoric, epistemic)
        m, p = mean.shape
        every = xp.stack([q.latent_covariance for q in each])
        blocks = every.transpose(1, 0, 2)[..., None] * np.eye(p)[:, None, :]  # (m, p, m, p)
        return Normal(mean, aleatoric, epistemic, blocks.reshape(m * p, m * p))

    def __repr__(self) -> str:
        return f"Independent({', '.join(repr(gp) for gp in self.gps)})"


@dataclass(frozen=True)
class PerOutput(Learner):
    """Learns each belief with its own method: the evidence of independent outputs is a sum."""

    needs: ClassVar[type] = Independent

    def learn(
        self, belief: Independent, statistics: RowsOfOutputs, fixed: Sequence[str], priors: Priors, seed: int
    ) -> Learned:
        """The beliefs at their maxima; of the optima, which belong to one belief each, none are listed."""
        learned: list[Learned] = []
        for i, (gp, rows) in enumerate(zip(belief.gps, statistics, strict=True)):
            head = f"gps.{i}."
            mine = {path.removeprefix(head): prior for path, prior in priors.items() if path.startswith(head)}
            held = [path.removeprefix(head) for path in fixed if path.startswith(head)]
            assert rows is not None  # `prepare` has seen to it
            learner: Any = gp.learner(mine) or Evidence()
            looked_at, left_out = gp.learned_from(rows)
            found = learner.learn(gp, looked_at, held, mine, seed)
            learned.append(found._replace(notes=[*found.notes, *left_out]))
        together = Independent(tuple(each.belief for each in learned))
        return learned_together(together, {f"output {i}": each for i, each in enumerate(learned)}, "gps")


def split_outputs(y: Any, outputs: int) -> list[Any]:
    """The columns of Y, checked for their number only: NaN is a missing outcome."""
    table = y if is_traced(y) else _to_table(y)
    if table.ndim != 2 or table.shape[1] != outputs:
        raise DataError(f"Y must have shape (n, {outputs}), a column for each output, found shape {table.shape}")
    return [table[:, i] for i in range(outputs)]


def _to_table(y: Any) -> np.ndarray:
    raw = y.to_numpy() if hasattr(y, "to_numpy") else y
    try:
        return np.asarray(raw, dtype=float)
    except (TypeError, ValueError):
        raise DataError("Y must be a table of numbers, with NaN where an outcome is missing") from None


def _present(column: Any) -> bool:
    return is_traced(column) or not np.isnan(column).all()
