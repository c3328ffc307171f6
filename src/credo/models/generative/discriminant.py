"""`Discriminant`: Gaussian classes, from one covariance for all of them (linear) to one for each (quadratic).

    x | class k ~ N(μₖ, Σₖ)

with (μₖ, Σₖ) integrated out: class densities are Student-t. Bishop (2006), section 4.2; Murphy (2012), section 4.2.
"""

from collections.abc import Sequence
from typing import Any

import equinox as eqx
import numpy as np
from jaxtyping import Float

from credo.core.checks import ArrayLike
from credo.core.errors import DataError
from credo.core.params import constant
from credo.core.pytrees import changed
from credo.models.densities import Gaussian
from credo.models.generative.belief import Generative
from credo.models.generative.between import Between, choose_prior
from credo.models.generative.boundary import Boundary, Fisher, between_gaussians, fisher_directions
from credo.models.generative.tables import Labelled
from credo.models.likelihoods.classes import Label, shown

COVARIANCES = ("full", "tied", "diagonal", "spherical", "between")


class Discriminant(Generative):
    """Gaussian classes.

    Args:
        covariance: "full" (each class its own: quadratic discriminant analysis), "tied" (one for all: linear),
            "diagonal", "spherical", or "between": each its own about a common one, as close to it as predicts best.
        classes: their labels, in order; None to find them in the first data.
        concentration: of the Dirichlet law of the shares of the classes.
    """

    covariance: str = eqx.field(static=True, default="between")
    chosen: Between | None = constant()
    """How "between" was chosen from the data seen first."""

    def __init__(
        self, covariance: str = "between", classes: Sequence[Label] | None = None, *, concentration: ArrayLike = 1.0
    ):
        if covariance not in COVARIANCES:
            raise DataError(f"covariance must be one of {', '.join(COVARIANCES)}, found {covariance!r}")
        super().__init__(
            Gaussian("full" if covariance == "between" else covariance), classes, concentration=concentration
        )
        self.covariance, self.chosen = covariance, None

    @property
    def _description(self) -> str:
        if self.chosen is None:
            return f"{self.covariance} covariance"
        return f"covariances between one for all and one for each, worth {self.chosen.excess:.3g} rows"

    def _adapted(self, data: Labelled) -> "Discriminant":
        """With the weak prior, or the one chosen between."""
        if self.covariance != "between":
            return super()._adapted(data)
        good = (np.asarray(data.codes) >= 0) & np.asarray(data.rows.seen).all(1)
        if good.sum() < 2:
            return super()._adapted(data)
        k = len(self._classes)
        chosen = choose_prior(np.asarray(data.rows.x)[good], np.asarray(data.codes)[good], k, np.asarray(self._alpha))
        new = changed(self, density=Gaussian("full", prior=chosen.prior), chosen=chosen)
        return super(Discriminant, new)._adapted(data)

    # -- geometry ------------------------------------------------------------------------------------------------

    def _gaussians(self) -> tuple[Float[np.ndarray, "k d"], Float[np.ndarray, "k d d"]]:
        """Means and covariances at a single guess: the point estimate, or the posterior mean."""
        density: Any = self.estimate
        spread = np.asarray(density._covariances)
        return np.asarray(density.mean), spread if spread.ndim == 3 else spread[:, :, None] * np.eye(spread.shape[1])

    def boundary(self, a: Label | None = None, b: Label | None = None) -> Boundary:
        """Where classes a and b are as likely: a hyperplane ("tied") or a quadric, at a single guess of the parameters.

        Under `using=ML()`, `MAP()` or `PlugIn()` these are the predicted log-odds; by default parameters are integrated
        out, and the boundary of the Student-t densities tends to this one as rows grow many.
        """
        self._check_ready()
        if a is None and b is None and len(self._classes) == 2:
            b, a = self._classes
        pair = [self._place_of(label) for label in (a, b)]
        if pair[0] == pair[1]:
            raise DataError(f"a boundary is between two classes, found {a!r} twice")
        means, covariances = self._gaussians()
        log_shares = np.log(np.asarray(self.shares)[pair])
        labels = (self._classes[pair[0]], self._classes[pair[1]])
        shared = self.covariance == "tied"
        return between_gaussians(means[pair], covariances[pair], log_shares, shared, labels, self.inputs or ())

    def _place_of(self, label: Label | None) -> int:
        if label not in self._classes:
            raise DataError(f"there is no class {label!r}; the classes are {shown(self._classes)}")
        return self._classes.index(label)

    def fisher(self) -> Fisher:
        """The projection that separates the classes most: at most as many directions as classes, less one."""
        self._check_ready()
        counts = np.asarray(self.counts, dtype=float)
        if not (counts > 0).sum() > 1:
            raise DataError("Fisher's directions lie between classes: rows of at least two are needed")
        means, covariances = self._gaussians()
        within = np.einsum("k,kij->ij", counts / counts.sum(), covariances)
        return fisher_directions(means, counts, within, self.inputs or ())
