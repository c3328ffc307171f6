"""Warps: increasing functions of an outcome, learned with the kernel, after which a Gaussian process fits it.

    Steps       t + Σᵢ hᵢ tanh((t - cᵢ)/wᵢ)        any real outcome; the identity where the heights h are zero
    Log         log y                               positive outcomes, errors in per cent
    Identity    y

Snelson, Rasmussen & Ghahramani (2004), "Warped Gaussian processes"; Rios & Tobar (2019), "Compositionally-warped
Gaussian processes".
"""

from abc import abstractmethod
from typing import ClassVar

import jax
import numpy as np
from jaxtyping import Float

from credo.core.arrays import Array, Numeric, as_float, held, is_traced, namespace
from credo.core.errors import DataError
from credo.core.loops import invert_cdf
from credo.core.params import given, meaning, positive, real
from credo.core.predictive import Warp
from credo.core.predictive.lognormal import Logarithm
from credo.core.pytrees import changed
from credo.infer.priors import LogScalePenalty, NormalPenalty, Penalty

SMALL = 0.03
"""The height of a step that hardly is one, in standard deviations of the outcomes: what is expected before data."""

HEIGHT, WIDTH, PLACE = 2.5, (0.5, 1.0), 2.0
"""Spreads of the hyperpriors: of the log height, of the log width below and above one, of the place.

A step much narrower than the spread of the outcomes is more likely a gap between them.
"""

ENDS = (0.1, 0.9)
"""The quantiles of the outcomes that stay where they are."""


class OutcomeWarp(Warp):
    """A warp that a `WarpedGP` can learn."""

    pulled: ClassVar[tuple[str, ...]] = ()
    """The numbers whose slopes `pull` gives; those of others are taken by JAX."""

    def pull(self, y: Float[np.ndarray, " n"], by_z: Float[np.ndarray, " n"]) -> dict[str, np.ndarray]:
        """The slopes of Σ by_z·g(y) + Σ log g'(y) by each number: by its logarithm where it is positive."""
        return {}

    def adapt(self, y: Float[np.ndarray, " n"]) -> "OutcomeWarp":
        """The warp with what was left open chosen from the outcomes."""
        return self

    def starts(self, y: Float[np.ndarray, " n"]) -> "list[OutcomeWarp]":
        """Where climbs of the evidence should begin."""
        return [self]

    def revived(self, y: Float[np.ndarray, " n"]) -> "list[OutcomeWarp]":
        """Where climbs should begin again, if a part of the warp has come to nothing."""
        return []

    def priors(self) -> dict[str, Penalty]:
        """Weakly informative priors by path, which pull to the identity."""
        return {}

    @abstractmethod
    def describe(self) -> str:
        """The warp in words."""


class Identity(OutcomeWarp):
    """g(y) = y: a plain Gaussian process."""

    def __call__(self, y: Array) -> Array:
        """y."""
        return y

    def inverse(self, z: Array) -> Array:
        """z."""
        return z

    def log_slope(self, y: Array) -> Array:
        """Zero."""
        return namespace(y).zeros_like(y)

    def describe(self) -> str:
        """In words."""
        return "outcomes as they are"


class Log(Logarithm, OutcomeWarp):
    """g(y) = log y, for positive outcomes whose errors are in per cent; nothing is learned."""

    def describe(self) -> str:
        """In words."""
        return "logarithms of the outcomes"


class Steps(OutcomeWarp):
    """Smooth steps on a straight line: where one rises, outcomes are told apart more finely.

        s(t) = t + Σᵢ hᵢ tanh((t - cᵢ)/wᵢ),   t = (y - center)/spread
        g(y) = a + (b - a) (s(y) - s(a)) / (s(b) - s(a))

    h is `height`, c is `place`, w is `width`, all in units of `spread`. g leaves a = `low` and b = `high` where they
    are, so that g(y) has about the size of y; `learn` takes them, center and spread from the outcomes where they are
    None. Beyond the steps g is a straight line, so that all moments exist.
    """

    height: Float[Array, " k"] = positive(low=1e-4, high=1e4)
    width: Float[Array, " k"] = positive(low=0.05, high=20.0)  # at no width the evidence of one outcome has no bound
    place: Float[Array, " k"] = real()
    center: Float[Array, ""] | None = given(unset=0.0)
    spread: Float[Array, ""] | None = given(unset=1.0)
    low: Float[Array, ""] | None = None
    high: Float[Array, ""] | None = None
    pulled = ("height", "width", "place")

    def __init__(
        self,
        steps: int = 2,
        *,
        height: Numeric | None = None,
        width: Numeric | None = None,
        place: Numeric | None = None,
        center: Numeric | None = None,
        spread: Numeric | None = None,
        low: Numeric | None = None,
        high: Numeric | None = None,
    ):
        if steps < 1:
            raise DataError(f"Steps needs at least one step, found {steps}; for none use Identity()")
        self.height = _each(height, SMALL, steps, "height")
        self.width = _each(width, 1.0, steps, "width")
        self.place = _each(place, np.linspace(-1.0, 1.0, steps) if steps > 1 else 0.0, steps, "place", positive=False)
        ends = (None if v is None else as_float(v) for v in (center, spread, low, high))
        self.center, self.spread, self.low, self.high = ends

    def _ends(self) -> tuple[Array, Array, Array, Array]:
        """center, spread, low, high."""
        center, spread = meaning(self, "center"), meaning(self, "spread")
        low = center - spread if self.low is None else self.low
        return center, spread, low, center + spread if self.high is None else self.high

    def _s(self, t: Array) -> Array:
        steps = (t[..., None] - self.place) / self.width
        return t + (self.height * namespace(steps).tanh(steps)).sum(-1)

    def _line(self) -> tuple[Array, Array, Array]:
        """s(low), low, and the units of y in one of s."""
        center, spread, low, high = self._ends()
        at_low, at_high = self._s((low - center) / spread), self._s((high - center) / spread)
        return at_low, low, (high - low) / (at_high - at_low)

    def __call__(self, y: Array) -> Array:
        """g(y)."""
        center, spread, *_ = self._ends()
        at_low, low, unit = self._line()
        return low + unit * (self._s((y - center) / spread) - at_low)

    def log_slope(self, y: Array) -> Array:
        """log g'(y)."""
        center, spread, *_ = self._ends()
        xp = namespace(self, y)
        q = (((y - center) / spread)[..., None] - self.place) / self.width
        steep = (self.height / self.width / xp.cosh(xp.clip(q, -300.0, 300.0)) ** 2).sum(-1)
        return xp.log1p(steep) + xp.log(self._line()[2] / spread)

    def pull(self, y: Float[np.ndarray, " n"], by_z: Float[np.ndarray, " n"]) -> dict[str, np.ndarray]:
        """The slopes by log h, log w and c."""
        center, spread, low, high = (np.asarray(v) for v in self._ends())
        h, w, c = (np.asarray(v) for v in (self.height, self.width, self.place))
        t = np.concatenate([y, [low, high]]) / spread - center / spread
        q = (t[:, None] - c) / w
        tanh, steep = np.tanh(q), h / w / np.cosh(np.clip(q, -300.0, 300.0)) ** 2
        s = t + (h * tanh).sum(1)
        ds = np.stack([h * tanh, -w * q * steep, -steep])  # of s, by log h, log w and c
        # z = low + unit·(s - s_low), unit = (high - low)/(s_high - s_low)
        unit, d_log_unit = (high - low) / (s[-1] - s[-2]), -(ds[:, -1] - ds[:, -2]) / (s[-1] - s[-2])
        dz = unit * (ds - ds[:, -2:-1] + (s - s[-2])[:, None] * d_log_unit[:, None])[:, :-2]
        bend = np.stack([steep, (2.0 * q * tanh - 1.0) * steep, 2.0 * tanh / w * steep])[:, :-2]  # of Σ steep
        slope = bend / (1.0 + steep.sum(1))[:-2, None] + d_log_unit[:, None]
        total = np.einsum("n,knj->kj", by_z, dz) + slope.sum(1)
        return dict(zip(self.pulled, total, strict=True))

    def inverse(self, z: Array) -> Array:
        """y with g(y) = z: |s(t) - t| ≤ Σh brackets t; a last Newton step carries derivatives."""
        center, spread, *_ = self._ends()
        fixed = jax.tree.map(held, self)
        at_low, low, unit = fixed._line()
        s = at_low + (held(z) - low) / unit
        reach = fixed.height.sum() + 1e-3
        t = invert_cdf(fixed._s, s, s - reach, s + reach)
        y = held(center + spread * t)
        return y - (self(y) - z) * namespace(self, y).exp(-fixed.log_slope(y))

    def adapt(self, y: Float[np.ndarray, " n"]) -> "Steps":
        """Center, spread and the outcomes that stay in place, from quantiles."""
        spread = float(y.std()) or 1.0
        low, high = np.quantile(y, ENDS)
        if not high - low > 1e-3 * spread:
            low, high = y.mean() - spread, y.mean() + spread
        found = {"center": y.mean(), "spread": spread, "low": low, "high": high}
        return changed(self, **{name: as_float(v) for name, v in found.items() if getattr(self, name) is None})

    def starts(self, y: Float[np.ndarray, " n"]) -> list[OutcomeWarp]:
        """As it is; with a step at the lower end of the outcomes, at the upper end, and (of several) at both."""
        k = len(self.height)
        center, spread, *_ = (float(v) for v in self._ends())
        ends = (y.min() - center) / spread, (y.max() - center) / spread
        out: list[OutcomeWarp] = [self]
        places = np.linspace(*ends, max(k, 2))
        for chosen in ((0,), (k - 1,), (0, k - 1)) if k > 1 else ((0,), (1,)):
            height = np.full(len(places), SMALL)
            height[list(chosen)] = 1.0
            kept = slice(None) if k > 1 else list(chosen)
            out.append(changed(self, height=height[kept], width=np.ones(k), place=places[kept]))
        return out

    def revived(self, y: Float[np.ndarray, " n"]) -> list[OutcomeWarp]:
        """Where a step has fallen flat beside another: a third of the other's height, at either end of the outcomes.

        At no height the slope of the evidence by place and width is zero, and no climb calls the step back.
        """
        height, width, place = (np.asarray(v).copy() for v in (self.height, self.width, self.place))
        steep = height / width
        flat = int(np.argmin(steep))
        if not steep[flat] < min(0.1 * steep.max(), 0.1) or steep.max() < 2 * SMALL:
            return []
        center, spread, *_ = (float(v) for v in self._ends())
        out: list[OutcomeWarp] = []
        for end in (y.min(), y.max()):
            height[flat], width[flat], place[flat] = steep.max() / 3, 1.0, (end - center) / spread
            out.append(changed(self, height=height.copy(), width=width.copy(), place=place.copy()))
        return out

    def priors(self) -> dict[str, Penalty]:
        """Low steps, about as wide as the outcomes, somewhere among them."""
        return {
            "height": LogScalePenalty(SMALL, HEIGHT),
            "width": LogScalePenalty(1.0, WIDTH),
            "place": NormalPenalty(0.0, PLACE),
        }

    def describe(self) -> str:
        """In words: by how much outcomes are told apart more finely, and where."""
        center, spread, *_ = (float(v) for v in self._ends())
        parts = [
            f"{1 + h / w:.2g} times finer around {center + spread * c:.3g} ± {spread * w:.2g}"
            for h, w, c in zip(*(np.asarray(v) for v in (self.height, self.width, self.place)), strict=True)
            if h / w > 2 * SMALL
        ]
        return "outcomes " + " and ".join(parts) if parts else "outcomes nearly as they are"


def _each(value: Numeric | None, default: Numeric, steps: int, name: str, positive: bool = True) -> Array:
    """One number for each step."""
    found = as_float(default if value is None else value)
    if is_traced(found):
        return found
    if positive and not np.all(found > 0):
        raise DataError(f"the {name} of a step must be positive, found {value}")
    return np.broadcast_to(found, (steps,))
