"""Learning a warp and the hyperparameters of a Gaussian process together.

The evidence of a warped process has more local maxima than that of a plain one, and the plain one's best is a good
place to begin: `WarpThenKernel` learns the kernel with the warp as it is, as `GP` would, then climbs both together,
from each of the warp's own starts on a part of the rows, and from the best of them on all.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from credo.core import params
from credo.core.device import blas_threads
from credo.core.pytrees import changed
from credo.infer.learning import Evidence, Learned
from credo.infer.method import Learner
from credo.models.gp.data import Rows
from credo.models.gp.evidence import Priors
from credo.models.gp.staged import ROUGHLY, Staged, flat, noise_free, typical_steps
from credo.models.gp.warped import WarpedGP
from credo.models.gp.warps import OutcomeWarp

WARP = "warp."


@dataclass(frozen=True)
class WarpThenKernel(Learner):
    """The kernel with the warp held, then both."""

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
