"""`KernelRegression`: the whole density of an outcome from a kernel density of inputs and outcomes (Nadaraya-Watson).

    p(x, t) = 1/n Σᵢ k(x, xᵢ) N(t | tᵢ, h²)    ⟹    p(t | x) = Σᵢ k(x, xᵢ) N(t | tᵢ, h²) / Σᵢ k(x, xᵢ)

Its mean, Σᵢ k(x, xᵢ) tᵢ / Σᵢ k(x, xᵢ), is the estimate of Nadaraya and Watson; that it may be skewed, have two peaks or
another width at every x comes for free. Where k(x, xᵢ)/√(k(x, x) k(xᵢ, xᵢ)) is small for every row nothing like x was
seen; a prior of `prior_count` = α rows at x itself then takes over, and says that it is ignorance. α = 0 is the
estimate of the textbook, which is sure of the nearest row however far it is.

Nadaraya (1964), "On estimating regression"; Watson (1964), "Smooth regression analysis"; Bishop (2006), §6.3.1.
"""

from collections.abc import Mapping
from typing import Any

import equinox as eqx
import numpy as np
from jaxtyping import Float

from credo.core import params
from credo.core.arrays import Array, as_float, is_traced, namespace
from credo.core.checks import check_real, check_vector
from credo.core.errors import DataError
from credo.core.params import given, number, positive
from credo.core.pytrees import changed
from credo.infer.priors import LogScalePenalty
from credo.kernels import RBF, InputScales, Kernel
from credo.models.gp.belief import check_kernel_argument
from credo.models.gp.data import Rows
from credo.models.kernel_methods.base import KernelMethod, LocalMixture, _HeldOutLikelihood, local_mixture, rounding_of

SPREAD = 1.5
"""How far, in logarithms, a bandwidth may be from where it starts before its prior weighs a nat."""


class KernelRegression(KernelMethod):
    """A belief about numbers at inputs, all of whose predictive density comes from rows alike.

    Args:
        kernel: ≥ 0, the more the more alike; None is a normal density with a bandwidth for each column. Its amplitude
            has no say.
        bandwidth: h, in the units of y; None until it is chosen from the data.
        prior_count: α, how many rows the prior counts for.
    """

    kernel: Kernel
    bandwidth: Float[Array, ""] | None = positive(None, unset=1.0)
    prior_count: Float[Array, ""] = number(0.1)
    center: Float[Array, ""] | None = given(unset=0.0)
    """What is expected where nothing alike was seen; `fit` takes the mean of y."""
    spread: Float[Array, ""] | None = given(unset=1.0)
    """The standard deviation around it; `fit` takes that of y."""
    rounding: Float[Array, ""] | None = given(unset=0.0)
    """What is added to h² while `fit` looks for it: outcomes on a grid (`rounding_of`)."""
    seen: Rows | None
    inputs: tuple[str, ...] | None = eqx.field(static=True)
    chooses: bool = eqx.field(static=True, default=True)
    """Whether `fit` starts from bandwidths of its own: where no kernel was given."""

    def __init__(self, kernel: object = None, bandwidth: object = None, prior_count: object = 0.1):
        self.kernel = RBF(ard=True) if kernel is None else check_kernel_argument(kernel, "KernelRegression")
        if isinstance(self.kernel, RBF):
            self.kernel = self.kernel.split_variance()[1]
        if bandwidth is not None and not is_traced(bandwidth) and not check_real(bandwidth, "bandwidth", 0.0) > 0:
            raise DataError(f"bandwidth must be positive, found {bandwidth!r}")
        self.bandwidth = None if bandwidth is None else as_float(bandwidth)
        self.prior_count = as_float(check_real(prior_count, "prior_count", 0.0))
        self.center = self.spread = self.rounding = self.seen = self.inputs = None
        self.chooses = kernel is None

    def outcomes_of(self, y: Any, n: int) -> Float[Array, " n"]:
        """Numbers."""
        return check_vector(y, "y", n)

    def in_units(self, rows: Rows) -> "KernelRegression":
        """Bandwidths by Scott's rule, half the spread of y, and a prior as wide as y."""
        x, y, _, _ = rows.cut()
        scales = InputScales.of(x, 1.0)
        wide = float(y.std()) or 1.0
        kernel = self.kernel.adapt(scales)
        if self.chooses:
            kernel = changed(kernel, lengthscale=as_float(scales.spread * len(x) ** (-1.0 / (x.shape[1] + 4))))
        start = self.bandwidth if self.bandwidth is not None else as_float(0.5 * wide)
        center, spread = (as_float(v) for v in (y.mean(), wide))
        told = {"center": center, "spread": spread, "rounding": as_float(rounding_of(y[:, None])[0])}
        return changed(self, kernel=kernel, bandwidth=start, **told)

    def folded(self) -> "KernelRegression":
        """With a bandwidth that includes what rounding adds."""
        h, rounding = (params.meaning(self, name) for name in ("bandwidth", "rounding"))
        return changed(self, bandwidth=np.sqrt(h**2 + rounding), rounding=None)

    def doubts_of(self, statistics: Rows) -> tuple[str, ...]:
        """Of rows that occur again."""
        rows = np.column_stack([np.asarray(statistics.x), np.asarray(statistics.y)])
        again = len(rows) - len(np.unique(rows, axis=0))
        if 2 * again < len(rows) or len(rows) < 4:
            return ()
        return (
            f"{again} of {len(rows)} rows are copies of others: a row that is left out is told by its copy, and the "
            "bandwidths are too small; drop the copies",
        )

    def default_priors(self, statistics: Rows) -> dict[str, Any]:
        """Wide ones around the start: a column that says nothing has any bandwidth that is large enough."""
        numbers = params.learnable(self)
        chosen = [p for p in numbers if p == "bandwidth" or p.endswith("lengthscale")]
        return {path: LogScalePenalty(numbers[path], SPREAD) for path in chosen}

    def learner(self, priors: Mapping[str, Any]) -> "_HeldOutLikelihood":
        """Leave-one-out likelihood, climbed from two starts."""
        return _HeldOutLikelihood(starts=2, spread=0.7, flat=False)

    # -- predictions -----------------------------------------------------------------------------------------

    def similarities(self, x: Float[Array, "m d"], z: Float[Array, "n d"]) -> Float[Array, "n m"]:
        """k(x, z)/√(k(x, x) k(z, z)): how much of a row at x each row at z counts."""
        k, own, its = self.kernel.between(z, x), self.kernel.variance_at(x), self.kernel.variance_at(z)
        xp = namespace(k, own, its)
        c = k / xp.sqrt(own)[None, :] / xp.sqrt(its)[:, None]
        if not is_traced(c) and not c.min(initial=0.0) > -1e-12:
            raise DataError(
                f"KernelRegression weighs rows by the kernel, which must be ≥ 0: {self.kernel.formula()} is "
                f"{c.min():.2g} of its size for two of them; use e.g. RBF, Matern52 or a kernel that counts"
            )
        return xp.maximum(c, 0.0)

    def _mixture(self, c: Float[Array, "n m"], y: Float[Array, " n"]) -> LocalMixture:
        """The rows and the prior, weighed for each query; without any weight at all it is the prior."""
        h, rounding = (params.meaning(self, name) for name in ("bandwidth", "rounding"))
        center, spread = (params.meaning(self, name) for name in ("center", "spread"))
        xp = namespace(c, y, h, center, spread, self.prior_count)
        alone = xp.where((c.sum(0) > 0) | (self.prior_count > 0), self.prior_count, 1.0)
        counts = xp.concatenate([xp.broadcast_to(alone, (1, c.shape[1])), c])
        at = xp.concatenate([xp.reshape(center, (1,)), y])
        wide = xp.concatenate([xp.reshape(spread**2, (1,)), xp.zeros(len(y))])
        return local_mixture(counts, at, wide, h**2 + rounding)

    def predict(self, x: object) -> LocalMixture:
        """p(t | x), a mixture of normal densities around the outcomes seen."""
        queries = self.queries(x)
        if self.seen is None:
            return self._mixture(namespace(queries).zeros((0, len(queries))), np.zeros(0))
        return self._mixture(self.similarities(queries, self.seen.x), self.seen.y)

    def held_out(self, rows: Rows) -> LocalMixture:
        """The prediction of each row from all others."""
        c = self.similarities(rows.x, rows.x)
        return self._mixture(c * (1.0 - np.eye(len(c))), rows.y)

    def held_out_log_prob(self, rows: Rows) -> Float[Array, " n"]:
        """log p(tᵢ | xᵢ, the other rows)."""
        return self.held_out(rows).log_prob(rows.y)

    def __repr__(self) -> str:
        seen = "nothing" if self.seen is None else f"{len(self.seen.y)} rows"
        return f"KernelRegression({self.kernel!r}, bandwidth={_shown(self.bandwidth)}, seen {seen})"


def _shown(value: Any) -> str:
    return "?" if value is None or is_traced(value) else f"{float(value):.3g}"
