"""The regression of the log-odds of several classes, see `latent_classes`: what is closed form of it.

With A = K + s²₀I, P = A⁻¹ and δ = s²₀ - s²₁ the covariance of class c is A less δ on the diagonal of its rows, and

    A_c⁻¹ = P + W_cW_cᵀ,   W = PL⁻ᵀ,   LLᵀ = I/δ - P ∘ 1[yᵢ = yⱼ],   W_c the columns of the rows of c

by Woodbury's identity: three factorizations however many classes there are.
"""

from typing import NamedTuple

from jaxtyping import Float

from credo.core.arrays import Array, namespace
from credo.core.linalg import demand, factorize, inverse, log_determinant, plus_diagonal, solve_lower
from credo.core.predictive import Categorical
from credo.core.predictive.classes import entropy_of
from credo.models.glm.predictions import ROWS, SOBOL, class_nodes
from credo.models.gp.exact import NOT_DEFINITE


class Solved(NamedTuple):
    """The factors of A and of I/δ - P ∘ 1[yᵢ = yⱼ], and what follows."""

    root: Float[Array, "n n"]
    inverse: Float[Array, "n n"]
    """P."""
    more: Float[Array, "n n"]
    """W."""
    alpha: Float[Array, "n k"]
    log_determinants: Float[Array, ""]
    """Σ_c log |A_c|."""


def solve_classes(
    k: Float[Array, "n n"], residual: Float[Array, "n k"], noise: tuple[Array, Array], y: Array, mine: Array
) -> Solved:
    """A_c⁻¹r_c of every class."""
    (other, own), xp = noise, namespace(k, residual)
    n, classes = residual.shape
    first = factorize(plus_diagonal(k, xp.broadcast_to(other, n)))
    p = inverse(demand(first.root, first.ok, NOT_DEFINITE))
    delta = other - own
    second = factorize(plus_diagonal(-p * (y[:, None] == y), xp.broadcast_to(1 / delta, n)))
    more = solve_lower(demand(second.root, second.ok, NOT_DEFINITE), p).T
    alpha = p @ residual + more @ ((more.T @ residual) * mine)
    volume = classes * log_determinant(first.root) + n * xp.log(delta) + log_determinant(second.root)
    return Solved(first.root, p, more, alpha, volume)


def left_out(z: Array, alpha: Array, precision: Array, noise: Array) -> tuple[Array, Array]:
    """Mean and variance of every function at each row, from the other rows; Rasmussen & Williams (2006), eq. 5.12."""
    return z - alpha / precision, namespace(z, alpha).maximum(1 / precision - noise, 1e-12)


def averaged_softmax(mean: Float[Array, "m k"], variance: Float[Array, "m k"]) -> Categorical:
    """E[softmax(f)] for independent normal f, and the expected entropy.

    A row's likeliest class takes the last coordinate of the nodes, whichever class it is: names do not matter.
    """
    xp = namespace(mean, variance)
    weights, nodes = class_nodes(SOBOL, mean.shape[-1])
    parts = []
    for i in range(0, len(mean), ROWS):
        m, std = mean[i : i + ROWS], xp.sqrt(variance[i : i + ROWS])
        rank = m.argsort(-1).argsort(-1)
        probs = softmax(m[:, None] + std[:, None] * xp.asarray(nodes)[:, rank].swapaxes(0, 1))
        parts.append((xp.einsum("s,msk->mk", weights, probs), entropy_of(probs) @ weights))
    probs, aleatoric = (xp.concatenate(each) for each in zip(*parts, strict=True))
    return Categorical(probs, xp.minimum(aleatoric, entropy_of(probs)))


def softmax(eta: Float[Array, "*n k"]) -> Float[Array, "*n k"]:
    """e^η of each class over their sum."""
    shares = namespace(eta).exp(eta - eta.max(-1, keepdims=True))
    return shares / shares.sum(-1, keepdims=True)
