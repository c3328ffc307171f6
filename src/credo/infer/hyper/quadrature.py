"""`HyperQuadrature`: hyperparameters integrated over, at points placed where their posterior is.

    p(y* | data) = ∫ p(y* | data, θ) p(θ | data) dθ ≈ Σⱼ wⱼ p(y* | data, θⱼ)
    wⱼ ∝ aⱼ exp(J(uⱼ) + ½|zⱼ|²),    uⱼ = center + R zⱼ,    J(u) = log p(data | θ) p(θ) |dθ/du|

u are the unconstrained coordinates, in which p(θ) has the Jacobian of the transform, and (zⱼ, aⱼ) is a rule for
N(0, I). Up to three coordinates it is a tensor product of Gauss-Hermite rules, moved to the mean and covariance that
the pass before has found: Naylor & Smith (1982), "Applications of a method for the efficient computation of posterior
distributions". For more it is a central composite design around the mode: Rue, Martino & Chopin (2009), §6.5.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations, product
from typing import ClassVar, NamedTuple

import numpy as np
from jaxtyping import Float
from scipy import special

from credo.core import params
from credo.core.belief import Belief
from credo.core.errors import DataError
from credo.infer.hyper.target import HyperDensity, HyperEvidence, principal_root
from credo.infer.learning import Learned
from credo.infer.method import Learner
from credo.infer.optimize import DIVERGED
from credo.infer.priors import Priors

POINTS = {1: 15, 2: 9, 3: 7}
"""Gauss-Hermite points along each coordinate, by the number of coordinates."""

MOST_COORDINATES = 20
WIDEST = 3.0
"""The largest standard deviation that a direction gets from the curvature at the mode: e^±3 is wide enough."""

RADIUS = 1.1
"""The sphere of the design has radius 1.1 √k, where Rue et al. put it."""


class Rule(NamedTuple):
    """Points zⱼ and weights aⱼ with Σ aⱼ g(zⱼ) ≈ E[g(z)] for z ~ N(0, I)."""

    z: Float[np.ndarray, "m k"]
    weight: Float[np.ndarray, " m"]


def gauss_hermite(points: int, k: int) -> Rule:
    """The tensor product of k Gauss-Hermite rules, exact for degree 2·points - 1 along each coordinate."""
    nodes, weights = special.roots_hermitenorm(points)
    grid = np.array(list(product(nodes, repeat=k)))
    mass = np.array(list(product(weights / weights.sum(), repeat=k)))
    return Rule(grid, mass.prod(axis=1))


def central_composite(k: int) -> Rule:
    """The center, 2k points on the axes and a fractional factorial design, the last two on one sphere.

    The weights make E[1], E[z] and E[zzᵀ] exact.
    """
    signs = _resolution_five(k)
    axes = np.sqrt(k) * np.concatenate([np.eye(k), -np.eye(k)])
    sphere = RADIUS * np.concatenate([axes, signs])
    inside = 1.0 - 1.0 / RADIUS**2
    weight = np.full(len(sphere), (1.0 - inside) / len(sphere))
    return Rule(np.concatenate([np.zeros((1, k)), sphere]), np.concatenate([[inside], weight]))


def _resolution_five(k: int) -> Float[np.ndarray, "m k"]:
    """A two-level design of ±1 in which no product of up to four columns is constant: Walsh functions.

    The columns are numbers of which no two, three or four have the exclusive or zero, the smallest first.
    Sanchez & Sanchez (2005), "Very large fractional factorial and central composite designs".
    """
    columns: list[int] = []
    candidate = 0
    while len(columns) < k:
        candidate += 1
        reached = {0, *columns} | {a ^ b for a, b in combinations(columns, 2)}
        reached |= {a ^ b ^ c for a, b, c in combinations(columns, 3)}
        if candidate not in reached:
            columns.append(candidate)
    runs = 1 << max(columns).bit_length()
    return np.array([[1.0 - 2.0 * ((run & c).bit_count() % 2) for c in columns] for run in range(runs)])


@dataclass(frozen=True)
class HyperQuadrature(Learner):
    """Full Bayes over the hyperparameters: `credo.fit(gp, X, y, using=HyperQuadrature())` gives an `Averaged` belief.

    The `log_evidence` of the report is log ∫ p(data | θ) p(θ) dθ, which charges for what is learned and so compares
    kernels. Each point costs a factorization in each pass, and each that is kept an n × n matrix.
    """

    integrates: ClassVar[bool] = True

    points: int | None = None
    """Gauss-Hermite points along each coordinate; None is 15, 9 and 7 for one, two and three coordinates."""
    passes: int = 3
    """How often the Gauss-Hermite points are placed anew."""
    negligible: float = 1e-4
    """Members with less posterior probability are left out."""
    starts: int = 4
    max_steps: int = 200
    tolerance: float = 1e-5

    def learn(self, belief: Belief, statistics: object, fixed: Sequence[str], priors: Priors, seed: int) -> Learned:
        """The average of the belief over the points, with the weights that they have before the data."""
        slots = params.layout(belief, fixed)
        k = slots[-1].stop
        if k > MOST_COORDINATES:
            raise DataError(
                f"HyperQuadrature takes up to {MOST_COORDINATES} hyperparameters, found {k}; hold some with fixed=[...]"
            )
        climb = HyperEvidence(self.starts, max_steps=self.max_steps, tolerance=self.tolerance)
        found = climb.learn(belief, statistics, fixed, priors, seed)
        if found.status == DIVERGED:
            return found
        density = HyperDensity.of(found.belief, slots, statistics, priors)
        center = np.asarray(params.to_vector(found.belief, slots))
        placed = self._place(density, center, *params.bounds(slots, params.to_vector(belief, slots)))
        share = special.softmax(placed.log_share)
        kept = np.flatnonzero(share >= min(self.negligible, share.max()))
        scale, heights = placed.log_scale[kept], (placed.log_share - placed.log_scale)[kept]
        notes = _notes(found, slots, priors, placed, share[kept])
        found = density.average(found, placed.vectors[kept], scale, heights, notes)
        return found._replace(log_evidence=float(special.logsumexp(placed.log_share)))

    def _place(self, density: HyperDensity, mode: np.ndarray, lower: np.ndarray, upper: np.ndarray) -> "_Placed":
        """The points of the last pass, and how far it moved the integral."""
        k = len(mode)
        tensor = k in POINTS
        rule = gauss_hermite(self.points or POINTS[k], k) if tensor else central_composite(k)
        center, root = mode, principal_root(density.hessian(mode), WIDEST)
        last = -np.inf
        for turn in range(max(self.passes, 1) if tensor else 1):
            vectors = center + rule.z @ root.T
            inside = np.all((vectors >= lower) & (vectors <= upper), axis=1)
            heights = np.where(inside, density.values(vectors), -np.inf)
            scale = np.log(rule.weight) + 0.5 * np.square(rule.z).sum(1)
            scale += 0.5 * k * np.log(2 * np.pi) + np.linalg.slogdet(root)[1]
            total = float(special.logsumexp(scale + heights))
            placed = _Placed(vectors, scale, scale + heights, abs(total - last) if turn else 0.0)
            share, last = np.exp(placed.log_share - total), total
            center = share @ vectors
            spread = (vectors - center).T @ (share[:, None] * (vectors - center))
            if 1.0 / np.square(share).sum() < 1.5:
                break  # one point has it all: its moments say nothing
            root = _root(spread)
        return placed


class _Placed(NamedTuple):
    vectors: np.ndarray
    log_scale: np.ndarray
    """log of aⱼ / N(zⱼ; 0, I) · |R|."""
    log_share: np.ndarray
    """The same and J(uⱼ): terms of the integral."""
    moved: float


def _notes(found: Learned, slots: params.Layout, priors: Priors, placed: _Placed, share: np.ndarray) -> list[str]:
    """What the user should know about the integral."""
    kind = "Gauss-Hermite" if slots[-1].stop in POINTS else "central composite"
    notes = [f"{len(share)} of {len(placed.vectors)} {kind} points kept, with {share.sum():.2%} of the probability"]
    flat = [s.path for s in slots if s.path not in priors]
    if flat:
        notes.append(f"{', '.join(flat)} without a prior: the log evidence has no absolute height")
    if placed.moved > 0.02:
        notes.append(f"the last two passes differ by {placed.moved:.2g} in the log evidence; raise points or passes")
    if len(found.optima) > 1:
        behind = found.optima[0].log_evidence - found.optima[1].log_evidence
        notes.append(f"there are {len(found.optima)} maxima, the second {behind:.2g} lower; points surround the first")
    return notes


def _root(covariance: np.ndarray) -> np.ndarray:
    """R with RRᵀ = covariance, along its principal axes."""
    values, vectors = np.linalg.eigh(covariance)
    return vectors * np.sqrt(np.maximum(values, 1e-10 * values.max()))


Quadrature = HyperQuadrature
