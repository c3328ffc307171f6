"""Regret: what was lost by not having known the optimum, for experiments where it is known.

    instantaneous   r_t = f* - f(x_t)
    cumulative      R_t = Σ_{s≤t} r_s              what bandits pay
    simple          min_{s≤t} r_s                  what the best point found so far lacks
    inference       f* - f(x̂_t)                    what the point that the belief recommends lacks

All are of the function itself, not of noisy outcomes, and ≥ 0. Bubeck, Munos & Stoltz (2009), "Pure exploration in
multi-armed bandits problems"; Srinivas et al. (2010).
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from credo.core.errors import DataError

ROUNDING = 1e-9
"""A value may be better than the optimum by so much of its size: the optimum is known in decimals."""


class Curves(NamedTuple):
    """The regrets after each step."""

    instantaneous: Float[np.ndarray, "*r t"]
    cumulative: Float[np.ndarray, "*r t"]
    simple: Float[np.ndarray, "*r t"]
    inference: Float[np.ndarray, "*r t"] | None

    def __str__(self) -> str:
        last = {name: np.atleast_1d(v[..., -1]) for name, v in self._asdict().items() if v is not None}
        steps = self.instantaneous.shape[-1]
        said = ", ".join(f"{name} {float(np.median(v)):.4g}" for name, v in last.items() if name != "instantaneous")
        return f"regret after {steps} steps: {said}"


class Regret:
    """The bookkeeper of a problem whose best value is known.

    Args:
        optimum: f*, the best value there is.
        maximize: whether large values are good.
    """

    def __init__(self, optimum: object, maximize: bool = True):
        try:
            self.optimum = float(np.asarray(optimum, dtype=float))
        except (TypeError, ValueError):
            raise DataError(f"optimum must be a number, found {optimum!r}") from None
        if not np.isfinite(self.optimum):
            raise DataError(f"optimum must be finite, found {self.optimum}")
        self.maximize = maximize

    def instantaneous(self, values: object) -> Float[np.ndarray, "*r t"]:
        """f* - f(x_t) for the values f(x_t) in their order along the last axis (f(x_t) - f* when minimizing)."""
        try:
            f = np.asarray(values, dtype=float)
        except (TypeError, ValueError):
            found = type(values).__name__
            raise DataError(f"values must be numbers in the order of the steps, found {found}") from None
        if f.ndim == 0 or f.size == 0:
            raise DataError(f"values must be a sequence of at least one step, found shape {f.shape}")
        if not np.all(np.isfinite(f)):
            raise DataError("values contain NaN or infinity; leave failed steps out, or give what they cost")
        lost = self.optimum - f if self.maximize else f - self.optimum
        if lost.min() < -ROUNDING * max(abs(self.optimum), 1.0):
            worst = np.unravel_index(int(np.argmin(lost)), f.shape)
            raise DataError(
                f"the value {f[worst]:g} at step {int(worst[-1])} is better than the optimum {self.optimum:g}; pass "
                "values of the function without noise, and check `optimum` and `maximize`"
            )
        return np.maximum(lost, 0.0)

    def cumulative(self, values: object) -> Float[np.ndarray, "*r t"]:
        """R_t = Σ_{s≤t} r_s."""
        return np.cumsum(self.instantaneous(values), axis=-1)

    def average(self, values: object) -> Float[np.ndarray, "*r t"]:
        """R_t/t, which goes to zero for a method without regret."""
        total = self.cumulative(values)
        return total / np.arange(1, total.shape[-1] + 1)

    def simple(self, values: object) -> Float[np.ndarray, "*r t"]:
        """min_{s≤t} r_s."""
        return np.minimum.accumulate(self.instantaneous(values), axis=-1)

    def inference(self, recommended: object) -> Float[np.ndarray, "*r t"]:
        """f* - f(x̂_t), where x̂_t is the point with the best posterior mean after step t; it may rise again."""
        return self.instantaneous(recommended)

    def curves(self, values: object, recommended: object = None) -> Curves:
        """All of them; `recommended` are the values f(x̂_t)."""
        r = self.instantaneous(values)
        inference = None if recommended is None else self.inference(recommended)
        if inference is not None and inference.shape != r.shape:
            raise DataError(f"recommended must have one value per step {r.shape}, found shape {inference.shape}")
        return Curves(r, np.cumsum(r, axis=-1), np.minimum.accumulate(r, axis=-1), inference)

    def __repr__(self) -> str:
        return f"Regret(optimum={self.optimum:g}, maximize={self.maximize})"
