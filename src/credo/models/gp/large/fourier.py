"""`Fourier`: a stationary kernel as a sum over an equispaced grid of frequencies, for smooth functions of few inputs.

    k(x - z) ≈ Σⱼ wⱼ cos(ωⱼᵀ(x - z)),   ωⱼ = δ∘j,  j ∈ {-m … m}ᵈ,   wⱼ = s² p(ωⱼ) Π δ

with p the spectral density: the trapezoidal rule, which is exact but for what the kernel has beyond a period 2π/δ and
its spectrum beyond δm. The features are cosines and sines of fixed frequencies, so what data say are sums that are
computed once,

    Σᵢ uᵢ exp(i (δ∘l)ᵀxᵢ),   l ∈ {-2m … 2m}ᵈ,

products of one matrix for each input; a look at the evidence then costs O(M³) for M frequencies, whatever n.
Greengard, Rachh & Barnett (2022), "Equispaced Fourier representations for efficient Gaussian process regression from a
billion data points"; Hensman, Durrande & Solin (2018), "Variational Fourier features for Gaussian processes".
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Complex, Float

from credo.core.arrays import Array, host, is_traced, namespace
from credo.core.checks import check_count
from credo.core.errors import DataError
from credo.core.linalg import inverse
from credo.core.padding import by_bucket
from credo.core.pytrees import changed
from credo.infer.learning import Learned
from credo.infer.optimize import STOPPED
from credo.kernels import Constant, Kernel
from credo.kernels.spectral import spectral_measure
from credo.models.gp import exact
from credo.models.gp.belief import GP
from credo.models.gp.data import Rows
from credo.models.gp.evidence import Priors
from credo.models.gp.large.base import LargeMethod, in_chunks
from credo.models.gp.large.kernel_numbers import Look, OfKernelNumbers
from credo.models.gp.large.low_rank import LowRankGP, Moments, log_evidence, weights_of

COLUMNS = 3
"""Inputs up to which there are grids of frequencies that are worth it."""
ROUNDS = 4
"""How often `fit` makes the grid anew, at most."""
WIDER = 1.25
"""By how much period and bandwidth are larger than what the kernel needs now, so that it may move."""


class Grid(eqx.Module):
    """Frequencies δ∘j of one half of the grid, the zero first; inputs are seen from `center`."""

    center: Float[Array, " d"]
    step: Float[Array, " d"]
    m: tuple[int, ...] = eqx.field(static=True)

    @property
    def index(self) -> np.ndarray:
        """j: zero, and of each pair ±j the one whose first entry that is not zero is positive."""
        j = np.stack(np.meshgrid(*(np.arange(-m, m + 1) for m in self.m), indexing="ij"), axis=-1)
        return j.reshape(-1, len(self.m))[np.prod([2 * m + 1 for m in self.m]) // 2 :]

    @property
    def frequencies(self) -> Float[Array, "q d"]:
        """ω."""
        return self.index * self.step


class FourierFeatures(NamedTuple):
    """Cosines, then sines (without the one of zero), each times the root of its weight."""

    grid: Grid
    roots: Float[Array, " p"]

    @property
    def width(self) -> int:
        """p = M."""
        return len(self.roots)

    def __call__(self, x: Float[Array, "n d"]) -> Float[Array, "n p"]:
        """The features of rows; traceable."""
        xp = namespace(x, self.roots)
        angles = (x - self.grid.center) @ self.grid.frequencies.T
        return xp.concatenate([xp.cos(angles), xp.sin(angles[:, 1:])], axis=1) * self.roots

    def at(self, x: Float[Array, "n d"]) -> Float[Array, "n p"]:
        """The features of rows."""
        return self(x)


class FourierGP(OfKernelNumbers, LowRankGP):
    """A Gaussian process of a stationary kernel whose features are cosines and sines of equispaced frequencies."""

    grid: Any = None
    """Chosen from the first rows and the kernel."""

    def __init__(self, gp: GP, method: "Fourier"):
        super().__init__(gp, method)
        self.grid = None
        trend = gp.mean.kernel()
        if not gp.kernel.is_stationary:
            raise DataError(
                f"Fourier takes a stationary kernel, found {gp.kernel.formula()}; use Neighbours or Inducing"
            )
        if not (trend is None or isinstance(trend, Constant)):
            raise DataError(
                f"Fourier takes a constant mean, found {type(gp.mean).__name__}; use Neighbours or Inducing"
            )

    def kernel_numbers(self) -> Float[Array, " p"]:
        """√w of each feature, of pairs √2w; an uncertain constant is part of the zero frequency. Traceable."""
        frequencies = jnp.asarray(self.grid.frequencies)
        weights = _weights(frequencies, self.kernel, jnp.asarray(self.grid.step))
        trend = self.mean.kernel()
        level = trend.number("variance") if isinstance(trend, Constant) else 0.0
        pairs = jnp.sqrt(2.0 * jnp.maximum(weights[1:], 0.0) + 1e-300)
        return jnp.concatenate([jnp.sqrt(weights[:1] + level), pairs, pairs])

    def frame(self) -> FourierFeatures:
        """The features with the weights that the kernel has now."""
        return FourierFeatures(self.grid, self.numbers_now())

    def placed(self, rows: Rows) -> "FourierGP":
        """With a grid for the box of the rows, where it has none."""
        if self.grid is not None:
            return self
        if is_traced(self, rows):
            raise DataError("the frequencies are chosen from known rows; condition outside jit first")
        return changed(self, grid=choose_grid(self.kernel, rows.cut()[0], self.method))

    def moments(self, frame: FourierFeatures, rows: Rows) -> Moments:
        """The sums over the rows, by those of exponentials."""
        if is_traced(self, rows):
            return super().moments(frame, rows)
        x, _, scale, extra = rows.cut()
        noise = float(self.noise_variance()) * scale + extra
        self.check_inside(x)
        sums = self.sums(x, 1.0 / noise, np.asarray(exact.residual(self.prior, rows))[: rows.n])
        return weighted(sums, np.asarray(frame.roots)).of_rows(rows.n, np.log(noise).sum())

    def sums(self, x: Any, u: Any, r: Any) -> Moments:
        """The sums of waves without their weights."""
        return wave_sums(self.grid, x, u, r)

    def check_inside(self, x: Any) -> None:
        """`DataError` where rows are so far out that the features repeat."""
        period = 2 * np.pi / np.asarray(self.grid.step)
        if np.any(np.abs(x - self.grid.center) > 0.5 * period):
            raise DataError(
                "rows or queries lie farther out than the waves reach, where they would repeat; condition anew on rows "
                "that span the box, or use Neighbours"
            )

    def queries(self, x: object) -> Array:
        """Queries as checked rows, inside the period."""
        rows = super().queries(x)
        if self.grid is not None and not is_traced(self, rows):
            self.check_inside(np.asarray(rows))
        return rows

    def evidence_and_slopes(self, numbers: Float[np.ndarray, " t"], look: Look) -> tuple[float, np.ndarray, float]:
        """In O(M³)."""
        weights = weights_of(weighted(look.now, numbers))
        mean, precise = np.asarray(weights.mean), np.asarray(inverse(np.asarray(weights.root)))
        by_gram, u = -0.5 * (precise + np.outer(mean, mean)), numbers * mean
        by_roots = 2.0 * (by_gram * look.now.gram) @ numbers + mean * look.now.cross
        told = numbers @ (precise * look.by.gram) @ numbers + look.squared_errors(u, look.by.gram @ u)
        return float(log_evidence(weights)), by_roots, float(told)


def _weights(frequencies: Float[Array, "q d"], kernel: Kernel, step: Float[Array, " d"]) -> Float[Array, " q"]:
    mass, law = spectral_measure(kernel, frequencies.shape[1])
    return mass * law.density(frequencies) * jnp.prod(step)


_weights_compiled = eqx.filter_jit(_weights)


def wave_sums(grid: Grid, x: Float[np.ndarray, "n d"], u: np.ndarray, r: np.ndarray) -> Moments:
    """Σ uφφᵀ, Σ uφr and Σ ur² of waves without their weights, cos a cos b = ½(cos(a - b) + cos(a + b)) and so on."""
    wide = exponential_sums(grid, x, u, 2)
    near = exponential_sums(grid, x, u * r, 1)
    j = grid.index

    def at(table: np.ndarray, index: np.ndarray) -> np.ndarray:
        return table[tuple(index[..., k] + table.shape[k] // 2 for k in range(len(grid.m)))]

    apart, together = at(wide, j[:, None] - j[None, :]), at(wide, j[:, None] + j[None, :])
    cosines, sines = 0.5 * (apart + together).real, 0.5 * (apart - together).real
    mixed = 0.5 * (together - apart).imag
    gram = np.block([[cosines, mixed[:, 1:]], [mixed[:, 1:].T, sines[1:, 1:]]])
    told, zero = at(near, j), np.zeros(())
    return Moments(gram, np.concatenate([told.real, told.imag[1:]]), np.asarray((u * r * r).sum()), zero, zero, zero)


def weighted(moments: Moments, roots: Float[np.ndarray, " p"]) -> Moments:
    """Of waves that have these weights."""
    return changed(moments, gram=moments.gram * np.outer(roots, roots), cross=moments.cross * roots)


def exponential_sums(grid: Grid, x: Float[np.ndarray, "n d"], u: np.ndarray, times: int) -> Complex[np.ndarray, "..."]:
    """Σᵢ uᵢ exp(i (δ∘l)ᵀxᵢ) for l up to `times`·m, a chunk of rows at a time: a matrix product for each."""
    sizes = [2 * times * m + 1 for m in grid.m]
    total = np.zeros((sizes[0], int(np.prod(sizes[1:]))), dtype=complex)
    for cut in in_chunks(len(x), 4 * int(sum(sizes) + np.prod(sizes[1:]))):
        angles = (x[cut] - grid.center) * grid.step
        exponentials = [
            np.exp(1j * np.outer(a, np.arange(-(s // 2), s // 2 + 1))) for a, s in zip(angles.T, sizes, strict=True)
        ]
        rest = np.ones((len(angles), 1), dtype=complex)
        for each in exponentials[1:]:
            rest = (rest[:, :, None] * each[:, None, :]).reshape(len(angles), -1)
        total += (exponentials[0] * u[cut, None]).T @ rest
    return total.reshape(sizes)


def span_of(x: Float[np.ndarray, "n d"]) -> Float[np.ndarray, " d"]:
    """The extent of the box of the rows."""
    extent = x.max(0) - x.min(0)
    return np.where(extent > 0, extent, 1.0)


def reach_of(kernel: Kernel, span: Float[np.ndarray, " d"], method: "Fourier") -> Float[np.ndarray, " d"]:
    """Along each input, how far the kernel is more than the tolerance."""
    d, far = len(span), np.logspace(-4, 9, 780)
    reach = np.empty(d)
    for k in range(d):
        line = np.zeros((len(far), d))
        line[:, k] = far * span[k]
        shape = (
            np.abs(np.asarray(kernel.between(np.zeros((1, d)), line))[0]) / np.asarray(kernel.variance_at(line[:1]))[0]
        )
        above = np.flatnonzero(shape > method.tolerance)
        if len(above) == len(far):
            raise DataError(f"{kernel.formula()} does not fall off within the tolerance; use Neighbours or Inducing")
        reach[k] = line[0 if not len(above) else above[-1] + 1, k]
    return reach


def captures(grid: Grid, kernel: Kernel, method: "Fourier") -> bool:
    """Whether the grid has the variance of the kernel, but for the tolerance."""
    mass = float(np.asarray(kernel.variance_at(np.zeros((1, len(grid.m)))))[0])
    try:
        found = np.asarray(by_bucket(_weights_compiled, grid.frequencies, kernel, grid.step))
    except DataError as error:
        raise DataError(
            f"Fourier takes a kernel whose spectral density is known, and that of {kernel.formula()} is not; use "
            "Neighbours or Inducing"
        ) from error
    return bool(abs(found[0] + 2 * found[1:].sum() - mass) <= method.tolerance * mass)


def serves(grid: Grid, kernel: Kernel, x: Float[np.ndarray, "n d"], method: "Fourier") -> bool:
    """Whether the sum over the grid is the kernel in the box of the rows, but for the tolerance."""
    span = span_of(x)
    period = 2 * np.pi / np.asarray(grid.step)
    return bool(np.all(period >= span + reach_of(kernel, span, method))) and captures(grid, kernel, method)


def choose_grid(kernel: Kernel, x: Float[np.ndarray, "n d"], method: "Fourier") -> Grid:
    """The coarsest grid that serves, and a little wider."""
    d = x.shape[1]
    if d > COLUMNS:
        raise DataError(f"Fourier is for up to {COLUMNS} inputs, found {d}; use Neighbours or Inducing")
    span = span_of(x)
    reach = reach_of(kernel, span, method)
    step = 2 * np.pi / (WIDER * (span + reach))
    bandwidth = 2.0
    while True:
        m = tuple(int(v) for v in np.ceil(WIDER * bandwidth / (reach * step)))
        grid = Grid(0.5 * (x.min(0) + x.max(0)), step, m)
        count = int(np.prod([2 * v + 1 for v in m]))
        if count > method.most:
            raise DataError(
                f"{kernel.formula()} needs more than {method.most} frequencies in the box of the data: too rough, "
                "or its lengthscale too short; use Neighbours, or a larger tolerance"
            )
        if captures(grid, kernel, method):
            return grid
        bandwidth *= 1.2


@dataclass(frozen=True)
class Fourier(LargeMethod):
    """A `GP` of a smooth stationary kernel of one to three inputs by equispaced frequencies: one pass over the rows.

        gp.condition(X, y, using=Fourier())         credo.fit(gp, X, y, using=Fourier(1e-4))

    The result is a `FourierGP`. For 10⁶ rows and more, where the lengthscale is not short beside the box.
    """

    tolerance: float = 1e-4
    """Of the covariance, as a share of the variance."""
    most: int = 1500
    """The frequencies that a grid may have."""
    max_steps: int = 60

    belief: ClassVar[type] = FourierGP

    def __post_init__(self) -> None:
        super().__post_init__()
        check_count(self.most, "most")
        if not 0 < self.tolerance < 1:
            raise DataError(f"tolerance must be a share between 0 and 1, found {self.tolerance!r}")

    def learn(self, belief: Any, statistics: Rows, fixed: Sequence[str], priors: Priors, seed: int) -> Learned:
        """The belief at the highest evidence × prior found, its grid made anew where the kernel has outgrown it."""
        belief, x = self.start(belief, statistics, fixed, priors, seed), statistics.cut()[0]
        for _ in range(ROUNDS):
            own = changed(belief, grid=None).placed(statistics)
            learned = self.climb(own, statistics, fixed, priors, seed, max_steps=self.max_steps)
            belief = host(learned.belief)
            enough = serves(belief.grid, belief.kernel, x, self)
            if enough:
                break
        if not enough:
            belief, learned = changed(belief, grid=None).placed(statistics), learned._replace(status=STOPPED)
        note = f"the evidence of {len(belief.grid.index) * 2 - 1} equispaced frequencies"
        return learned._replace(belief=belief, notes=[*learned.notes, note])
