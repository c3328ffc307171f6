"""Clusters of a table: a mixture of columns of different kinds, its shape and size chosen by ICL.

    ICL = BIC + 2 Σ entropy of each row's label,    BIC = p log n - 2 log p(x)

Numbers of a component are Gaussian, with a full or a diagonal covariance, codes have probabilities, and columns of
different kinds are independent within a component. For each shape more components are added until ICL has
worsened twice; a component of a handful of rows is no cluster but oddities, which are to be seen as such.
BIC alone counts the Gaussians that it takes to draw a shape, ICL those that can be told apart: clusters. Biernacki,
Celeux & Govaert (2000), "Assessing a mixture model for clustering with the integrated completed likelihood".
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from credo.app.explore.features import Features
from credo.infer.em import EM
from credo.infer.learning import learn
from credo.models.densities import CategoricalDensity, Columns, Density, Gaussian
from credo.models.mixture import Mixture

MOST_ROWS = 5_000
"""So many rows choose the number of components; all rows their numbers."""
FULL = 3
"""Rows for each number of a full covariance, without which it is not tried."""
PATIENCE = 2
FEWEST = 5
"""Rows of a cluster."""
CHOOSING = EM(starts=2, tolerance=1e-5)
Say = Callable[[float, str], None]


class Trial(NamedTuple):
    """One shape and number of components, and its ICL: less is better."""

    shape: str
    k: int
    icl: float


class Clusters(NamedTuple):
    """The mixture that was chosen, and of which component each row is."""

    mixture: Mixture
    trials: tuple[Trial, ...]
    labels: Int[np.ndarray, " n"]
    probability: Float[np.ndarray, " n"]
    """That the label is right, if the mixture is."""
    shares: Float[np.ndarray, "n k"]
    most: int
    """How many were tried, if there were to be so many."""

    @property
    def k(self) -> int:
        """How many."""
        return self.shares.shape[1]

    @property
    def best(self) -> Trial:
        """What was chosen."""
        return min(self.trials, key=lambda trial: trial.icl)


def find_clusters(features: Features, *, most: int, seed: int, say: Say) -> Clusters:
    """The mixture of the lowest ICL with at most `most` components."""
    x = features.x
    rows = np.flatnonzero((~np.isnan(x)).any(1))
    if len(rows) > MOST_ROWS:
        rows = np.sort(np.random.default_rng(seed).choice(rows, MOST_ROWS, replace=False))
    some, numbers = x[rows], features.numbers
    shapes = (
        ["full", "diagonal"] if numbers and len(rows) >= FULL * len(numbers) * (len(numbers) + 1) / 2 else ["diagonal"]
    )
    shapes = shapes if len(numbers) > 1 else ["diagonal"]
    trials: list[Trial] = []
    found: dict[Trial, Mixture] = {}
    top = min(most, max(len(rows) // FEWEST, 1))
    for i, shape in enumerate(shapes):
        best, worse = np.inf, 0
        for k in range(1, top + 1):
            say((i + k / (top + 1)) / len(shapes), f"{k} clusters, {shape} covariances")
            mixture = learn(Mixture(k, density(features, shape)), some, missing=True, using=CHOOSING, seed=seed)
            doubt = float(mixture.clusters(some, missing=True).total.sum())
            icl = mixture.information_criteria(some, missing=True)["bic"] + 2 * doubt
            worse = 0 if icl < best else worse + 1
            best = min(best, icl)
            if k == 1 or np.asarray(mixture.weights).min() * len(rows) >= FEWEST:
                trials.append(Trial(shape, k, float(icl)))
                found[trials[-1]] = mixture
            if worse == PATIENCE:
                break
    mixture = found[min(trials, key=lambda trial: trial.icl)]
    mixture = learn(mixture, x, missing=True, using=EM(starts=1), seed=seed)
    shares = np.asarray(mixture.responsibilities(x, missing=True))
    return Clusters(mixture, tuple(trials), shares.argmax(1), shares.max(1), shares, top)


def density(features: Features, shape: str) -> Density:
    """Gaussian numbers and categorical codes side by side."""
    numbers = features.numbers
    codes = [(CategoricalDensity(len(f.levels)), i) for i, f in enumerate(features.parts) if not f.is_number]
    return Columns(*([(Gaussian(shape), numbers)] if numbers else []), *codes)
