"""A fitted Gaussian process taken apart: f = Σ fᵢ where its kernel is Σ kᵢ.

Given y, each part is Gaussian with

    mean   kᵢ(x*, X) α
    var    kᵢ(x*, x*) - kᵢ(x*, X) K⁻¹ kᵢ(X, x*),

and the means, with that of the mean function, add up to the posterior mean. Duvenaud (2014), "Automatic model
construction with Gaussian processes", §2.4.5.
"""

from typing import NamedTuple

import numpy as np

from credo.core.errors import DataError
from credo.infer.averaging import Integrated
from credo.kernels import Kernel
from credo.kernels.expression import terms_of
from credo.models.gp import exact
from credo.models.gp.belief import GP
from credo.models.gp.exact import GPPrior
from credo.models.gp.means import Zero


class Component(NamedTuple):
    """One additive part of the function."""

    kernel: Kernel | None
    """Its covariance; None for a mean function that is known."""
    mean: np.ndarray
    std: np.ndarray
    """At the queries."""
    share: float
    """The variance of its mean at the data, relative to that of the outcomes."""
    is_mean: bool = False
    """Whether it is the mean function, and not a part of the kernel."""


class Decomposition(NamedTuple):
    """The parts of a function, the one that explains most first, the mean function last."""

    parts: tuple[Component, ...]
    noise_share: float
    """The variance of what the function leaves of the outcomes, relative to theirs."""

    @property
    def mean(self) -> np.ndarray:
        """The sum of all parts: the posterior mean."""
        return np.sum([part.mean for part in self.parts], axis=0)


def part_at(gp: GP, kernel: Kernel, x: np.ndarray, with_mean: bool = False) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard deviation, at the rows x, of the part of the function that has this kernel.

    With the mean function: where both have a free level, only their sum is well known.
    """
    rows, solved = gp.conditioned()
    own = gp.mean.kernel() if with_mean else None
    prior = GPPrior(kernel if own is None else kernel + own, gp.mean if with_mean else Zero(), gp.noise_variance())
    latent = exact.predict(prior, rows, solved, x)
    return np.asarray(latent.mean), np.sqrt(np.asarray(latent.variance))


def decompose(gp: object, x: object = None) -> Decomposition:
    """The additive parts of the function of a conditioned belief, at x or at the data.

    The parts are correlated given the data, so that their shares need not add up to one. Of an average over
    hyperparameters these are the parts at the most probable ones.
    """
    gp = gp.mode if isinstance(gp, Integrated) else gp
    if not isinstance(gp, GP):
        raise DataError(f"decompose takes a GP, found {type(gp).__name__}; a Search has .components()")
    rows, _ = gp.conditioned()
    data, y, *_ = rows.cut()
    queries = data if x is None else np.asarray(gp.queries(x))
    total = float(y.var()) or 1.0
    found, fitted = [], np.zeros(len(y))
    for kernel in (term.kernel for term in terms_of(gp.kernel)):
        at_data = part_at(gp, kernel, data)
        mean, std = at_data if x is None else part_at(gp, kernel, queries)
        fitted = fitted + at_data[0]
        found.append(Component(kernel, mean, std, float(at_data[0].var()) / total))
    found.sort(key=lambda each: -each.share)
    own = gp.mean.kernel()
    expected, at_rows = (np.asarray(gp.mean.at(v)) for v in (queries, data))
    std = np.zeros(len(queries))
    if own is not None:
        more, std = part_at(gp, own, queries)
        expected, at_rows = expected + more, at_rows + part_at(gp, own, data)[0]
    fitted = fitted + at_rows
    found.append(Component(own, expected, std, float(at_rows.var()) / total, True))
    return Decomposition(tuple(found), float((y - fitted).var()) / total)
