"""All of credo's dense numerics: one Cholesky with one jitter policy."""

from credo.core.linalg.batched import inverses as inverses
from credo.core.linalg.evidence import evidence_on_host as evidence_on_host
from credo.core.linalg.evidence import gaussian_log_evidence as gaussian_log_evidence
from credo.core.linalg.factor import Factor as Factor
from credo.core.linalg.factor import cholesky as cholesky
from credo.core.linalg.factor import demand as demand
from credo.core.linalg.factor import factorize as factorize
from credo.core.linalg.factor import factorize_whitened as factorize_whitened
from credo.core.linalg.factor import inverse as inverse
from credo.core.linalg.factor import inverse_root as inverse_root
from credo.core.linalg.factor import log_determinant as log_determinant
from credo.core.linalg.factor import pad_identity as pad_identity
from credo.core.linalg.factor import plus_diagonal as plus_diagonal
from credo.core.linalg.factor import quadratic as quadratic
from credo.core.linalg.factor import solve as solve
from credo.core.linalg.factor import solve_each as solve_each
from credo.core.linalg.factor import solve_lower as solve_lower
from credo.core.linalg.factor import solve_upper as solve_upper
from credo.core.linalg.factor import symmetric_part as symmetric_part
