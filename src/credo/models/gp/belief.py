"""`GP`: a belief about functions.

    f ~ GP(m, k),   y = f(x) + ε,   ε ~ N(0, noise)

Any finite set of values of f is jointly Gaussian, so Bayes' rule is linear algebra (`exact.py`).
Rasmussen & Williams (2006), chapter 2.
"""

from typing import Any, ClassVar, TypeVar

import jax
from jaxtyping import Float

from credo.core.abilities import DrawsFunctions, HasCovariance, LeavesOneOut, PredictsJointly
from credo.core.arrays import Array, as_float, is_traced, namespace
from credo.core.belief import Integration
from credo.core.checks import check_positive
from credo.core.errors import DataError
from credo.core.params import positive
from credo.core.predictive import Normal
from credo.core.pytrees import changed
from credo.kernels import Kernel, Matern52
from credo.kernels.derivative import Differentiated
from credo.models.gp import exact
from credo.models.gp.base import GaussianProcess
from credo.models.gp.data import Rows
from credo.models.gp.hyperpriors import TYPICAL_NOISE, priors_to_integrate, scales_of
from credo.models.gp.means import DifferentiatedMean, Mean, as_mean
from credo.models.noise import KnownNoise, StudentTNoise

T = TypeVar("T")


class PredictsOutcomes(GaussianProcess):
    """A Gaussian process seen through normal noise."""

    takes_noise: ClassVar[bool] = True

    def as_gp(self) -> "GP":
        """The same prior as a `GP`, which has seen nothing."""
        return changed(GP(self.kernel, self.mean, self.noise), inputs=self.inputs)

    def statistics(self, *data: Any, weights: Any = None, noise: Any = None, errors: Any = None) -> Rows:
        """X and y, checked; rows whose y is NaN are left out.

        A row's noise variance is the model's divided by its weight; `noise` gives it outright. Standard `errors` of
        rows are known beside that noise.
        """
        return self._read(data, weights, noise, errors)

    def predict(self, x: object, *, joint: bool = False, noise: Any = None) -> Normal:
        """p(y* | x*, data), Normal: the noise is aleatoric, the function epistemic.

        Args:
            x: queries, shape (m, d).
            joint: also keep the m × m covariance of the function.
            noise: the noise variance of each query, instead of the model's.
        """
        if joint and not isinstance(self, PredictsJointly):
            self.covariance(x)
        table = self.queries(x)
        f = self.function_at(table, joint)
        return Normal(f.mean, noise_at(self.noise_variance(), table, noise), f.variance, f.covariance)

    def covariance(self, x: object, z: object = None) -> Float[Array, "m q"]:
        """The covariance of the function between two sets of queries; refused where a member sees each on its own."""
        raise DataError(
            f"{type(self).__name__} sees each query on its own; draw whole functions with sample_functions, or "
            "condition with using=Exact() or using=Inducing(), which know how queries covary"
        )


class GP(PredictsOutcomes, HasCovariance, LeavesOneOut, DrawsFunctions, PredictsJointly):
    """A Gaussian process: a belief about a function of x, conditioned exactly.

    Args:
        kernel: the covariance of function values; None is `Matern52(ard=True)`.
        mean: what is expected before data: None (a constant, integrated out), a number, a function of the rows,
            features (a basis, integrated out), a belief (its mean), or one of `credo.models.gp.means`.
        noise: its variance, where learning starts (None: from the data), or `KnownNoise` (given with the data, a
            variance for each row).
    """

    kernel: Kernel
    mean: Mean
    noise: Any = positive(None, unset=1.0)

    def __init__(self, kernel: Any = None, mean: Any = None, noise: Any = None):
        self.kernel = check_kernel_argument(kernel, type(self).__name__)
        self.mean = as_mean(mean)
        if isinstance(self.kernel, Differentiated) and not isinstance(self.mean, DifferentiatedMean):
            self.mean = DifferentiatedMean(self.mean)
        if isinstance(noise, StudentTNoise):
            raise DataError("Student-t noise has a model of its own: credo.RobustGP(kernel, mean, StudentTNoise())")
        self.noise = check_noise_argument(noise)
        self.seen = self.solved = self.inputs = None

    # -- data ------------------------------------------------------------------------------------------------

    def prepare(self, *data: Any, **options: Any) -> tuple["GP", Rows]:
        """Starting values in the units of the data, and the rows: those seen before and the new ones."""
        given = self.seen is None and options.get("noise") is not None
        return super(GP, changed(self, noise=KnownNoise()) if given else self).prepare(*data, **options)

    def in_units(self, rows: Rows) -> "GP":
        """The belief with starting values in the units of the rows."""
        scales, center = scales_of(self.kernel, rows)
        noise = as_float(2 * TYPICAL_NOISE * scales.variance) if self.noise is None else self.noise
        mean = self.mean.adapt(rows.cut()[0], scales, center)
        return changed(self, kernel=self.kernel.adapt(scales), mean=mean, noise=noise)

    def integration(self, statistics: Rows) -> Integration:
        """Few rows leave hyperparameters open: `fit` averages over them."""
        return Integration(statistics.n, priors_to_integrate(self.default_priors(statistics)))

    @property
    def method(self) -> Any:
        """The form of Bayes' rule: `Exact()`."""
        from credo.models.gp.large.choice import Exact

        return Exact()

    def choose(self, statistics: Rows) -> tuple[Any, str] | None:
        """With many rows an approximation; see `large.choice`."""
        from credo.models.gp.large.choice import EXACT_ROWS, choose_method

        few = is_traced(statistics) or len(statistics.x) <= EXACT_ROWS
        return None if few or type(self) is not GP else choose_method(self, statistics)

    def learner(self, priors: dict[str, Any]) -> Any:
        """Several starts on a part of the rows, the best of them climbed on all."""
        from credo.models.gp.staged import Staged

        return Staged()

    # -- predictions -----------------------------------------------------------------------------------------

    def covariance(self, x: object, z: object = None) -> Float[Array, "m q"]:
        """The covariance of the function between two sets of queries, as it is believed now."""
        rows, columns = (self.queries(v) for v in (x, x if z is None else z))
        return exact.joint(self.prior, self.seen, self.solved, rows, columns)

    def at(self, x: object) -> Any:
        """The belief about the function at fixed candidates x, which more rows update in O(n² + nm)."""
        from credo.models.gp.watched import watch

        return watch(self, x)

    def sample(self, x: object, n: int = 1, *, noise: bool = False, method: str = "cholesky", seed: int = 0) -> Array:
        """n joint draws of the function (of outcomes with `noise`) at the rows x, shape (n, m); see `sampling.py`."""
        from credo.models.gp.sampling import sample

        return sample(self, x, n, noise=noise, method=method, seed=seed)

    def sample_functions(self, n: int = 1, *, features: int = 2048, seed: int = 0, columns: int | None = None) -> Any:
        """n draws as functions, callable anywhere and consistent between calls; see `sampling.py`.

        `columns` says how many inputs there are where the belief has seen no data.
        """
        from credo.models.gp.sampling import sample_functions

        return sample_functions(self, n, features=features, seed=seed, columns=columns)

    def gradient(self, x: object) -> Normal:
        """The belief about the slopes of the function at the rows x, shape (m, d); see `derivatives.py`."""
        from credo.models.gp.derivatives import gradient

        return gradient(self, x)

    def leave_one_out(self, *data: Any, **options: Any) -> Normal:
        """The prediction of each row from all the others, in closed form: of rows that were seen, or of `data`."""
        if data:
            after = self.condition(*data, **options)
            return rows_from(after.leave_one_out(), slice(0 if self.seen is None else self.seen.n, None))
        rows, solved = self.conditioned()
        return left_out(rows, self.noise_variance(), *exact.leave_one_out(rows, solved))


def check_kernel_argument(kernel: object, name: str) -> Kernel:
    """The kernel; None is `Matern52(ard=True)`."""
    if kernel is None:
        return Matern52(ard=True)
    if not isinstance(kernel, Kernel):
        raise DataError(f"{name} takes a kernel first, found {type(kernel).__name__}; e.g. credo.{name}(RBF())")
    return kernel


def check_noise_argument(noise: Any) -> Any:
    """The noise, positive where it is a number."""
    if isinstance(noise, int | float) and not noise > 0:
        raise DataError(f"noise is a variance and must be positive, found {noise}")
    return noise


def noise_at(level: Float[Array, ""], queries: Array, given: Any) -> Float[Array, " m"]:
    """The noise variance of each query: the given one, or the model's."""
    m = queries.shape[0]
    if given is not None:
        return check_positive(given, "noise", m)
    return namespace(level, queries).broadcast_to(level, (m,))


def left_out(rows: Rows, level: Float[Array, ""], mean: Array, variance: Array) -> Normal:
    """The prediction of each row from the others, whose variance is split into the row's noise and the rest."""
    noise = level * rows.scale + rows.extra
    rest = namespace(variance, noise).maximum(variance - noise, 0.0)
    return rows_from(Normal(mean, noise, rest), slice(rows.n))


def rows_from(prediction: T, which: slice) -> T:
    """The prediction of some of the rows."""
    return jax.tree.map(lambda v: v[which], prediction)
