"""Learning a warp and the hyperparameters of a Gaussian process together.

The evidence of a warped process has more local maxima than that of a plain one, and the plain one's best is a good
place to begin: `Together` learns the kernel with the warp as it is, as `GP` would, then climbs both together, from
each of the warp's own starts on a part of the rows, and from the best of them on all.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from credo.core import params
from credo.core.arrays import is_traced
from credo.core.device import blas_threads
from credo.core.pytrees import changed
from credo.infer.learning import Evidence, Learned
from credo.infer.method import Learner
from credo.infer.priors import LogScalePenalty
from credo.models.gp.belief import GP
from credo.models.gp.data import Rows
from credo.models.gp.staged import ROUGHLY, HostObjective, Staged, flat, noise_free, typical_steps
from credo.models.gp.uncompiled import FEW_ROWS, Sheet, Uncompiled, is_supported
from credo.models.gp.warped import WarpedGP
from credo.models.gp.warps import OutcomeWarp

WARP = "warp."


@dataclass(frozen=True)
class Together(Learner):
    """The kernel with the warp held, then both."""

    needs: ClassVar[type] = WarpedGP

    stages: Staged = field(default_factory=Staged)
    rows: int = 256
    """The rows that the warp's starts are tried on."""
    short: int = 40
    """The steps of a climb on a part of the rows."""

    def learn(
        self, belief: WarpedGP, statistics: Rows, fixed: Sequence[str], priors: Mapping[str, Any], seed: int
    ) -> Learned:
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
            starts = [params.replace(eqx.tree_at(lambda b: b.warp, at, w), held) for w in warps]
            short = changed(climb, max_steps=self.short, gain=ROUGHLY)
            return [short.learn(start, part, fixed, priors, seed) for start in starts]

        with blas_threads(part.n):
            tried = try_on_part(plain.belief, belief.warp.starts(y))
            best = max(tried, key=lambda each: each.log_evidence)
            tried = try_on_part(best.belief, best.belief.warp.revived(y))
            best = max([best, *tried], key=lambda each: each.log_evidence)
            stride = typical_steps(best, part, fixed, priors, statistics.n)
        # Few rows give up inputs that matter little, and more do not call them back: only the warp is taken from there.
        begin = best.belief if part is statistics else eqx.tree_at(lambda b: b.warp, plain.belief, best.belief.warp)
        with blas_threads(statistics.n):
            learned = changed(climb, stride=stride).learn(begin, statistics, fixed, priors, seed)
        plateaus = flat(plain.belief, learned, part, fixed, priors)
        gain = learned.log_evidence - plain.log_evidence
        note = f"the warp ({learned.belief.warp.describe()}) gained {gain:.3g} in log evidence"
        notes = [*plain.notes, note]
        return noise_free(learned._replace(at_bound=learned.at_bound | plateaus, notes=notes))

    def _plain(
        self, belief: WarpedGP, statistics: Rows, fixed: Sequence[str], priors: Mapping[str, Any], seed: int
    ) -> Learned:
        """The kernel, the mean and the noise learned with the warp as it is."""
        rows, log_slope = belief.latent_rows(statistics)
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


def objective(belief: WarpedGP, slots: params.Layout, rows: Rows, priors: Mapping[str, Any]) -> Any:
    """What is climbed; None where something is traced."""
    if is_traced(belief, rows):
        return None
    typical = all(isinstance(prior, LogScalePenalty) for path, prior in priors.items() if not path.startswith(WARP))
    if rows.n <= FEW_ROWS and typical and is_supported(belief.kernel):
        return FreeWarped(belief, slots, rows, priors)
    return HostObjective(belief, slots, rows, priors)


class FreeWarped:
    """log p(y | X, θ) + log p(θ) of the unconstrained vector with its gradient, in NumPy but for the warp."""

    def __init__(self, belief: WarpedGP, slots: params.Layout, rows: Rows, priors: Mapping[str, Any]):
        own = {path: prior for path, prior in priors.items() if not path.startswith(WARP)}
        gp = GP(belief.kernel, belief.mean, belief.noise)
        sheet = Sheet.of(gp, rows)
        self._whole = Uncompiled(gp, sheet, own)
        self._mean, self._n = rows.cut()[1] - sheet.residual, rows.n
        places = {s.path: np.arange(s.start, s.stop) for s in self._whole.slots}
        mine = [s for s in slots if not s.path.startswith(WARP)]
        self._inner = np.concatenate([places[s.path] for s in mine]) if mine else np.zeros(0, int)
        self._outer = np.concatenate([np.arange(s.start, s.stop) for s in mine]) if mine else np.zeros(0, int)
        theirs = [s for s in slots if s.path.startswith(WARP)]
        self._warp = np.concatenate([np.arange(s.start, s.stop) for s in theirs]) if theirs else np.zeros(0, int)
        shift = min((s.start for s in theirs), default=0)
        moved = tuple(s._replace(start=s.start - shift, stop=s.stop - shift) for s in theirs)
        about = {path: prior for path, prior in priors.items() if path.startswith(WARP)}
        self._about = (belief.unconditioned(), moved, rows, about)

    def value_and_grad(self, vector: np.ndarray) -> tuple[float, np.ndarray]:
        """The objective and its gradient."""
        full, gradient = self._full(vector), np.zeros_like(vector)
        z, more = _outcomes(vector[self._warp], *self._about)
        residual = np.asarray(z)[: self._n] - self._mean
        if not np.all(np.isfinite(residual)):
            return -np.inf, gradient
        value, slope, by_residual = self._whole.slopes(full, residual)
        if not np.isfinite(value):
            return -np.inf, gradient
        log_prior, bend = self._whole.log_prior(full)
        gradient[self._outer] = (slope + bend)[self._inner]
        by_z = np.zeros(np.shape(z))
        by_z[: self._n] = by_residual
        gradient[self._warp] = np.asarray(_pull_back(vector[self._warp], *self._about, by_z))
        return value + log_prior + float(more), gradient

    def value(self, vector: np.ndarray) -> float:
        """The objective."""
        return self.value_and_grad(vector)[0]

    def _full(self, vector: np.ndarray) -> np.ndarray:
        full = self._whole.start.copy()
        full[self._inner] = vector[self._outer]
        return full


def _warped(u: Any, belief: WarpedGP, slots: params.Layout, rows: Rows, priors: dict[str, Any]) -> tuple[Array, Array]:
    """g(y), and Σ log g'(y) + log p of what g is made of."""
    candidate = params.from_vector(belief, slots, jnp.asarray(u))
    seen, log_slope = candidate.latent_rows(rows)
    return seen.y, log_slope + params.log_prior(candidate, priors)


_outcomes: Any = eqx.filter_jit(_warped)


@eqx.filter_jit
def _pull_back(
    u: Float[Array, " k"] | np.ndarray, belief: WarpedGP, slots: params.Layout, rows: Rows, priors: Any, by_z: Any
) -> Float[Array, " k"]:
    """∂/∂u from ∂log p/∂g(y) = -α."""
    _, pull = jax.vjp(lambda v: _warped(v, belief, slots, rows, priors), jnp.asarray(u))
    return pull((jnp.asarray(by_z), jnp.ones(())))[0]
