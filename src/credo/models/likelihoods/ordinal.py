"""Ordered classes by cutpoints c₁ = ψ₁, cₖ = cₖ₋₁ + e^ψₖ.

With a = c_y - η and b = c_{y-1} - η the log likelihood is

    log [σ(a) - σ(b)] = log σ(a) + log σ(-b) + log(1 - e^(b-a))

without a term whose cutpoint does not exist. Its derivatives by (a, b) are carried to z = (ψ, η) by the chain rule,
with J = ∂(a, b)/∂z; a coordinate that enters through its exponential (`bent`) has ∂J/∂zⱼ = J there.
"""

from typing import ClassVar

import equinox as eqx
import numpy as np
from jaxtyping import Float

from credo.core.arrays import Array, is_traced, namespace, special
from credo.core.checks import ArrayLike
from credo.core.errors import DataError
from credo.core.params import Constraint, bijector
from credo.core.special import LOG_2PI, softplus
from credo.models.likelihoods.base import Likelihood, Terms
from credo.models.likelihoods.classes import Classes, shown

ORDERED = Constraint("ordered_vector")
VARIANCE = 25.0
"""Of a cutpoint before data."""


class Ordinal(Classes):
    """P(y ≤ k | η) = 1/(1 + e^(η - cₖ)): ordered classes, larger η for later ones. McCullagh (1980)."""

    shifts: ClassVar[bool] = False

    cutpoints: Float[Array, "*b c"] | None = eqx.field(default=None, metadata={"constraint": ORDERED})

    def adapt(self, y: ArrayLike) -> "Likelihood":
        """With the labels of y in their order as classes; text has none, so its order must be given."""
        classes = self.classes
        if classes is None:
            if is_traced(y):
                raise DataError("the classes cannot be found in traced labels; give classes=(...)")
            classes = self.found(y, 3, None)
            if isinstance(classes[0], str):
                raise DataError(
                    f"text has no order of its own: give classes=(...), the labels {shown(classes)} in order"
                )
        if self.cutpoints is not None:
            return self
        return Ordinal(classes, np.linspace(-1.0, 1.0, len(classes) - 1))

    def log_prob(self, eta: Float[Array, "..."], y: Float[Array, "*n"]) -> Float[Array, "..."]:
        """log [σ(a) - σ(b)]."""
        return _between(self._cutpoints(), eta, y)[0]

    def mean(self, eta: Float[Array, "..."]) -> Float[Array, "..."]:
        """The probabilities of the K classes."""
        xp, below = namespace(self, eta), special(self, eta).expit(self._cutpoints() - eta[..., None])
        edges = xp.ones((*below.shape[:-1], 1))
        return xp.diff(xp.concatenate([0 * edges, below, edges], axis=-1), axis=-1)

    def started(self, y: Float[Array, " n"], w: Float[Array, " n"]) -> tuple["Likelihood", Float[Array, ""]]:
        """Cutpoints at the shares of the classes, each of which is given half a row."""
        held = w @ (y[:, None] == np.arange(self._cutpoints().shape[-1] + 1)) + 0.5
        share = held.cumsum()[:-1] / held.sum()
        return Ordinal(self.classes, special(share).logit(share)), namespace(y).zeros(())

    def log_prior(self) -> Float[Array, "*b"]:
        """cₖ ~ N(0, 5²), in order."""
        return -0.5 * (self._cutpoints() ** 2 / VARIANCE + LOG_2PI + np.log(VARIANCE)).sum(-1)

    def terms(self, z: Float[Array, "*n a"], y: Float[Array, "*m"]) -> Terms:
        """By the chain rule from (a, b)."""
        value, first, second, _ = _between(bijector(ORDERED).forward(z[..., :-1]), z[..., -1], y)
        gradient, hessian = _chain(*_rows(z, y), first, second)
        return value, gradient, -hessian

    def curvature_slope(self, z: Float[Array, "*n a"], y: Float[Array, "*m"], spread: Float[Array, "*n a a"]) -> Array:
        """By the chain rule from (a, b)."""
        _, first, second, third = _between(bijector(ORDERED).forward(z[..., :-1]), z[..., -1], y)
        return -_chain_slope(*_rows(z, y), first, second, third, spread)

    def own_terms(self, psi: Float[Array, "*n s"]) -> Terms:
        """By the chain rule from c, with Σ_{j>1} ψⱼ for the change of variables."""
        own = Ordinal(self.classes, bijector(ORDERED).forward(psi))
        jacobian, bent = _cuts(psi)
        gradient, hessian = _chain(jacobian, bent, -own._cutpoints() / VARIANCE, -np.eye(psi.shape[-1]) / VARIANCE)
        return own.log_prior() + (bent * psi).sum(-1), gradient + bent, -hessian

    def own_curvature_slope(self, psi: Float[Array, "*n s"], spread: Float[Array, "*n s s"]) -> Float[Array, "*n s"]:
        """By the chain rule from c, in which the prior is a square."""
        s, cuts = psi.shape[-1], bijector(ORDERED).forward(psi)
        return -_chain_slope(*_cuts(psi), -cuts / VARIANCE, -np.eye(s) / VARIANCE, np.zeros((s, s, s)), spread)

    def _cutpoints(self) -> Array:
        if self.cutpoints is None:
            raise DataError("the classes are not known yet; condition on data first, or give classes=(...)")
        return self.cutpoints


def _between(cuts: Float[Array, "*b s"], eta: Float[Array, "*n"], y: Float[Array, "*m"]) -> tuple[Array, ...]:
    """log [σ(a) - σ(b)] and its first three derivatives by (a, b): vectors, matrices, cubes for each row."""
    xp, expit = namespace(cuts, eta, y), special(cuts, eta, y).expit
    index, last = np.arange(cuts.shape[-1]), cuts.shape[-1]
    a, b = (xp.where(y[..., None] - shift == index, cuts, 0.0).sum(-1) - eta for shift in (0, 1))
    has_a, has_b = (y < last) * 1.0, (y > 0) * 1.0
    gap = xp.where(has_a * has_b > 0, a - b, 1.0)
    value = has_a * has_b * xp.log(-xp.expm1(-gap)) - has_a * softplus(-a) - has_b * softplus(b)
    # With r = 1/(e^(a-b) - 1) the derivatives of log(1 - e^(b-a)) by a - b are r, -r(1 + r), r(1 + r)(1 + 2r).
    r = has_a * has_b / xp.expm1(gap)
    r2, r3 = -r * (1 + r), r * (1 + r) * (1 + 2 * r)
    p, q = expit(a), expit(b)
    bend_a, bend_b = has_a * p * (1 - p), has_b * q * (1 - q)
    aaa, bbb = r3 - bend_a * (1 - 2 * p), -r3 - bend_b * (1 - 2 * q)
    first = xp.stack([has_a * (1 - p) + r, -has_b * q - r], axis=-1)
    second = xp.stack([r2 - bend_a, -r2, -r2, r2 - bend_b], axis=-1).reshape(*r.shape, 2, 2)
    third = xp.stack([aaa, -r3, -r3, r3, -r3, r3, r3, bbb], axis=-1).reshape(*r.shape, 2, 2, 2)
    return value, first, second, third


def _growth(psi: Float[Array, "*n s"]) -> tuple[Array, np.ndarray]:
    """∂cₖ/∂ψⱼ for all k ≥ j, and which ψⱼ enter through their exponentials."""
    xp, bent = namespace(psi), np.arange(psi.shape[-1]) > 0
    return xp.where(bent, xp.exp(xp.where(bent, psi, 0.0)), 1.0), bent * 1.0


def _cuts(psi: Float[Array, "*n s"]) -> tuple[Float[Array, "*n s s"], Float[np.ndarray, " s"]]:
    """∂c/∂ψ, and `bent`."""
    growth, bent = _growth(psi)
    return np.tri(psi.shape[-1]) * growth[..., None, :], bent


def _rows(z: Float[Array, "*n a"], y: Float[Array, "*m"]) -> tuple[Float[Array, "*n 2 a"], Float[np.ndarray, " a"]]:
    """∂(a, b)/∂z, and `bent`."""
    xp = namespace(z, y)
    growth, bent = _growth(z[..., :-1])
    cuts = [xp.where(np.arange(len(bent)) <= y[..., None] - shift, growth, 0.0) for shift in (0, 1)]
    edge = -xp.ones((*growth.shape[:-1], 1))
    return xp.stack([xp.concatenate([c, edge], axis=-1) for c in cuts], axis=-2), np.append(bent, 0.0)


def _chain(jacobian: Array, bent: np.ndarray, first: Array, second: Array) -> tuple[Array, Array]:
    """The gradient and the Hessian by z: Jᵀf', and Jᵀf''J + diag(bent · Jᵀf')."""
    gradient = (first[..., None] * jacobian).sum(-2)
    hessian = jacobian.swapaxes(-1, -2) @ second @ jacobian
    return gradient, hessian + np.eye(len(bent)) * (bent * gradient)[..., None]


def _chain_slope(
    jacobian: Array, bent: np.ndarray, first: Array, second: Array, third: Array, spread: Array
) -> Float[Array, "*n a"]:
    """∂⟨S, Hessian⟩/∂z = Jᵀ(f''' : JSJᵀ) + 2 bent · diag(SJᵀf''J) + Hessian (bent · diag S)."""
    across = spread @ jacobian.swapaxes(-1, -2)
    inner = jacobian @ across
    by_third = ((third * inner[..., None]).sum((-3, -2))[..., None] * jacobian).sum(-2)
    by_jacobian = 2 * bent * (across.swapaxes(-1, -2) * (second @ jacobian)).sum(-2)
    hessian = _chain(jacobian, bent, first, second)[1]
    weights = bent * spread.diagonal(axis1=-2, axis2=-1)
    return by_third + by_jacobian + (hessian * weights[..., None, :]).sum(-1)
