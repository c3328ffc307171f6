"""`KernelNeighbours`: the k nearest rows by a kernel's distance, for classes or numbers.

    d²(x, z) = ‖φ(x) - φ(z)‖² = k(x, x) + k(z, z) - 2 k(x, z)

needs no coordinates, so strings, sets and graphs have neighbours too. What the neighbours say is conditioned on like
any data: counts of classes with a Dirichlet prior, p ~ Dir(α/K, …), or numbers with a normal-inverse-gamma prior of α
counts. Rows that are equally far as the k-th share its place, so the order of rows has no say.

k and α maximize the leave-one-out likelihood. Fix & Hodges (1951); Cover & Hart (1967), "Nearest neighbor pattern
classification"; Yu, Ji & Zhang (2002), "Kernel nearest-neighbor algorithm".
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import equinox as eqx
import numpy as np
from jaxtyping import Float
from scipy import optimize

from credo.core import params
from credo.core.arrays import Array, as_float, is_traced, namespace, special
from credo.core.checks import check_count, check_real, check_vector
from credo.core.errors import DataError
from credo.core.params import constant, given, positive
from credo.core.predictive import Bernoulli, Categorical, Predictive, StudentT
from credo.core.predictive.classes import of_classes
from credo.core.pytrees import changed
from credo.infer.learning import Learned, LocalOptimum
from credo.infer.method import Learner
from credo.infer.optimize import CONVERGED
from credo.infer.priors import LogScalePenalty
from credo.kernels import InputScales, Kernel, Linear
from credo.models.gp.belief import check_kernel_argument
from credo.models.gp.data import Rows
from credo.models.kernel_methods.base import KernelMethod
from credo.models.likelihoods.classes import Categorical as Labels
from credo.models.likelihoods.classes import Label

TIE = 1e-12
"""Squared distances that differ by less than this share of k(x, x) + k(z, z) are equal: that is their rounding."""
SIZES = (*range(1, 31), *(round(30 * 1.1**i) for i in range(1, 21)))
"""The k that `fit` looks at: all up to 30, then in steps of a tenth up to 200."""
DEGREES = 1.5
"""a of the normal-inverse-gamma prior: the least half number for which the noise variance has a mean."""


class KernelNeighbours(KernelMethod):
    """A belief about classes, or numbers, from the rows nearest to a query.

    Args:
        k: how many; all rows where there are fewer. None: chosen by `fit`, and √n until then.
        kernel: says how alike two inputs are; None compares standardized columns by Euclidean distance.
        outcomes: "classes" or "numbers".
        classes: the labels, where not all of them are in the data.
        prior_count: α, how many neighbours the prior counts for; `fit` chooses it.
    """

    kernel: Kernel = constant()
    prior_count: Float[Array, ""] = positive(1.0, low=1e-4, high=1e4)
    center: Float[Array, ""] | None = given(unset=0.0)
    """Numbers: what is expected before any neighbour; `fit` takes the mean of y."""
    spread: Float[Array, ""] | None = given(unset=1.0)
    """Numbers: the standard deviation around it; `fit` takes that of y."""
    origin: Float[Array, " d"] | None = None
    unit: Float[Array, " d"] | None = None
    """What is taken from the columns, and what they are divided by, before the kernel sees them; None as they are."""
    seen: Rows | None = None
    inputs: tuple[str, ...] | None = eqx.field(static=True, default=None)
    labels: Labels | None = None
    """None for numbers."""
    k: int | None = eqx.field(static=True, default=None)
    chooses: bool = eqx.field(static=True, default=True)
    """Whether `fit` chooses k."""
    standardizes: bool = eqx.field(static=True, default=True)
    """Whether `fit` standardizes: where no kernel was given."""

    def __init__(
        self,
        k: int | None = None,
        kernel: object = None,
        *,
        outcomes: str = "classes",
        classes: Iterable[Label] | None = None,
        prior_count: object = 1.0,
    ):
        if outcomes not in ("classes", "numbers"):
            raise DataError(f'outcomes must be "classes" or "numbers", found {outcomes!r}')
        if classes is not None and outcomes == "numbers":
            raise DataError("numbers have no classes; leave classes= out")
        if k is not None:
            check_count(k, "k")
        if not is_traced(prior_count) and not check_real(prior_count, "prior_count", 0.0) > 0:
            raise DataError(f"prior_count must be positive, found {prior_count!r}")
        self.kernel = Linear() if kernel is None else check_kernel_argument(kernel, "KernelNeighbours")
        self.prior_count = as_float(prior_count)
        self.labels = Labels(None if classes is None else tuple(classes)) if outcomes == "classes" else None
        self.k, self.chooses, self.standardizes = k, k is None, kernel is None
        self.center = self.spread = self.origin = self.unit = self.seen = self.inputs = None

    @property
    def classes(self) -> tuple[Label, ...] | None:
        """The labels in the order of the predicted probabilities; None for numbers, or before any were seen."""
        return None if self.labels is None else self.labels.classes

    # -- data ------------------------------------------------------------------------------------------------

    def told(self, *data: Any) -> "KernelNeighbours":
        """The belief that knows the names of its inputs and its classes."""
        named = super().told(*data)
        if len(data) != 2 or self.labels is None or self.labels.classes is not None or is_traced(data):
            return named
        found = self.labels.found(data[1], 2, None)
        if any(isinstance(label, float) for label in found):
            raise DataError(
                'y holds numbers that are no labels; for numbers write KernelNeighbours(outcomes="numbers")'
            )
        return changed(named, labels=Labels(found))

    def outcomes_of(self, y: Any, n: int) -> Float[Array, " n"]:
        """The places of labels among the classes, or numbers."""
        found = check_vector(y, "y", n) if self.labels is None else self.labels.encode(y)
        if len(found) != n:
            raise DataError(f"y must have one label per row: {n} are expected, found {len(found)}")
        return found

    def queries(self, x: object) -> Array:
        """Queries as checked rows, as the kernel sees them."""
        table = super().queries(x)
        return table if self.unit is None or self.origin is None else (table - self.origin) / self.unit

    def seen_inputs(self) -> Float[Array | np.ndarray, "n d"] | None:
        """The inputs of the rows it was conditioned on."""
        x = super().seen_inputs()
        return x if x is None or self.unit is None or self.origin is None else x * self.unit + self.origin

    def prepare(self, *data: Any, **options: Any) -> tuple["KernelNeighbours", Rows]:
        """Columns in standard units where no kernel says otherwise, and the rows."""
        if self.seen is not None or self.unit is not None or not self.standardizes or not data:
            belief, rows = super().prepare(*data, **options)
            return belief.with_best_k(rows), rows
        scales = InputScales.of(np.asarray(super().queries(data[0])), 1.0)
        return changed(self, origin=as_float(scales.center), unit=as_float(scales.spread)).prepare(*data, **options)

    def in_units(self, rows: Rows) -> "KernelNeighbours":
        """Numbers that the kernel was not given, and where numbers are expected."""
        x, y, _, _ = rows.cut()
        kernel = self.kernel if self.standardizes else self.kernel.adapt(InputScales.of(x, 1.0))
        if self.labels is not None:
            return changed(self, kernel=kernel)
        center, spread = (as_float(v) for v in (y.mean(), float(y.std()) or 1.0))
        return changed(self, kernel=kernel, center=center, spread=spread)

    def with_best_k(self, rows: Rows) -> "KernelNeighbours":
        """The k for which rows that are left out are most probable at this α, where it is to be chosen."""
        y = rows.y
        return max(self.of_sizes(rows), key=lambda pair: float(pair[0]._of(*pair[1]).log_prob(y).sum()))[0]

    def of_sizes(self, rows: Rows) -> Iterator[tuple["KernelNeighbours", tuple[Array, ...]]]:
        """The belief with each k of SIZES, or that it was given, and what the k nearest other rows say of each row."""
        squared = np.array(self.squared_distances(rows.x, rows.x))
        n = len(squared)
        np.fill_diagonal(squared, np.inf)
        ordered = np.sort(squared, axis=1)
        for k in [k for k in SIZES if k < max(n, 2)] if self.chooses else [self._number(n)]:
            yield changed(self, k=k), self._summary(nearest(squared, min(k, n - 1), ordered), rows.y)

    def default_priors(self, statistics: Rows) -> dict[str, Any]:
        """α about one, wide."""
        return {"prior_count": LogScalePenalty(1.0, 2.0)}

    def learner(self, priors: Any) -> "_ChooseNeighbours":
        """k and α by leave-one-out."""
        return _ChooseNeighbours()

    # -- neighbours ------------------------------------------------------------------------------------------

    def squared_distances(self, x: Float[Array, "m d"], z: Float[Array, "n d"]) -> Float[Array, "m n"]:
        """k(x, x) + k(z, z) - 2 k(x, z); what is left of rounding is zero."""
        own, its = self.kernel.variance_at(x)[:, None], self.kernel.variance_at(z)[None, :]
        squared, size = own + its - 2.0 * self.kernel.between(x, z), own + its
        return namespace(squared).where(squared > TIE * size, squared, 0.0)

    def distances(self, x: object) -> Float[Array, "m n"]:
        """d(x, xᵢ) of each query and each row seen."""
        if self.seen is None:
            raise DataError("the belief has seen no data yet; condition it or use credo.fit")
        squared = self.squared_distances(self.queries(x), self.seen.x)
        return namespace(squared).sqrt(squared)

    def _number(self, rows: int) -> int:
        return self.k if self.k is not None else max(round(rows**0.5), 1)

    def predict(self, x: object) -> Predictive:
        """Class probabilities, or Student-t densities of numbers, from the nearest rows."""
        queries = self.queries(x)
        if self.seen is None:
            return self._of(*self._summary(np.zeros((len(queries), 0)), np.zeros(0)))
        squared = self.squared_distances(queries, self.seen.x)
        return self._of(*self._summary(nearest(squared, self._number(len(self.seen.y))), self.seen.y))

    def _summary(self, weights: Float[Array, "m n"], y: Float[Array, " n"]) -> tuple[Array, ...]:
        """What is kept of neighbours: counts of classes; or how many, their mean beyond the center, and squares."""
        if self.labels is not None:
            return (weights @ (y[:, None] == np.arange(self.labels.width + 1)),)
        count, beyond = weights.sum(1), y - self._center()
        mean = weights @ beyond / namespace(count).maximum(count, 1.0)
        return count, mean, (weights * (beyond[None, :] - mean[:, None]) ** 2).sum(1)

    def _of(self, *summary: Array) -> Predictive:
        return self._student(*summary) if self.labels is None else self._dirichlet(*summary)

    def _center(self) -> Array:
        return params.meaning(self, "center")

    def _dirichlet(self, counts: Float[Array, "m k"]) -> Bernoulli | Categorical:
        """p = (cₖ + α/K)/A, with E[H[p]] = ψ(A + 1) - Σ pₖ ψ(aₖ + 1) of a Dirichlet with a = c + α/K and sum A."""
        a = counts + self.prior_count / counts.shape[1]
        total, digamma = a.sum(1), special(a).digamma
        p = a / total[:, None]
        return of_classes(p, digamma(total + 1) - (p * digamma(a + 1)).sum(1))

    def _student(self, n: Array, mean: Array, squares: Array) -> StudentT:
        """The predictive of NIG(α, a, b) after n numbers of this mean, beyond the center, and squares around it.

        b makes the variance before any number that of `spread`.
        """
        spread, alpha = params.meaning(self, "spread"), self.prior_count
        b = spread**2 * (DEGREES - 1) * alpha / (1 + alpha)
        kappa, a = alpha + n, DEGREES + n / 2
        b = b + 0.5 * squares + 0.5 * alpha * n * mean**2 / kappa
        return StudentT(2 * a, self._center() + n * mean / kappa, b / a, b / a / kappa)

    def held_out(self, rows: Rows) -> Predictive:
        """The prediction of each row from the nearest others."""
        squared = self.squared_distances(rows.x, rows.x)
        n = len(squared)
        apart = namespace(squared).where(np.eye(n, dtype=bool), np.inf, squared)
        return self._of(*self._summary(nearest(apart, min(self._number(n), n - 1)), rows.y))

    def held_out_log_prob(self, rows: Rows) -> Float[Array, " n"]:
        """log p(yᵢ | the nearest others)."""
        return self.held_out(rows).log_prob(rows.y)

    def __repr__(self) -> str:
        seen = "nothing" if self.seen is None else f"{len(self.seen.y)} rows"
        what = "numbers" if self.labels is None else "classes"
        return f"KernelNeighbours(k={self.k or '?'}, {self.kernel!r}, {what}, seen {seen})"


def nearest(squared: Float[Array, "m n"], k: int, ordered: Float[Array, "m n"] | None = None) -> Float[Array, "m n"]:
    """How much of a neighbour each row is: 1 if nearer than the k-th, those as far as it share what is left of k."""
    xp, n = namespace(squared), squared.shape[1]
    k = min(k, n)
    if k < 1:
        return xp.zeros(squared.shape)
    last = (xp.sort(squared, axis=1) if ordered is None else ordered)[:, k - 1 : k]
    near = squared < last * (1 - TIE)
    tied = (squared <= last * (1 + TIE)) & ~near
    left = k - near.sum(1, keepdims=True)
    return near + tied * left / xp.maximum(tied.sum(1, keepdims=True), 1)


@dataclass(frozen=True)
class _ChooseNeighbours(Learner):
    """The k, and for each the α, for which rows that are left out are most probable."""

    needs: ClassVar[type] = KernelNeighbours

    def learn(self, belief: Any, statistics: Rows, fixed: Sequence[str], priors: Any, seed: int) -> Learned:
        """For every k the best α; then the best k."""
        free, found = "prior_count" not in fixed, []
        for candidate, summary in belief.of_sizes(statistics):

            def score(log_alpha: float, candidate: Any = candidate, summary: Any = summary) -> tuple[float, Any]:
                now = changed(candidate, prior_count=np.exp(as_float(log_alpha)))
                value = float(now._of(*summary).log_prob(statistics.y).sum())
                return value + float(params.log_prior(now, priors)), now

            best = float(np.log(belief.prior_count))
            if free:
                bounds = (np.log(1e-4), np.log(1e4))
                climb = optimize.minimize_scalar(
                    lambda u, score=score: -score(u)[0], bounds=bounds, method="bounded", options={"xatol": 1e-8}
                )
                best = float(climb.x)
            found.append(score(best))
        found.sort(key=lambda pair: -pair[0])
        optima = [LocalOptimum(v, {"prior_count": b.prior_count}, CONVERGED, 1) for v, b in found]
        value, chosen = found[0]
        return Learned(chosen, CONVERGED, value, optima, {}, [f"k = {chosen.k} of {len(found)} looked at"])
