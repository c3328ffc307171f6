"""All of credo's dense numerics: one Cholesky with one jitter policy, and what avoids it.

`factor` the factorization and its uses, `update` changing it, `lowrank` and `structured` matrices that
are cheaper than their size, `iterative` methods that only multiply, `evidence` the Gaussian log density
with its gradient by hand, `lapack` the same on the host.
"""

from credo.core.linalg.evidence import evidence_on_host, gaussian_log_evidence
from credo.core.linalg.factor import (
    Factor,
    cholesky,
    demand,
    factorize,
    inverse,
    log_determinant,
    pad_identity,
    quadratic,
    solve,
    solve_lower,
    solve_upper,
    symmetric_part,
)
from credo.core.linalg.iterative import (
    Estimate,
    Solution,
    conjugate_gradients,
    lanczos_log_determinant,
    lowrank_preconditioner,
    pivoted_cholesky,
)
from credo.core.linalg.lowrank import LowRank
from credo.core.linalg.structured import Kronecker, Toeplitz
from credo.core.linalg.update import append, remove, try_update, update

__all__ = [
    "Estimate",
    "Factor",
    "Kronecker",
    "LowRank",
    "Solution",
    "Toeplitz",
    "append",
    "cholesky",
    "conjugate_gradients",
    "demand",
    "evidence_on_host",
    "factorize",
    "gaussian_log_evidence",
    "inverse",
    "lanczos_log_determinant",
    "log_determinant",
    "lowrank_preconditioner",
    "pad_identity",
    "pivoted_cholesky",
    "quadratic",
    "remove",
    "solve",
    "solve_lower",
    "solve_upper",
    "symmetric_part",
    "try_update",
    "update",
]
