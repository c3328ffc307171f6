"""A kernel on a finite list of things, known by its matrix; and what to do with a matrix that is none.

A plausible similarity, exp(-γ · edit distance) for one, need not be positive semi-definite: then no function has
it as its covariance. `tabulate` looks at the matrix of the things at hand and repairs or refuses it.
"""

import warnings
from collections.abc import Callable, Hashable, Sequence
from typing import Any

import equinox as eqx
import numpy as np
from jaxtyping import Float

from credo.core.arrays import Array, namespace
from credo.core.checks import check_table
from credo.core.errors import DataError, NotPositiveDefinite, RepairedWarning
from credo.kernels.base import Kernel
from credo.kernels.discrete import Coded, as_items, encode_members

ROUNDING = 1e-10
"""An eigenvalue above -ROUNDING times the largest is zero up to rounding."""


class Tabulated(Coded):
    """k(i, j) = s² Kᵢⱼ, a kernel on a finite list of things, known by its matrix. Make it with `tabulate`.

    A row is the number of a thing. `items`, where the things are text or whole numbers, lets `encode` find it.
    """

    matrix: Float[Array, "k k"]
    items: tuple[Hashable, ...] | None = eqx.field(default=None, static=True)
    symbols = (("K", "matrix"),)

    def similarities(self, x: Float[Array, "n d"], z: Float[Array, "m d"]) -> Float[Array, "n m"]:
        """Rows and columns of K."""
        table = namespace(self, x, z).asarray(self.matrix)
        return table[x[:, 0].astype(int)[:, None], z[:, 0].astype(int)[None, :]]

    def own(self, x: Float[Array, "n d"]) -> Float[Array, " n"]:
        """Kᵢᵢ."""
        i = x[:, 0].astype(int)
        return namespace(self, x).asarray(self.matrix)[i, i]

    def encode(self, x: object, name: str = "X", columns: int | None = None) -> Array:
        """Things of the list, or a column of their numbers, as a column of numbers."""
        return encode_members(x, self.items, len(self.matrix), name, columns)


def tabulate(
    kernel: Kernel | Callable[[Any, Any], float], items: Sequence[object], indefinite: str = "repair"
) -> Tabulated:
    """The kernel on a finite list of things, from another kernel or from any function of two of them.

    A matrix that is not positive semi-definite belongs to no kernel. With `indefinite="repair"` it is replaced
    by the nearest that is (`nearest_psd`) and a `RepairedWarning` says how far that was; with "refuse" it is an
    error. What the repair gives depends on the list: things that come later need a new table.
    """
    if indefinite not in ("repair", "refuse"):
        raise DataError(f"indefinite must be 'repair' or 'refuse', found {indefinite!r}")
    things = as_items(items, "items", "things")
    if isinstance(kernel, Kernel):
        raw = np.asarray(kernel(items))
    else:
        raw = np.array([[float(kernel(a, b)) for b in things] for a in things])
    matrix, correction = nearest_psd(raw)
    if correction > 0:
        smallest = float(np.linalg.eigvalsh(0.5 * (raw + raw.T))[0])
        found = (
            f"the matrix of {len(raw)} items is not positive semi-definite: its smallest eigenvalue is {smallest:.3g}"
        )
        if indefinite == "refuse":
            raise NotPositiveDefinite(
                f"{found}; for strings use Spectrum or Subsequence, or accept a repair with indefinite='repair'"
            )
        share = correction / float(np.linalg.norm(raw))
        warnings.warn(
            f"{found}; repaired by a change of {correction:.3g} ({share:.1%}) in Frobenius norm; "
            "for strings, Spectrum and Subsequence need none",
            RepairedWarning,
            stacklevel=2,
        )
    known = len(set(things)) == len(things) if all(isinstance(t, str | int) for t in things) else False
    return Tabulated(matrix, tuple(things) if known else None)


def nearest_psd(matrix: object) -> tuple[np.ndarray, float]:
    """(the positive semi-definite matrix nearest to a symmetric one in Frobenius norm, that distance).

    Negative eigenvalues become zero. Up to rounding, a matrix that is positive semi-definite comes back
    unchanged, at distance 0. Higham (1988), "Computing a nearest symmetric positive semidefinite matrix".
    """
    a = check_table(matrix, "matrix")
    gap, size = (np.abs(a - a.T).max(), np.abs(a).max()) if a.shape[0] == a.shape[1] else (np.inf, 0.0)
    if gap > ROUNDING * size:
        raise DataError(f"a matrix of similarities must be square and symmetric, found shape {a.shape}, off by {gap:g}")
    symmetric = 0.5 * (a + a.T)
    values, vectors = np.linalg.eigh(symmetric)
    if values[0] >= -ROUNDING * max(values[-1], 0.0):
        return symmetric, 0.0
    repaired = (vectors * np.maximum(values, 0.0)) @ vectors.T
    return 0.5 * (repaired + repaired.T), float(np.linalg.norm(np.minimum(values, 0.0)))
