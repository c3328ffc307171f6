"""A fitted Gaussian process in words: a sentence for each additive part, in the units of the data.

    RBF                      a smooth function of x with a typical length of 2.3
    Linear                   a linear trend in x, rising by 0.5 per unit
    Periodic × RBF           a pattern in x that repeats every 1.00, slowly changing in shape over 30
    … × Linear               …, with an amplitude that grows with x

Lloyd et al. (2014), "Automatic construction and natural-language description of nonparametric regression models".
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from credo.core import params
from credo.core.arrays import Array
from credo.infer.averaging import Integrated
from credo.kernels import Constant, Exponential, Kernel, Matern32, RationalQuadratic, Stationary
from credo.kernels.dotproduct import Linear
from credo.kernels.expression import placed, terms_of
from credo.kernels.periodic import LocallyPeriodic, Periodic
from credo.models.gp.belief import GP
from credo.models.gp.components import Component, Decomposition, decompose

KNOWN_PERIODS = {
    "years": {1.0: "yearly", 0.5: "half-yearly", 0.25: "quarterly", 1 / 12: "monthly", 7 / 365.2425: "weekly"},
    "days": {365.2425: "yearly", 30.44: "monthly", 7.0: "weekly", 1.0: "daily"},
    "months": {12.0: "yearly", 3.0: "quarterly"},
    "hours": {24.0: "daily", 168.0: "weekly"},
}
"""Names of periods by the unit of the input."""
Leaves = list[tuple[Any, tuple[int, ...]]]
"""Base kernels with their columns."""
CLOSE = 0.02
TREND = 0.9
"""A smooth part whose correlation with its input is at least this is called a trend."""


def describe(
    gp: GP | Integrated, *, units: Mapping[str, str] | None = None, decomposition: Decomposition | None = None
) -> list[str]:
    """A sentence for each additive part of the function, the one that explains most first, and one for the noise.

    Args:
        gp: a conditioned belief.
        units: of the inputs, by name (x0, x1, … where they have none), e.g. {"month": "years"}.
        decomposition: at the data, where it is known already.
    """
    found = decompose(gp) if decomposition is None else decomposition
    rows, _ = gp.conditioned()
    x, *_ = rows.cut()
    names = gp.inputs or tuple(f"x{i}" for i in range(x.shape[1]))
    speaker = Speaker(names, dict(units or {}), x)
    said = [speaker.sentence(part) for part in found.parts if not part.is_mean]
    deviation = np.sqrt(float(gp.noise_variance()))
    return [*said, f"Noise with a standard deviation of {number(deviation)}{_share(found.noise_share, 'is')}."]


class Speaker:
    """Turns parts into sentences, knowing the names, units and values of the inputs."""

    def __init__(self, names: Sequence[str], units: Mapping[str, str], x: np.ndarray):
        self._names, self._units, self._x = names, units, x

    def sentence(self, part: Component) -> str:
        """The part in words, with what it explains."""
        text = self.phrase(part)
        return f"{text[0].upper()}{text[1:]}{_share(part.share, 'explains')}."

    def phrase(self, part: Component) -> str:
        """The part in words."""
        if part.kernel is None or isinstance(part.kernel, Constant):
            return "a constant"
        leaves = _leaves(params.settled(part.kernel))
        if leaves is None:
            return f"a function with the covariance {part.kernel.formula()}"
        periodic = [(k, c) for k, c in leaves if isinstance(k, Periodic)]
        smooth = [(k, c) for k, c in leaves if isinstance(k, Stationary)]
        lines = [(k, c) for k, c in leaves if isinstance(k, Linear)]
        if periodic:
            return self._pattern(periodic, smooth, lines)
        if smooth:
            return self._smooth(smooth, part.mean) + self._modulated(lines)
        return self._trend(lines, part.mean)

    def _pattern(self, periodic: Leaves, smooth: Leaves, lines: Leaves) -> str:
        kernel, columns = periodic[0]
        period = float(np.ravel(np.asarray(kernel.period))[0])
        known = KNOWN_PERIODS.get(self._units.get(self._names[columns[0]], ""), {})
        name = next((word for p, word in known.items() if abs(period / p - 1) < CLOSE), "")
        unit = self._unit(columns)
        shown = f"{period:.2f}" if 0.095 <= period < 9.995 else number(period)
        said = f"a {name} pattern in {self._of(columns)}" if name else f"a pattern in {self._of(columns)}"
        said += f" with a period of {shown}{unit}"
        for more, where in periodic[1:]:
            said += (
                f", times one with a period of {number(float(np.ravel(np.asarray(more.period))[0]))}{self._unit(where)}"
            )
        if isinstance(kernel, LocallyPeriodic):
            said += f", slowly changing in shape over {self._length(kernel.decay)}{unit}"
        for wide, where in smooth:
            over = self._length(wide.lengthscale)
            if where == columns:
                said += f", slowly changing in shape over {over}{self._unit(where)}"
            else:
                said += f", changing with {self._of(where)} over {over}{self._unit(where)}"
        return said + self._modulated(lines)

    def _smooth(self, smooth: Leaves, mean: np.ndarray) -> str:
        kernel, columns = smooth[0]
        rough = any(isinstance(k, Exponential | Matern32) for k, _ in smooth)
        word = "rough" if rough else "smooth"
        every = tuple(dict.fromkeys(c for _, cs in smooth for c in cs))
        lengths = [np.broadcast_to(np.asarray(k.lengthscale), len(cs)) for k, cs in smooth]
        if len(every) == 1:
            length, unit = float(lengths[0][0]), self._unit(columns)
            way = self._direction(columns[0], mean)
            if way and not rough:
                return (
                    f"a smooth, {way} trend in {self._of(columns)} that bends over a length of {number(length)}{unit}"
                )
            scales = " and of many more" if isinstance(kernel, RationalQuadratic) else ""
            return f"a {word} function of {self._of(columns)} with a typical length of {number(length)}{unit}{scales}"
        shown = ", ".join(
            f"{number(v)}{self._unit((c,))} in {self._names[c]}"
            for (_, cs), each in zip(smooth, lengths, strict=True)
            for c, v in zip(cs, each, strict=True)
        )
        return f"a {word} function of {self._of(every)} together, with typical lengths of {shown}"

    def _direction(self, column: int, mean: np.ndarray) -> str:
        """Where a part goes one way nearly everywhere, which."""
        at = self._x[:, column]
        if len(mean) != len(at) or np.ptp(at) == 0 or np.ptp(mean) == 0:
            return ""
        correlation = float(np.corrcoef(at, mean)[0, 1])
        return "" if abs(correlation) < TREND else "rising" if correlation > 0 else "falling"

    def _trend(self, lines: Leaves, mean: np.ndarray) -> str:
        columns = tuple(dict.fromkeys(c for _, cs in lines for c in cs))
        if len(lines) == 1:
            at = self._x[:, columns[0]]
            if len(columns) > 1 or len(mean) != len(at) or np.ptp(at) == 0:
                return f"a linear trend in {self._of(columns)}"
            slope = float(np.polyfit(at - at.mean(), mean, 1)[0])
            way = "rising" if slope > 0 else "falling"
            unit = self._units.get(self._names[columns[0]], "units")
            per = unit[:-1] if unit.endswith("s") else unit
            return f"a linear trend in {self._of(columns)}, {way} by {number(abs(slope))} per {per}"
        if len(columns) > 1:
            return f"a product of linear trends in {self._of(columns)}"
        shape = {2: "quadratic", 3: "cubic"}.get(len(lines), "polynomial")
        return f"a {shape} trend in {self._of(columns)}"

    def _modulated(self, lines: Leaves) -> str:
        said = ""
        for kernel, columns in lines:
            values = self._x[:, columns[0]]
            center = float(np.ravel(np.asarray(kernel.center))[0])
            way = "grows" if center <= values.min() else "shrinks" if center >= values.max() else "varies linearly"
            said += f", with an amplitude that {way} with {self._of(columns)}"
        return said

    def _of(self, columns: Sequence[int]) -> str:
        names = [self._names[c] for c in columns]
        return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"

    def _unit(self, columns: Sequence[int]) -> str:
        unit = self._units.get(self._names[columns[0]], "")
        return f" {unit}" if unit else ""

    @staticmethod
    def _length(value: Array | None) -> str:
        return number(float(np.exp(np.log(np.asarray(value)).mean())))


def _leaves(kernel: Kernel) -> Leaves | None:
    """The base kernels of a product with their columns; None where one is of a family that has no words."""
    out: Leaves = []
    for leaf, columns in map(placed, terms_of(kernel)[0].factors):
        if not isinstance(leaf, Stationary | Periodic | Linear):
            return None
        count = max([1, *(np.size(v) for v in (getattr(leaf, "lengthscale", None),) if v is not None)])
        out.append((leaf, tuple(range(count)) if columns is None else columns))
    return out


def number(value: float) -> str:
    """Three significant digits, without an exponent where that can be."""
    if value == 0 or not 1e-4 <= abs(value) < 1e7:
        return f"{value:.2e}" if value else "0"
    digits = max(0, 2 - int(np.floor(np.log10(abs(value)))))
    return f"{value:,.{digits}f}"


def _share(share: float, verb: str) -> str:
    percent = f"{100 * share:.0f}" if share >= 0.01 else f"{100 * share:.1f}" if share >= 0.001 else "less than 0.1"
    link = ", " if verb == "is" else "; it explains "
    return f"{link}{percent} % of the variance"
