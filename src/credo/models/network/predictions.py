"""What a network says of a discrete variable: probabilities, by the names of its states."""

from typing import Any

import equinox as eqx
import numpy as np

from credo.core.arrays import Array, Numeric, as_float
from credo.core.errors import DataError
from credo.core.predictive import Categorical
from credo.core.predictive.classes import entropy_of


class States(Categorical):
    """P(x = k) of the states k by name: `law["yes"]`, or all of them as `dict(law.items())`."""

    states: tuple[str, ...] = eqx.field(static=True, default=())

    @classmethod
    def certain_of(cls, probs: Numeric, states: tuple[str, ...]) -> "States":
        """The prediction of somebody who knows the tables: all doubt is noise."""
        table = as_float(probs)
        return cls(table, entropy_of(table), states)

    def __getitem__(self, index: Any) -> Any:
        """The probability of a state by its name; else the predictions at some of the rows."""
        if not isinstance(index, str):
            return super().__getitem__(index)
        if index not in self.states:
            raise DataError(f"the states are {', '.join(self.states)}, found {index!r}")
        return self.probs[..., self.states.index(index)]

    def items(self) -> list[tuple[str, Array]]:
        """States and their probabilities."""
        return [(state, self.probs[..., i]) for i, state in enumerate(self.states)]

    @property
    def best(self) -> Any:
        """The name of the most probable state; of rows, an array of names."""
        found = np.asarray(self.states, dtype=object)[np.asarray(self.mode)]
        return found if self.shape else str(found)

    def __str__(self) -> str:
        if self.shape:
            return f"{len(self)} predictions of {', '.join(self.states)}"
        return ", ".join(f"{state} {float(p):.4g}" for state, p in self.items())
