"""How many components: the variational evidence, BIC and the density of rows that were held out, side by side.

    evidence    max ELBO + log k!        a bound on log p(x | k); the k! orders of components are the same mixture
    BIC         p log n - 2 log p(x)     its large-sample form, at the maximum likelihood
    held out    mean log p(x) of rows that were not learned from, over folds: what a density is for

Evidence and BIC ask how many kinds of rows there are, held-out density how many Gaussians (say) it takes to draw their
shape: they differ where a component's shape is wrong, and then the first is too many for clusters. Fraley & Raftery
(2002); Corduneanu & Bishop (2001); Smyth (2000) for held-out rows.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import lgamma
from typing import Any, ClassVar, NamedTuple

import numpy as np

from credo.core.checks import ArrayLike, check_count
from credo.core.errors import DataError
from credo.core.pytrees import changed
from credo.infer.em import EM
from credo.infer.learning import Learned, LocalOptimum
from credo.infer.method import Learner
from credo.infer.progress import Progress, Show
from credo.infer.variational_bayes import VariationalBayes
from credo.models.densities import IsConjugate
from credo.models.mixture.belief import Data, Mixture
from credo.models.mixture.rows import Rows


class Choice(NamedTuple):
    """What each criterion says of each number of components."""

    k: tuple[int, ...]
    log_evidence: tuple[float, ...]
    """The variational bound; NaN where the density has none."""
    bic: tuple[float, ...]
    """Less is better."""
    held_out: tuple[float, ...]
    """Mean log density of a row that was not learned from."""
    best: int
    advice: str

    def __repr__(self) -> str:
        rows = zip(self.k, self.log_evidence, self.bic, self.held_out, strict=True)
        lines = [f"{k:>3} {e:>14.2f} {b:>14.2f} {h:>14.4f}" for k, e, b, h in rows]
        return "\n".join([f"{'k':>3} {'evidence':>14} {'BIC':>14} {'held out':>14}", *lines, self.advice])


@dataclass(frozen=True)
class HowMany(Learner):
    """Tries 1 … `most` components and keeps the number with the highest variational evidence, learned by EM.

    Args:
        most: components.
        starts: starting points for each number.
        folds: parts of the rows, each of which is held out once.
        progress: True for a bar, or a function of the share done and a text.
    """

    needs: ClassVar[type] = Mixture

    most: int = 10
    starts: int = 3
    folds: int = 3
    progress: bool | Show = False

    def learn(
        self, belief: Mixture, statistics: Data, fixed: Sequence[str], priors: Mapping[str, object], seed: int
    ) -> Learned:
        """The mixture of the chosen size; the notes are the table and its advice."""
        if fixed or priors:
            raise DataError('k="auto" learns all numbers under the model\'s own priors; choose k to hold some')
        choice, learned = self.choose(belief, statistics, seed)
        optima = [
            LocalOptimum(e, {"k": np.asarray(k)}, "converged", 1)
            for k, e in zip(choice.k, choice.log_evidence, strict=True)
        ]
        return learned._replace(
            optima=sorted(optima, key=lambda o: -np.nan_to_num(o.log_evidence, nan=-np.inf)),
            notes=repr(choice).splitlines(),
        )

    def choose(self, belief: Mixture, statistics: Data, seed: int = 0) -> tuple[Choice, Learned]:
        """The criteria for each number of components, and the mixture of the chosen size."""
        rows = statistics.some()
        belief, n = belief if statistics.origin is None else statistics.origin, len(rows.x)
        if belief.density.k is not None:
            raise DataError(
                'how many components there are is chosen for Mixture("auto", density), found numbers of some'
            )
        # Rows that are the same tell no components apart: each would be as sharp as its prior lets it.
        different = len(np.unique(np.column_stack([rows.x, rows.seen]), axis=0))
        most = min(self.most, max(n - 1, 1), different)
        folds = np.random.default_rng(seed).permutation(n) % min(self.folds, n) if n > 1 else np.zeros(n, int)
        table: list[tuple[float, float, float]] = []
        found: list[Learned] = []
        with Progress(self.progress) as show:
            for k in range(1, most + 1):
                begun = _sized(belief, rows, k)
                plain = _without_prior(begun)
                learned = EM(self.starts).learn(begun, changed(rows, origin=_blank(belief, rows, k)), (), {}, seed)
                found.append(learned)
                likely: Any = EM(1, tolerance=1e-5).climb(_like(plain, learned.belief), rows).belief
                bic = float(likely.free * np.log(rows.weights.sum()) - 2 * likely.log_evidence_of(rows))
                table.append(
                    (self._evidence(learned.belief, rows, k), bic, self._held_out(belief, rows, k, folds, seed))
                )
                show(k / most, f"{k} components")
        counts = tuple(range(1, most + 1))
        choice = _choice(counts, *(tuple(float(v) for v in column) for column in zip(*table, strict=True)))
        learned = found[choice.best - 1]
        if not isinstance(statistics, Rows):  # the starting rows chose k, all rows choose the numbers
            learned = EM(1).learn(learned.belief, changed(statistics, origin=None), (), {}, seed)
        return choice, learned

    def _evidence(self, belief: Mixture, rows: Rows, k: int) -> float:
        if not belief.density.able(IsConjugate) or rows.noise is not None:
            return float("nan")
        flat = changed(belief, concentration=1.0 if belief.concentration is None else belief.concentration)
        return VariationalBayes(starts=1).climb(flat, rows).bounds[-1] + lgamma(k + 1)

    def _held_out(self, belief: Mixture, rows: Rows, k: int, folds: np.ndarray, seed: int) -> float:
        total = 0.0
        for fold in range(folds.max() + 1):
            own, other = rows.cut(folds != fold), rows.cut(folds == fold)
            if not len(own.x):
                return float("nan")
            own = changed(own, origin=_blank(belief, own, k))
            learned = EM(self.starts, tolerance=1e-5).learn(_sized(belief, own, k), own, (), {}, seed).belief
            total += float(learned.log_evidence_of(other))
        return total / float(rows.weights.sum())


def how_many(x: ArrayLike, density: object = None, most: int = 10, *, seed: int = 0, **options: Any) -> Choice:
    """The criteria for 1 … `most` components of a density; `options` are those of `Mixture.statistics`."""
    check_count(most, "most")
    mixture = Mixture("auto", density, most=most)
    _, rows = mixture.prepare(x, **options)
    return HowMany(most).choose(mixture, rows, seed)[0]


def _blank(belief: Mixture, rows: Rows, k: int) -> Mixture:
    """The mixture of k components before its starting point is chosen."""
    density = belief.density.resized(k, rows.x.shape[1])
    return changed(belief, k=k, density=density, learned=True)


def _sized(belief: Mixture, rows: Rows, k: int) -> Mixture:
    return _blank(belief, rows, k)._started(rows, 0)


def _without_prior(belief: Mixture) -> Mixture:
    density = belief.density
    flat = {"prior": None, "weak": False} if hasattr(density, "weak") and hasattr(density, "prior") else {}
    return changed(belief, density=changed(density, **flat), concentration=None)


def _like(plain: Mixture, learned: Mixture) -> Mixture:
    """The mixture without priors, at the numbers of one that was learned."""
    from credo.core import params

    return params.replace(plain, params.learnable(learned))


def _choice(k: tuple[int, ...], evidence: tuple[float, ...], bic: tuple[float, ...], held: tuple[float, ...]) -> Choice:
    has = not np.all(np.isnan(evidence))
    by = {"the evidence": k[int(np.nanargmax(evidence))]} if has else {}
    by["BIC"] = k[int(np.nanargmin(bic))]
    if not np.all(np.isnan(held)):
        by["held-out density"] = k[int(np.nanargmax(held))]
    best = by["the evidence"] if has else by["BIC"]
    if len(set(by.values())) == 1:
        advice = f"All criteria agree on {best}: take k = {best}."
    else:
        said = ", ".join(f"{name} {value}" for name, value in by.items())
        advice = (
            f"The criteria differ ({said}): take k = {best} for clusters, and the held-out density's for a density; "
            "where it wants more, a component's shape is wrong."
        )
    return Choice(k, evidence, bic, held, best, advice)
