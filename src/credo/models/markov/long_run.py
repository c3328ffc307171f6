"""The long run of a chain: states taken out one at a time, and powers of its table of transitions.

Watching a chain only while it is among the first n states gives a chain again, whose transitions gain the detours
through the state taken out. The mass 1 - Pₙₙ that leaves a state is the sum of its other transitions; written as this
sum, without a subtraction, all results have small relative errors in every entry, whatever the condition of I - P.
Grassmann, Taksar & Heyman (1985); O'Cinneide (1993), "Entrywise perturbation theory and error analysis".
"""

import numpy as np
from jaxtyping import Float

from credo.core.errors import NotConverged

Matrix = Float[np.ndarray, "k k"]
Law = Float[np.ndarray, " k"]

MOST_SQUARINGS = 52
"""2⁵² steps: beyond, float64 does not tell one step from the next."""
LARGE = 1e150


@np.errstate(over="ignore", divide="ignore", invalid="ignore")
def stationary_of(transition: Matrix) -> Law:
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


def multiply(a: Float[np.ndarray, "m k"], b: Matrix) -> Float[np.ndarray, "m k"]:
    """AB with rows that sum to one again: rounding would grow with every squaring."""
    product = a @ b
    return product / product.sum(1, keepdims=True)


def advance(start: Law, transition: Matrix, t: int) -> Law:
    """start · Pᵗ, step by step or by repeated squaring, whichever multiplies less."""
    row, power = start[None], transition
    if t <= len(transition):
        for _ in range(t):
            row = multiply(row, power)
        return row[0]
    while t:
        if t % 2:
            row = multiply(row, power)
        t //= 2
        power = multiply(power, power) if t else power
    return row[0]


def farthest(power: Matrix, pi: Law) -> float:
    """maxᵢ TV(Pᵗ(i, ·), π) = maxᵢ ½ Σⱼ |Pᵗᵢⱼ - πⱼ|."""
    return float(0.5 * np.abs(power - pi).sum(1).max())


def mixing_steps(transition: Matrix, pi: Law, epsilon: float) -> int:
    """The least t with maxᵢ TV(Pᵗ(i, ·), π) ≤ ε, which does not increase with t: squaring, then bisection."""
    if farthest(np.eye(len(pi)), pi) <= epsilon:
        return 0
    powers = [transition]
    while farthest(powers[-1], pi) > epsilon:
        if len(powers) > MOST_SQUARINGS:
            raise NotConverged(
                f"after 2^{MOST_SQUARINGS} steps the chain is still {farthest(powers[-1], pi):.3g} from its stationary "
                f"distribution, farther than epsilon = {epsilon:g}; the chain is almost reducible, or epsilon too small"
            )
        powers.append(multiply(powers[-1], powers[-1]))
    if len(powers) == 1:
        return 1
    # Pᵗ is the largest power known not to have mixed: 2ʲ is added where it still has not
    t, power = 2 ** (len(powers) - 2), powers[-2]
    for j in range(len(powers) - 3, -1, -1):
        trial = multiply(power, powers[j])
        if farthest(trial, pi) > epsilon:
            t, power = t + 2**j, trial
    return t + 1


def second_modulus(transition: Matrix) -> float:
    """The second-largest modulus |λ₂| of the eigenvalues of P; 0 for a single state."""
    moduli = np.sort(np.abs(np.linalg.eigvals(transition)))
    return float(moduli[-2]) if len(moduli) > 1 else 0.0
