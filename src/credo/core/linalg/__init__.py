"""All of credo's dense numerics: one Cholesky with one jitter policy.

`factor` the factorization and its uses, `evidence` the Gaussian log density with its gradient by hand, `lapack` the
same on the host.
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

__all__ = [
    "Factor",
    "cholesky",
    "demand",
    "evidence_on_host",
    "factorize",
    "gaussian_log_evidence",
    "inverse",
    "log_determinant",
    "pad_identity",
    "quadratic",
    "solve",
    "solve_lower",
    "solve_upper",
    "symmetric_part",
]
