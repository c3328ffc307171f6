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

import warnings
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from credo.core.arrays import is_traced
from credo.core.belief import Belief
from credo.core.errors import DataError, NotConvergedWarning
from credo.core.linalg import demand, factorize, gaussian_log_evidence, inverse, log_determinant, solve, solve_lower
from credo.core.padding import by_bucket
from credo.core.predictive import Normal, Predictive
from credo.infer.learning import Evidence
from credo.kernels import RBF
from credo.models.gp import exact
from credo.models.gp.belief import GP
from credo.models.gp.data import Rows, read
from credo.models.gp.exact import Prior, Solved
from credo.models.gp.hyperpriors import NOISE, TYPICAL_NOISE, kernel_priors, scales_of
from credo.models.noise import KnownNoise

MAX_STEPS = 100
HALVINGS = 30
TOLERANCE = 1e-10
LEVEL = 1.0
"""The variance of g around its mean with which learning starts: noise that varies by a factor e."""


class Noises(eqx.Module):
    """The posterior of g: mean m_g + k_g(·, X)a, variance k_g - |H k_g(X, ·)|²."""

    weights: Float[Array, " c"]
    half: Float[Array, "c c"]


class HeteroscedasticGP(Belief):
    """A Gaussian process with noise of a variance exp(g(x)), g a second Gaussian process.

    Args:
        function: the belief about f; None is `GP()`.
        log_noise: the belief about g, the log of the noise variance; None is `GP(RBF())`.

    The noise of the two, as GPs, plays no role: what is not f(x) is said by g.
    """

    function: GP
    log_noise: GP
    seen: Rows | None
    solved: Solved | None
    noises: Noises | None

    def __init__(self, function: GP | None = None, log_noise: GP | None = None):
        for gp in (function, log_noise):
            if gp is not None and (not isinstance(gp, GP) or gp.seen is not None):
                raise DataError("HeteroscedasticGP takes two GPs that have seen nothing, of f and of the log noise")
        self.function = _noiseless(GP() if function is None else function)
        self.log_noise = _noiseless(GP(RBF()) if log_noise is None else log_noise)
        self.seen, self.solved, self.noises = None, None, None

    # -- data ------------------------------------------------------------------------------------------------

    def statistics(self, *data: Any, weights: Any = None) -> Rows:
        """X and y, checked and padded; rows whose y is NaN are left out. A row of weight w has noise exp(g)/w."""
        columns = None if self.seen is None else self.seen.x.shape[1]
        return read(self.function.kernel, data, columns, weights, None)

    def prepare(self, *data: Any, weights: Any = None) -> tuple["HeteroscedasticGP", Rows]:
        """Starting values in the units of the data, and the rows: those seen before and the new ones."""
        if self.seen is not None:
            more = self.statistics(*data, weights=weights) if data else None
            return self.unconditioned(), self.seen if more is None else self.seen + more
        rows = self.statistics(*data, weights=weights)
        x = rows.cut()[0]
        scales, center = scales_of(self.function.kernel, rows)
        level = float(np.log(2 * TYPICAL_NOISE * scales.variance))
        f, g = self.function, self.log_noise
        ready = (
            f.kernel.adapt(scales),
            f.mean.adapt(x, scales, center),
            g.kernel.adapt(scales._replace(variance=LEVEL)),
            g.mean.adapt(x, scales._replace(variance=NOISE**2), level),
        )
        parts = lambda b: (b.function.kernel, b.function.mean, b.log_noise.kernel, b.log_noise.mean)  # noqa: E731
        return eqx.tree_at(parts, self, ready), rows

    def default_priors(self, statistics: Rows) -> dict[str, Any]:
        """Those of a GP for the kernel of f, and for that of g with the outcome's variance replaced by one."""
        scales, _ = scales_of(self.function.kernel, statistics)
        f = kernel_priors(self.function.kernel, scales)
        g = kernel_priors(self.log_noise.kernel, scales._replace(variance=LEVEL))
        return {f"function.kernel.{path}": prior for path, prior in f.items()} | {
            f"log_noise.kernel.{path}": prior for path, prior in g.items()
        }

    def learner(self, priors: dict[str, Any]) -> Any:
        """Two climbs of the Laplace evidence: each look at it is a climb of its own."""
        return Evidence(starts=2, tolerance=1e-4)

    # -- Bayes' rule -----------------------------------------------------------------------------------------

    def condition_on(self, statistics: Rows) -> "HeteroscedasticGP":
        """The approximate posterior after the rows, seen and new: the noise of all is judged again."""
        rows = statistics if self.seen is None else self.seen + statistics
        found = infer(self.function.prior, self.log_noise.prior, rows)
        solved, ok = exact.condition(self.function.prior, noisy(rows, found.log_noise))
        result = demand((solved, found.noises), ok & found.ok, exact.NOT_DEFINITE)
        if not is_traced(found.change) and float(found.change) > TOLERANCE:
            warnings.warn(
                f"the noise of the rows had not settled after {MAX_STEPS} steps (still moving by "
                f"{float(found.change):.1g}); the answer is usable, but look at the lengthscale of log_noise",
                NotConvergedWarning,
                stacklevel=3,
            )
        return eqx.tree_at(lambda b: (b.seen, b.solved, b.noises), self, (rows, *result), is_leaf=lambda v: v is None)

    def evidence_of(self, statistics: Rows) -> Float[Array, ""]:
        """Laplace's log p(y | X); after data, the difference of those with and without `statistics`."""
        f, g = self.function.prior, self.log_noise.prior
        if self.seen is None:
            return laplace_evidence(f, g, statistics)
        return laplace_evidence(f, g, self.seen + statistics) - laplace_evidence(f, g, self.seen)

    def unconditioned(self) -> "HeteroscedasticGP":
        """The prior that this belief came from."""
        return HeteroscedasticGP(self.function, self.log_noise)

    # -- predictions -----------------------------------------------------------------------------------------

    def predict(self, x: Any, *, joint: bool = False) -> Predictive:
        """p(y* | x*, data), Normal: E[exp g(x*)] is aleatoric, the function epistemic.

        Args:
            x: queries, shape (m, d).
            joint: also keep the m × m covariance of the function.
        """
        table = self._queries(x)
        now = (self.function.prior, self.seen, self.solved)  # of the rows, predictions read the inputs only
        mean, variance = exact.predict(*now, table)
        g = self.predict_log_noise(x)
        aleatoric = jnp.exp(g.mean + 0.5 * g.epistemic)
        queries = jnp.asarray(table)
        covariance = exact.joint(*now, queries, queries) if joint else None
        return Normal(mean, aleatoric, variance, covariance)

    def predict_log_noise(self, x: Any) -> Normal:
        """g(x*), the log of the noise variance, and how well it is known."""
        table, prior = self._queries(x), self.log_noise.prior
        if self.seen is None or self.noises is None:
            mean, variance = exact.predict(prior, None, None, table)
        else:
            mean, variance = by_bucket(_log_noise, table, prior, self.seen, self.noises)
        return Normal(mean, jnp.zeros_like(variance), variance)

    def _queries(self, x: Any) -> Any:
        return self.function.kernel.encode(x, "X", None if self.seen is None else self.seen.x.shape[1])

    def __repr__(self) -> str:
        seen = "nothing" if self.seen is None else f"{'?' if is_traced(self.seen) else self.seen.n} rows"
        return f"HeteroscedasticGP({self.function.kernel!r}, log noise {self.log_noise.kernel!r}, seen {seen})"


def _noiseless(gp: GP) -> GP:
    return eqx.tree_at(lambda b: b.noise, gp, KnownNoise(jnp.zeros(())), is_leaf=lambda v: isinstance(v, KnownNoise))


def noisy(rows: Rows, log_noise: Float[Array, " c"]) -> Rows:
    """The rows with noise variance exp(g)·scale."""
    return eqx.tree_at(lambda r: r.extra, rows, jnp.where(rows.mask, rows.scale * jnp.exp(log_noise), 0.0))


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

    weights: Float[Array, " c"]
    log_noise: Float[Array, " c"]
    noises: Noises
    change: Float[Array, ""]
    steps: Float[Array, ""]
    ok: Bool[Array, ""]


class Problem(NamedTuple):
    """K, y - m, K_g, m_g and the scale of each row's noise, zero on padding (K: rows of the identity)."""

    k: Float[Array, "c c"]
    residual: Float[Array, " c"]
    k_g: Float[Array, "c c"]
    mean_g: Float[Array, " c"]
    scale: Float[Array, " c"]
    mask: Bool[Array, " c"]


def problem(f: Prior, g: Prior, rows: Rows) -> Problem:
    """The matrices of J."""
    silent = eqx.tree_at(lambda r: (r.scale, r.extra), rows, (jnp.zeros_like(rows.scale),) * 2)
    both = rows.mask[:, None] & rows.mask[None, :]
    k_g = jnp.where(both, g.kernel.gram(rows.x, rows.x), 0.0)
    mean_g = jnp.where(rows.mask, g.mean(rows.x), 0.0)
    scale = jnp.where(rows.mask, rows.scale, 0.0)
    return Problem(exact.covariance(f, silent), exact.residual(f, rows), k_g, mean_g, scale, rows.mask)


def pieces(p: Problem, weights: Float[Array, " c"]) -> Pieces:
    """J and its gradient at g = m_g + K_g a."""
    log_noise = p.mean_g + p.k_g @ weights
    d = p.scale * jnp.exp(log_noise)
    a = factorize(p.k + jnp.diag(d), p.mask)
    b = jnp.where(p.mask[:, None] & p.mask[None, :], inverse(a.root), 0.0)
    alpha = b @ p.residual
    value = -0.5 * (p.residual @ alpha + log_determinant(a.root) + weights @ p.k_g @ weights)
    ok = a.ok & jnp.isfinite(value)
    return Pieces(log_noise, value, 0.5 * d * (alpha**2 - jnp.diagonal(b)), b, alpha, ok)


def curvature(p: Problem, at: Pieces) -> tuple[Float[Array, "c c"], Float[Array, "c c"], Float[Array, "c c"], Array]:
    """(F, H, root of S, ok): F = CCᵀ, S = I + CᵀK_gC and H = S^{-½}Cᵀ, so that (K_g + F⁻¹)⁻¹ = HᵀH."""
    d = p.scale * jnp.exp(at.log_noise)
    information = 0.5 * jnp.outer(d, d) * at.precision**2
    c = factorize(information, p.mask)
    inner = factorize(jnp.eye(len(d)) + c.root.T @ p.k_g @ c.root)
    return information, solve_lower(inner.root, c.root.T), inner.root, c.ok & inner.ok


@eqx.filter_jit
def infer(f: Prior, g: Prior, rows: Rows) -> Found:
    """The mode of J by Fisher scoring with step halving, from g = m_g."""
    p = problem(f, g, rows)
    State = tuple[Array, Pieces, Array, Array]

    def scoring(at: Pieces) -> Array:
        """a⁺ = b - HᵀH K_g b with b = F(g - m_g) + ∇."""
        information, half, _, _ = curvature(p, at)
        b = information @ (at.log_noise - p.mean_g) + at.slope
        return b - half.T @ (half @ (p.k_g @ b))

    def unfinished(state: State) -> Array:
        _, _, change, step = state
        return (change > TOLERANCE) & (step < MAX_STEPS)

    def climb(state: State) -> State:
        weights, at, _, step = state
        direction = scoring(at) - weights

        def too_far(trial: tuple[Array, Array, Pieces]) -> Array:
            _, halvings, there = trial
            worse = ~there.ok | (there.value < at.value - 1e-12 * (1 + jnp.abs(at.value)))
            return worse & (halvings < HALVINGS)

        def shorten(trial: tuple[Array, Array, Pieces]) -> tuple[Array, Array, Pieces]:
            length, halvings, _ = trial
            return length / 2, halvings + 1, pieces(p, weights + length / 2 * direction)

        first = (jnp.ones(()), jnp.asarray(0), pieces(p, weights + direction))
        length, _, there = jax.lax.while_loop(too_far, shorten, first)
        better = there.ok & (there.value >= at.value - 1e-12 * (1 + jnp.abs(at.value)))
        kept = jax.tree.map(lambda new, old: jnp.where(better, new, old), there, at)
        change = jnp.where(better, jnp.max(jnp.abs(there.log_noise - at.log_noise)), 0.0)
        return jnp.where(better, weights + length * direction, weights), kept, change, step + 1

    start = jnp.zeros(rows.capacity)
    first = (start, pieces(p, start), jnp.asarray(jnp.inf), jnp.asarray(0.0))
    weights, at, change, steps = jax.lax.while_loop(unfinished, climb, first)
    _, half, _, ok = curvature(p, at)
    return Found(weights, at.log_noise, Noises(weights, half), change, steps, at.ok & ok)


def laplace_evidence(f: Prior, g: Prior, rows: Rows) -> Float[Array, ""]:
    """log N(y | m, A) - ½aᵀK_g a - ½ log|I + K_g F| at the mode; traceable.

    The mode moves with the hyperparameters, a = ∇(m_g + K_g a): one Newton step of that equation from the mode,
    with its matrix held, has the mode's value and derivative.
    """
    held = jax.tree.map(lambda v: jax.lax.stop_gradient(v) if eqx.is_inexact_array(v) else v, (f, g, rows))
    mode = jax.lax.stop_gradient(infer(*held).weights)
    p = problem(f, g, rows)
    step = jax.lax.stop_gradient(_implicit(problem(*held), mode))
    at_mode = pieces(p, mode)
    weights = mode + step @ (at_mode.slope - mode)
    log_noise = p.mean_g + p.k_g @ weights
    covariance = p.k + jnp.diag(p.scale * jnp.exp(log_noise))
    gaussian = gaussian_log_evidence(covariance, p.residual, p.mask)
    _, _, root, ok = curvature(p, pieces(p, weights))
    value = gaussian - 0.5 * weights @ p.k_g @ weights - 0.5 * log_determinant(root)
    return jnp.where(ok, value, -jnp.inf)


def _implicit(p: Problem, mode: Float[Array, " c"]) -> Float[Array, "c c"]:
    """(I + W K_g)⁻¹ = I - WL(I + LᵀWL)⁻¹Lᵀ with K_g = LLᵀ and W = -∂∇/∂g = dᵢdⱼ(αᵢαⱼBᵢⱼ - ½Bᵢⱼ²) - diag(∇)."""
    at = pieces(p, mode)
    d = p.scale * jnp.exp(at.log_noise)
    exact = jnp.outer(d, d) * (jnp.outer(at.alpha, at.alpha) * at.precision - 0.5 * at.precision**2)
    w = exact - jnp.diag(at.slope)
    root = jnp.where(p.mask[:, None], factorize(p.k_g, p.mask).root, 0.0)
    inner = factorize(jnp.eye(len(d)) + root.T @ w @ root)
    return jnp.eye(len(d)) - w @ root @ solve(inner.root, root.T)


@eqx.filter_jit
def _log_noise(
    x: Float[Array, "m d"], prior: Prior, seen: Rows, noises: Noises
) -> tuple[Float[Array, " m"], Float[Array, " m"]]:
    cross = jnp.where(seen.mask[:, None], prior.kernel.gram(seen.x, x), 0.0)
    variance = prior.kernel.diagonal(x) - jnp.square(noises.half @ cross).sum(0)
    return prior.mean(x) + cross.T @ noises.weights, jnp.maximum(variance, 0.0)
