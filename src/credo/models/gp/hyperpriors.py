"""Weakly informative hyperpriors, in the units of the data.

A handful of rows can have their highest evidence where a lengthscale is absurd or all of y is noise, and predict
badly there. The defaults say what people know before they look: that a function varies over something like the
range of the inputs, that its variance is about that of the outcomes, and that some of it is noise. Each is wide
enough that a few dozen rows overrule it.
"""

import dataclasses
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from credo.core.params import learnable
from credo.core.predictive.base import to_array
from credo.kernels import Kernel, OnColumns, Product, Scales
from credo.kernels.coregion import Coregionalized
from credo.kernels.derivative import Differentiated
from credo.kernels.discrete import Coded
from credo.kernels.dotproduct import DotProduct
from credo.kernels.periodic import CYCLES
from credo.models.gp.data import Rows

LENGTHSCALE, VARIANCE, PERIOD, NOISE = (1.0, 5.0), (2.0, 3.0), 1.0, 2.0
"""Standard deviations of the log, below and above the mode where they differ.

A lengthscale far above the spread of its column says that the column does not matter, which is common: hardly a
penalty. One far below fits noise.
"""

Penalty = Callable[[np.ndarray], tuple[float, np.ndarray]]

TYPICAL_NOISE = 0.05
"""The mode of the noise, as a share of the variance of the outcomes."""


class Typical(eqx.Module):
    """What a positive number typically is: a penalty ½(log(θ/mode)/spread)², with a spread for either side.

    For climbing it is the log density of θ itself; to integrate over, `centered` is the density that is as wide,
    with the same mode, on the scale of log θ.
    """

    mode: Float[Array, "*k"]
    below: Float[Array, ""]
    above: Float[Array, ""]

    def __init__(self, mode: Any, spread: Any):
        below, above = spread if isinstance(spread, tuple) else (spread, spread)
        self.mode, self.below, self.above = (to_array(v) for v in (mode, below, above))

    def log_prob(self, value: Array) -> Array:
        """-½(log(θ/mode)/spread)², up to a constant."""
        z = jnp.log(value / self.mode)
        return -0.5 * jnp.square(z / jnp.where(z < 0, self.below, self.above))

    @property
    def log_mass(self) -> Float[Array, ""]:
        """log ∫ exp(log_prob) d log θ, for one number."""
        return jnp.log(0.5 * (self.below + self.above) * jnp.sqrt(2 * jnp.pi))

    def centered(self) -> "Centered":
        """The prior to integrate over."""
        return Centered(self)

    def covariance(self, k: int) -> Float[np.ndarray, "k k"]:
        """Of the logarithms of k numbers."""
        return np.square(0.5 * (float(self.below) + float(self.above))) * np.eye(k)

    def on_host(self) -> Penalty:
        """Σ log_prob as a function of log θ, with its gradient, in NumPy."""
        mode, below, above = np.log(np.ravel(self.mode)), float(self.below), float(self.above)

        def penalty(logs: np.ndarray) -> tuple[float, np.ndarray]:
            z = logs - mode
            spread = np.where(z < 0, below, above)
            return -0.5 * float(np.sum((z / spread) ** 2)), -z / spread**2

        return penalty


class Alike(Typical):
    """What k numbers typically are that resemble each other: z = log(θ/mode) ~ N(0, σ² 11ᵀ + τ² I), up to a constant.

    Their common level is as far from the mode as σ = `spread` allows, each of them as far from that level as
    τ = `among`: lengthscales of many columns that few rows cannot tell apart.
    """

    among: Float[Array, ""]

    def __init__(self, mode: Any, spread: Any, among: Any):
        super().__init__(mode, spread)
        self.among = to_array(among)

    def log_prob(self, value: Array) -> Array:
        """-½ zᵢ [(σ² 11ᵀ + τ² I)⁻¹ z]ᵢ, whose sum is the log density up to a constant."""
        z = jnp.log(value / self.mode)
        level = jnp.square(self.below) * z.sum() / (jnp.square(self.among) + z.size * jnp.square(self.below))
        return -0.5 * z * (z - level) / jnp.square(self.among)

    @property
    def log_mass(self) -> Float[Array, ""]:
        """log ∫ exp(Σ log_prob) d log θ, a k-th of it."""
        k, own = self.mode.size, jnp.square(self.among)
        together = jnp.log(own + k * jnp.square(self.below)) + (k - 1) * jnp.log(own)
        return 0.5 * (jnp.log(2 * jnp.pi) + together / k)

    def covariance(self, k: int) -> Float[np.ndarray, "k k"]:
        """σ² 11ᵀ + τ² I."""
        return float(self.below) ** 2 * np.ones((k, k)) + float(self.among) ** 2 * np.eye(k)

    def on_host(self) -> Penalty:
        """Σ log_prob as a function of log θ, with its gradient, in NumPy."""
        mode, common, own = np.log(np.ravel(self.mode)), float(self.below) ** 2, float(self.among) ** 2

        def penalty(logs: np.ndarray) -> tuple[float, np.ndarray]:
            z = logs - mode
            solved = (z - common * z.sum() / (own + len(z) * common)) / own
            return -0.5 * float(z @ solved), -solved

        return penalty


class Centered(eqx.Module):
    """log θ has a normal density with the spreads of a `Typical` below and above its mode, normalized."""

    typical: Typical

    def log_prob(self, value: Array) -> Array:
        """The log density of θ."""
        return self.typical.log_prob(value) - self.typical.log_mass - jnp.log(value)


def default_priors(gp: Any, rows: Rows) -> dict[str, Any]:
    """A prior for each lengthscale, variance and period of the kernel, and for the noise."""
    scales, _ = scales_of(gp.kernel, rows)
    priors = {f"kernel.{path}": prior for path, prior in kernel_priors(gp.kernel, scales).items()}
    known = set(learnable(gp))
    if "noise" in known:
        priors["noise"] = Typical(TYPICAL_NOISE * scales.variance, NOISE)
    return {path: prior for path, prior in priors.items() if path in known}


def scales_of(kernel: Kernel, rows: Rows) -> tuple[Scales, float]:
    """The scales of the data and the mean outcome; a single or constant outcome counts as one of its own size.

    Observed slopes have other units and do not count.
    """
    x, y, *_ = rows.cut()
    values = y[x[:, -1] == 0] if isinstance(kernel, Differentiated) else y
    values = values if len(values) else y
    variance = float(values.var())
    smallest = (1e-8 * float(np.abs(values).max())) ** 2
    scales = Scales.of(x, variance if variance > smallest else float(np.mean(values**2)) or 1.0)
    return scales, float(values.mean())


def kernel_priors(kernel: Kernel, scales: Scales) -> dict[str, Any]:
    """The priors of a kernel's numbers by path."""
    if isinstance(kernel, OnColumns):
        scales = scales.on(kernel.columns)
    elif isinstance(kernel, Differentiated | Coregionalized):
        scales = scales.on(tuple(range(len(scales.spread) - 1)))  # the last column says what was observed
    out: dict[str, Any] = {}
    for field in dataclasses.fields(kernel):
        value = getattr(kernel, field.name)
        if isinstance(value, Kernel):
            out |= _below(field.name, kernel_priors(value, scales))
        elif isinstance(value, tuple):
            for i, child in enumerate(value):
                if isinstance(child, Kernel):
                    out |= _below(f"{field.name}.{i}", kernel_priors(child, scales))
    own = {path: value for path, value in learnable(kernel).items() if "." not in path}
    return out | {path: prior for path, value in own.items() if (prior := _prior(kernel, path, value, scales))}


def _prior(kernel: Kernel, name: str, value: Any, scales: Scales) -> Typical | None:
    """The prior of one number by its name; None leaves it to the data."""
    typical, span = scales.spread * np.sqrt(len(scales.spread)), scales.span / CYCLES
    if isinstance(kernel, Coded):
        return Typical(scales.variance, VARIANCE) if name == "variance" else None
    if name == "lengthscale" and hasattr(kernel, "period"):
        return Typical(1.0, LENGTHSCALE)  # of the shape within a period: it has no units
    if name in ("lengthscale", "decay"):
        return Typical(typical if np.ndim(value) else np.exp(np.log(typical).mean()), LENGTHSCALE)
    if name == "variance":
        return Typical(scales.variance / _unit(kernel, scales), VARIANCE)
    if name == "period":
        return Typical(span if np.ndim(value) else np.exp(np.log(span).mean()), PERIOD)
    return None


def _unit(kernel: Kernel, scales: Scales) -> float:
    """The typical k(x, x)/s²: one, but the squared size of the inputs for lines, whose s² is per squared unit."""
    if isinstance(kernel, OnColumns):
        return _unit(kernel.kernel, scales.on(kernel.columns))
    if isinstance(kernel, Product):
        return float(np.prod([_unit(k, scales) for k in kernel.factors]))
    if isinstance(kernel, DotProduct) and kernel.lengthscale is None:
        return float(np.square(scales.spread).sum()) ** getattr(kernel, "degree", 1)
    return 1.0


def _below(name: str, priors: dict[str, Any]) -> dict[str, Any]:
    return {f"{name}.{path}": prior for path, prior in priors.items()}
