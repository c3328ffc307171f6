"""Doubt about weights around one trained network: Laplace's approximation, and a last layer in closed form.

With J = ∂f/∂θ at the trained weights θ̂, Fisher's information W about the outputs, and the prior precision α,

    H = Σᵢ JᵢᵀWᵢJᵢ + αI,    θ | data ≈ N(θ̂, H⁻¹),    f(x) | data ≈ N(f(x; θ̂), J(x) H⁻¹ J(x)ᵀ)
    log p(data | α) ≈ log p(data | θ̂) - α/2 ‖θ̂‖² + ½ Σⱼ log α/(λⱼ + α),    λ the eigenvalues of H - αI

for all weights, or those of the last layer alone (Gauss-Newton curvature, and the linearized network in predictions:
Daxberger et al. 2021, "Laplace redux"; Immer, Korzepa & Bauer 2021). f₁ of numbers is linear in the weights of its last
layer: with the features φ(x) and the noise exp f₂(x) of the trained network as known, their posterior is normal, and
Bayes' rule on more rows exact (Harrison, Willes & Snoek 2024, "Variational Bayesian last layers").
"""

from typing import TYPE_CHECKING, NamedTuple

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Float, Int
from scipy import optimize

from credo.core.arrays import Array, host, is_traced, namespace
from credo.core.errors import DataError
from credo.core.linalg import factorize, solve_lower, solve_upper
from credo.core.padding import bucket, pad_rows
from credo.core.params import replace
from credo.core.pytrees import changed
from credo.models.neural.network import Architecture
from credo.models.neural.outcomes import Outcome

if TYPE_CHECKING:
    from credo.models.neural.belief import Neural, Rows

MOST_WEIGHTS = 4000
"""Of which the curvature is a matrix that fits."""
BLOCK = 512
"""Rows whose slopes are made at once."""
NODES = 7
"""Of Gauss and Hermite's rule, in each of one or two outputs."""
DRAWS = 200
"""Of more outputs, in pairs around their mean."""
LOG_RANGE = np.log([1e-6, 1e6])
"""Where prior precisions are sought."""
ROUNDS = 2
"""Trainings at the precision that was chosen."""


def places(network: Architecture, form: str) -> Int[np.ndarray, " q"]:
    """The weights that are in doubt: all, those of the last layer, or those of its first output."""
    if form == "full":
        if network.size > MOST_WEIGHTS:
            raise DataError(
                f"curvature='full' is for at most {MOST_WEIGHTS:,} weights, found {network.size:,}; use 'last-layer'"
            )
        return np.arange(network.size)
    return network.last(0 if form == "closed" else None)


@eqx.filter_jit
def _slopes(network: Architecture, theta: Array, x: Array, which: Array) -> tuple[Array, Array]:
    """f and ∂f/∂θ of the weights in question, of each row."""

    def outputs(weights: Array, row: Array) -> Array:
        return network(jax.numpy.asarray(theta).at[which].set(weights), row[None])[0]

    weights = jax.numpy.asarray(theta)[which]
    return (
        jax.vmap(outputs, (None, 0))(weights, x),
        jax.vmap(jax.jacrev(outputs), (None, 0))(weights, x),
    )


def slopes(
    network: Architecture, theta: Float[Array, " p"], x: Float[Array, "n d"], which: Int[np.ndarray, " q"]
) -> tuple[Float[Array, "n o"], Float[Array, "n o q"]]:
    """f(xᵢ) and its Jacobian by the weights in question, some rows at a time."""
    if is_traced(network, theta, x):
        return _slopes(network, theta, x, which)
    n, found = len(x), []
    for first in range(0, max(n, 1), BLOCK):
        rows = x[first : first + BLOCK]
        f, j = host(_slopes(network, theta, pad_rows(rows, bucket(len(rows))), which))
        found.append((f[: len(rows)], j[: len(rows)]))
    return np.concatenate([f for f, _ in found]), np.concatenate([j for _, j in found])


def curvature(
    network: Architecture, law: Outcome, theta: Array, x: Array, which: Int[np.ndarray, " q"]
) -> tuple[Float[Array, "n o"], Float[Array, "q q"]]:
    """f of the rows, and Σᵢ JᵢᵀWᵢJᵢ."""
    f, j = slopes(network, theta, x, which)
    weighted = law.information(f) @ j
    flat, q = j.reshape(-1, j.shape[-1]), j.shape[-1]
    return f, flat.T @ weighted.reshape(-1, q)


class Quadratic(NamedTuple):
    """The log likelihood of the weights in doubt, near what was found: Laplace's at w, or exactly c + rᵀw - ½wᵀAw."""

    height: Float[Array, ""]
    """log p(data | w), or c where r is given."""
    weights: Float[Array, " q"]
    curved: Float[Array, "q q"]
    """A."""
    right: Float[Array, " q"] | None = None
    """r."""

    def law(self, precision: Array) -> tuple[Float[Array, " q"], Float[Array, "q q"]]:
        """The mean, and the Cholesky factor of the precision matrix A + αI."""
        root = factorize(self.curved + precision * np.eye(len(self.weights))).root
        return (self.weights if self.right is None else solve_upper(root, solve_lower(root, self.right))), root

    def evidence(self, precision: float, spectrum: tuple[np.ndarray, np.ndarray] | None = None) -> float:
        """log p(data | α); `spectrum` are eigenvalues and vectors of A, made once for many α."""
        values, vectors = np.linalg.eigh(self.curved) if spectrum is None else spectrum
        shrunk = np.maximum(values, 0.0) + precision
        fit = -0.5 * precision * self.weights @ self.weights
        if self.right is not None:
            fit = 0.5 * np.sum((self.right @ vectors) ** 2 / shrunk)
        return float(self.height + fit + 0.5 * np.sum(np.log(precision) - np.log(shrunk)))

    def choose(self) -> tuple[float, float]:
        """argmax log p(data | α), and its height. MacKay (1992), "A practical Bayesian framework"."""
        spectrum = np.linalg.eigh(self.curved)
        found = optimize.minimize_scalar(
            lambda a: -self.evidence(float(np.exp(a)), spectrum), bounds=tuple(LOG_RANGE), method="bounded"
        )
        return float(np.exp(found.x)), -float(found.fun)


def quadratic(
    network: Architecture, law: Outcome, theta: Float[Array, " p"], x: Float[Array, "n d"], y: Array, form: str
) -> Quadratic:
    """The log likelihood of the weights that are in doubt."""
    which = places(network, form)
    if form != "closed":
        f, curved = curvature(network, law, theta, x, which)
        return Quadratic(law.log_prob(f, y).sum(), theta[which], curved)
    f, j = slopes(network, theta, x, which)
    features, precision = j[:, 0], law.information(f)[:, 0, 0]
    held = namespace(f).stack([0 * y, f[:, 1]], axis=-1)
    weighted = features.T * precision
    return Quadratic(law.log_prob(held, y).sum(), theta[which], weighted @ features, weighted @ y)


def around_one(belief: "Neural", rows: "Rows", choose: bool = False) -> tuple["Neural", float]:
    """The belief with one network and the normal law of its weights; with `choose` the evidence of its precision.

    Where it chooses, the network is trained again at the precision that was most probable.
    """
    alpha = value = float("nan")
    belief = belief.sized(belief.all_rows(rows).y.shape[0])
    network = belief.network(rows.x.shape[1])
    which = places(network, belief.form)
    for _ in range(ROUNDS if choose else 1):
        trained = belief.trained(rows, 1, belief.precision)
        seen, scaling, members = trained.seen, trained.scaling, trained.members
        assert members is not None and scaling is not None and seen is not None
        theta, (z, t) = members[0], scaling.rows(seen.x, seen.y)
        near = quadratic(network, belief.law, theta, z, t, belief.form)
        if choose:
            alpha, value = near.choose()
            belief, trained = (replace(each, {"precision": alpha}) for each in (belief, trained))
            value -= len(t) * float(np.log(np.abs(scaling.scale))) * belief.law.continuous
    mean, root = near.law(belief.precision)
    said = trained.doubts()
    if choose and not np.all(np.abs(np.log(alpha) - LOG_RANGE) > 0.1):
        said += (f"the prior precision of the weights ran to {alpha:.2g}, the end of where it is sought",)
    return changed(trained, members=_at(theta, which, mean)[None], root=root, said=said), value


def updated(belief: "Neural", rows: "Rows") -> "Neural":
    """Bayes' rule in the last layer, whose features stay: A + Σ wᵢφᵢφᵢᵀ and its mean, exactly."""
    assert belief.members is not None and belief.scaling is not None and belief.root is not None
    theta, root = belief.members[0], belief.root
    z, t = belief.scaling.rows(rows.x, rows.y)
    network = belief.network(z.shape[1])
    new, which = quadratic(network, belief.law, theta, z, t, belief.form), places(network, belief.form)
    assert new.right is not None
    before = root @ root.T
    after = Quadratic(new.height, new.weights, before + new.curved, before @ theta[which] + new.right)
    mean, root = after.law(np.asarray(0.0))
    return changed(belief, members=_at(theta, which, mean)[None], root=root, seen=belief.all_rows(rows))


def _at(theta: Float[Array, " p"], which: Int[np.ndarray, " q"], values: Float[Array, " q"]) -> Float[Array, " p"]:
    """θ with other values in some places."""
    if is_traced(theta, values):
        return jax.numpy.asarray(theta).at[which].set(values)
    out = np.array(theta)
    out[which] = values
    return out


def outputs_around(belief: "Neural", x: Float[Array, "m d"]) -> tuple[Float[Array, "m o"], Float[Array, "m o o"]]:
    """Mean and covariance of the outputs at rows as the network sees them."""
    f, half = _half(belief, x)
    return f, namespace(half).einsum("qmo,qmr->mor", half, half)


def _half(belief: "Neural", x: Float[Array, "m d"]) -> tuple[Float[Array, "m o"], Float[Array, "q m o"]]:
    """f, and L⁻¹Jᵀ with H = LLᵀ."""
    assert belief.members is not None and belief.root is not None
    network = belief.network(x.shape[1])
    f, j = slopes(network, belief.members[0], x, places(network, belief.form))
    m, o, q = j.shape
    return f, solve_lower(belief.root, j.reshape(m * o, q).T).reshape(q, m, o)


def drawn_outputs(belief: "Neural", x: Float[Array, "m d"], k: int, seed: int) -> Float[Array, "k m o"]:
    """f of k linearized networks drawn from the law of the weights, each the same for all rows."""
    f, half = _half(belief, x)
    z = np.random.default_rng(seed).standard_normal((-(-k // 2), len(half)))
    moved = namespace(half).tensordot(np.concatenate([z, -z])[:k], half, 1)
    return f + moved


def spread_points(
    mean: Float[Array, "m o"], covariance: Float[Array, "m o o"]
) -> tuple[Float[Array, " k"], Float[Array, "k m o"]]:
    """Weights and places that stand for N(mean, covariance) of each row: a quadrature, or draws of many outputs."""
    o, xp = mean.shape[-1], namespace(mean, covariance)
    if o <= 2:
        nodes, weights = np.polynomial.hermite_e.hermegauss(NODES)
        z = np.stack([g.ravel() for g in np.meshgrid(*[nodes] * o, indexing="ij")], axis=-1)
        shares = np.prod(np.stack([g.ravel() for g in np.meshgrid(*[weights] * o, indexing="ij")]), axis=0)
    else:
        z = np.random.default_rng(0).standard_normal((DRAWS // 2, o))
        z, shares = np.concatenate([z, -z]), np.ones(DRAWS)
    values, vectors = xp.linalg.eigh(covariance)
    root = vectors * xp.sqrt(xp.maximum(values, 0.0))[..., None, :]
    return shares / shares.sum(), mean + xp.einsum("mor,kr->kmo", root, z)
