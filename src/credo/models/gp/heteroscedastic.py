"""`HeteroscedasticGP`: noise whose size is a function of x, too.

    y = f(x) + ε,   ε ~ N(0, eᵍ⁽ˣ⁾),   f ~ GP(m, k),   g ~ GP(m_g, k_g)

f is integrated out exactly; g at the data is at its most likely values (Laplace's approximation around them):

    J(g) = log N(y | m, A) + log N(g | m_g, K_g),    A = K + diag(eᵍ)

With B = A⁻¹, α = B(y - m) and d = eᵍ the gradient of the first term is ∇ᵢ = ½dᵢ(αᵢ² - Bᵢᵢ) and its expected
information F = ½ dᵢdⱼBᵢⱼ², positive semi-definite, so Fisher scoring climbs J and

    log p(y) ≈ log N(y | m, A) - ½ aᵀK_g a - ½ log|I + K_g F|,    g = m_g + K_g a,   a = ∇ at the mode.

Its gradient in the hyperparameters follows the mode by the implicit function theorem. Goldberg, Williams & Bishop
(1998); Kersting et al. (2007), "Most likely heteroscedastic Gaussian process regression"; the scoring steps are
those of Rasmussen & Williams (2006), algorithm 3.1.
"""

from typing import NamedTuple

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Bool, Float

from credo.core import params
from credo.core.abilities import PredictsJointly
from credo.core.arrays import Array, held, is_traced, namespace
from credo.core.device import blas_threads
from credo.core.errors import DataError
from credo.core.linalg import (
    demand,
    factorize,
    inverse,
    log_determinant,
    plus_diagonal,
    solve,
    solve_lower,
)
from credo.core.loops import while_loop
from credo.core.predictive import Normal
from credo.core.pytrees import changed
from credo.infer.learning import Evidence, Objective
from credo.infer.priors import LogScalePenalty
from credo.kernels import RBF, InputScales, Kernel
from credo.models.gp import exact
from credo.models.gp.base import GaussianProcess
from credo.models.gp.belief import GP
from credo.models.gp.data import Rows, masked
from credo.models.gp.evidence import Priors
from credo.models.gp.exact import GPPrior
from credo.models.gp.hyperpriors import NOISE, TYPICAL_NOISE, below, kernel_priors, scales_of
from credo.models.gp.means import Mean
from credo.models.gp.robust import warn_unless_settled
from credo.models.noise import KnownNoise

MAX_STEPS = 100
HALVINGS = 30
TOLERANCE = 1e-10
NEAR = 1e-5
"""A mode that is so near is good enough for the evidence, which takes the last step itself, by Newton."""
LEVEL = 1.0
"""The variance of g around its mean with which learning starts: noise that varies by a factor e."""


class Noises(eqx.Module):
    """The posterior of g: mean m_g + k_g(·, X)a, variance k_g - |H k_g(X, ·)|²."""

    weights: Float[Array, " c"]
    half: Float[Array, "c c"]


class HeteroscedasticGP(GaussianProcess, PredictsJointly):
    """A Gaussian process with noise of a variance exp(g(x)), g a second Gaussian process.

    Args:
        function: the belief about f; None is `GP()`.
        log_noise: the belief about g, the log of the noise variance; None is `GP(RBF(ard=True))`.

    The noise of the two, as GPs, plays no role: what is not f(x) is said by g.
    """

    function: GP
    log_noise: GP
    noises: Noises | None

    def __init__(self, function: GP | None = None, log_noise: GP | None = None):
        for gp in (function, log_noise):
            if gp is not None and (not isinstance(gp, GP) or gp.seen is not None):
                raise DataError("HeteroscedasticGP takes two GPs that have seen nothing, of f and of the log noise")
        self.function = _noiseless(GP() if function is None else function)
        self.log_noise = _noiseless(GP(RBF(ard=True)) if log_noise is None else log_noise)
        self.seen = self.solved = self.noises = self.inputs = None

    @property  # type: ignore[misc]
    def kernel(self) -> Kernel:  # type: ignore[override]
        """Of f."""
        return self.function.kernel

    @property  # type: ignore[misc]
    def mean(self) -> Mean:  # type: ignore[override]
        """Of f."""
        return self.function.mean

    @property
    def noise(self) -> KnownNoise:
        """None beside exp(g)."""
        return self.function.noise

    def in_units(self, rows: Rows) -> "HeteroscedasticGP":
        """Starting values in the units of the data."""
        x, (scales, center) = rows.cut()[0], scales_of(self.kernel, rows)
        level = float(np.log(2 * TYPICAL_NOISE * scales.variance))

        def adapted(gp: GP, own: InputScales, spread: float, center: float) -> GP:
            mean = gp.mean.adapt(x, own._replace(variance=spread), center)
            return changed(gp, kernel=gp.kernel.adapt(own), mean=mean)

        f = adapted(self.function, scales, scales.variance, center)
        g = adapted(self.log_noise, scales._replace(variance=LEVEL), NOISE**2, level)
        return changed(self, function=f, log_noise=g)

    def objective(self, slots: params.Layout, statistics: Rows, priors: Priors) -> "AtMode | None":  # type: ignore[override]
        """The Laplace evidence with its gradient."""
        return None if is_traced(statistics) else AtMode(self, slots, statistics, priors)

    def default_priors(self, statistics: Rows) -> dict[str, LogScalePenalty]:
        """Those of a GP for the kernel of f, and for that of g with the outcome's variance replaced by one."""
        scales, _ = scales_of(self.function.kernel, statistics)
        f = kernel_priors(self.function.kernel, scales)
        g = kernel_priors(self.log_noise.kernel, scales._replace(variance=LEVEL))
        return below("function.kernel", f) | below("log_noise.kernel", g)

    def learner(self, priors: Priors) -> Evidence:
        """Two climbs of the Laplace evidence: each look at it is a climb of its own."""
        return Evidence(starts=2, tolerance=1e-4)

    def condition_on(self, statistics: Rows) -> "HeteroscedasticGP":
        """The approximate posterior after the rows, seen and new: the noise of all is judged again."""
        rows = self.with_seen(statistics)
        found = infer(self.function.prior, self.log_noise.prior, rows)
        solved, ok = exact.condition(self.function.prior, with_log_noise(rows, found.log_noise))
        result = demand((solved, found.noises), ok & found.ok, exact.NOT_DEFINITE)
        warn_unless_settled(found.change, "the noise of the rows", "the lengthscale of log_noise", MAX_STEPS)
        return changed(self, seen=rows, solved=result[0], noises=result[1])

    def evidence_of(self, statistics: Rows) -> Float[Array, ""]:
        """Laplace's log p(y | X); after data, the difference of those with and without `statistics`."""
        f, g = self.function.prior, self.log_noise.prior
        whole = laplace_evidence(f, g, self.with_seen(statistics))
        return whole if self.seen is None else whole - laplace_evidence(f, g, self.seen)

    def unconditioned(self) -> "HeteroscedasticGP":
        """The prior that this belief came from."""
        return changed(super().unconditioned(), noises=None)

    def predict(self, x: object, *, joint: bool = False) -> Normal:
        """p(y* | x*, data), Normal: E[exp g(x*)] is aleatoric, the function epistemic.

        Args:
            x: queries, shape (m, d).
            joint: also keep the m × m covariance of the function.
        """
        f, g = self.function_at(self.queries(x), joint), self.predict_log_noise(x)
        noise = g.mean + 0.5 * g.epistemic
        return Normal(f.mean, namespace(noise).exp(noise), f.variance, f.covariance)

    def predict_log_noise(self, x: object) -> Normal:
        """g(x*), the log of the noise variance, and how well it is known."""
        table, prior = self.queries(x), self.log_noise.prior
        if self.seen is None or self.noises is None:
            mean, variance = exact.predict(prior, None, None, table)
        else:
            cross = masked(self.seen.mask, prior.kernel.between(self.seen.x, table))
            variance = prior.kernel.variance_at(table) - ((self.noises.half @ cross) ** 2).sum(0)
            mean = prior.mean.at(table) + cross.T @ self.noises.weights
        xp = namespace(mean, variance)
        return Normal(mean, xp.zeros_like(variance), xp.maximum(variance, 0.0))

    def __repr__(self) -> str:
        f, g = self.function.kernel, self.log_noise.kernel
        return f"HeteroscedasticGP({f!r}, log noise {g!r}, seen {self.seen_in_words()})"


def _noiseless(gp: GP) -> GP:
    return changed(gp, noise=KnownNoise(np.zeros(())))


def with_log_noise(rows: Rows, log_noise: Float[Array, " c"]) -> Rows:
    """The rows with noise variance exp(g)·scale."""
    return changed(rows, extra=masked(rows.mask, rows.scale * namespace(log_noise).exp(log_noise)))


# -- the most likely noise ---------------------------------------------------------------------------------------


class Pieces(NamedTuple):
    """What J, its gradient and its curvature are made of, at one a; zero on padding."""

    log_noise: Float[Array, " c"]
    value: Float[Array, ""]
    """J up to a constant: log N(y | m, A) - ½aᵀK_g a."""
    slope: Float[Array, " c"]
    """∇."""
    precision: Float[Array, "c c"]
    """B."""
    alpha: Float[Array, " c"]
    ok: Bool[Array, ""]


class Found(NamedTuple):
    """The mode of J and the curvature there."""

    log_noise: Float[Array, " c"]
    noises: Noises
    change: Float[Array, ""]
    ok: Bool[Array, ""]


class Problem(NamedTuple):
    """K, y - m, K_g, m_g and the scale of each row's noise, zero on padding."""

    k: Float[Array, "c c"]
    residual: Float[Array, " c"]
    k_g: Float[Array, "c c"]
    mean_g: Float[Array, " c"]
    scale: Float[Array, " c"]
    mask: Bool[Array, " c"] | None


def problem(f: GPPrior, g: GPPrior, rows: Rows) -> Problem:
    """The matrices of J."""
    k, k_g = (_square(prior.kernel.between(rows.x, rows.x), rows.mask) for prior in (f, g))
    mean_g, scale = (masked(rows.mask, v) for v in (g.mean.at(rows.x), rows.scale))
    return Problem(k, exact.residual(f, rows), k_g, mean_g, scale, rows.mask)


def _square(matrix: Float[Array, "c c"], mask: Bool[Array, " c"] | None) -> Float[Array, "c c"]:
    return masked(mask, masked(mask, matrix).T)


def pieces(p: Problem, weights: Float[Array, " c"]) -> Pieces:
    """J and its gradient at g = m_g + K_g a."""
    log_noise = p.mean_g + p.k_g @ weights
    xp = namespace(log_noise, p)
    d = p.scale * xp.exp(log_noise)
    a = factorize(plus_diagonal(p.k, d), p.mask)
    b = _square(inverse(a.root), p.mask)
    alpha = b @ p.residual
    value = -0.5 * (p.residual @ alpha + log_determinant(a.root) + weights @ p.k_g @ weights)
    return Pieces(log_noise, value, 0.5 * d * (alpha**2 - b.diagonal()), b, alpha, a.ok & xp.isfinite(value))


def curvature(p: Problem, at: Pieces) -> tuple[Float[Array, "c c"], Float[Array, "c c"], Float[Array, "c c"], Array]:
    """(F, H, root of S, ok): F = CCᵀ, S = I + CᵀK_gC and H = S^{-½}Cᵀ, so that (K_g + F⁻¹)⁻¹ = HᵀH."""
    d = p.scale * namespace(at).exp(at.log_noise)
    information = 0.5 * d[:, None] * d * at.precision**2
    c = factorize(information, p.mask)
    inner = factorize(np.eye(len(d)) + c.root.T @ p.k_g @ c.root)
    return information, solve_lower(inner.root, c.root.T), inner.root, c.ok & inner.ok


def infer(f: GPPrior, g: GPPrior, rows: Rows, tolerance: float = TOLERANCE) -> Found:
    """The mode of J by Fisher scoring with step halving, from g = m_g."""
    p = problem(f, g, rows)
    xp = namespace(p)
    State = tuple[Array, Pieces, Array, Array]

    def scoring(at: Pieces) -> Array:
        """a⁺ = b - HᵀH K_g b with b = F(g - m_g) + ∇."""
        information, half, _, _ = curvature(p, at)
        b = information @ (at.log_noise - p.mean_g) + at.slope
        return b - half.T @ (half @ (p.k_g @ b))

    def unfinished(state: State) -> Array:
        _, _, change, step = state
        return (change > tolerance) & (step < MAX_STEPS)

    def climb(state: State) -> State:
        weights, at, _, step = state
        direction = scoring(at) - weights
        least = at.value - 1e-12 * (1 + xp.abs(at.value))

        def too_far(trial: tuple[Array, Array, Pieces]) -> Array:
            _, halvings, there = trial
            return (~there.ok | (there.value < least)) & (halvings < HALVINGS)

        def shorten(trial: tuple[Array, Array, Pieces]) -> tuple[Array, Array, Pieces]:
            length, halvings, _ = trial
            return length / 2, halvings + 1, pieces(p, weights + length / 2 * direction)

        first = (xp.ones(()), xp.asarray(0), pieces(p, weights + direction))
        length, _, there = while_loop(too_far, shorten, first)
        better = there.ok & (there.value >= least)
        kept = jax.tree.map(lambda new, old: xp.where(better, new, old), there, at)
        change = xp.where(better, xp.max(xp.abs(there.log_noise - at.log_noise)), 0.0)
        return xp.where(better, weights + length * direction, weights), kept, change, step + 1

    start = xp.zeros(len(p.scale))
    first = (start, pieces(p, start), xp.asarray(np.inf), xp.asarray(0))
    weights, at, change, _ = while_loop(unfinished, climb, first)
    _, half, _, ok = curvature(p, at)
    return Found(at.log_noise, Noises(weights, half), change, at.ok & ok)


def laplace_evidence(f: GPPrior, g: GPPrior, rows: Rows, near: "Near | None" = None) -> Float[Array, ""]:
    """log N(y | m, A) - ½aᵀK_g a - ½ log|I + K_g F| at the mode, found here where it is not given; traceable.

    The mode moves with the hyperparameters, a = ∇(m_g + K_g a): one Newton step of that equation from the mode,
    with its matrix held, has the mode's value and derivative.
    """
    mode, newton = jax.tree.map(held, near_mode(*jax.tree.map(held, (f, g, rows))) if near is None else near)
    p = problem(f, g, rows)
    at = pieces(p, mode + newton @ (pieces(p, mode).slope - mode))
    _, _, root, ok = curvature(p, at)
    value = at.value - 0.5 * log_determinant(root) - 0.5 * rows.real.sum() * np.log(2 * np.pi)
    return namespace(value).where(ok & at.ok, value, -np.inf)


class Near(NamedTuple):
    """The mode but for a step of Newton's, and the matrix of that step."""

    mode: Float[Array, " c"]
    newton: Float[Array, "c c"]


def near_mode(f: GPPrior, g: GPPrior, rows: Rows) -> Near:
    """Where `laplace_evidence` begins."""
    mode = infer(f, g, rows, NEAR).noises.weights
    return Near(mode, _implicit(problem(f, g, rows), mode))


class AtMode(Objective):
    """Laplace's log p(y | X) + log p(θ); its slope is compiled, the mode is not: a climb for each look."""

    def value_and_grad(self, vector: np.ndarray) -> tuple[float, np.ndarray]:
        """The objective and its gradient."""
        at = params.from_vector(self.belief, self.slots, vector)
        with blas_threads(self.statistics.n):
            mode, newton = near_mode(at.function.prior, at.log_noise.prior, self.statistics)
        padded = self.statistics.padded()
        more = len(padded.x) - len(mode)
        near = Near(np.pad(mode, (0, more)), np.pad(newton, (0, more)))
        return Objective(self.belief, self.slots, (padded, near), self.priors, _score).value_and_grad(vector)


def _score(belief: HeteroscedasticGP, statistics: tuple[Rows, Near]) -> Float[Array, ""]:
    return laplace_evidence(belief.function.prior, belief.log_noise.prior, *statistics)


def _implicit(p: Problem, mode: Float[Array, " c"]) -> Float[Array, "c c"]:
    """(I + W K_g)⁻¹ = I - WL(I + LᵀWL)⁻¹Lᵀ with K_g = LLᵀ and W = -∂∇/∂g = dᵢdⱼ(αᵢαⱼBᵢⱼ - ½Bᵢⱼ²) - diag(∇)."""
    at = pieces(p, mode)
    d = p.scale * namespace(at).exp(at.log_noise)
    w = d[:, None] * d * (at.alpha[:, None] * at.alpha * at.precision - 0.5 * at.precision**2)
    w = plus_diagonal(w, -at.slope)
    root = masked(p.mask, factorize(p.k_g, p.mask).root)
    inner = factorize(np.eye(len(d)) + root.T @ w @ root)
    return np.eye(len(d)) - w @ root @ solve(inner.root, root.T)
