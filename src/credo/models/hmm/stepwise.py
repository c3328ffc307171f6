"""`StepwiseEM`: an HMM from many sequences, some of them at a time.

    s ← (1 - γₙ) s + γₙ N/|B| Σ_{b ∈ B} E[s(x_b, z_b)],    γₙ = (n + 2)^-decay,    θ ← argmax E[log p] at s

A pass over the data makes many M-steps instead of one, so that few passes do; with ½ < decay ≤ 1 it ends where EM does.
Cappé & Moulines (2009), "On-line expectation-maximization algorithm for latent data models"; Liang & Klein (2009).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Float

from credo.core import params
from credo.core.arrays import Array, host
from credo.core.errors import DataError
from credo.core.padding import bucket, pad_rows
from credo.infer.learning import Learned, LocalOptimum
from credo.infer.method import Learner
from credo.infer.optimize import CONVERGED, STOPPED
from credo.infer.progress import Progress, Show
from credo.models.hmm.belief import HMM
from credo.models.hmm.learning import Expected
from credo.models.sequences import Sequences


@dataclass(frozen=True)
class StepwiseEM(Learner):
    """EM by batches of sequences.

    Args:
        batch: sequences in a batch.
        passes: over all sequences.
        decay: how fast old batches are forgotten, above ½ and up to 1.
        tolerance: a climb has converged when a pass gains less than this, relative to 100 + the gain so far.
        progress: True for a bar, or a function of the share done and a text.
    """

    needs: ClassVar[type] = HMM

    batch: int = 16
    passes: int = 10
    decay: float | int = 0.7
    tolerance: float | int = 1e-2
    progress: bool | Show = False

    def learn(
        self, belief: HMM, statistics: Sequences, fixed: Sequence[str], priors: Mapping[str, object], seed: int
    ) -> Learned:
        """The belief after all passes, or when one of them gains next to nothing."""
        if priors:
            raise DataError(f"StepwiseEM has the model's own priors, found priors for {', '.join(sorted(priors))}")
        if not 0.5 < float(self.decay) <= 1:
            raise DataError(f"decay must lie above 0.5 and at most at 1, found {self.decay}")
        held = tuple(params.expand_paths(belief, fixed))
        parts = cut(statistics)
        rng, kept, steps = np.random.default_rng(seed), None, 0
        heights: list[float] = []
        status = STOPPED
        with Progress(self.progress) as show:
            for turn in range(int(self.passes)):
                order, height = rng.permutation(len(parts)), 0.0
                for low in range(0, len(parts), int(self.batch)):
                    chosen = [parts[i] for i in order[low : low + int(self.batch)]]
                    found, log_p = _expected(belief, gathered(statistics, chosen))
                    gamma = (steps + 2.0) ** -float(self.decay) if kept is not None else 1.0
                    kept = _mixed(kept, found, gamma, len(parts) / len(chosen))
                    belief, steps, height = _maximized(belief, kept, held), steps + 1, height + float(log_p)
                heights.append(height)
                show((turn + 1) / int(self.passes), f"pass {turn + 1}: {height:.6g}")
                if turn and heights[-1] - heights[-2] <= self.tolerance * (100 + heights[-1] - heights[0]):
                    status = CONVERGED
                    break
        value = float(belief.log_evidence_of(statistics) + belief.log_prior_of_parameters())
        values = {path: np.asarray(v) for path, v in params.learnable(belief).items() if path not in held}
        note = f"stepwise EM: {status} after {len(heights)} passes and {steps} M-steps"
        note += f", log likelihood + log prior {value:.7g}"
        return Learned(belief, status, value, [LocalOptimum(value, values, status, 1)], {}, [note])


def cut(data: Sequences) -> list[slice]:
    """The rows of each sequence."""
    begins = np.flatnonzero(np.asarray(data.first)[: data.rows])
    return [slice(a, b) for a, b in zip(begins, [*begins[1:], data.rows], strict=True)]


def gathered(data: Sequences, parts: Sequence[slice]) -> Sequences:
    """Some of the sequences, padded as all of them are."""
    rows = np.concatenate([np.arange(part.start, part.stop) for part in parts])
    n = len(rows)
    t = bucket(n)
    x, seen = (pad_rows(np.asarray(each)[rows], t) for each in (data.x, data.seen))
    inputs = None if data.inputs is None else pad_rows(np.asarray(data.inputs)[rows], t)
    first = np.arange(t) >= n
    first[np.cumsum([0, *(part.stop - part.start for part in parts[:-1])])] = True
    return Sequences(x, seen, first, np.arange(t) < n, inputs, data.complete, len(parts) == 1)


def _expected(belief: HMM, data: Sequences) -> tuple[Expected, Float[Array, ""]]:
    """The E-step, in NumPy where rows are few."""
    found = belief.expect_side_by_side([belief], data)
    return host(_compiled(belief, data)) if found is None else found[0]


@eqx.filter_jit
def _compiled(belief: HMM, data: Sequences) -> tuple[Expected, Float[Array, ""]]:
    return belief.expect(data)


def _mixed(kept: Expected | None, found: Expected, gamma: float, scale: float) -> Expected:
    """Statistics as if of all sequences."""
    if kept is None:
        return jax.tree.map(lambda b: scale * np.asarray(b), found)
    return jax.tree.map(lambda a, b: (1 - gamma) * a + gamma * scale * np.asarray(b), kept, found)


def _maximized(belief: HMM, kept: Expected, held: tuple[str, ...]) -> HMM:
    following = host(belief.maximize(kept, held))
    before = params.learnable(belief)
    return params.replace(following, {path: before[path] for path in held})
