"""`Loadings`: W as it is read, turned, in comparable units, with standard errors."""

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from jaxtyping import Float

from credo.core.checks import check_count
from credo.core.errors import DataError
from credo.models.factor.covariance_fit import aligned, ordered, varimax

if TYPE_CHECKING:
    from credo.models.factor.belief import FactorModel

ROTATIONS = (None, "varimax")


class Loadings(NamedTuple):
    """How much of each factor each column shows."""

    values: Float[np.ndarray, "d l"]
    std: Float[np.ndarray, "d l"] | None
    """Standard errors; None where none were asked for."""
    share: Float[np.ndarray, " l"]
    """Which share of the total variance (standardized: of the mean column's) each factor explains."""
    columns: tuple[str, ...]

    def __repr__(self) -> str:
        """A table: a line for each column, factors side by side."""
        width = max(6, *(len(c) for c in self.columns))
        names = "".join(f"{f'factor {k + 1}':>12}" for k in range(self.values.shape[1]))
        lines = [" " * width + names]
        for name, row, std in zip(self.columns, self.values, self._errors(), strict=True):
            cells = (f"{v:.2f}" + ("" if np.isnan(s) else f" ±{s:.2f}") for v, s in zip(row, std, strict=True))
            lines.append(f"{name:<{width}}" + "".join(f"{cell:>12}" for cell in cells))
        return "\n".join([*lines, f"{'share':<{width}}" + "".join(f"{v:>12.2f}" for v in self.share)])

    def _errors(self) -> Float[np.ndarray, "d l"]:
        return np.full(self.values.shape, np.nan) if self.std is None else self.std


def loadings_of(belief: "FactorModel", rotation: str | None, standardize: bool, draws: int, seed: int) -> Loadings:
    """See `FactorModel.loadings`."""
    if rotation not in ROTATIONS:
        raise DataError(f'rotation must be None or "varimax", found {rotation!r}')
    p = belief.parameters
    variance = (p.w**2).sum(1) + p.noise
    unit = np.sqrt(variance) if standardize else np.ones(len(variance))
    w = _turned(np.asarray(p.w), np.asarray(p.noise), unit, rotation)
    share = (w**2).sum(0) / (variance / unit**2).sum()
    names = belief.inputs or tuple(f"x{i}" for i in range(len(w)))
    std = None
    if draws:
        check_count(draws, "draws", 2)
        std = _standard_errors(belief, unit, rotation, w, draws, seed)
    return Loadings(w, std, share, names)


def _turned(w: np.ndarray, noise: np.ndarray, unit: np.ndarray, rotation: str | None) -> np.ndarray:
    scaled = w / unit[:, None]
    return varimax(scaled) if rotation == "varimax" else ordered(scaled, noise / unit**2)


def _standard_errors(
    belief: "FactorModel", unit: np.ndarray, rotation: str | None, w: np.ndarray, draws: int, seed: int
) -> Float[np.ndarray, "d l"]:
    """Of W learned again from covariance matrices of as many new rows, turned towards W.

    nS ~ Wishart(WWᵀ + Ψ, n - 1) by Bartlett's decomposition; rows seen in part count by the share that was seen.
    """
    rows = belief.seen
    if rows is None:
        raise DataError("standard errors need the rows that were seen: call credo.fit(belief, x), not learn")
    if not isinstance(belief.l, int) or belief.l == 0:
        return np.zeros(w.shape)
    d, rng = len(w), np.random.default_rng(seed)
    n = float(rows.count - (rows.weights * (1 - np.asarray(rows.seen).mean(1))).sum())
    if n <= d:
        raise DataError(f"standard errors need more rows than columns, found {n:.0f} and {d}")
    p = belief.parameters
    root = np.linalg.cholesky(np.asarray(p.covariance))
    again = np.empty((draws, *w.shape))
    for i in range(draws):
        lower = np.tril(rng.normal(size=(d, d)), -1) + np.diag(np.sqrt(rng.chisquare(n - 1 - np.arange(d))))
        half = root @ lower
        found = belief.fit_covariance(half @ half.T / n, np.asarray(p.noise))
        again[i] = aligned(found.w / unit[:, None], w)
    return again.std(0, ddof=1)
