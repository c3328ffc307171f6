"""Priors with numbers of their own, known by draws only: `Hierarchical`, `ScaleMixture`, and `Horseshoe`, one of them.

The horseshoe wants most weights to be nothing and a few to be as large as they like: wⱼ = τλⱼzⱼ with z ~ N(0, 1),
λⱼ ~ C⁺(0, 1) and τ ~ C⁺(0, scale). Regularized, a weight that escapes shrinkage meets a slab of width c:

    wⱼ = τ λ̃ⱼ zⱼ,    λ̃ⱼ² = c²λⱼ²/(c² + τ²λⱼ²),    c² ~ InverseGamma(ν/2, ν slab²/2)

Carvalho, Polson & Scott (2010); Piironen & Vehtari (2017), "Sparsity information and regularization in the horseshoe
and other shrinkage priors". Chains move in log λ, log τ and log c, and in z only where the noise is not
Gaussian (`collapsed`).
"""

from abc import abstractmethod
from collections.abc import Mapping

import equinox as eqx
import numpy as np
from jaxtyping import Float

from credo.core.arrays import Array, namespace, special
from credo.core.checks import ArrayLike
from credo.core.errors import DataError
from credo.core.params import number


class Hierarchical(eqx.Module):
    """A prior of weights through numbers of its own, which are drawn with everything else.

    Subclasses say which numbers there are, what their density is, and what the weights are, given them.
    """

    @abstractmethod
    def latent(self, p: int) -> dict[str, Array]:
        """The numbers for p weights by name, where a method starts."""

    @property
    def constraints(self) -> Mapping[str, object]:
        """Constraints of the numbers by name, e.g. {"width": "positive"}; real where none is given."""
        return {}

    @abstractmethod
    def log_prob(self, latent: dict[str, Array]) -> Array:
        """The log density of the numbers, in natural units."""

    @abstractmethod
    def weights(self, latent: dict[str, Array]) -> Float[Array, " p"]:
        """w, a function of the numbers."""


class ScaleMixture(Hierarchical):
    """wⱼ ~ N(0, scaleⱼ²) with scales that follow from numbers of the prior's own.

    With Gaussian noise the weights are integrated out and chains move in the numbers only (`collapsed`); otherwise
    they move in z = w/scale as well, called "z".
    """

    @abstractmethod
    def scales(self, latent: dict[str, Array]) -> Float[Array, " p"]:
        """The standard deviations of the weights, given the numbers."""

    def weights(self, latent: dict[str, Array]) -> Float[Array, " p"]:
        """scale · z."""
        return latent["z"] * self.scales(latent)


class Horseshoe(ScaleMixture):
    """The regularized horseshoe: most weights are nearly zero, a few are not; see the module's formulas.

    Args:
        scale: of τ, how large weights are that do not matter; `Horseshoe.expecting` finds it.
        slab: how large weights may be that do.
        slab_df: ν, how strictly.
    """

    scale: Float[Array, ""] = number(0.1)
    slab: Float[Array, ""] = number(2.0)
    slab_df: Float[Array, ""] = number(4.0)

    @classmethod
    def expecting(
        cls, relevant: ArrayLike, features: int, rows: int, noise: ArrayLike = 1.0, slab: ArrayLike = 2.0
    ) -> "Horseshoe":
        """τ's scale m/(p - m) · σ/√n if m of p standardized features matter: Piironen & Vehtari (2017).

        `noise` is the noise variance σ²; where it is unknown (`InverseGamma`), weights are in units of σ and it is 1.
        """
        if not 0 < relevant < features:
            raise DataError(f"relevant must be more than 0 and less than the {features} features, found {relevant}")
        return cls(relevant / (features - relevant) * np.sqrt(noise / rows), slab)

    def latent(self, p: int) -> dict[str, Array]:
        """λ, τ and c²."""
        return {"local": np.ones(p), "overall": self.scale, "slab_square": self.slab**2}

    @property
    def constraints(self) -> Mapping[str, object]:
        """All are positive."""
        return {"local": "positive", "overall": "positive", "slab_square": "positive"}

    def log_prob(self, latent: dict[str, Array]) -> Array:
        """C⁺(λ | 0, 1) C⁺(τ | 0, scale) InverseGamma(c²)."""
        square = latent["slab_square"]
        shape, scale = self.slab_df / 2, self.slab_df * self.slab**2 / 2
        xp = namespace(self, latent)
        slab = shape * xp.log(scale) - special(shape).gammaln(shape) - (shape + 1) * xp.log(square) - scale / square
        return _half_cauchy(latent["local"], np.ones(())).sum() + _half_cauchy(latent["overall"], self.scale) + slab

    def scales(self, latent: dict[str, Array]) -> Float[Array, " p"]:
        """τ λ̃."""
        wide = (latent["overall"] * latent["local"]) ** 2
        return (latent["slab_square"] * wide / (latent["slab_square"] + wide)) ** 0.5


def _half_cauchy(value: Array, scale: Array) -> Array:
    xp = namespace(value, scale)
    return xp.log(2 / (np.pi * scale)) - xp.log1p((value / scale) ** 2)
