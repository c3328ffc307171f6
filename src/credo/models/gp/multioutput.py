"""`MultiGP`: several outputs that share what they are made of, so that one is learned from another.

    yⱼ(x) = cⱼ + fⱼ(x) + εⱼ,   cov[fᵢ(x), fⱼ(z)] = Σ_q B_q[i, j] k_q(x, z),   εⱼ ~ N(0, noiseⱼ)

An exact Gaussian process on stacked rows (x, j) with the kernel `Coregionalized`: a row of Y is p such rows, those
that are missing left out. Álvarez, Rosasco & Lawrence (2012), "Kernels for vector-valued functions", §4.2.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import equinox as eqx
import numpy as np
from jaxtyping import Float

from credo.core import params
from credo.core.arrays import Array, as_float, is_traced, namespace
from credo.core.checks import by_name, check_table, check_vector
from credo.core.errors import DataError
from credo.core.params import given, meaning, positive
from credo.core.predictive import Normal
from credo.core.pytrees import changed
from credo.infer.learning import Evidence, Learned
from credo.infer.priors import LogScalePenalty, NormalPenalty, Priors
from credo.kernels import Constant as ConstantKernel
from credo.kernels import InputScales, Kernel, Matern52
from credo.kernels.coregion import Coregionalized
from credo.models.gp.base import GaussianProcess
from credo.models.gp.data import Rows, pack
from credo.models.gp.hyperpriors import NOISE, TYPICAL_NOISE, VARIANCE, below, kernel_priors
from credo.models.gp.independent import split_outputs
from credo.models.gp.means import Mean

SHARED, OWN = 0.7, 0.3
"""Before data: the shares of an output's variance that it has in common with others, and for itself."""


class OutputMeans(Mean):
    """m(x, j) = cⱼ with cⱼ ~ N(valueⱼ, varianceⱼ), integrated out; None is zero, and is chosen by `learn`."""

    value: Float[Array, " p"] | None = given(unset=0.0)
    variance: Float[Array, " p"] | None = given(unset=0.0)

    def __call__(self, x: Float[Array, "n d"]) -> Float[Array, " n"]:
        """The expected constant of each row's output."""
        value, xp = meaning(self, "value"), namespace(self, x)
        return xp.zeros(x.shape[0]) + (value if value.ndim == 0 else xp.asarray(value)[x[:, -1].astype(int)])

    def kernel(self) -> Kernel | None:
        """varianceⱼ between rows of the same output."""
        if self.variance is None:
            return None
        return Coregionalized(ConstantKernel(np.ones(())), np.zeros((len(self.variance), 1)), self.variance)


class MultiGP(GaussianProcess):
    """A Gaussian process with p outputs that covary.

    Args:
        kernels: k_q: a kernel, several, or a sum of them; None is `Matern52(ard=True)`. Or a `Coregionalized`.
        outputs: p.
        rank: how many functions the outputs share, for each kernel.
        noise: the noise variance of each output; a number is the same for all.
    """

    kernel: Coregionalized
    mean: OutputMeans
    kernel_unset: bool = eqx.field(static=True)
    """Whether nobody has said how the outputs go together: learning starts from the data."""
    noise: Float[Array, " p"] | None = positive(None, unset=1.0)

    def __init__(
        self, kernels: Any = None, outputs: int | None = None, rank: int = 1, noise: Any = None, mean: Any = None
    ):
        kernel = Matern52(ard=True) if kernels is None else kernels
        if not isinstance(kernel, Coregionalized):
            if outputs is None or outputs < 1 or rank < 1:
                raise DataError(f"MultiGP needs outputs ≥ 1 and rank ≥ 1, found outputs={outputs}, rank={rank}")
            kernel = _default(kernel, outputs, rank)
        p = kernel.outputs
        if outputs is not None and outputs != p:
            raise DataError(f"the kernel is for {p} outputs, found outputs={outputs}")
        variance = as_float(1.0 if noise is None else noise)
        if variance.shape not in ((), (p,)) or not (is_traced(variance) or bool(np.all(variance > 0))):
            raise DataError(f"noise must be a positive variance, or one for each of the {p} outputs, found {noise}")
        self.kernel, self.noise = kernel, None if noise is None else namespace(variance).broadcast_to(variance, (p,))
        self.mean, self.kernel_unset = OutputMeans() if mean is None else mean, not isinstance(kernels, Coregionalized)
        self.seen = self.solved = self.inputs = None

    @property
    def outputs(self) -> int:
        """p."""
        return self.kernel.outputs

    def noise_variance(self) -> Float[Array, ""]:
        """Zero: the noise of an output comes with its rows."""
        return np.zeros(())

    def transformed(self, rows: Rows) -> tuple[Rows, float]:
        """The rows with the noise variance of their outputs."""
        design, extra = self.noise_design(rows)
        return changed(rows, scale=0.0 * rows.scale, extra=design @ self._noises() + extra), 0.0

    def noise_design(self, rows: Rows) -> tuple[Float[Array, "n p"], Float[Array, " n"]]:
        """A column for each output."""
        return (rows.x[:, -1:] == np.arange(self.outputs)) * rows.scale[:, None], 0.0 * rows.extra

    def _noises(self) -> Float[Array, " p"]:
        noise = meaning(self, "noise")
        return namespace(noise).broadcast_to(noise, (self.outputs,))

    # -- data ------------------------------------------------------------------------------------------------

    def statistics(self, *data: Any, weights: Any = None) -> Rows:
        """X (n, d) and Y (n, p) as stacked rows; NaN in Y is a missing outcome. `weights` divide the noise of a row."""
        if len(data) != 2:
            raise DataError(f"a belief about several outputs is conditioned on X and Y, found {len(data)} argument(s)")
        x = self.queries(data[0])
        n, p = x.shape[0], self.outputs
        xp = namespace(data)
        y = xp.stack(split_outputs(data[1], p), axis=1)
        if y.shape[0] != n:
            raise DataError(f"Y must have one row for each row of X: {n} are expected, found {y.shape[0]}")
        scale = xp.ones(n) if weights is None else 1.0 / check_vector(weights, "weights", n)
        stacked, y = stack(x, p), y.reshape(n * p)
        scale, extra = xp.repeat(scale, p), xp.zeros(n * p)
        if is_traced(data):
            return pack(stacked, y, scale, extra)
        present = ~np.isnan(y)
        if not present.any():
            raise DataError("every outcome in Y is missing (NaN); at least one is needed")
        check_vector(y[present], "Y")
        return pack(*(np.asarray(v)[present] for v in (stacked, y, scale, extra)))

    def queries(self, x: object) -> Array:
        """Inputs as checked rows, without the number of an output."""
        return check_table(by_name(x, self.inputs), "X", None if self.seen is None else self.seen.x.shape[1] - 1)

    def in_units(self, rows: Rows) -> "MultiGP":
        """Starting values in the units of each output, loadings from their correlation."""
        y = _by_output(rows, self.outputs)
        center, variance = _moments(y)
        kernel, mean, noise = self.kernel.adapt(InputScales.of(rows.cut()[0], 1.0)), self.mean, self.noise
        if self.kernel_unset:
            kernel = Coregionalized(kernel.kernels, *start_loadings(y, *self.kernel.loadings.shape))
        if mean.value is None and mean.variance is None:
            mean = OutputMeans(center, variance)
        if noise is None:
            noise = 2 * TYPICAL_NOISE * variance
        return changed(self, kernel=kernel, mean=mean, noise=noise, kernel_unset=False)

    def default_priors(self, statistics: Rows) -> dict[str, Any]:
        """Weakly informative: noise and κ by the variance of each output, loadings by its standard deviation."""
        _, variance = _moments(_by_output(statistics, self.outputs))
        scales = InputScales.of(statistics.cut()[0][:, :-1], 1.0)
        q = len(self.kernel.kernels)
        priors: dict[str, Any] = {}
        for i, kernel in enumerate(self.kernel.kernels):
            priors |= below(f"kernel.kernels.{i}", kernel_priors(kernel, scales))
        priors["kernel.loadings"] = NormalPenalty(0.0, np.sqrt(variance)[:, None])
        priors["kernel.kappa"] = LogScalePenalty(OWN * variance / q, VARIANCE)
        priors["noise"] = LogScalePenalty(TYPICAL_NOISE * variance, NOISE)
        return priors

    def learner(self, priors: dict[str, Any]) -> "InOutputUnits":
        """A few climbs of the evidence."""
        return InOutputUnits()

    # -- predictions -----------------------------------------------------------------------------------------

    def predict(self, x: object, *, joint: bool = False) -> Normal:
        """p(Y* | x*, data), Normal of shape (m, p): the noise is aleatoric, the functions epistemic.

        Args:
            x: queries, shape (m, d).
            joint: also keep the covariance of the functions over (m·p), the outputs of a query side by side.
        """
        table = self.queries(x)
        m, p = table.shape[0], self.outputs
        f = self.function_at(stack(table, p), joint)
        noise = namespace(f.mean).broadcast_to(self._noises(), (m, p))
        return Normal(f.mean.reshape(m, p), noise, f.variance.reshape(m, p), f.covariance)

    def correlation(self) -> Float[Array, "p p"]:
        """The prior correlation of the outputs at one x, of Σ_q B_q."""
        b = self.kernel.between_outputs().sum(0)
        scale = namespace(b).sqrt(b.diagonal())
        return b / (scale[:, None] * scale)

    def __repr__(self) -> str:
        return f"MultiGP({self.kernel!r}, outputs={self.outputs}, seen {self.seen_in_words()})"


def stack(x: Array, outputs: int) -> Array:
    """Rows (x, 0), …, (x, p - 1) for each row x."""
    xp = namespace(x)
    numbers = xp.tile(xp.arange(outputs, dtype=float), x.shape[0])
    return xp.concatenate([xp.repeat(xp.asarray(x), outputs, axis=0), numbers[:, None]], axis=1)


@dataclass(frozen=True)
class InOutputUnits(Evidence):
    """`Evidence` whose starts and steps measure loadings in the units of their outputs; the others are logarithms."""

    needs: ClassVar[type] = MultiGP

    starts: int = 2
    max_steps: int = 500
    tolerance: float = 1e-12
    """None: it would be in units, too; climbs end by their gain."""
    gain: float = 1e-10

    def learn(self, belief: MultiGP, statistics: Rows, fixed: Sequence[str], priors: Priors, seed: int) -> Learned:
        """The belief at the highest maximum found."""
        slots = params.layout(belief, fixed)
        deviation = np.sqrt(np.asarray(belief.kernel.between_outputs().sum(0)).diagonal())[:, None]
        sizes = [deviation if s.path == "kernel.loadings" else 1.0 for s in slots]
        unit = np.concatenate([np.ravel(np.broadcast_to(v, s.shape)) for v, s in zip(sizes, slots, strict=True)])
        climb = changed(self, stride=self.stride * unit, spread=self.spread * unit)
        return climb.climb(climb.objective(belief, slots, statistics, priors), belief, slots, priors, seed)


# -- starting values ---------------------------------------------------------------------------------------------


def _default(kernels: Any, outputs: int, rank: int) -> Coregionalized:
    q = sum(len(k.terms) for k in ((kernels,) if isinstance(kernels, Kernel) else kernels))
    return Coregionalized(kernels, np.full((outputs, rank), np.sqrt(SHARED / (q * rank))), OWN / q)


def _by_output(rows: Rows, outputs: int) -> Float[np.ndarray, "n p"]:
    """The outcomes, a column for each output and a row for each input row, NaN where there is none."""
    x, y, *_ = rows.cut()
    same = np.all(x[1:, :-1] == x[:-1, :-1], axis=1) & (x[1:, -1] > x[:-1, -1])  # outputs of a row come in order
    row = np.concatenate([[0], np.cumsum(~same)])
    table = np.full((row[-1] + 1, outputs), np.nan)
    table[row, x[:, -1].astype(int)] = y
    return table


def _moments(y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and variance of each output over what is there; 0 and 1 where nothing is, and no variance of zero."""
    center, variance = np.zeros(y.shape[1]), np.ones(y.shape[1])
    for i, column in enumerate(y.T):
        there = column[~np.isnan(column)]
        if len(there):
            center[i] = there.mean()
            variance[i] = there.var() if np.ptp(there) > 0 else float(np.mean(there**2)) or 1.0
    return center, variance


def start_loadings(y: np.ndarray, q: int, p: int, r: int) -> tuple[np.ndarray, np.ndarray]:
    """(A, κ) from the principal components of the outputs' correlation, dealt out to the q kernels in turn."""
    center, variance = _moments(y)
    z = (y - center) / np.sqrt(variance)
    there = ~np.isnan(z)
    z = np.where(there, z, 0.0)
    pairs = (there.T.astype(float) @ there).clip(1.0)
    correlation = z.T @ z / pairs * (pairs >= 3)
    values, vectors = np.linalg.eigh(correlation)
    order = np.argsort(-values)
    loadings = np.empty((q, p, r))
    for i in range(q):
        for k in range(r):
            at = order[(i + k * q) % p]
            loadings[i, :, k] = vectors[:, at] * np.sqrt(max(values[at], 0.05))
    explained = np.square(loadings).sum((0, 2))
    loadings *= np.sqrt(np.minimum(1.0, (1 - OWN / 3) / explained.clip(1e-12)))[:, None]
    own = (1.0 - np.square(loadings).sum((0, 2))).clip(OWN / 3)
    kappa = np.broadcast_to(own * variance / q, (q, p))
    return loadings * np.sqrt(variance)[:, None], np.array(kappa)
