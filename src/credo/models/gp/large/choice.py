"""Which form of Bayes' rule a `GP` takes where the user names none: `choose_method`, with all thresholds.

| rows | inputs | method | why |
| --- | --- | --- | --- |
| up to 5,000 | any | `Exact` | a look at the evidence takes 2 s and 0.4 GB; nothing is approximate |
| more | one, and a kernel that is a state | `StateSpace` | exact, in O(n) |
| more | up to three, an `RBF` that is not short beside the box | `Fourier` | where neighbours are at their worst |
| more | any | `Neighbours` | NLPD -1.19 on kin40k in 14 CPU s, 0.58 on protein in 15 (`benchmarks/large_gp.py`) |
| up to 20,000 | more than three | `Inducing`, where rows left out say so | -0.14 on pumadyn32nm, `Neighbours` -0.09 |

Behind a likelihood (`LatentGP`) more than 3,000 rows are seen through 300 inducing points: 10⁵ rows of two inputs and
two classes take 5 CPU s, with a log loss 0.0004 above that of the truth.

Few rows of one input stay exact by Cholesky, too: such a belief can do more (draws, slopes, joint predictions).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from credo.core.errors import DataError
from credo.core.pytrees import changed
from credo.infer.learning import Learned
from credo.infer.method import Solver
from credo.kernels import RBF
from credo.models.gp.belief import GP
from credo.models.gp.data import Rows
from credo.models.gp.evidence import Priors
from credo.models.gp.large.base import LargeGP
from credo.models.gp.large.fourier import COLUMNS, Fourier, choose_grid
from credo.models.gp.large.inducing import Inducing, InducingGP
from credo.models.gp.large.neighbours import BETTER, FEW_COLUMNS, NEAR_FEW, NEAR_MANY, Neighbours, NeighboursGP
from credo.models.gp.state_space.belief import StateSpace, StateSpaceGP

EXACT_ROWS = 5000
LATENT_ROWS, POINTS = 3000, 300
COMPARED_ON, COMPARED_ROWS = 1000, 20_000
"""Rows on which the two are compared, and those up to which they are: of more, a few hundred points seldom win."""
STEPS = 150
"""Of a climb with inducing points from hyperparameters that neighbours have learned."""


@dataclass(frozen=True)
class Exact(Solver):
    """Bayes' rule of a `GP` by the Cholesky factor of all rows: O(n³), what `condition` does by itself."""

    needs: ClassVar[tuple[type, ...]] = (GP, LargeGP)

    def adapt(self, belief: Any, statistics: Rows) -> tuple[Any, Rows]:
        """The belief, or the `GP` that was approximated, after all rows that were seen."""
        if not isinstance(belief, LargeGP):
            return belief, statistics
        own = belief.as_gp()
        return (own if belief.seen is None else own.condition_on(belief.seen)), statistics


class Choice(NamedTuple):
    """A method, and why."""

    method: Any
    why: str


def choose_method(gp: GP, rows: Rows, exact_rows: int | None = None) -> Choice:
    """The method for a `GP` and its rows, of which up to `exact_rows` (5,000) are few."""
    n, d = rows.n, rows.x.shape[1]
    few = EXACT_ROWS if exact_rows is None else exact_rows
    if n <= few:
        return Choice(Exact(), f"{n:,} rows, at most {few:,}: exact")
    if d == 1:
        try:
            StateSpaceGP(gp)
            why = f"{n:,} rows of one input and a kernel that is a state: StateSpace(), exact in O(n)"
            return Choice(StateSpace(), why)
        except DataError:
            pass  # the kernel is no state
    if _waves_will_do(gp, rows):
        why = f"{n:,} rows of {d} inputs and a smooth kernel: Fourier(), exact but for its tolerance"
        return Choice(Fourier(), why)
    k, both = NEAR_FEW if d <= FEW_COLUMNS else NEAR_MANY, d > FEW_COLUMNS and n <= COMPARED_ROWS
    other = f", or Inducing({POINTS}) where that predicts rows left out better" if both else ""
    why = f"{n:,} rows, more than {few:,}: Neighbours({k}){other}, an approximation; using=Exact() asks for all of them"
    return Choice((NeighboursOrInducing if both else Neighbours)(k), why)


@dataclass(frozen=True)
class NeighboursOrInducing(Neighbours):
    """`Neighbours`; and where inducing points with the same hyperparameters predict rows left out better, those."""

    def learn(self, belief: Any, statistics: Rows, fixed: Sequence[str], priors: Priors, seed: int) -> Learned:
        """What `Neighbours` learns, which `Inducing` goes on from where it wins."""
        near = changed(belief, method=Neighbours(self.k))
        learned = super().learn(near, statistics, fixed, priors, seed)
        other = Inducing(POINTS)
        form = other.adapt(learned.belief.as_gp(), statistics)[0]
        theirs, ours, held = _on_rows_left_out(learned.belief, form, statistics, seed)
        said = (
            f"{held} rows left out: {-ours:.4g} nats a row by {POINTS} inducing points with these hyperparameters, "
            f"{-theirs:.4g} by neighbours"
        )
        if ours < theirs + BETTER:
            return learned._replace(notes=[*learned.notes, said])
        again = other.climb(form.placed(statistics), statistics, fixed, priors, seed, max_steps=STEPS, gain=1e-4)
        return again._replace(notes=[*again.notes, f"{said}: {other} went on from there"])


def _on_rows_left_out(near: NeighboursGP, form: InducingGP, rows: Rows, seed: int) -> tuple[float, float, int]:
    """The mean log density of some rows given others, by neighbours and by inducing points; and how many they are."""
    drawn = np.random.default_rng(seed + 1).permutation(rows.n)
    size = min(COMPARED_ON, rows.n // 5)
    out, rest = (rows.subset(np.sort(part)) for part in (drawn[:size], drawn[size:]))
    noise = near.noise_variance() * out.scale + out.extra
    seen = (each.condition_on(rest).predict(out.x, noise=noise) for each in (near, form))
    theirs, ours = (float(np.mean(law.log_prob(out.y))) for law in seen)
    return theirs, ours, size


def _waves_will_do(gp: GP, rows: Rows) -> bool:
    """Whether the kernel is smooth, and has few enough frequencies with the lengthscales of some rows."""
    method = Fourier()
    if rows.x.shape[1] > COLUMNS or not isinstance(gp.kernel, RBF):
        return False
    try:
        choose_grid(method.start(method.form(gp), rows, (), {}, 0).kernel, rows.cut()[0], method)
    except DataError:  # a trend, or too many frequencies
        return False
    return True


def choose_latent(n: int, few: int = LATENT_ROWS) -> Choice:
    """The method for n rows of a `LatentGP`, which are more than `few`."""
    return Choice(Inducing(POINTS), f"{n:,} rows, more than {few:,}: Inducing({POINTS}), an approximation")
