"""Which parameters matter: Sobol's indices of a function over a space.

    Sᵢ = Var(E[f | xᵢ]) / Var f,    Tᵢ = E[Var(f | all but xᵢ)] / Var f

Sᵢ is the share of the variance that parameter i explains by itself, Tᵢ that with all its interactions. Parameters are
independent, each uniform over its range (log-uniform where it has that scale), constraints aside.
Saltelli et al. (2010), "Variance based sensitivity analysis of model output".
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from scipy.stats import sobol_indices

from credo.decide.space import Space
from credo.infer.quasi_random import sobol

POINTS = 1024


class Importance(NamedTuple):
    """The shares of one parameter."""

    name: str
    alone: float
    """Sᵢ."""
    total: float
    """Tᵢ."""


def importances(
    space: Space,
    function: Callable[[Float[np.ndarray, "m d"]], Float[np.ndarray, " m"]],
    points: int = POINTS,
    *,
    seed: int = 0,
) -> list[Importance]:
    """The indices of a function of encoded rows, in the order of the space; all zero where it is constant.

    The choices of a categorical parameter go together. A parameter that does not always exist counts where it does.
    """
    p, n = len(space.parameters), 2 ** max(points - 1, 0).bit_length()
    u = sobol(n, 2 * p, seed)
    a, b = ([each.columns(each.spread(v)) for each, v in zip(space.parameters, half.T, strict=True)]
            for half in (u[:, :p], u[:, p:]))  # fmt: skip
    mixed = [[*a[:i], b[i], *a[i + 1 :]] for i in range(p)]
    rows = np.concatenate([space.snap(np.concatenate(columns, axis=1)) for columns in (a, b, *mixed)])
    values = np.asarray(function(rows)).reshape(p + 2, 1, n)
    if values.var() <= 1e-24 * max(1.0, float(values.mean()) ** 2):
        return [Importance(name, 0.0, 0.0) for name in space.names]
    found = sobol_indices(func={"f_A": values[0], "f_B": values[1], "f_AB": values[2:]}, n=n)
    shares = zip(space.names, np.ravel(found.first_order), np.ravel(found.total_order), strict=True)
    return [Importance(name, float(np.clip(alone, 0.0, total)), float(total)) for name, alone, total in shares]
