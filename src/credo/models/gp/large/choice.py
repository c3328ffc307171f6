"""Which form of Bayes' rule a `GP` takes where the user names none: `choose_method`, with all thresholds.

| rows | inputs | method | why |
| --- | --- | --- | --- |
| up to 5,000 | any | `Exact` | a look at the evidence takes 2 s and 0.4 GB; nothing is approximate |
| more | one, and a kernel that is a state | `StateSpace` | exact, in O(n) |
| more | up to three, an `RBF` that is not short beside the box | `Fourier` | where neighbours are at their worst |
| more | any | `Neighbours` | NLPD -1.19 on kin40k in 30 CPU s, 0.57 on protein in 34 (`benchmarks/large_gp.py`) |

Behind a likelihood (`LatentGP`) more than 3,000 rows are seen through 300 inducing points: 10⁵ rows of two inputs and
two classes take 28 CPU s, with a log loss 0.002 above that of the truth.

Few rows of one input stay exact by Cholesky, too: such a belief can do more (draws, slopes, joint predictions).
"""

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

from credo.core.errors import DataError
from credo.infer.method import Solver
from credo.kernels import RBF
from credo.models.gp.belief import GP
from credo.models.gp.data import Rows
from credo.models.gp.large.fourier import COLUMNS, Fourier, choose_grid
from credo.models.gp.large.inducing import Inducing
from credo.models.gp.large.neighbours import FEW_COLUMNS, NEAR_FEW, NEAR_MANY, Neighbours
from credo.models.gp.state_space.belief import StateSpace, StateSpaceGP

EXACT_ROWS = 5000
LATENT_ROWS, LATENT_POINTS = 3000, 300


@dataclass(frozen=True)
class Exact(Solver):
    """Bayes' rule of a `GP` by the Cholesky factor of all rows: O(n³), what `condition` does by itself."""

    needs: ClassVar[tuple[type, ...]] = (GP,)


class Choice(NamedTuple):
    """A method, and why."""

    method: Any
    why: str


def choose_method(gp: GP, rows: Rows) -> Choice:
    """The method for a `GP` and its rows."""
    n, d = rows.n, rows.x.shape[1]
    if n <= EXACT_ROWS:
        return Choice(Exact(), f"{n:,} rows, at most {EXACT_ROWS:,}: exact")
    if d == 1:
        try:
            StateSpaceGP(gp)
            return Choice(
                StateSpace(), f"{n:,} rows of one input and a kernel that is a state: StateSpace(), exact in O(n)"
            )
        except DataError:
            pass  # the kernel is no state
    if _waves_will_do(gp, rows):
        return Choice(
            Fourier(), f"{n:,} rows of {d} inputs and a smooth kernel: Fourier(), exact but for its tolerance"
        )
    k = NEAR_FEW if d <= FEW_COLUMNS else NEAR_MANY
    why = f"{n:,} rows, more than {EXACT_ROWS:,}: Neighbours({k}), an approximation; using=Exact() asks for all of them"
    return Choice(Neighbours(k), why)


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


def choose_latent(rows: Rows) -> Choice:
    """The method for many rows of a `LatentGP`."""
    why = f"{rows.n:,} rows, more than {LATENT_ROWS:,}: Inducing({LATENT_POINTS}), an approximation"
    return Choice(Inducing(LATENT_POINTS), why)
