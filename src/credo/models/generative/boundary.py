"""Where two classes are as likely, and the projection in which classes lie furthest apart.

For Gaussian classes the log-odds are a quadratic function of x, and a linear one where the covariance is shared: then
P(a | x) is a logistic function, 1/(1 + exp(-(b + wᵀx))). Bishop (2006), section 4.2.1. Fisher's directions maximize the
variance between classes over that within them: Bv = λWv. Fisher (1936); Rao (1948).
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from credo.core.checks import ArrayLike, check_table
from credo.models.likelihoods.classes import Label

SHOWN = 6
"""So many columns of a boundary are printed."""


class Boundary(NamedTuple):
    """log P(a | x)/P(b | x) = bias + weightsᵀx + xᵀQx; the boundary is where it is zero. Q is None for a hyperplane."""

    a: Label
    b: Label
    weights: Float[np.ndarray, " d"]
    bias: float
    quadratic: Float[np.ndarray, "d d"] | None
    inputs: tuple[str, ...]

    def log_odds(self, x: ArrayLike) -> Float[np.ndarray, " n"]:
        """log P(a | x) - log P(b | x)."""
        table = np.asarray(check_table(x, "X", self.inputs))
        linear = self.bias + table @ self.weights
        return linear if self.quadratic is None else linear + np.einsum("ni,ij,nj->n", table, self.quadratic, table)

    def probability(self, x: ArrayLike) -> Float[np.ndarray, " n"]:
        """P(a | x, one of the two): a logistic function of the log-odds."""
        from scipy.special import expit

        return expit(self.log_odds(x))

    def __repr__(self) -> str:
        terms = [f"{self.bias:.4g}"]
        terms += [f"{w:+.4g} {name}" for w, name in zip(self.weights[:SHOWN], self.inputs, strict=False)]
        for i in range(0 if self.quadratic is None else min(len(self.inputs), 3)):
            for j in range(i + 1):
                twice = self.quadratic[i, j] * (1 if i == j else 2)  # type: ignore[index]
                what = f"{self.inputs[i]}²" if i == j else f"{self.inputs[j]}·{self.inputs[i]}"
                terms.append(f"{twice:+.4g} {what}")
        most = SHOWN if self.quadratic is None else 3
        more = " …" if len(self.inputs) > most else ""
        kind = "hyperplane" if self.quadratic is None else "quadric"
        return f"{kind} between {self.a!r} and {self.b!r}: {' '.join(terms)}{more} = 0"


def between_gaussians(
    means: Float[np.ndarray, "2 d"],
    covariances: Float[np.ndarray, "2 d d"],
    log_shares: Float[np.ndarray, " 2"],
    shared: bool,
    classes: tuple[Label, Label],
    inputs: tuple[str, ...],
) -> Boundary:
    """w = Σₐ⁻¹μₐ - Σ_b⁻¹μ_b, Q = ½(Σ_b⁻¹ - Σₐ⁻¹), and what is left as the bias."""
    precision = np.linalg.inv(covariances)
    weights = precision[0] @ means[0] - precision[1] @ means[1]
    squares = np.einsum("ki,kij,kj->k", means, precision, means)
    dets = np.linalg.slogdet(covariances)[1]
    bias = log_shares[0] - log_shares[1] - 0.5 * (squares[0] - squares[1] + dets[0] - dets[1])
    quadratic = None if shared else 0.5 * (precision[1] - precision[0])
    return Boundary(*classes, weights, float(bias), quadratic, inputs)


class Fisher(NamedTuple):
    """The directions that separate classes most, the best first."""

    directions: Float[np.ndarray, "d r"]
    """Columns v with vᵀWv = 1 for the covariance W within classes."""
    ratios: Float[np.ndarray, " r"]
    """The variance between classes over that within them, of each direction."""
    center: Float[np.ndarray, " d"]
    inputs: tuple[str, ...]

    @property
    def shares(self) -> Float[np.ndarray, " r"]:
        """What part of the separation each direction has."""
        return self.ratios / self.ratios.sum()

    def __call__(self, x: ArrayLike) -> Float[np.ndarray, "n r"]:
        """The rows in these directions, from their center."""
        return (np.asarray(check_table(x, "X", self.inputs)) - self.center) @ self.directions

    def __repr__(self) -> str:
        each = ", ".join(f"{ratio:.3g} ({share:.0%})" for ratio, share in zip(self.ratios, self.shares, strict=True))
        return f"Fisher({len(self.ratios)} directions of {len(self.inputs)} columns; between/within {each})"


def fisher_directions(
    means: Float[np.ndarray, "k d"],
    counts: Float[np.ndarray, " k"],
    within: Float[np.ndarray, "d d"],
    inputs: Sequence[str],
) -> Fisher:
    """The generalized eigenvectors of Bv = λWv with λ > 0, at most k - 1."""
    from scipy.linalg import eigh

    center = counts @ means / counts.sum()
    spread = (means - center) * np.sqrt(counts / counts.sum())[:, None]
    size = np.sqrt(np.diag(within))  # in units of the columns, or one with a large unit would hide the others
    ratios, vectors = eigh(spread.T @ spread / np.outer(size, size), within / np.outer(size, size))
    most = min(max(int((counts > 0).sum()) - 1, 1), len(size))
    best = np.argsort(ratios)[::-1][:most]
    directions = vectors[:, best] / size[:, None]
    signs = np.where(directions[np.argmax(np.abs(directions * size[:, None]), axis=0), range(most)] < 0, -1.0, 1.0)
    return Fisher(directions * signs, np.maximum(ratios[best], 0.0), center, tuple(inputs))
