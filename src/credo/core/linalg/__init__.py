"""All of credo's dense numerics: one Cholesky with one jitter policy.

`factor` the factorization and its uses, `evidence` the Gaussian log density with its gradient by hand, `lapack` the
same on the host.
"""

from credo.lazy import attach

__all__, __getattr__, __dir__ = attach(__name__, __file__)
