"""The law of all states together: one normal law with a banded precision, Λ = -∂² log p(x, z)/∂z∂zᵀ.

    Λ = LLᵀ (LAPACK's band Cholesky),    mean = Λ⁻¹η,    zₜ = Jₜzₜ₊₁ + Lₜₜ⁻ᵀεₜ,    Pₜ = Lₜₜ⁻ᵀLₜₜ⁻¹ + JₜPₜ₊₁Jₜᵀ

It takes a precision where the filter takes a covariance, so that further quadratic terms in a state are simply added:
what variational Bayes needs, where not to know a matrix is such a term. A few microseconds a row, nothing compiled.
Noise and start must have an inverse. Asif & Moura (2005), "Block matrices with L-block-banded inverse"; Rue & Held
(2005), section 2.4.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float
from scipy.linalg import cho_solve_banded, cholesky_banded

from credo.core.special import LOG_2PI
from credo.models.lds.kalman import StateLaw, SystemMatrices, first_mean
from credo.models.lds.score import masked_inverse
from credo.models.sequences import Sequences, begins_of

Table = Float[np.ndarray, "t n"]
Blocks = Float[np.ndarray, "t n n"]


class Quadratic(NamedTuple):
    """-½ wᵀKw for w = (z, k): K, the known k of each row, and the rows that have this term."""

    matrix: Float[np.ndarray, "m m"]
    known: Float[np.ndarray, "t c"]
    rows: Bool[np.ndarray, " t"]


class StateChain(NamedTuple):
    """p(z₁…z_T | x): means, covariances, Cov(zₜ₊₁, zₜ); and the log of what p(x, z) integrates to."""

    mean: Table
    covariance: Blocks
    pairs: Float[np.ndarray, "t-1 n n"]
    log_z: float


class Terms(NamedTuple):
    """-½ zᵀΛz + ηᵀz + constant, Λ by its blocks on and below the diagonal."""

    diagonal: Blocks
    below: Float[np.ndarray, "t-1 n n"]
    linear: Table
    constant: float


def state_chain(start: StateLaw, system: SystemMatrices, data: Sequences, more: tuple[Quadratic, ...]) -> StateChain:
    """The law of the states of all sequences, with further terms of log p(x, z)."""
    return _solved(_terms(start, system, data, more))


def _terms(start: StateLaw, system: SystemMatrices, data: Sequences, more: tuple[Quadratic, ...]) -> Terms:
    (t, p), n = data.x.shape, len(start.mean)
    f, q, h, r, drift, offset, _ = (np.asarray(a) for a in system)
    fresh = np.asarray(begins_of(data.first))
    follows, rows = ~fresh[1:], data.seen.any(axis=1)
    diagonal, linear = np.zeros((t, n, n)), np.zeros((t, n))
    # The start of each sequence.
    first, weight = np.broadcast_to(first_mean(start, system), (t, n))[fresh], np.linalg.inv(start.covariance)
    diagonal[fresh] += weight
    linear[fresh] += first @ weight
    constant = -0.5 * np.einsum("ti,ij,tj->", first, weight, first) + 0.5 * fresh.sum() * _log_density(weight)
    # From each state to the next.
    weight, level = np.linalg.inv(q), np.broadcast_to(drift, (t, n))[1:] * follows[:, None]
    diagonal[1:][follows] += weight
    diagonal[:-1][follows] += f.T @ weight @ f
    linear[1:] += level @ weight
    linear[:-1] -= level @ weight @ f
    constant += -0.5 * np.einsum("ti,ij,tj->", level, weight, level) + 0.5 * follows.sum() * _log_density(weight)
    # What the states show.
    rest = np.where(data.seen, data.x - offset, 0.0)
    if data.complete:
        weight = np.linalg.inv(r)
        diagonal[rows] += h.T @ weight @ h
        seen, density = rest @ weight, rows.sum() * _log_density(weight)
    else:
        weights = np.asarray(masked_inverse(r, data.seen))
        diagonal += h.T @ weights @ h
        seen = np.einsum("tij,tj->ti", weights, rest)
        gap = np.eye(p) * ~data.seen[:, None, :]
        density = np.linalg.slogdet(weights + gap)[1].sum() - data.seen.sum() * LOG_2PI
    linear += seen @ h
    constant += 0.5 * density - 0.5 * (seen * rest).sum()
    for each in more:
        k, known = each.matrix, each.known[each.rows]
        diagonal[each.rows] += k[:n, :n]
        linear[each.rows] -= known @ k[n:, :n]
        constant -= 0.5 * np.einsum("ti,ij,tj->", known, k[n:, n:], known)
    return Terms(diagonal, -np.linalg.inv(q) @ f * follows[:, None, None], linear, float(constant))


def _log_density(weight: Float[np.ndarray, "n n"]) -> float:
    """log|Λ| - n log 2π."""
    return float(np.linalg.slogdet(weight)[1]) - len(weight) * LOG_2PI


def _solved(terms: Terms) -> StateChain:
    t, n = terms.linear.shape
    band = np.zeros((2 * n, t, n))
    i, j = (a.ravel() for a in np.indices((n, n)))
    band[n + i - j, :-1, j] = terms.below[:, i, j].T
    low = i >= j
    band[(i - j)[low], :, j[low]] = terms.diagonal[:, i[low], j[low]].T
    root = cholesky_banded(band.reshape(2 * n, t * n), lower=True, check_finite=False)
    mean = cho_solve_banded((root, True), terms.linear.ravel(), check_finite=False).reshape(t, n)
    log_z = terms.constant + 0.5 * (terms.linear * mean).sum() - np.log(root[0]).sum() + 0.5 * t * n * LOG_2PI
    blocks = root.reshape(2 * n, t, n)
    own, next_ = np.zeros((t, n, n)), np.empty((t - 1, n, n))
    own[:, i[low], j[low]] = blocks[(i - j)[low], :, j[low]].T
    next_[:, i, j] = blocks[n + i - j, :-1, j].T
    inverse = np.linalg.inv(own)
    turned = inverse.swapaxes(1, 2)
    back, alone = -turned[:-1] @ next_.swapaxes(1, 2), turned @ inverse
    covariance, now = np.empty((t, n, n)), alone[-1]
    covariance[-1] = now
    for s in range(t - 2, -1, -1):
        covariance[s] = now = alone[s] + back[s] @ now @ back[s].T
    pairs = covariance[1:] @ back.swapaxes(1, 2)
    return StateChain(mean, 0.5 * (covariance + covariance.swapaxes(1, 2)), pairs, float(log_z))
