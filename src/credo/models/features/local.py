"""Features that look at one place each: splines and bumps along every input."""

import abc
import dataclasses
from collections.abc import Sequence

import equinox as eqx
import numpy as np
from jaxtyping import Float, Num

from credo.core.arrays import Array, Numeric, is_traced, namespace
from credo.core.errors import DataError
from credo.models.features.base import Features, check_columns, given, numbers, span, whole


class OnDomain(Features):
    """A one-dimensional basis on an interval, used along every input.

    `domain` is (low, high) for all inputs, or such a row for each; `adapt` takes the range of the data. An
    input beyond its domain is moved to the nearer end: the features stay constant outside.
    """

    domain: eqx.AbstractVar[Float[Array, "*d 2"] | None]

    @abc.abstractmethod
    def basis(self, t: Float[Array, "n d"]) -> Float[Array, "n d q"]:
        """The q basis functions at t in [0, 1], the position within the domain."""

    @abc.abstractmethod
    def labels(self) -> list[str]:
        """What each of the q basis functions is called."""

    def __call__(self, x: Float[Array, "n d"]) -> Float[Array, "n p"]:
        """All basis functions of the first input, then of the second, ..."""
        owner = type(self).__name__
        domain = given(owner, "domain", self.domain, "domain=(low, high)")
        n, d = x.shape
        check_columns(owner, "domain", domain, 1, d)
        low, high = domain[..., 0], domain[..., 1]
        t = namespace(x, domain).clip((x - low) / (high - low), 0.0, 1.0)
        return self.basis(t).reshape(n, self.size(d))

    def size(self, d: int) -> int:
        """d times the number of basis functions."""
        return d * len(self.labels())

    def names(self, inputs: Sequence[str]) -> list[str]:
        """Such as bmi~spline3."""
        return [f"{name}~{label}" for name in inputs for label in self.labels()]

    @property
    def ready(self) -> bool:
        """Whether the domain is known."""
        return self.domain is not None

    def adapt(self, x: Num[Array | np.ndarray, "n d"]) -> "OnDomain":
        """The range of each column as its domain, where none was given."""
        if self.domain is not None:
            return self
        return dataclasses.replace(self, domain=span(type(self).__name__, x))


def check_domain(owner: str, value: Numeric | None) -> Array | None:
    """A domain (low, high) with low < high, or a row of those; None stays None."""
    domain = numbers(owner, "domain", value, (1, 2))
    if domain is not None and domain.shape[-1] != 2:
        raise DataError(
            f"{owner} needs domain=(low, high) or a row of these for each input, found shape {domain.shape}"
        )
    if domain is not None and not is_traced(domain) and not np.all(domain[..., 0] < domain[..., 1]):
        raise DataError(f"{owner} needs domain=(low, high) with low < high, found {domain.tolist()}")
    return domain


class BSpline(OnDomain):
    """`number` B-splines of the given degree on uniform knots, along every input.

    B_{i,0}(u) = 1[tᵢ ≤ u < tᵢ₊₁],  B_{i,k}(u) = (u - tᵢ)/k · B_{i,k-1}(u) + (tᵢ₊ₖ₊₁ - u)/k · B_{i+1,k-1}(u),
    with u = (number - degree)·t and integer knots tᵢ = i - degree: the knots go on beyond the domain, so that
    all splines have the same shape. On the domain they sum to one; outside they are constant.
    de Boor (2001), chapter IX; uniform knots as in Eilers & Marx (1996).
    """

    number: int = eqx.field(static=True)
    degree: int = eqx.field(static=True)
    domain: Float[Array, "*d 2"] | None

    def __init__(self, number: int = 10, degree: int = 3, domain: Numeric | None = None):
        self.degree = whole("BSpline", "degree", degree, least=0)
        self.number = whole("BSpline", "number (more than the degree)", number, least=self.degree + 1)
        self.domain = check_domain("BSpline", domain)

    def basis(self, t: Float[Array, "n d"]) -> Float[Array, "n d q"]:
        """The Cox-de Boor recursion on integer knots, for all splines at once."""
        cells = self.number - self.degree
        u = cells * t[..., None]
        xp, knots = namespace(t), np.arange(-self.degree, self.number + 1, dtype=t.dtype)
        # The last cell is closed, so that the right end of the domain belongs to one.
        cell = xp.minimum(xp.floor(u), cells - 1)
        splines = (cell == knots[:-1]).astype(t.dtype)
        for k in range(1, self.degree + 1):
            rising = (u - knots[: -k - 1]) * splines[..., :-1]
            falling = (knots[k + 1 :] - u) * splines[..., 1:]
            splines = (rising + falling) / k
        return splines

    def labels(self) -> list[str]:
        """spline1, spline2, ..."""
        return [f"spline{i + 1}" for i in range(self.number)]


class Bumps(Features):
    """Gaussian bumps φᵢ(x) = exp(-(x - cᵢ)² / (2·width²)) along every input.

    `centers` are the cᵢ for all inputs, or a row of them for each; `adapt` spreads them evenly over the range
    of the data. `width` is by default the distance between neighbouring centers (of a lone one, the range of
    the data). Far from all centers the bumps vanish. Bishop (2006), eq. 3.4.
    """

    number: int = eqx.field(static=True)
    width: Float[Array, "*d"] | None
    centers: Float[Array, "*d q"] | None

    def __init__(self, number: int | None = None, width: Numeric | None = None, centers: Numeric | None = None):
        self.centers = numbers("Bumps", "centers", centers, (1, 2))
        found = 10 if self.centers is None else self.centers.shape[-1]
        self.number = whole("Bumps", "number", found if number is None else number, least=1)
        self.width = numbers("Bumps", "width", width, positive=True)
        if self.width is None and self.centers is not None and found > 1:
            spacing = namespace(self.centers).ptp(self.centers, axis=-1) / (found - 1)
            self.width = numbers("Bumps", "width", spacing, positive=True)
        if self.centers is not None and found != self.number:
            raise DataError(f"Bumps has number={self.number}, found {found} centers; leave number out")

    def __call__(self, x: Float[Array, "n d"]) -> Float[Array, "n p"]:
        """All bumps of the first input, then of the second, ..."""
        centers = given("Bumps", "centers", self.centers, "centers=[...]")
        width = given("Bumps", "width", self.width, "width=...")
        n, d = x.shape
        check_columns("Bumps", "centers", centers, 1, d)
        check_columns("Bumps", "width", width, 0, d)
        z = (x[..., None] - centers) / width[..., None]
        return namespace(z).exp(-(z**2) / 2).reshape(n, self.size(d))

    def size(self, d: int) -> int:
        """d times the number of bumps."""
        return d * self.number

    def names(self, inputs: Sequence[str]) -> list[str]:
        """Such as bmi~bump3."""
        return [f"{name}~bump{i + 1}" for name in inputs for i in range(self.number)]

    @property
    def ready(self) -> bool:
        """Whether the centers and the width are known."""
        return self.centers is not None and self.width is not None

    def adapt(self, x: Num[Array | np.ndarray, "n d"]) -> "Bumps":
        """Centers spread over the range of x and their distance as width, where none were given."""
        if self.ready:
            return self
        low, high = span("Bumps", x).T
        spread = np.linspace(low, high, self.number, axis=-1)
        if self.number == 1:
            spread = (low + high)[:, None] / 2
        spacing = (high - low) / max(self.number - 1, 1)
        return dataclasses.replace(
            self,
            width=spacing if self.width is None else self.width,
            centers=spread if self.centers is None else self.centers,
        )
