"""`GP`: a belief about functions.

    f ~ GP(m, k),   y = f(x) + ε,   ε ~ N(0, noise)

Any finite set of values of f is jointly Gaussian, so Bayes' rule is linear algebra (`exact.py`).
Rasmussen & Williams (2006), chapter 2.
"""

from collections.abc import Sequence
from typing import Any, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from credo.core.abilities import DrawsFunctions, HasCovariance, KeepsRows, LeavesOneOut
from credo.core.arrays import is_traced, put
from credo.core.belief import Belief
from credo.core.checks import check_positive, column_names, input_names
from credo.core.errors import DataError
from credo.core.linalg import demand
from credo.core.params import positive
from credo.core.predictive import Normal, Predictive
from credo.kernels import Kernel, Matern52
from credo.kernels.base import show
from credo.kernels.derivative import Differentiated
from credo.models.gp import exact
from credo.models.gp.data import Rows, read
from credo.models.gp.exact import Prior, Solved
from credo.models.gp.means import DifferentiatedMean, Mean, as_mean
from credo.models.noise import KnownNoise, StudentTNoise, noise_of

T = TypeVar("T")


class GP(Belief, HasCovariance, LeavesOneOut, DrawsFunctions, KeepsRows):
    """A Gaussian process: a belief about a function of x, conditioned exactly.

    Args:
        kernel: the covariance of function values; None is `Matern52(ard=True)`.
        mean: what is expected before data: None (a constant, integrated out), a number, a function of the rows,
            features (a basis, integrated out), a belief (its mean), or one of `credo.models.gp.means`.
        noise: its variance, or `KnownNoise` (given with the data, a variance for each row).
    """

    kernel: Kernel
    mean: Mean
    seen: Rows | None
    solved: Solved | None
    inputs: tuple[str, ...] | None = eqx.field(static=True)
    noise: Any = positive()

    def __init__(self, kernel: Any = None, mean: Any = None, noise: Any = 1.0):
        self.kernel = Matern52(ard=True) if kernel is None else kernel
        if not isinstance(self.kernel, Kernel):
            raise DataError(f"GP takes a kernel first, found {type(kernel).__name__}; e.g. credo.GP(RBF())")
        self.mean = as_mean(mean)
        if isinstance(self.kernel, Differentiated) and not isinstance(self.mean, DifferentiatedMean):
            self.mean = DifferentiatedMean(self.mean)
        if isinstance(noise, int | float) and not noise > 0:
            raise DataError(f"noise is a variance and must be positive, found {noise}")
        if isinstance(noise, StudentTNoise):
            raise DataError("Student-t noise has a model of its own: credo.RobustGP(kernel, mean, StudentTNoise())")
        self.noise = noise
        self.seen = None
        self.solved = None
        self.inputs = None

    # -- data ------------------------------------------------------------------------------------------------

    @property
    def prior(self) -> Prior:
        """The prior as the numerics see it: an uncertain mean is part of the covariance."""
        more = self.mean.kernel()
        return Prior(self.kernel if more is None else self.kernel + more, self.mean, self.noise_variance())

    def noise_variance(self) -> Float[Array, ""]:
        """The variance of the noise where a row or a query names none."""
        return noise_of(self.noise).variance

    def latent_rows(self, rows: Rows) -> tuple[Rows, Any]:
        """The rows as the Gaussian process sees them, and the log of how they are stretched: here as they are."""
        return rows, 0.0

    def statistics(self, *data: Any, weights: Any = None, noise: Any = None) -> Rows:
        """X and y, checked and padded; rows whose y is NaN are left out.

        A row's noise variance is the model's divided by its weight; `noise` gives it outright.
        """
        if isinstance(self.noise, KnownNoise) and noise is None:
            raise DataError(
                "this model has KnownNoise: give the variance of each row, condition(X, y, noise=variances)"
            )
        return read(self.kernel, data, None if self.seen is None else self.seen.x.shape[1], weights, noise)

    def prepare(self, *data: Any, weights: Any = None, noise: Any = None) -> tuple["GP", Rows]:
        """Starting values in the units of the data, and the rows: those seen before and the new ones."""
        from credo.models.gp.staged import prepare

        return prepare(self, data, weights, noise)

    def default_priors(self, statistics: Rows) -> dict[str, Any]:
        """Weakly informative hyperpriors, in the units of the data."""
        from credo.models.gp.hyperpriors import default_priors

        return default_priors(self, statistics)

    def objective(self, slots: Any, statistics: Rows, priors: Any) -> Any:
        """The evidence with its gradient: in NumPy for few rows and common kernels, through LAPACK for many."""
        from credo.infer.priors import LogScalePenalty
        from credo.models.gp.staged import HostObjective
        from credo.models.gp.uncompiled import FEW_ROWS, Free, is_supported

        if is_traced(self, statistics):
            return None
        typical = all(isinstance(prior, LogScalePenalty) for prior in priors.values())
        if statistics.n <= FEW_ROWS and typical and is_supported(self.kernel):
            return Free(self, slots, statistics, priors)
        if exact.on_host(statistics.capacity, self, statistics):
            return HostObjective(self, slots, statistics, priors)
        return None

    def learner(self, priors: dict[str, Any]) -> Any:
        """Several starts on a part of the rows, the best of them climbed on all."""
        from credo.models.gp.staged import Staged

        return Staged()

    def named(self, names: Sequence[str]) -> "GP":
        """The belief that knows its inputs by these names."""
        out = jax.tree.map(lambda v: v, self)
        object.__setattr__(out, "inputs", tuple(names))
        return out

    # -- Bayes' rule -----------------------------------------------------------------------------------------

    def told(self, *data: Any) -> "GP":
        """The belief that knows the names of its inputs."""
        return self.named(input_names(data[0])) if self.inputs is None and data and column_names(data[0]) else self

    def condition_on(self, statistics: Rows) -> "GP":
        """The posterior after the rows, seen and new."""
        seen, solved = self.seen, self.solved
        if seen is None or solved is None:
            rows = statistics
            after = exact.condition(self.prior, rows)
        elif not is_traced(self, statistics) and statistics.n <= max(64, seen.n // 4):
            rows, extended, ok = exact.extend(self.prior, seen, solved, statistics)
            after = (extended, ok)
        else:
            rows = seen + statistics
            after = exact.condition(self.prior, rows)
        result = demand(*after, exact.NOT_DEFINITE)
        return eqx.tree_at(lambda b: (b.seen, b.solved), self, (rows, result), is_leaf=lambda v: v is None)

    def evidence_of(self, statistics: Rows) -> Float[Array, ""]:
        """log p(y | X), given what was seen before."""
        if self.seen is None or self.solved is None:
            return exact.evidence(self.prior, statistics)
        return exact.evidence_after(self.prior, self.seen, self.solved, statistics)

    def unconditioned(self) -> "GP":
        """The prior that this belief came from."""
        return eqx.tree_at(lambda b: (b.seen, b.solved), self, (None, None), is_leaf=lambda v: v is None)

    # -- predictions -----------------------------------------------------------------------------------------

    def predict(self, x: Any, *, joint: bool = False, noise: Any = None) -> Predictive:
        """p(y* | x*, data), Normal: the noise is aleatoric, the function epistemic.

        Args:
            x: queries, shape (m, d).
            joint: also keep the m × m covariance of the function.
            noise: the noise variance of each query, instead of the model's.
        """
        table = self.queries(x)
        mean, variance = exact.predict(self.prior, self.seen, self.solved, table)
        m = table.shape[0]
        if noise is None:
            variance_of_noise = self.noise_variance()
            traced = is_traced(variance_of_noise, table)
            own = jnp.broadcast_to(variance_of_noise, (m,)) if traced else put(np.full(m, variance_of_noise))
        else:
            own = jnp.asarray(check_positive(noise, "noise", m))
        covariance = None
        if joint:
            rows = jnp.asarray(table)
            covariance = exact.joint(self.prior, self.seen, self.solved, rows, rows)
        return Normal(mean, own, variance, covariance)

    def queries(self, x: Any) -> Any:
        """Queries as checked rows."""
        return self.kernel.encode(x, "X", None if self.seen is None else self.seen.x.shape[1])

    def covariance(self, x: Any, z: Any = None) -> Float[Array, "m q"]:
        """The covariance of the function between two sets of queries, as it is believed now."""
        rows, columns = (jnp.asarray(self.queries(v)) for v in (x, x if z is None else z))
        return exact.joint(self.prior, self.seen, self.solved, rows, columns)

    def seen_inputs(self) -> Float[np.ndarray, "n d"] | None:
        """The inputs of the rows it was conditioned on."""
        return None if self.seen is None else self.seen.cut()[0]

    def at(self, x: Any) -> Any:
        """The belief about the function at fixed candidates x, which more rows update in O(n² + nm)."""
        from credo.models.gp.watched import watch

        return watch(self, x)

    def sample(self, x: Any, n: int = 1, *, noise: bool = False, method: str = "cholesky", seed: int = 0) -> Array:
        """n joint draws of the function (of outcomes with `noise`) at the rows x, shape (n, m); see `sampling.py`."""
        from credo.models.gp.sampling import sample

        return sample(self, x, n, noise=noise, method=method, seed=seed)

    def sample_functions(self, n: int = 1, *, features: int = 2048, seed: int = 0, columns: int | None = None) -> Any:
        """n draws as functions, callable anywhere and consistent between calls; see `sampling.py`.

        `columns` says how many inputs there are where the belief has seen no data.
        """
        from credo.models.gp.sampling import sample_functions

        return sample_functions(self, n, features=features, seed=seed, columns=columns)

    def gradient(self, x: Any) -> Normal:
        """The belief about the slopes of the function at the rows x, shape (m, d); see `derivatives.py`."""
        from credo.models.gp.derivatives import gradient

        return gradient(self, x)

    def leave_one_out(self, *data: Any, **options: Any) -> Normal:
        """The prediction of each row from all the others, in closed form: of rows that were seen, or of `data`."""
        if data:
            after = self.condition(*data, **options)
            return rows_from(after.leave_one_out(), 0 if self.seen is None else self.seen.n)
        rows, solved = self.conditioned()
        mean, variance = (np.asarray(v)[: rows.n] for v in exact.leave_one_out(self.prior, rows, solved))
        _, _, scale, extra = rows.cut()
        noise = float(self.noise_variance()) * scale + extra
        return Normal(*(jnp.asarray(v) for v in (mean, noise, np.maximum(variance - noise, 0.0))))

    def conditioned(self) -> tuple[Rows, Solved]:
        """What was seen, and the posterior's numbers."""
        if self.seen is None or self.solved is None:
            raise DataError("the belief has seen no data yet; condition it or use credo.fit")
        return self.seen, self.solved

    def __repr__(self) -> str:
        seen = "nothing" if self.seen is None else f"{'?' if is_traced(self.seen) else self.seen.n} rows"
        noise = "given" if isinstance(self.noise, KnownNoise) else show(self.noise)
        return f"GP({self.kernel!r}, mean={type(self.mean).__name__}, noise={noise}, seen {seen})"


def rows_from(prediction: T, first: int) -> T:
    """The prediction without the rows before the first."""
    return jax.tree.map(lambda v: v[first:], prediction)
