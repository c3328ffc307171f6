"""Functions whose least value is known, to be found by a few evaluations.

Everyone maximizes -f; the regret of a point is f(x) - f*, without noise. The definitions and optima are those of
Surjanovic and Bingham's Virtual Library of Simulation Experiments, of Dixon and Szegő (1978) for Branin and Hartmann.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.stats import qmc

INITIAL = 10
"""Points of the initial design, the same for everyone."""


@dataclass(frozen=True)
class Objective:
    """f on a box, its minimizers and its least value."""

    function: Callable[[np.ndarray], np.ndarray]
    """f of each row."""
    low: Sequence[float]
    high: Sequence[float]
    minimizers: Sequence[Sequence[float]]
    least: float
    noise: float
    """Standard deviation of the noise of the noisy version."""

    @property
    def d(self) -> int:
        return len(self.low)

    @property
    def bounds(self) -> np.ndarray:
        """One row for the lower ends, one for the upper."""
        return np.array([self.low, self.high], float)

    def regret(self, x: np.ndarray) -> np.ndarray:
        """f(x) - f* of each row; what rounding leaves below zero is zero."""
        return np.maximum(self.function(np.atleast_2d(x)) - self.least, 0.0)

    def initial(self, seed: int) -> np.ndarray:
        """The first scrambled Sobol points of the seed."""
        points = qmc.Sobol(self.d, scramble=True, rng=np.random.default_rng(seed)).random_base2(4)[:INITIAL]
        return qmc.scale(points, self.low, self.high)


def branin(x: np.ndarray) -> np.ndarray:
    """(x₂ - 5.1 x₁²/4π² + 5 x₁/π - 6)² + 10 (1 - 1/8π) cos x₁ + 10."""
    a, b = x.T
    return (b - 5.1 / (4 * np.pi**2) * a**2 + 5 / np.pi * a - 6) ** 2 + 10 * (1 - 1 / (8 * np.pi)) * np.cos(a) + 10


def levy(x: np.ndarray) -> np.ndarray:
    """sin² πw₁ + Σ (wᵢ - 1)² (1 + 10 sin²(πwᵢ + 1)) + (w_d - 1)² (1 + sin² 2πw_d) with w = 1 + (x - 1)/4."""
    w = 1 + (x - 1) / 4
    inner = np.sum((w[:, :-1] - 1) ** 2 * (1 + 10 * np.sin(np.pi * w[:, :-1] + 1) ** 2), 1)
    return np.sin(np.pi * w[:, 0]) ** 2 + inner + (w[:, -1] - 1) ** 2 * (1 + np.sin(2 * np.pi * w[:, -1]) ** 2)


HEIGHTS = np.array([1.0, 1.2, 3.0, 3.2])
SCALES = np.array(
    [[10, 3, 17, 3.5, 1.7, 8], [0.05, 10, 17, 0.1, 8, 14], [3, 3.5, 1.7, 10, 17, 8], [17, 8, 0.05, 10, 0.1, 14]]
)
CENTERS = 1e-4 * np.array(
    [
        [1312, 1696, 5569, 124, 8283, 5886],
        [2329, 4135, 8307, 3736, 1004, 9991],
        [2348, 1451, 3522, 2883, 3047, 6650],
        [4047, 8828, 8732, 5743, 1091, 381],
    ]
)


def hartmann(x: np.ndarray) -> np.ndarray:
    """-Σᵢ aᵢ exp(-Σⱼ Aᵢⱼ (xⱼ - Pᵢⱼ)²), in six dimensions."""
    return -np.exp(-np.sum(SCALES * (x[:, None] - CENTERS) ** 2, -1)) @ HEIGHTS


def ackley(x: np.ndarray) -> np.ndarray:
    """20 + e - 20 exp(-0.2 √mean(x²)) - exp(mean cos 2πx)."""
    bowl = 20 * np.exp(-0.2 * np.sqrt(np.mean(x**2, 1)))
    return 20 + np.e - bowl - np.exp(np.mean(np.cos(2 * np.pi * x), 1))


BRANIN = Objective(
    branin,
    (-5, 0),
    (10, 15),
    minimizers=((-np.pi, 12.275), (np.pi, 2.275), (3 * np.pi, 2.475)),
    least=10 / (8 * np.pi),
    noise=1.0,
)
LEVY = Objective(levy, (-10,) * 4, (10,) * 4, minimizers=((1,) * 4,), least=0.0, noise=0.5)
HARTMANN = Objective(
    hartmann,
    (0,) * 6,
    (1,) * 6,
    minimizers=((0.20168951, 0.15001069, 0.47687398, 0.27533243, 0.31165162, 0.65730053),),
    least=-3.322368011415515,
    noise=0.1,
)
ACKLEY = Objective(ackley, (-5,) * 10, (10,) * 10, minimizers=((0,) * 10,), least=0.0, noise=0.5)
