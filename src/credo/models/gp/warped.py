"""`WarpedGP`: a Gaussian process of a learned, increasing function of the outcomes.

    g(y) = f(x) + ε,   f ~ GP(m, k),   ε ~ N(0, noise)

Outcomes that grow in proportion, noise that grows with the level, skewness and bounds are not Gaussian in y, but are
nearly so in g(y). The parameters of g are learned with the kernel, by the evidence of y itself,

    log p(y | X) = log N(g(y) | m, K + noise·I) + Σᵢ log g'(yᵢ),

whose gradient by g(y) is -α, α = (K + noise·I)⁻¹(g(y) - m): hardly more work than the evidence of a plain `GP`.
Snelson, Rasmussen & Ghahramani (2004), "Warped Gaussian processes"; Rios & Tobar (2019), "Compositionally-warped
Gaussian processes".
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import equinox as eqx
import numpy as np
from jaxtyping import Float

from credo.core import params
from credo.core.abilities import LeavesOneOut
from credo.core.arrays import Array, host, is_traced
from credo.core.device import blas_threads
from credo.core.errors import DataError
from credo.core.params import positive
from credo.core.predictive import Warped
from credo.core.pytrees import changed
from credo.infer.learning import Evidence, Learned
from credo.infer.method import Learner
from credo.kernels import Kernel
from credo.kernels.base import show
from credo.kernels.derivative import Differentiated
from credo.models.gp.base import GaussianProcess
from credo.models.gp.belief import GP, check_kernel_argument, check_noise_argument, rows_from
from credo.models.gp.data import Rows, masked
from credo.models.gp.evidence import Priors
from credo.models.gp.means import Mean, as_mean
from credo.models.gp.staged import ROUGHLY, Staged, flat, noise_free, typical_steps
from credo.models.gp.warps import OutcomeWarp, Steps


class WarpedGP(GaussianProcess, LeavesOneOut):
    """A Gaussian process of g(y); predictions are in the units of y.

    Args:
        kernel: the covariance of function values; None is `Matern52(ard=True)`.
        mean: what is expected of g(y) before data, as for `GP`.
        noise: the variance of g(y) around the function.
        warp: g, one of `Steps` (None: two of them), `Log` and `Identity` in `credo.models.gp`.
    """

    kernel: Kernel
    mean: Mean
    warp: OutcomeWarp
    noise: Any = positive(None, unset=1.0)

    def __init__(self, kernel: Any = None, mean: Any = None, noise: Any = None, warp: Any = None):
        self.kernel = check_kernel_argument(kernel, type(self).__name__)
        if isinstance(self.kernel, Differentiated):
            raise DataError("slopes of a warped outcome are not slopes of the function; use GP for observed slopes")
        self.mean = as_mean(mean)
        if isinstance(noise, bool) or not (noise is None or isinstance(noise, int | float) or eqx.is_array_like(noise)):
            raise DataError(f"WarpedGP takes one noise variance, of g(y), found {type(noise).__name__}")
        self.noise = check_noise_argument(noise)
        self.warp = Steps() if warp is None else warp
        if not isinstance(self.warp, OutcomeWarp):
            raise DataError(f"warp must be one of Steps, Log, Identity of credo.models.gp, found {type(warp).__name__}")
        self.seen = self.solved = self.inputs = None

    # -- data ------------------------------------------------------------------------------------------------

    @property
    def latent(self) -> GP:
        """The belief about g(y), as a plain `GP`."""
        gp = GP(self.kernel, self.mean, self.noise).named(self.inputs)
        return gp if self.seen is None else changed(gp, seen=self.transformed(self.seen)[0], solved=self.solved)

    def transformed(self, rows: Rows) -> tuple[Rows, Float[Array, ""]]:
        """The rows with g(y), and Σ log g'(y)."""
        y = masked(rows.mask, rows.y, 1.0)  # padding that no warp minds
        z, slope = (masked(rows.mask, host(v)) for v in (self.warp(y), self.warp.log_slope(y)))
        return changed(rows, y=z), slope.sum()

    @property
    def learned_warp(self) -> OutcomeWarp:
        """g."""
        return self.warp

    def statistics(self, *data: Any, weights: Any = None) -> Rows:
        """X and y, checked; rows whose y is NaN are left out. A row of weight w has noise variance/w."""
        rows = super().statistics(*data, weights=weights)
        if not is_traced(rows):
            y = rows.cut()[1]
            outside = ~np.asarray(self.warp.inside(y))
            if outside.any():
                raise DataError(
                    f"y must be positive for {type(self.warp).__name__}, found {y[outside][0]:.6g}; "
                    "Steps() takes any outcome"
                )
        return rows

    def in_units(self, rows: Rows) -> "WarpedGP":
        """A warp from the outcomes, and starting values in the units of g(y)."""
        fitting = changed(self, warp=self.warp.adapt(rows.cut()[1]))
        return fitting.with_latent(fitting.latent.in_units(fitting.transformed(rows)[0]))

    def with_latent(self, gp: GP) -> "WarpedGP":
        """The belief with the kernel, the mean and the noise of another about g(y)."""
        return changed(self, kernel=gp.kernel, mean=gp.mean, noise=gp.noise)

    def default_priors(self, statistics: Rows) -> dict[str, Any]:
        """Those of a `GP` for g(y), and the warp's, which pull to the identity."""
        own = {f"warp.{path}": prior for path, prior in self.warp.priors().items()}
        known = set(params.learnable(self))
        return super().default_priors(self.transformed(statistics)[0]) | {p: v for p, v in own.items() if p in known}

    def learner(self, priors: dict[str, Any]) -> "WarpThenKernel":
        """A plain GP first, then both together."""
        return WarpThenKernel()

    # -- predictions -----------------------------------------------------------------------------------------

    def predict(self, x: object, *, joint: bool = False) -> Warped:
        """p(y* | x*, data): a Normal of g(y*), told in the units of y.

        Args:
            x: queries, shape (m, d).
            joint: also keep the m × m covariance of the function.
        """
        return Warped(self.latent.predict(x, joint=joint), self.warp)

    def sample(self, x: object, n: int = 1, *, noise: bool = False, method: str = "cholesky", seed: int = 0) -> Array:
        """n joint draws of g⁻¹(f) (of outcomes with `noise`) at the rows x, shape (n, m); see `sampling.py`."""
        return self.warp.inverse(self.latent.sample(x, n, noise=noise, method=method, seed=seed))

    def leave_one_out(self, *data: Any, **options: Any) -> Warped:
        """The prediction of each row from all the others, in closed form: of rows that were seen, or of `data`.

        The warp is that of all rows.
        """
        if data:
            latent = self.condition(*data, **options).latent.leave_one_out()
            return Warped(rows_from(latent, slice(0 if self.seen is None else self.seen.n, None)), self.warp)
        return Warped(self.latent.leave_one_out(), self.warp)

    def __repr__(self) -> str:
        how = "?" if is_traced(self.warp) else self.warp.describe()
        about = f"mean={type(self.mean).__name__}, noise={show(self.noise)}"
        return f"WarpedGP({self.kernel!r}, {about}, {how}, seen {self.seen_in_words()})"


# -- learning ----------------------------------------------------------------------------------------------------

WARP = "warp."


@dataclass(frozen=True)
class WarpThenKernel(Learner):
    """The kernel with the warp held, as `GP` would, then both: the best of a plain process is a good place to begin.

    Both are climbed from each of the warp's own starts on a part of the rows, and from the best of them on all.
    """

    needs: ClassVar[type] = WarpedGP

    stages: Staged = field(default_factory=Staged)
    rows: int = 256
    """The rows that the warp's starts are tried on."""
    short: int = 40
    """The steps of a climb on a part of the rows."""

    def learn(self, belief: WarpedGP, statistics: Rows, fixed: Sequence[str], priors: Priors, seed: int) -> Learned:
        """The belief at the highest maximum found."""
        free = [p for p in params.learnable(belief) if p.startswith(WARP) and p not in fixed]
        plain = self._plain(belief, statistics, fixed, priors, seed)
        if not free:
            return plain
        y = statistics.cut()[1]
        held = {path: params.learnable(belief)[path] for path in fixed if path.startswith(WARP)}
        climb = Evidence(
            1, max_steps=self.stages.max_steps, tolerance=self.stages.tolerance, gain=self.stages.gain, flat=False
        )
        part = statistics
        if statistics.n > 1.5 * self.rows:
            order = np.random.default_rng(seed).permutation(statistics.n)
            part = statistics.subset(np.sort(order[: self.rows]))

        def try_on_part(at: WarpedGP, warps: Sequence[OutcomeWarp]) -> list[Learned]:
            starts = [params.replace(changed(at, warp=w), held) for w in warps]
            short = changed(climb, max_steps=self.short, gain=ROUGHLY)
            return [short.learn(start, part, fixed, priors, seed) for start in starts]

        with blas_threads(part.n):
            tried = try_on_part(plain.belief, belief.warp.starts(y))
            best = max(tried, key=lambda each: each.log_evidence)
            tried = try_on_part(best.belief, best.belief.warp.revived(y))
            best = max([best, *tried], key=lambda each: each.log_evidence)
            stride = typical_steps(best, part, fixed, priors, statistics.n)
        # Few rows give up inputs that matter little, and more do not call them back: only the warp is taken from there.
        begin = best.belief if part is statistics else changed(plain.belief, warp=best.belief.warp)
        with blas_threads(statistics.n):
            learned = changed(climb, stride=stride).learn(begin, statistics, fixed, priors, seed)
        plateaus = flat(plain.belief, learned, part, fixed, priors)
        gain = learned.log_evidence - plain.log_evidence
        note = f"the warp ({learned.belief.warp.describe()}) gained {gain:.3g} in log evidence"
        notes = [*plain.notes, note]
        return noise_free(learned._replace(at_bound=learned.at_bound | plateaus, notes=notes))

    def _plain(self, belief: WarpedGP, statistics: Rows, fixed: Sequence[str], priors: Priors, seed: int) -> Learned:
        """The kernel, the mean and the noise learned with the warp as it is."""
        rows, log_slope = belief.transformed(statistics)
        held = [path for path in fixed if not path.startswith(WARP)]
        own = {path: prior for path, prior in priors.items() if not path.startswith(WARP)}
        more = float(log_slope) + float(params.log_prior(belief, {p: v for p, v in priors.items() if p not in own}))
        if not params.layout(belief.latent, held):
            value = float(belief.latent.log_evidence_of(rows)) + more
            return Learned(belief, "converged", value, [], {}, [])
        learned = self.stages.learn(belief.latent, rows, held, own, seed)
        optima = [o._replace(log_evidence=o.log_evidence + more) for o in learned.optima]
        found = belief.with_latent(learned.belief)
        return learned._replace(belief=found, log_evidence=learned.log_evidence + more, optima=optima)
