"""`Quadrature`: hyperparameters integrated over, at points placed where their posterior is.

    p(y* | data) = ∫ p(y* | data, θ) p(θ | data) dθ ≈ Σⱼ wⱼ p(y* | data, θⱼ)
    wⱼ ∝ aⱼ exp(J(uⱼ) + ½|zⱼ|²),    uⱼ = center + R zⱼ,    J(u) = log p(data | θ) p(θ) |dθ/du|

u are the unconstrained coordinates, in which p(θ) has the Jacobian of the transform, and (zⱼ, aⱼ) is a rule for
N(0, I). Up to three coordinates it is a tensor product of Gauss-Hermite rules, moved to the mean and covariance that
the pass before has found: Naylor & Smith (1982), "Applications of a method for the efficient computation of posterior
distributions". For more it is a central composite design around the mode: Rue, Martino & Chopin (2009), §6.5.
A number without a prior counts as flat in u: 1/θ for a positive one.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, product
from typing import Any, ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from scipy import special

from credo.core import params
from credo.core.errors import DataError
from credo.infer.averaging import Averaged
from credo.infer.learning import Evidence, Learned
from credo.infer.method import Learner
from credo.infer.optimize import DIVERGED
from credo.infer.priors import as_densities

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
class Quadrature(Learner):
    """Full Bayes over the hyperparameters: `credo.fit(gp, X, y, using=Quadrature())` gives an `Averaged` belief.

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

    def learn(
        self, belief: Any, statistics: Any, fixed: Sequence[str], priors: Mapping[str, Any], seed: int
    ) -> Learned:
        """The average of the belief over the points, with the weights that they have before the data."""
        slots = params.layout(belief, fixed)
        k = slots[-1].stop
        if k > MOST_COORDINATES:
            raise DataError(
                f"Quadrature takes up to {MOST_COORDINATES} hyperparameters, found {k}; hold some with fixed=[...]"
            )
        climb = _Climb(self.starts, max_steps=self.max_steps, tolerance=self.tolerance)
        priors = as_densities(priors)
        found = climb.learn(belief, statistics, fixed, priors, seed)
        if found.status == DIVERGED:
            return found
        best = found.belief
        center = np.asarray(params.to_vector(best, slots))
        density = climb.objective(best, slots, statistics, priors)
        placed = self._place(density, center, *params.bounds(slots, params.to_vector(belief, slots)))
        share = np.exp(placed.log_share - special.logsumexp(placed.log_share))
        kept = np.flatnonzero(share >= min(self.negligible, share.max()))
        vectors = jnp.asarray(placed.vectors[kept])
        before = placed.log_scale[kept] + np.asarray(_log_priors(vectors, best, slots, dict(priors)))
        members = tuple(params.from_vector(best, slots, vector) for vector in vectors)
        return found._replace(
            belief=Averaged(jnp.asarray(before), members),
            log_evidence=float(special.logsumexp(placed.log_share)),
            notes=[*found.notes, *_notes(found, slots, priors, placed, share[kept])],
            statistics=(statistics,) * len(members),
        )

    def _place(self, density: "Density", mode: np.ndarray, lower: np.ndarray, upper: np.ndarray) -> "_Placed":
        """The points of the last pass, and how far it moved the integral."""
        k = len(mode)
        tensor = k in POINTS
        rule = gauss_hermite(self.points or POINTS[k], k) if tensor else central_composite(k)
        center, root = mode, _root(np.linalg.inv(-_definite(density.curvature(mode))))
        last, moved = -np.inf, 0.0
        for turn in range(max(self.passes, 1) if tensor else 1):
            vectors = center + rule.z @ root.T
            inside = np.all((vectors >= lower) & (vectors <= upper), axis=1)
            heights = np.where(inside, density.values(vectors), -np.inf)
            scale = np.log(rule.weight) + 0.5 * np.square(rule.z).sum(1)
            scale += 0.5 * k * np.log(2 * np.pi) + np.linalg.slogdet(root)[1]
            placed = _Placed(vectors, scale, scale + heights, moved)
            total = float(special.logsumexp(placed.log_share))
            placed = placed._replace(moved=abs(total - last) if turn else 0.0)
            share = np.exp(placed.log_share - total)
            last, moved = total, placed.moved
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


def _notes(
    found: Learned, slots: params.Layout, priors: Mapping[str, Any], placed: _Placed, share: np.ndarray
) -> list[str]:
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


def _definite(curvature: np.ndarray) -> np.ndarray:
    """The curvature with no direction flatter than `WIDEST` allows."""
    values, vectors = np.linalg.eigh(0.5 * (curvature + curvature.T))
    return (vectors * np.minimum(values, -1.0 / WIDEST**2)) @ vectors.T


def _root(covariance: np.ndarray) -> np.ndarray:
    """R with RRᵀ = covariance, along its principal axes."""
    values, vectors = np.linalg.eigh(covariance)
    return vectors * np.sqrt(np.maximum(values, 1e-10 * values.max()))


class Density(NamedTuple):
    """J(u) = log p(data | θ) p(θ) |dθ/du|, the log density of the unconstrained vector."""

    inner: Any
    """log p(data | θ) + log p(θ), with its gradient."""
    belief: Any
    slots: params.Layout
    statistics: Any
    priors: dict[str, Any]

    def value_and_grad(self, vector: np.ndarray) -> tuple[float, np.ndarray]:
        """The log density and its gradient."""
        value, gradient = self.inner.value_and_grad(vector)
        more, slope = _jacobian(jnp.asarray(vector), self.slots, frozenset(self.priors))
        return value + float(more), gradient + np.asarray(slope)

    def value(self, vector: np.ndarray) -> float:
        """The log density."""
        return self.inner.value(vector) + float(_jacobian(jnp.asarray(vector), self.slots, frozenset(self.priors))[0])

    def values(self, vectors: np.ndarray) -> np.ndarray:
        """The log density at every row; one by one where the belief has its own way of computing it."""
        if self.belief.objective(self.slots, self.statistics, self.priors) is None:
            return np.asarray(_heights(jnp.asarray(vectors), self.belief, self.slots, self.statistics, self.priors))
        return np.asarray([self.value(vector) for vector in vectors])

    def curvature(self, vector: np.ndarray, step: float = 1e-3) -> np.ndarray:
        """The Hessian, by central differences of the gradient."""
        steps = step * np.eye(len(vector))
        ends = [(self.value_and_grad(vector + h)[1], self.value_and_grad(vector - h)[1]) for h in steps]
        return np.asarray([(up - down) / (2 * step) for up, down in ends])


class _Climb(Evidence):
    """`Evidence` on the density of the unconstrained vector."""

    def objective(self, belief: Any, slots: params.Layout, statistics: Any, priors: Mapping[str, Any]) -> Density:
        """Evidence, prior and Jacobian."""
        inner = super().objective(belief, slots, statistics, priors)
        return Density(inner, belief, slots, statistics, dict(priors))


_jacobian: Any = eqx.filter_jit(jax.value_and_grad(lambda u, slots, paths: params.log_jacobian(slots, u, paths)))


def _log_prior(u: Any, belief: Any, slots: params.Layout, priors: dict[str, Any]) -> Any:
    return params.log_prior(params.from_vector(belief, slots, u), priors) + params.log_jacobian(
        slots, u, frozenset(priors)
    )


@eqx.filter_jit
def _log_priors(vectors: Any, belief: Any, slots: params.Layout, priors: dict[str, Any]) -> Any:
    return jax.vmap(lambda u: _log_prior(u, belief, slots, priors))(vectors)


@eqx.filter_jit
def _heights(vectors: Any, belief: Any, slots: params.Layout, statistics: Any, priors: dict[str, Any]) -> Any:
    def of(u: Array) -> Array:
        return params.from_vector(belief, slots, u).evidence_of(statistics) + _log_prior(u, belief, slots, priors)

    return jax.lax.map(of, vectors)


class Moments(NamedTuple):
    """Mean and standard deviation."""

    mean: np.ndarray
    std: np.ndarray


def hyperparameters(belief: Averaged) -> dict[str, Moments]:
    """What an average over hyperparameters believes about each of them, by path."""
    each = [params.learnable(member) for member in belief.beliefs]
    if any(values.keys() != each[0].keys() for values in each):
        raise DataError("the beliefs of the average have different hyperparameters: there is no mean over them")
    weights = np.asarray(belief.weights)
    out = {}
    for path in each[0]:
        values = np.stack([np.asarray(member[path]) for member in each])
        mean = np.tensordot(weights, values, 1)
        out[path] = Moments(mean, np.sqrt(np.tensordot(weights, np.square(values - mean), 1)))
    return out
