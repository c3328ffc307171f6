"""Weakly informative hyperpriors, in the units of the data.

A handful of rows can have their highest evidence where a lengthscale is absurd or all of y is noise, and predict
badly there. The defaults say what people know before they look: that a function varies over something like the
range of the inputs, that its variance is about that of the outcomes, and that some of it is noise. Each is wide
enough that a few dozen rows overrule it.
"""

from typing import Any

import numpy as np

from credo.core.params import LogNormal, learnable
from credo.kernels import Kernel, OnColumns, Product, Scales, Sum
from credo.models.gp.rows import Rows

LENGTHSCALE, VARIANCE, PERIOD, NOISE = 1.5, 1.5, 1.0, 2.0
"""Standard deviations of the log."""

TYPICAL_NOISE = 0.05
"""The mode of the noise, as a share of the variance of the outcomes."""


def default_priors(gp: Any, rows: Rows) -> dict[str, Any]:
    """A prior for each lengthscale, variance and period of the kernel, and for the noise."""
    scales = scales_of(rows)
    priors = {f"kernel.{path}": prior for path, prior in kernel_priors(gp.kernel, scales).items()}
    known = set(learnable(gp))
    if "noise" in known:
        priors["noise"] = LogNormal(TYPICAL_NOISE * scales.variance, NOISE)
    return {path: prior for path, prior in priors.items() if path in known}


def scales_of(rows: Rows) -> Scales:
    """The scales of the data; a single or constant outcome counts as one of its own size."""
    x, y, *_ = rows.cut()
    variance = float(y.var())
    smallest = (1e-8 * float(np.abs(y).max())) ** 2
    return Scales.of(x, variance if variance > smallest else float(np.mean(y**2)) or 1.0)


def kernel_priors(kernel: Kernel, scales: Scales) -> dict[str, Any]:
    """The priors of a kernel's numbers by path."""
    if isinstance(kernel, OnColumns):
        return _below("kernel", kernel_priors(kernel.kernel, scales.on(kernel.columns)))
    out: dict[str, Any] = {}
    parts = {"parts": kernel.parts} if isinstance(kernel, Sum) else {}
    parts = {"factors": kernel.factors} if isinstance(kernel, Product) else parts
    for name, children in parts.items():
        for i, child in enumerate(children):
            out |= _below(f"{name}.{i}", kernel_priors(child, scales))
    for path, value in learnable(kernel).items():
        if "." in path:
            continue
        typical = scales.spread * np.sqrt(len(scales.spread))
        if path == "lengthscale" and hasattr(kernel, "period"):
            out[path] = LogNormal(1.0, LENGTHSCALE)  # of the shape within a period: it has no units
        elif path == "lengthscale":
            out[path] = LogNormal(typical if np.ndim(value) else np.exp(np.log(typical).mean()), LENGTHSCALE)
        elif path == "variance":
            out[path] = LogNormal(scales.variance, VARIANCE)
        elif path == "period":
            span = scales.span / 5
            out[path] = LogNormal(span if np.ndim(value) else np.exp(np.log(span).mean()), PERIOD)
    return out


def _below(name: str, priors: dict[str, Any]) -> dict[str, Any]:
    return {f"{name}.{path}": prior for path, prior in priors.items()}
