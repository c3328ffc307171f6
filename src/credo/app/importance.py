"""Which parameters matter: Sobol's indices of a function over a space.

    Sᵢ = Var(E[f | xᵢ]) / Var f,    Tᵢ = E[Var(f | all but xᵢ)] / Var f

Sᵢ is the share of the variance that parameter i explains by itself, Tᵢ that with all its interactions. Parameters are
independent, each uniform over its range (log-uniform where it has that scale), constraints aside. With two quasi-random
samples A and B, and A_i, which is A with parameter i from B,

    Var(E[f | xᵢ]) ≈ mean f(B)(f(A_i) - f(A)),    E[Var(f | all but xᵢ)] ≈ ½ mean (f(A) - f(A_i))².

Saltelli et al. (2010), "Variance based sensitivity analysis of model output", table 2 (b) and (f).
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

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
    seed: int = 0,
) -> list[Importance]:
    """The indices of a function of encoded rows, in the order of the space; all zero where it is constant.

    The choices of a categorical parameter go together. A parameter that does not always exist counts where it does.
    """
    p = len(space.parameters)
    u = sobol(2 ** max(points - 1, 0).bit_length(), 2 * p, seed)
    a, b = _columns(space, u[:, :p]), _columns(space, u[:, p:])
    mixed = [[*a[:i], b[i], *a[i + 1 :]] for i in range(p)]
    rows = np.concatenate([space.snap(np.concatenate(columns, axis=1)) for columns in (a, b, *mixed)])
    at_a, at_b, *at_mixed = np.split(np.asarray(function(rows)), p + 2)
    both = np.concatenate([at_a, at_b])
    middle, variance = both.mean(), both.var()
    found = []
    for parameter, at in zip(space.parameters, at_mixed, strict=True):
        if variance <= 1e-24 * max(1.0, middle**2):
            found.append(Importance(parameter.name, 0.0, 0.0))
            continue
        total = float(0.5 * np.mean((at_a - at) ** 2) / variance)
        alone = float(np.mean((at_b - middle) * (at - at_a)) / variance)
        found.append(Importance(parameter.name, min(max(alone, 0.0), total), total))
    return found


def _columns(space: Space, u: Float[np.ndarray, "n p"]) -> list[np.ndarray]:
    return [each.columns(each.spread(u[:, i])) for i, each in enumerate(space.parameters)]
