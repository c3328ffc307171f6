"""`Pathfinder`: normal laws along climbs to the mode, of which the one nearest to the posterior is kept.

A quasi-Newton climb learns the curvature on its way. At each of its points u, with gradient g = ∇log p(u) and inverse
curvature H as the steps s and changes of gradient y behind it tell, there is a law

    N(u + Hg, H),    ELBO = E[log p] + ½ log|H| + k/2 log 2πe

and the highest ELBO wins: often before the mode, where a posterior's mass is not at its mode (funnels). Several paths
are pooled by importance weights against the mixture of their laws; chains start from draws of that pool.
Zhang, Carpenter, Gelman & Vehtari (2022), "Pathfinder: Parallel quasi-Newton variational inference", JMLR 23.

Before they enter H the pairs (s, y) are made conjugate, sᵢᵀyⱼ = 0, the newest first: then none undoes another, and the
law of a normal target is exact once its path has spanned the space.
"""

import dataclasses
import itertools
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from scipy.special import chdtri

from credo.core.checks import check_count
from credo.core.device import blas_threads
from credo.core.errors import NotConverged
from credo.core.linalg import factorize
from credo.infer.importance_sampling import USABLE, check_by_psis, log_densities, pareto_smooth
from credo.infer.mcmc.chains import jittered_starts
from credo.infer.method import Approximation
from credo.infer.optimize import maximize
from credo.infer.posterior import NormalApproximation
from credo.infer.quasi_random import normals
from credo.infer.target import Target, value_and_grad

POOL = 256
"""Draws of each path's law that are pooled."""
SLOPE = 1e-8
"""A path ends where the gradient is shorter: the last steps before the mode know its curvature best."""
CURVED = 1e-12
"""A pair counts if sᵀy > CURVED yᵀy: the log density is concave along the step."""
NEW = 1e-3
"""Of its sᵀy, how much a pair must keep when it is made conjugate to the newer ones; less is what they know already."""
OUTSIDE = 0.05
"""The share of the pooled draws that may lie outside of the law (beyond its 99.99 % ellipsoid) without a word."""


Point = Float[np.ndarray, " k"]


class Step(NamedTuple):
    """A point of a path, and the gradient of log p there."""

    u: Point
    gradient: Point


class Candidate(NamedTuple):
    """A normal law N(center, root rootᵀ) with log|root|; the root is square, not triangular."""

    center: Point
    root: Float[np.ndarray, "k k"]
    log_det: float


class Pool(NamedTuple):
    """Draws of all laws with their smoothed log weights, and the laws, the highest ELBO first."""

    draws: Float[np.ndarray, "n k"]
    log_weights: Float[np.ndarray, " n"]
    khat: float
    laws: list[NormalApproximation]


@dataclasses.dataclass(frozen=True)
class Pathfinder(Approximation):
    """The normal law of the highest ELBO along several climbs of the log density.

    Quick, and crude: for starting points of chains (`NUTS(start="pathfinder")`), for a first look, and for densities
    that have no mode to which `Laplace` could climb.

    Args:
        paths: how many climbs; the first is from the start itself.
        draws: points (an even number) at which the ELBO of each law is taken.
        max_steps: of a climb.
        history: how many of the last pairs (s, y) may tell the curvature.
        spread: of the starts of the paths around the first, in unconstrained units.
    """

    paths: int = 4
    draws: int = 64
    max_steps: int = 200
    history: int = 100
    spread: float | int = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_count(self.draws, "draws", 2)

    def run(self, target: Target, seed: int = 0) -> NormalApproximation:
        """The law of the best path; its notes say what importance weights and the other paths have against it."""
        pool = self.pool(target, target.check(), seed)
        best = pool.laws[0]
        notes = check_by_psis(best, target, seed=seed)
        root = best.root
        peak = -np.log(np.diagonal(root)).sum() - 0.5 * len(root) * np.log(2 * np.pi)
        far = 2 * (peak - best.log_prob(pool.draws)) > chdtri(len(root), 1e-4)
        missed = float(np.exp(pool.log_weights)[far].sum())
        if missed > OUTSIDE and pool.khat < USABLE:
            notes = (f"{missed:.0%} of what the paths found lies outside of this law: use SMC() or NUTS().", *notes)
        return dataclasses.replace(best, notes=notes)

    def pool(self, target: Target, u: Point, seed: int = 0) -> Pool:
        """The best law of every path from around u, and draws of their mixture weighted towards the target."""
        starts = jittered_starts(target, u, self.paths, float(self.spread), seed)
        with blas_threads(len(u)):
            found = [law for i, start in enumerate(starts) if (law := self._best(target, start, [seed, i])) is not None]
        if not found:
            raise NotConverged(
                "Pathfinder found no law with a finite ELBO: the log density is not finite at some distance from its "
                "paths. Name the constraints, start elsewhere, or use NUTS() from init"
            )
        k = target.space.size
        z = [normals(POOL, k, [seed, i, POOL]) for i in range(len(found))]
        draws = np.stack([law.center + e @ law.root.T for law, e in zip(found, z, strict=True)])
        log_p = log_densities(target, draws.reshape(-1, k))
        log_q = np.stack([law.log_prob(draws.reshape(-1, k)) for law in found])
        # Fresh draws: the highest of many ELBOs is flattered by the draws that chose it.
        own = log_q.reshape(len(found), len(found), POOL)[np.arange(len(found)), np.arange(len(found))]
        gaps = log_p.reshape(own.shape) - own
        elbos = np.where(np.all(np.isfinite(gaps), axis=1), gaps.mean(1), -np.inf)
        laws = [dataclasses.replace(law, log_evidence=np.asarray(e)) for law, e in zip(found, elbos, strict=True)]
        mixture = np.logaddexp.reduce(log_q, axis=0) - np.log(len(found))
        log_weights, khat, _ = pareto_smooth(log_p - mixture)
        usable = np.where(np.isfinite(log_p), log_weights, -np.inf)
        return Pool(draws.reshape(-1, k), usable, khat, [laws[i] for i in np.argsort(-elbos, kind="stable")])

    def starts(self, target: Target, u: Point, chains: int, seed: int = 0) -> tuple[np.ndarray, NormalApproximation]:
        """Starting points of chains, different draws of the pool by their weights; and the best law."""
        pool = self.pool(target, u, seed)
        weights = np.exp(pool.log_weights)
        if not weights.sum() > 0:
            raise NotConverged("Pathfinder found no starting point with a finite log density; use start='init'")
        rng = np.random.default_rng([seed, chains])
        enough = np.count_nonzero(weights) >= chains
        chosen = rng.choice(len(weights), chains, replace=not enough, p=weights / weights.sum())
        return pool.draws[chosen], pool.laws[0]

    def _best(self, target: Target, start: Point, seed: Sequence[int]) -> NormalApproximation | None:
        """The law of the highest ELBO along the path from a start; None where none is finite."""
        steps = path(target, start, self.max_steps)
        z = normals(self.draws + self.draws % 2, len(start), seed)
        with np.errstate(all="ignore"):  # a path to infinity ends in laws without an ELBO
            laws = list(candidates(steps, self.history))
            points = np.stack([law.center + z @ law.root.T for law in laws])
        values = log_densities(target, points.reshape(-1, len(start))).reshape(points.shape[:2]).mean(1)
        entropy = 0.5 * len(start) * (1 + np.log(2 * np.pi))
        elbos = values + entropy + np.array([law.log_det for law in laws])
        elbos = np.where(np.isfinite(elbos), elbos, -np.inf)
        for i in np.argsort(-elbos, kind="stable"):
            if not np.isfinite(elbos[i]):
                break
            factor = factorize(laws[i].root @ laws[i].root.T)
            if factor.ok:
                return NormalApproximation(target.space, laws[i].center, factor.root, np.asarray(elbos[i]))
        return None


def path(target: Target, start: Point, max_steps: int) -> list[Step]:
    """The points of a climb by L-BFGS that were higher than all before them."""
    steps: list[Step] = []
    highest = -np.inf

    def objective(u: np.ndarray) -> tuple[float, np.ndarray]:
        nonlocal highest
        value, gradient = (np.asarray(v) for v in value_and_grad(target, u))
        if np.isfinite(value) and np.all(np.isfinite(gradient)) and value > highest:
            highest = float(value)
            steps.append(Step(np.array(u), gradient))
        return float(value), gradient

    free = np.full(start.shape, np.inf)
    maximize(objective, [start], -free, free, max_steps, SLOPE)
    return steps or [Step(start, np.zeros_like(start))]


def candidates(steps: list[Step], history: int) -> Iterator[Candidate]:
    """The law at every point of a path: a unit one at the start, then as the pairs before the point say."""
    k = len(steps[0].u)
    yield Candidate(steps[0].u, np.eye(k), 0.0)
    scale, pairs = np.ones(k), np.zeros((0, 2, k))
    for before, here in itertools.pairwise(steps):
        s, y = here.u - before.u, before.gradient - here.gradient
        if s @ y > CURVED * (y @ y):
            scale = rescaled(scale, s, y)
            pairs = np.concatenate([pairs, np.stack([s, y])[None] / np.sqrt(s @ y)])[-history:]
        root, log_det = inverse_curvature(scale, conjugate(pairs))
        yield Candidate(here.u + root @ (root.T @ here.gradient), root, log_det)


def rescaled(scale: Point, s: Point, y: Point) -> Point:
    """The diagonal of H after a pair: the diagonal of BFGS's update of its inverse, scaled to yᵀdiag(α)y = sᵀy before.

    Gilbert & Lemaréchal (1989), "Some numerical experiments with variable-storage quasi-Newton algorithms", §4.
    """
    a, b, c = y @ (scale * y), s @ y, s @ (s / scale)
    new = 1.0 / (a / (b * scale) + y**2 / b - a * s**2 / (b * c * scale**2))
    return np.where(np.isfinite(new) & (new > 0), new, scale)


def conjugate(pairs: Float[np.ndarray, "n 2 k"]) -> Float[np.ndarray, "m 2 k"]:
    """The pairs with sᵢᵀyⱼ = 0 for i ≠ j and sᵢᵀyᵢ = 1, newest last, without those that add nothing to newer ones."""
    n, _, k = pairs.shape
    s, y, size = np.zeros((min(n, k), k)), np.zeros((min(n, k), k)), 0
    for step, bend in pairs[::-1]:
        for _ in range(2):  # once leaves what rounding has left of it
            share = 0.5 * (s[:size] @ bend + y[:size] @ step)
            step, bend = step - share @ s[:size], bend - share @ y[:size]
        rest = step @ bend
        if rest > NEW:
            s[size], y[size] = step / np.sqrt(rest), bend / np.sqrt(rest)
            size += 1
        if size == k:
            break
    return np.stack([s[:size], y[:size]], axis=1)[::-1]


def inverse_curvature(scale: Point, pairs: Float[np.ndarray, "m 2 k"]) -> tuple[Float[np.ndarray, "k k"], float]:
    """A root of H, BFGS's updates of diag(scale) by the pairs (with sᵀy = 1), and the logarithm of its determinant.

    H⁺ = (I - swᵀ) H (I - wsᵀ) with w = y - H⁻¹s / √(sᵀH⁻¹s): the product form, whose root needs no factorization.
    Brodlie, Gourlay & Greenstadt (1973), "Rank-one and rank-two corrections to positive definite matrices".
    """
    root, inverse = np.diag(np.sqrt(scale)), np.diag(1 / np.sqrt(scale))
    log_det = 0.5 * np.log(scale).sum()
    for s, y in pairs:
        z = inverse @ s
        length = np.sqrt(z @ z)
        w = y - inverse.T @ z / length
        root = root - np.outer(s, w @ root)
        inverse = inverse + np.outer(z, w) / length
        log_det += np.log(length)
    return root, float(log_det)
