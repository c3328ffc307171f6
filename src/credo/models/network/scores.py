"""Scores of graphs: how well arrows into a variable explain it, a sum of local scores over variables.

    score(G) = Σⱼ g(Pⱼ ∪ {j}) - g(Pⱼ) - penalty(j, Pⱼ)        Pⱼ: the parents of j

Every score here is a difference of one function g of *sets* of variables, so that what was counted for one arrow serves
its neighbours, its reversal and the whole of dynamic programming; g is computed once a set and kept.

    BDeu      Σ_cells log Γ(α/|S| + n) - log Γ(α/|S|)       the evidence of tables under Dirichlet(α/|S|)
    BIC       Σ_cells n log n                               less ½ log n for each free number of the table
              Σ_groups n log n - ½n log det Σ̂               of numbers within the groups that categories make

Heckerman, Geiger & Chickering (1995), "Learning Bayesian networks: the combination of knowledge and statistical data";
Schwarz (1978); Lauritzen & Wermuth (1989) for numbers and categories together.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from jaxtyping import Float, Int
from scipy.special import gammaln, xlogy

from credo.core.checks import check_real
from credo.core.errors import DataError
from credo.core.linalg import factorize, log_determinant
from credo.models.network.observed import row_keys

SPARSE = 1 << 16
"""From so many cells on (and more than rows) they are renumbered by those that occur."""
KEPT = 1 << 22
"""How many codes of rows are kept, for the sets that follow."""
COLLINEAR = 1e-12
"""A share of the variance, a number, below which what others leave of it is rounding."""
PSEUDO_ROWS = 1.0
"""Rows with the covariance of all that every group of numbers is thought to hold: a group of two has no variance."""


class Columns:
    """A table for learning arrows: codes of categories and numbers, equal rows of categories counted once.

    `codes` has a column for each variable (0 for numbers), `cardinalities` 0 for those that are numbers.
    """

    def __init__(
        self,
        names: tuple[str, ...],
        codes: Int[np.ndarray, "n d"],
        cardinalities: Int[np.ndarray, " d"],
        numbers: Float[np.ndarray, "n d"] | None = None,
        weights: Float[np.ndarray, " n"] | None = None,
    ):
        self.names, self.cardinalities = names, np.asarray(cardinalities, dtype=np.int64)
        codes = np.asarray(codes, dtype=np.int64)
        self.rows = float(len(codes) if weights is None else weights.sum())
        self.discrete = bool((self.cardinalities > 0).all())
        if self.discrete:
            codes, weights = _distinct_rows(codes, self.cardinalities, weights)
        self.weights = weights
        self.codes = [np.ascontiguousarray(codes[:, j]) for j in range(codes.shape[1])]
        self.numbers = numbers
        if numbers is not None:  # in units of the column: the score must not depend on them
            weight = np.ones(len(numbers)) if weights is None else weights
            centre = weight @ numbers / weight.sum()
            scale = np.sqrt(weight @ (numbers - centre) ** 2 / weight.sum())
            self.numbers = (numbers - centre) / np.where(scale > 0, scale, 1.0)

    @property
    def d(self) -> int:
        """How many variables."""
        return len(self.names)

    def extended(self, code: Int[np.ndarray, " n"], cells: int, j: int) -> tuple[Int[np.ndarray, " n"], int]:
        """The codes of the cells of a set with variable j in it, and how many codes there are."""
        size = int(self.cardinalities[j])
        code, cells = code * size + self.codes[j], cells * size
        if cells > SPARSE and cells > len(code):
            found, code = np.unique(code, return_inverse=True)
            return code, len(found)
        return code, cells


def _distinct_rows(
    codes: Int[np.ndarray, "n d"], cardinalities: Int[np.ndarray, " d"], weights: Float[np.ndarray, " n"] | None
) -> tuple[Int[np.ndarray, "m d"], Float[np.ndarray, " m"] | None]:
    """Each row once with its count, where that is less than half the work."""
    inverse, first = row_keys(list(codes.T), cardinalities.tolist(), len(codes))
    if 2 * len(first) > len(codes):
        return codes, weights
    return codes[first], np.bincount(inverse, weights=weights, minlength=len(first)).astype(float)


class Score(ABC):
    """A score of arrows, given by a function of sets of variables and a penalty."""

    @abstractmethod
    def of_cells(self, counts: Float[np.ndarray, " m"], size: float) -> float:
        """g of a set of categories from the counts of those of its `size` cells that occur."""

    def penalty(self, rows: float) -> float:
        """What each free number costs."""
        return 0.0


@dataclass(frozen=True)
class BDeu(Score):
    """log p(table | graph) under a uniform Dirichlet prior worth `strength` rows, the same for equivalent graphs.

    More strength gives more arrows. Of 1, 3, 10 and 30 rows, 1 was nearest to 60 random networks of 6 to 25 variables
    (mean distance 9.2, 4.2 and 1.8 from 300, 1,500 and 5,000 rows; BIC 8.7, 4.9 and 2.5).
    """

    strength: float | int = 1.0

    def __post_init__(self) -> None:
        if check_real(self.strength, "strength", 0.0) == 0:
            raise DataError("strength must be positive, found 0; 1 row is usual")

    def of_cells(self, counts: Float[np.ndarray, " m"], size: float) -> float:
        """Σ log Γ(α/|S| + n)/Γ(α/|S|)."""
        prior = self.strength / size
        return float(gammaln(prior + counts).sum() - len(counts) * gammaln(prior))


@dataclass(frozen=True)
class BIC(Score):
    """log p(table | θ̂, graph) - ½ log n for each free number; categories, numbers, or both."""

    def of_cells(self, counts: Float[np.ndarray, " m"], size: float) -> float:
        """Σ n log n."""
        return float(xlogy(counts, counts).sum())

    def penalty(self, rows: float) -> float:
        """½ log n."""
        return 0.5 * float(np.log(rows))


SCORES: dict[str, Score] = {"bdeu": BDeu(), "bic": BIC()}


def as_score(score: str | Score | None, columns: Columns) -> Score:
    """The score by its name; None is BDeu for categories and BIC where there are numbers."""
    found = SCORES["bdeu" if columns.discrete else "bic"] if score is None else score
    if isinstance(found, str):
        if found.lower() not in SCORES:
            raise DataError(f"score must be one of {', '.join(map(repr, SCORES))}, or BDeu(strength), found {score!r}")
        found = SCORES[found.lower()]
    if not isinstance(found, Score):
        raise DataError(f"score must be a score or its name, found {score!r}; e.g. score='bdeu'")
    if isinstance(found, BDeu) and not columns.discrete:
        numeric = [name for name, k in zip(columns.names, columns.cardinalities, strict=True) if k == 0]
        raise DataError(
            f"BDeu scores tables of categories, found numbers in {', '.join(map(repr, numeric[:5]))}; use score='bic', "
            "or cut them into categories"
        )
    return found


class LocalScores:
    """score(j, P) of every variable and set of parents (a bitmask), counted at most once."""

    def __init__(self, columns: Columns, score: Score):
        self.columns, self.score, self.d = columns, score, columns.d
        self.numeric = sum(1 << j for j in range(self.d) if columns.cardinalities[j] == 0)
        self._known: dict[int, float] = {0: score.of_cells(np.array([columns.rows]), 1.0)}
        self._price = score.penalty(columns.rows)
        self._codes: dict[int, tuple[Int[np.ndarray, " n"], int]] = {}
        self.sizes = [float(k) for k in columns.cardinalities]

    def __call__(self, j: int, parents: int) -> float:
        """g(P ∪ {j}) - g(P) - penalty."""
        if not (self.numeric >> j) & 1 and parents & self.numeric:
            return -np.inf  # no arrow from a number to a category
        both = parents | 1 << j
        if parents not in self._known:
            self._known[parents] = self._g(parents)
        if both not in self._known:
            self._known[both] = self._g(both, j)
        price = self._price * self._free(j, parents) if self._price else 0.0
        return self._known[both] - self._known[parents] - price

    def fill(self) -> Float[np.ndarray, "d m"]:
        """The local scores of all sets of parents, (d, 2^d); those with j in P are -inf."""
        masks = np.arange(1 << self.d)
        for members in range(1, len(masks)):
            if members not in self._known:
                self._known[members] = self._g(members)
        g = np.array([self._known[members] for members in range(len(masks))])
        out = np.full((self.d, len(masks)), -np.inf)
        for j in range(self.d):
            sets = masks[(masks >> j) & 1 == 0]
            if not (self.numeric >> j) & 1:
                sets = sets[sets & self.numeric == 0]
            free = np.array([self._free(j, int(parents)) for parents in sets])
            out[j, sets] = g[sets | 1 << j] - g[sets] - self._price * free
        return out

    def _g(self, members: int, last: int | None = None) -> float:
        """g of a set; `last` is a variable of it that is counted last, where the cells of the others are known."""
        gaussian = members & self.numeric
        discrete = members & ~gaussian
        if last is None or gaussian:
            code, cells = self._cells(discrete)
        else:
            code, cells = self.columns.extended(*self._cells(discrete & ~(1 << last)), last)
        if gaussian:
            return self._of_numbers(code, cells, tuple(bits(gaussian)))
        counts = np.bincount(code, weights=self.columns.weights, minlength=cells)
        return self.score.of_cells(counts[counts > 0].astype(float), self._size(members))

    def _cells(self, members: int) -> tuple[Int[np.ndarray, " n"], int]:
        """The code of each row's cell. The lowest variable comes last: sets in their order share those before it."""
        found = self._codes.get(members)
        if found is None:
            low = members & -members
            first = np.zeros(len(self.columns.codes[0]), dtype=np.int64), 1
            found = self.columns.extended(*self._cells(members ^ low), low.bit_length() - 1) if members else first
            self._codes[members] = found
            while len(self._codes) > max(32, KEPT // len(found[0])):
                self._codes.pop(next(iter(self._codes)))
        return found

    def _size(self, members: int) -> float:
        """How many cells the table of some categories has."""
        size = 1.0
        for j in bits(members):
            size *= self.sizes[j]
        return size

    def _of_numbers(self, code: np.ndarray, cells: int, which: tuple[int, ...]) -> float:
        """Σ_groups n log n - ½n log det Σ̂ - ½n|S| log 2πe, with pseudo-rows like the whole."""
        assert self.columns.numbers is not None
        x = self.columns.numbers[:, which]
        w = np.ones(len(x)) if self.columns.weights is None else self.columns.weights
        whole = (w[:, None] * x).T @ x / w.sum()
        total, order = 0.0, np.argsort(code, kind="stable") if cells > 1 else np.arange(len(code))
        ends = np.concatenate([[0], np.flatnonzero(np.diff(code[order])) + 1, [len(code)]])
        for start, stop in pairwise(ends.tolist()):
            rows = order[start:stop]
            n = w[rows].sum()
            if n == 0:
                continue
            centred = x[rows] - w[rows] @ x[rows] / n
            spread = (w[rows, None] * centred).T @ centred
            if cells > 1:
                spread, n_all = spread + PSEUDO_ROWS * whole, n + PSEUDO_ROWS
            else:
                n_all = n
            root = factorize(spread / n_all).root
            logdet = float(log_determinant(root))
            if logdet < np.log(COLLINEAR) * len(which):
                names = ", ".join(repr(self.columns.names[j]) for j in which)
                raise DataError(f"the numbers {names} determine one another exactly; drop one of them")
            total += xlogy(n, n) - 0.5 * n * (logdet + len(which) * (np.log(2 * np.pi) + 1))
        return float(total)

    def _free(self, j: int, parents: int) -> float:
        """The free numbers of j's table, or of its regressions (weights, intercept, variance) in every group."""
        groups = self._size(parents & ~self.numeric)
        if (self.numeric >> j) & 1:
            return groups * ((parents & self.numeric).bit_count() + 2)
        return groups * (self.sizes[j] - 1.0)


def bits(mask: int) -> Iterator[int]:
    """The members of a set that is a mask."""
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low
