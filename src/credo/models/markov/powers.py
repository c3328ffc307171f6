"""Powers of a transition table: where a chain is after t steps, and how soon it forgets where it started."""

import numpy as np
from jaxtyping import Float

from credo.core.errors import NotConverged

MOST_SQUARINGS = 52
"""2⁵² steps: beyond, float64 does not tell one step from the next."""


def multiply(a: Float[np.ndarray, "m k"], b: Float[np.ndarray, "k k"]) -> Float[np.ndarray, "m k"]:
    """AB with rows that sum to one again: rounding would grow with every squaring."""
    product = a @ b
    return product / product.sum(1, keepdims=True)


def advance(start: Float[np.ndarray, " k"], transition: Float[np.ndarray, "k k"], t: int) -> Float[np.ndarray, " k"]:
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


def farthest(power: Float[np.ndarray, "k k"], pi: Float[np.ndarray, " k"]) -> float:
    """maxᵢ TV(Pᵗ(i, ·), π) = maxᵢ ½ Σⱼ |Pᵗᵢⱼ - πⱼ|."""
    return float(0.5 * np.abs(power - pi).sum(1).max())


def mixing_steps(transition: Float[np.ndarray, "k k"], pi: Float[np.ndarray, " k"], epsilon: float) -> int:
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


def second_modulus(transition: Float[np.ndarray, "k k"]) -> float:
    """The second-largest modulus |λ₂| of the eigenvalues of P; 0 for a single state."""
    moduli = np.sort(np.abs(np.linalg.eigvals(transition)))
    return float(moduli[-2]) if len(moduli) > 1 else 0.0
