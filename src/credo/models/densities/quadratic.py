"""The E-step of Gaussian components by features: log p and the moments of all components are a matrix product each.

    log wₖ N(y | mₖ, Σₖ) = θₖ·φ(y),    Σₙ rₙₖ φ(yₙ) = (Σ r yyᵀ, Σ r y, Σ r),    φ(y) = [zᵢzⱼ, i ≤ j], z = (y, 1)

for y = (x - origin)/scale, a block of rows at a time, so that the features of a block serve both. Rows that miss the
same cells are one pattern: its θ is that of the marginal (0 where something is missing), and what EM expects of the
missing cells is linear in z, ŷ = Tₖz, so that the moments of a pattern become those of ŷ by TₖMTₖᵀ: rows cost what
complete rows cost, and each pattern d³. Little & Rubin (2019), section 11.3.

Sums of products cancel where a component is much narrower than its distance from the origin: `suits` says where they
would cost digits that matter, and the whitened differences of `NormalDensity` are taken instead.
"""

from collections.abc import Iterator
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from credo.core.arrays import is_traced
from credo.core.device import blas_threads
from credo.core.special import LOG_2PI
from credo.models.conjugate.matrix import JointMoments

if TYPE_CHECKING:
    from credo.models.densities.base import Observed
    from credo.models.densities.normal import NormalDensity

ROWS = 1024
"""So many rows at a time: their features, and what is computed of them, stay in the cache."""
NARROWEST = 1e7
"""d tr(Σ⁻¹) of the narrowest component in units of the mixture's own spread: beyond, logs are off by more than 1e-8."""
NOTHING = -600.0
"""The log of a share that is none; smaller ones are denormal numbers, with which products take ten times as long."""
ENTRIES = 2**20
"""Of the matrices of patterns that are made together: one by one they cost more to begin than to compute."""


class Standardized(NamedTuple):
    """The components in units of the spread of the mixture, about the density's origin."""

    mean: Float[np.ndarray, "k d"]
    covariance: Float[np.ndarray, "k d d"]
    scale: Float[np.ndarray, " d"]

    @classmethod
    def of(cls, density: "NormalDensity") -> "Standardized":
        """From the parameters alone."""
        mean, covariance = np.asarray(density._local)[:, :, -1], np.asarray(density._covariances)
        scale = np.sqrt(np.diagonal(covariance, axis1=1, axis2=2).mean(0) + mean.var(0))
        return cls(mean / scale, covariance / np.outer(scale, scale), scale)


def suits(density: "NormalDensity", data: "Observed") -> bool:
    """Whether numbers are known, rows have no inputs and no noise of their own, and no component is too narrow."""
    if data.noise is not None or density.coefficients.shape[-1] != 1 or is_traced((density, data)):
        return False
    if not isinstance(data.x, np.ndarray):
        return False
    with np.errstate(all="ignore"):
        _, covariance, _ = Standardized.of(density)
        try:
            narrow = np.trace(np.linalg.inv(covariance), axis1=1, axis2=2).max() * covariance.shape[-1]
        except np.linalg.LinAlgError:
            return False
    return bool(0 < narrow < NARROWEST)


class Pattern(NamedTuple):
    """Of each of g patterns and k components: θ, and how to complete the moments."""

    theta: Float[np.ndarray, "g k f"]
    fill: Float[np.ndarray, "g k q q"] | None
    rest: Float[np.ndarray, "g k d d"] | None
    """The covariance of what is missing given what was seen; None where nothing is missing."""


class Form(NamedTuple):
    """-½ zᵀQz of each component, Q = [[Λ, -Λm], [-mᵀΛ, mᵀΛm]] and z = (y, 1), is its log density but for a constant."""

    table: Float[np.ndarray, "1 k q q"]
    log_det: Float[np.ndarray, "1 k"]
    scale: Float[np.ndarray, " d"]

    @classmethod
    def of(cls, at: Standardized) -> "Form":
        """Q and log |Σ|."""
        (mean, covariance, scale), (k, d) = at, at.mean.shape
        log_det = 2 * np.log(np.diagonal(np.linalg.cholesky(covariance), axis1=-2, axis2=-1)).sum(-1)[None]
        table = np.empty((1, k, d + 1, d + 1))
        table[..., :d, :d] = np.linalg.inv(covariance)
        pull = (table[0, :, :d, :d] @ mean[:, :, None])[..., 0]
        table[..., :d, d] = table[..., d, :d] = -pull
        table[..., d, d] = (pull * mean).sum(-1)
        return cls(table, log_det, scale)


def patterns(form: Form, seen: Bool[np.ndarray, "g d"], log_weights: Float[np.ndarray, " k"]) -> Pattern:
    """θ of the marginal of the seen columns, and E and Cov of all columns given those; neighbours must differ.

    All of it is in Q after the pivots at the missing cells. Neighbours that miss the same of the first columns share
    those pivots.
    """
    (table, log_det, scale), (g, d), k = form, seen.shape, form.table.shape[1]
    table, log_det, node = table.copy(), log_det.copy(), np.zeros(g, int)
    for j in np.flatnonzero(~seen.all(0)):
        begins = np.append(True, (node[1:] != node[:-1]) | (seen[1:, j] != seen[:-1, j]))
        if begins.sum() > len(table):
            parents = node[begins]
            table, log_det, node = table[parents], log_det[parents], np.cumsum(begins) - 1
        which = np.flatnonzero(~seen[begins, j])
        log_det[which] += np.log(_pivot(table, which, int(j)))
    upper, right = np.triu_indices(d + 1)
    both = np.concatenate([seen, np.ones((g, 1), bool)], axis=1)
    share = np.where(upper == right, -0.5, -1.0) * (both[:, upper] & both[:, right])
    theta = np.take(table.reshape(g, k, -1), upper * (d + 1) + right, axis=-1)
    theta *= share[:, None]
    units = 0.5 * seen.sum(1) * LOG_2PI + (seen * np.log(scale)).sum(1)
    theta[..., -1] += log_weights - 0.5 * log_det - units[:, None]
    if seen.all():
        return Pattern(theta, None, None)
    known = both.astype(float)  # a product with truth values is converted cell by cell
    rest = table[..., :d, :d] * ((1 - known[:, :d, None]) * (1 - known[:, None, :d]))[:, None]
    table *= ((1 - known[:, :, None]) * known[:, None, :])[:, None]
    table[..., np.arange(d + 1), np.arange(d + 1)] += known[:, None]
    return Pattern(theta, table, rest)


def _pivot(table: Float[np.ndarray, "g k q q"], which: Int[np.ndarray, " w"], j: int) -> Float[np.ndarray, "w k"]:
    """The pivot of a principal pivot transform at j of some of the tables, which are replaced by it.

    Of a precision Λ, after the pivots at all missing cells m: Λₘₘ⁻¹ is the covariance of what is missing, -Λₘₘ⁻¹Λₘₒ
    maps what was seen to it, and Λₒₒ - ΛₒₘΛₘₘ⁻¹Λₘₒ is the precision of what was seen; Π pivots = |Λₘₘ|.
    """
    whole = len(which) == len(table)
    some = table if whole else table[which]
    row, column, pivot = some[..., j, :].copy(), some[..., :, j].copy(), some[..., j, j].copy()
    row /= pivot[..., None]
    some -= column[..., :, None] * row[..., None, :]
    some[..., j, :], some[..., :, j] = -row, column / pivot[..., None]
    some[..., j, j] = 1 / pivot
    if not whole:
        table[which] = some
    return pivot


def features(z: Float[np.ndarray, "q n"], out: Float[np.ndarray, "f n"]) -> Float[np.ndarray, "f n"]:
    """[zᵢzⱼ, i ≤ j], a row for each, into `out`: memory that is new costs as much as the products."""
    at, q = 0, len(z)
    for i in range(q):
        np.multiply(z[i], z[i:], out=out[at : at + q - i])
        at += q - i
    return out


def runs(seen: Bool[np.ndarray, "n d"], complete: bool) -> Int[np.ndarray, " g"]:
    """Where rows begin that miss other cells than those before."""
    if complete and seen.all():
        return np.zeros(1, int)
    return np.concatenate([[0], 1 + np.flatnonzero((seen[1:] != seen[:-1]).any(1))])


class Block(NamedTuple):
    """Some rows: which, log wₖ pₖ(x) of each, their features, their patterns and where those begin.

    The next block is written where this one is.
    """

    rows: slice
    logs: Float[np.ndarray, "k r"]
    features: Float[np.ndarray, "f r"]
    pattern: Pattern
    cuts: Int[np.ndarray, " g1"]


def blocks(density: "NormalDensity", data: "Observed", log_weights: Float[np.ndarray, " k"]) -> Iterator[Block]:
    """All rows, some at a time; those of one pattern should be neighbours."""
    at, origin, n = Standardized.of(density), density._origin, len(data.x)
    seen = np.asarray(data.seen)
    (k, d), begins = at.mean.shape, runs(seen, data.complete)
    most = max(1, ENTRIES // (k * d * d))
    form, begin, end = Form.of(at), 0, min(most, len(begins))
    made = patterns(form, seen[begins[:end]], log_weights)
    alone = len(begins) == 1
    most_rows = min(ROWS, n)
    z, room, place = (np.ones((m, most_rows)) for m in (d + 1, (d + 1) * (d + 2) // 2, k))
    first = 0
    while first < n:
        last = min(first + ROWS, n)
        low, high = np.searchsorted(begins, [first, last - 1], side="right") - [1, 0]
        if high > end and low < end:  # what is made ends here; the next block begins with what is not
            high, last = end, int(begins[end])
        elif high > end:
            begin, end = low, min(low + most, len(begins))
            made = patterns(form, seen[begins[begin:end]], log_weights)
            if high > end:
                high, last = end, int(begins[end])
        r, group = last - first, begins[low:high]
        y = z[:d, :r]
        np.subtract(data.x[first:last].T, origin[:, None], out=y)
        y /= at.scale[:, None]
        if not alone:
            y *= seen[first:last].T
        phi = features(z[:, :r], room[:, :r])
        cut = slice(low - begin, high - begin)
        if made.fill is None or made.rest is None or (len(group) == 1 and seen[first].all()):
            pattern = Pattern(made.theta[cut], None, None)
        else:
            pattern = Pattern(made.theta[cut], made.fill[cut], made.rest[cut])
        cuts = np.append(np.maximum(group, first), last) - first
        logs = place[:, :r]
        for theta, a, b in zip(pattern.theta, cuts[:-1], cuts[1:], strict=True):
            np.matmul(theta, phi[:, a:b], out=logs[:, a:b])
        yield Block(slice(first, last), logs, phi, pattern, cuts)
        first = last


def log_joint(density: "NormalDensity", data: "Observed", log_weights: Float[np.ndarray, " k"]) -> np.ndarray:
    """log wₖ pₖ(seen entries of x), shape (n, k)."""
    with blas_threads(0):
        return np.concatenate([block.logs.T.copy() for block in blocks(density, data, log_weights)])


def expectation(
    density: "NormalDensity", data: "Observed", log_weights: Float[np.ndarray, " k"], weight: Float[np.ndarray, " n"]
) -> tuple[Float[np.ndarray, " k"], JointMoments, Float[np.ndarray, ""]]:
    """Σ r, the moments of all columns under r ∝ wₖ pₖ(x), and Σ log p(x), each row counted by its weight."""
    (k, d), at, total = density.sizes, Standardized.of(density), 0.0
    moments, counts, nothing = np.zeros((k, d + 1, d + 1)), np.zeros(k), np.zeros((k, d + 1, d + 1))
    i, j = np.triu_indices(d + 1)
    plain, square = np.zeros((k, len(i))), np.empty((d + 1, d + 1), int)
    square[i, j] = square[j, i] = np.arange(len(i))
    with blas_threads(0):
        for rows, logs, phi, pattern, cuts in blocks(density, data, log_weights):
            top = logs.max(0)
            logs -= top
            share = np.exp(np.maximum(logs, NOTHING, out=logs), out=logs)
            mass = share.sum(0)
            total += weight[rows] @ (top + np.log(mass))
            share *= weight[rows] / mass
            counts += share.sum(1)
            if pattern.fill is None or pattern.rest is None:
                plain += share @ phi.T
                continue
            each = np.stack([share[:, a:b] @ phi[:, a:b].T for a, b in pairwise(cuts)])
            each[~data.seen[rows][cuts[:-1]].any(1)] = 0.0  # rows that show nothing add nothing
            moments += (pattern.fill @ each[..., square] @ pattern.fill.swapaxes(-1, -2)).sum(0)
            nothing[:, :d, :d] += np.einsum("gk,gkij->kij", each[..., -1], pattern.rest)
    moments += nothing + plain[:, square]
    xx = moments[:, :d, :d] * np.outer(at.scale, at.scale)
    xv, vv = moments[:, :d, d:] * at.scale[:, None], moments[:, d:, d:]
    return counts, JointMoments(vv[:, 0, 0], vv, xv, 0.5 * (xx + xx.swapaxes(1, 2))), np.asarray(total)
