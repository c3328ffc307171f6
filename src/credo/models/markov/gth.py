"""States taken out one at a time, without a subtraction: every digit of rare transitions survives.

Watching a chain only while it is among the first n states gives a chain again, whose transitions gain the detours
through the state taken out. The mass 1 - Pₙₙ that leaves a state is the sum of its other transitions; written as
this sum, all results have small relative errors in every entry, whatever the condition of I - P.
Grassmann, Taksar & Heyman (1985); O'Cinneide (1993), "Entrywise perturbation theory and error analysis".
"""

import numpy as np
from jaxtyping import Float

from credo.core.errors import NotConverged

LARGE = 1e150


@np.errstate(over="ignore", divide="ignore", invalid="ignore")
def stationary_of(transition: Float[np.ndarray, "k k"]) -> Float[np.ndarray, " k"]:
    """π = πP, Σ π = 1, of an irreducible chain."""
    p = np.array(transition)
    k = len(p)
    for n in range(k - 1, 0, -1):
        p[:n, n] /= p[n, :n].sum()
        p[:n, :n] += np.outer(p[:n, n], p[n, :n])
    pi = np.ones(k)
    for n in range(1, k):
        pi[n] = pi[:n] @ p[:n, n]
        if pi[n] > LARGE:  # a steep chain: what is 10⁻³⁰⁸ of the rest becomes zero, instead of the rest infinite
            pi[: n + 1] /= pi[n]
    return _finite(pi / pi.sum(), "the stationary distribution")


@np.errstate(over="ignore", divide="ignore", invalid="ignore")
def expected_sums(
    inside: Float[np.ndarray, "n n"], leaving: Float[np.ndarray, " n"], gains: Float[np.ndarray, "n q"]
) -> Float[np.ndarray, "n q"]:
    """X = (I - Q)⁻¹B: what is gained, B at each visit, until the n transient states are left.

    `inside` is Q, `gains` is B ≥ 0 and `leaving` = 1 - Σⱼ Qᵢⱼ the probability of leaving in one step.
    """
    q, out, b = np.array(inside), np.array(leaving), np.array(gains)
    k = len(q)
    mass = np.empty(k)
    for n in range(k - 1, -1, -1):
        mass[n] = q[n, :n].sum() + out[n]
        share = q[:n, n] / mass[n]
        q[:n, :n] += np.outer(share, q[n, :n])
        out[:n] += share * out[n]
        b[:n] += np.outer(share, b[n])
    x = np.empty_like(b)
    for n in range(k):
        x[n] = (b[n] + q[n, :n] @ x[:n]) / mass[n]
    return _finite(x, "the expected time")


def _finite(values: np.ndarray, what: str) -> np.ndarray:
    if not np.all(np.isfinite(values)):
        raise NotConverged(
            f"{what} is out of the range of float64: some states are left with a probability near 1e-308; "
            "drop transitions that are that rare"
        )
    return values
