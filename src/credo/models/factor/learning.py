"""How factors are learned: from the covariance matrix where rows are complete, else by EM from such a start.

EM sees columns of mean 0 and variance 1 (PPCA: of a mean variance of 1), so that units change nothing.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Float

from credo.core.errors import DataError
from credo.core.pytrees import changed
from credo.infer.em import EM
from credo.infer.learning import Learned, LocalOptimum
from credo.infer.method import Learner
from credo.infer.priors import Priors
from credo.models.conjugate.normal import Moments
from credo.models.factor.belief import FactorModel
from credo.models.factor.covariance_fit import ordered
from credo.models.factor.expectations import FLOOR, relevance
from credo.models.factor.low_rank import Parameters
from credo.models.factor.statistics import Rows

LEAST = 0.1
"""EM begins with at least this share of a column's variance as noise."""
VANISHED = 1e-2
"""A factor with a signal below this times columns/rows, in noises, is one that "ard" has switched off."""


def started(belief: Any, rows: Rows) -> Any:
    """The belief with l chosen, and parameters where it had none: those of the covariance matrix, or nearly."""
    moments = checked(belief, rows)
    if belief.l == "auto":
        from credo.models.factor.selection import choose

        l = len(moments.mean) - 1 if belief.prior == "ard" else choose(belief, rows, moments)
        belief = changed(belief, l=l)
    if belief.l >= len(moments.mean):
        raise DataError(
            f"l must be less than the {len(moments.mean)} columns of x, found {belief.l}: as many factors as columns "
            "explain anything"
        )
    if belief.mean is not None:
        return belief
    p, _ = _by_covariance(belief, moments)
    if rows.partial:  # EM would crawl away from where pairs of columns see no noise at all
        p = p._replace(noise=np.maximum(p.noise, LEAST * moments.squares.diagonal() / moments.count))
    return belief.with_parameters(p)


def checked(belief: FactorModel, rows: Rows) -> Moments:
    """The moments of the rows, of each pair of columns where some are missing, if they can be learned from."""
    if belief._columns is not None and rows.columns != len(belief.inputs or belief.parameters.mean):
        raise DataError(f"x must have {len(belief.inputs or ())} columns, found {rows.columns}")
    if rows.count < 2 or (rows.moments is None and rows.partial < 2):
        raise DataError("x must have at least 2 rows that show something: one row has no variance to explain")
    moments = rows.pairwise()
    variance = moments.squares.diagonal() / moments.count
    still = variance <= (8 * np.finfo(float).eps * np.abs(moments.mean)) ** 2
    if still.all() or (still.any() and not belief.isotropic):
        name = (belief.inputs or [f"x{i}" for i in range(len(still))])[int(np.argmax(still))]
        raise DataError(f"column {name!r} of x is constant: it has no variance to explain; leave it out")
    return moments


def _by_covariance(belief: FactorModel, moments: Moments) -> tuple[Parameters, Any]:
    """The highest likelihood of the moments."""
    start = None if belief.noise is None else np.broadcast_to(belief.noise, moments.mean.shape)
    found = belief.fit_covariance(np.asarray(moments.squares / moments.count), start)
    return Parameters(moments.mean, ordered(found.w, found.noise), found.noise), found


@dataclass(frozen=True)
class _ByCovariance(Learner):
    """The maximum of the likelihood: of complete rows from their covariance matrix, else by EM."""

    needs: ClassVar[type] = FactorModel

    max_steps: int = 2000
    tolerance: float = 1e-7

    def learn(self, belief: Any, statistics: Rows, fixed: Sequence[str], priors: Priors, seed: int) -> Learned:
        """Without EM where rows are complete and nothing is held."""
        if statistics.partial or fixed or belief.prior is not None:
            return self._by_em(belief, statistics, fixed, priors, seed)
        assert statistics.moments is not None
        p, found = _by_covariance(belief, statistics.moments)
        learned = belief.with_parameters(p)
        value = float(learned.evidence_of(statistics))
        values = {"mean": learned.mean, "w": learned.w, "noise": learned.noise}
        optimum = LocalOptimum(value, values, found.status, 1)
        notes = [f"{learned!r}, log likelihood {value:.7g}"]
        return Learned(learned, found.status, value, [optimum], {}, notes, doubts=_heywood(belief, found.floored))

    def _by_em(self, belief: Any, rows: Rows, fixed: Sequence[str], priors: Priors, seed: int) -> Learned:
        moments = rows.pairwise()
        center, variance = np.asarray(moments.mean), np.asarray(moments.squares.diagonal() / moments.count)
        scale = np.sqrt(np.full(len(center), variance.mean()) if belief.isotropic else variance)
        method = EM(starts=1, max_steps=self.max_steps, tolerance=self.tolerance)
        same = belief.with_parameters(_rescaled(belief.parameters, center, scale))
        learned = method.learn(same, rows.rescaled(center, scale), fixed, priors, seed)
        p = _rescaled(learned.belief.parameters, -center / scale, 1 / scale)
        if "w" not in fixed:
            w = np.asarray(p.w)
            if belief.prior == "ard":
                n, d = float(rows.count), len(center)
                w = w[:, relevance(p) > VANISHED * d / n]
            p = p._replace(w=ordered(w, np.asarray(p.noise)))
        floor = FLOOR * (variance.mean() if belief.isotropic else variance)
        found = belief.with_parameters(p)
        value = float(found.evidence_of(rows) + found.log_prior_of_parameters())
        floored = tuple(int(j) for j in np.flatnonzero(p.noise <= 1.01 * floor)) if "noise" not in fixed else ()
        values = {"mean": found.mean, "w": found.w, "noise": found.noise}
        optimum = LocalOptimum(value, values, learned.status, 1)
        notes = [f"EM {learned.status}: {found!r}, log likelihood + log prior {value:.7g}"]
        return Learned(found, learned.status, value, [optimum], {}, notes, doubts=_heywood(belief, floored))


def _rescaled(p: Parameters, center: Float[np.ndarray, " d"], scale: Float[np.ndarray, " d"]) -> Parameters:
    """The parameters of (x - center)/scale."""
    return Parameters((p.mean - center) / scale, p.w / scale[:, None], p.noise / scale**2)


def _heywood(belief: FactorModel, floored: tuple[int, ...]) -> tuple[str, ...]:
    if not floored:
        return ()
    if belief.isotropic:
        return (
            "the factors explain all of the rows, and the noise is at its floor: there are too few rows for so many "
            f"factors; take fewer than l={belief.l}",
        )
    names = [f"x{j}" if belief.inputs is None else belief.inputs[j] for j in floored]
    return (
        f"the factors explain all of {', '.join(map(repr, names[:6]))} (a Heywood case), whose noise was kept at a "
        "millionth of its variance; take fewer factors, or leave out columns that are functions of others",
    )
