"""Weakly informative hyperpriors, in the units of the data.

A handful of rows can have their highest evidence where a lengthscale is absurd or all of y is noise, and predict
badly there. The defaults say what people know before they look: that a function varies over something like the
range of the inputs, that its variance is about that of the outcomes, and that some of it is noise. Each is wide
enough that a few dozen rows overrule it.
"""

from typing import Any

import numpy as np
from jaxtyping import Float

from credo.core.arrays import Array
from credo.core.params import learnable
from credo.infer.priors import LogScalePenalty, NormalPenalty
from credo.kernels import InputScales, Kernel, OfNetwork, OnColumns, Product
from credo.kernels.coregion import Coregionalized
from credo.kernels.derivative import Differentiated
from credo.kernels.discrete import Coded
from credo.kernels.dotproduct import DotProduct
from credo.kernels.inputs import Mapped
from credo.kernels.periodic import CYCLES
from credo.models.gp.data import Rows

LENGTHSCALE, VARIANCE, PERIOD, NOISE = (1.0, 5.0), (2.0, 3.0), 1.0, 2.0
"""Standard deviations of the log, below and above the mode where they differ.

A lengthscale far above the spread of its column says that the column does not matter, which is common: hardly a
penalty. One far below fits noise.
"""

ABOVE = 1.5
"""The standard deviation of the log of a lengthscale above its mode, for an average: one over a column that does not
matter need not go to infinity."""

FEW = 3.0
"""The variance of a function, as a multiple of that of few outcomes of it, for an average."""

TYPICAL_NOISE = 0.05
"""The mode of the noise, as a share of the variance of the outcomes."""


def default_priors(gp: Any, rows: Rows) -> dict[str, Any]:
    """A prior for each lengthscale, variance and period of the kernel, and for the noise."""
    scales, _ = scales_of(gp.kernel, rows)
    priors = below("kernel", kernel_priors(gp.kernel, scales))
    known = set(learnable(gp))
    if "noise" in known:
        priors["noise"] = LogScalePenalty(TYPICAL_NOISE * scales.variance, NOISE)
    return {path: prior for path, prior in priors.items() if path in known}


def priors_to_integrate(priors: dict[str, Any]) -> dict[str, Any]:
    """The default priors for an average over hyperparameters, which needs to be told how wide they are."""
    out = dict(priors)
    for path, prior in priors.items():
        name = path.rpartition(".")[2]
        if name in ("lengthscale", "decay") and isinstance(prior, LogScalePenalty):
            out[path] = LogScalePenalty(prior.mode, (float(prior.below), ABOVE))
        elif name == "variance":
            out[path] = LogScalePenalty(FEW * prior.mode, (float(prior.below), float(prior.above)))
    return out


def scales_of(kernel: Kernel, rows: Rows) -> tuple[InputScales, float]:
    """The scales of the data and the mean outcome; a single or constant outcome counts as one of its own size.

    Observed slopes have other units and do not count.
    """
    x, y, *_ = rows.cut()
    values = y[x[:, -1] == 0] if isinstance(kernel, Differentiated) else y
    values = values if len(values) else y
    return InputScales.of(x, variance_of(values)), float(values.mean())


def variance_of(values: Float[np.ndarray, " n"]) -> float:
    """The variance of outcomes; where all are the same, their square."""
    variance = float(values.var())
    smallest = (1e-12 * float(np.abs(values).max())) ** 2
    return variance if variance > smallest else float(np.mean(values**2)) or 1.0


def kernel_priors(kernel: Kernel, scales: InputScales) -> dict[str, Any]:
    """The priors of a kernel's numbers by path."""
    if isinstance(kernel, OnColumns):
        scales = scales.on(kernel.columns)
    elif isinstance(kernel, Differentiated | Coregionalized):
        scales = scales.on(tuple(range(len(scales.spread) - 1)))  # the last column says what was observed
    elif isinstance(kernel, Mapped):
        scales = kernel.mapped_scales(scales)
    out: dict[str, Any] = {}
    for path, child in kernel.inside.items():
        out |= below(path, kernel_priors(child, scales))
    if isinstance(kernel, OfNetwork):  # features have no scales of their own: the weights have
        out = {path: prior for path, prior in out.items() if path.endswith("variance")}
        return out | {"weights": NormalPenalty(0.0, 1.0)}
    own = {path: value for path, value in learnable(kernel).items() if "." not in path}
    return out | {path: prior for path, value in own.items() if (prior := _prior(kernel, path, value, scales))}


def _prior(kernel: Kernel, name: str, value: Array, scales: InputScales) -> LogScalePenalty | None:
    """The prior of one number by its name; None leaves it to the data."""
    typical, span = scales.spread * np.sqrt(len(scales.spread)), scales.span / CYCLES
    if isinstance(kernel, Coded):
        return LogScalePenalty(scales.variance, VARIANCE) if name == "variance" else None
    if name == "lengthscale" and hasattr(kernel, "period"):
        return LogScalePenalty(1.0, LENGTHSCALE)  # of the shape within a period: it has no units
    if name in ("lengthscale", "decay"):
        return LogScalePenalty(typical if np.ndim(value) else np.exp(np.log(typical).mean()), LENGTHSCALE)
    if name == "variance":
        return LogScalePenalty(scales.variance / _unit(kernel, scales), VARIANCE)
    if name == "period":
        return LogScalePenalty(span if np.ndim(value) else np.exp(np.log(span).mean()), PERIOD)
    return None


def _unit(kernel: Kernel, scales: InputScales) -> float:
    """The typical k(x, x)/s²: one, but the squared size of the inputs for lines, whose s² is per squared unit."""
    if isinstance(kernel, OnColumns):
        return _unit(kernel.kernel, scales.on(kernel.columns))
    if isinstance(kernel, Product):
        return float(np.prod([_unit(k, scales) for k in kernel.factors]))
    if isinstance(kernel, DotProduct) and kernel.lengthscale is None:
        return float(np.square(scales.spread).sum()) ** getattr(kernel, "degree", 1)
    return 1.0


def below(name: str, priors: dict[str, LogScalePenalty]) -> dict[str, LogScalePenalty]:
    """The priors of a part by their paths in the whole."""
    return {f"{name}.{path}": prior for path, prior in priors.items()}
