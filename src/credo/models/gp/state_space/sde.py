"""A kernel of time as the covariance of a linear stochastic differential equation.

A stationary process with a rational spectrum is one output f = H z of a state with a linear law, which from one time to
the next, Δ later, is

    z' = F(Δ) z + q,   q ~ N(0, Q(Δ)),   Q(Δ) = P∞ - F(Δ) P∞ F(Δ)ᵀ,   k(Δ) = H F(Δ) P∞ Hᵀ

so that a time needs to know the one before it only. States of sums stand side by side, states of products multiply
(Kronecker). F and P∞ are block-diagonal, and only the blocks are kept: k blocks of size s × s, a `Stack`.

What never changes (a constant, a wave, a periodic shape, a trend) needs no state: it is φ(t)ᵀc with c ~ N(0, I).

Hartikainen & Särkkä (2010), "Kalman filtering and smoothing solutions to temporal Gaussian process regression models";
Solin & Särkkä (2014), "Explicit link between periodic covariance functions and state space models".
"""

import math
from collections.abc import Callable
from functools import reduce
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from credo.core.arrays import Array
from credo.core.errors import DataError
from credo.core.linalg import factorize
from credo.kernels import Kernel
from credo.kernels.dotproduct import Linear
from credo.kernels.elementary import Constant, FromFeatures, White
from credo.kernels.expression import Term, placed, terms_of
from credo.kernels.periodic import CenteredPeriodic, Cosine, LocallyPeriodic, Periodic
from credo.kernels.stationary import Exponential, Matern32, Matern52, Stationary, root
from credo.models.gp.state_space.waves import HARMONICS, harmonics_of, one_value, waves_of

Stack = Float[Array, "_ _ _"]
"""k blocks of size s × s; stacks of different sizes meet in one call, so the names of their axes are left out."""

APART = 1e150
"""A gap after which nothing is remembered: before the first time, and between times that are padding."""

LONGEST = 1e3
"""Gaps are cut here, in units of 1/λ: e^-1000 is zero, and zero times infinity is not."""

WAVES = (Cosine, Periodic)

MATERN52 = np.array([[1.0, 0.0, -1.0 / 3.0], [0.0, 1.0 / 3.0, 0.0], [-1.0 / 3.0, 0.0, 1.0]])


class Moving(NamedTuple):
    """A state: k independent blocks of size s, the sum of whose outputs is the process."""

    row: Float[Array, "k s"]
    """H."""
    stationary: Stack
    """P∞."""
    transition: Callable[[Float[Array, ""]], Stack]
    """F(Δ)."""


Features = Callable[[Float[Array, "n 1"], Float[Array, ""]], Float[Array, "n p"]]
"""φ of times, and of an origin from which phases are counted: far from zero, as in dates, they lose digits."""


class Part(NamedTuple):
    """One term of a sum of kernels: where its states and its features are."""

    states: tuple[Any, Any]
    features: tuple[Any, Any]


class SDE(NamedTuple):
    """The state of a kernel, and its features: f(t) = H z(t) + φ(t)ᵀc."""

    row: Float[Array, " d"]
    stationary: Float[Array, "d d"]
    blocks: tuple[Callable[[Float[Array, ""]], Stack], ...]
    columns: tuple[Features, ...]
    parts: tuple[Part, ...]
    """Of the terms of the kernel, in order."""

    def transition(self, gap: Float[Array, ""]) -> tuple[Stack, ...]:
        """F(Δ), its blocks."""
        return tuple(block(gap) for block in self.blocks)

    def features(self, x: Float[Array, "n 1"], origin: Float[Array, ""]) -> Float[Array, "n p"]:
        """The rows φ(xᵢ)."""
        return jnp.concatenate([jnp.zeros((x.shape[0], 0)), *(of(x, origin) for of in self.columns)], axis=1)


def apply(stacks: tuple[Stack, ...], x: Float[Array, "d c"]) -> Float[Array, "d c"]:
    """F x, as sums of products: inside a recursion small matrix products cost more than they compute."""
    out, start = [], 0
    for stack in stacks:
        k, s, _ = stack.shape
        own = x[start : start + k * s].reshape(k, s, -1)
        moved = stack @ own if s > 6 else (stack[:, :, :, None] * own[:, None, :, :]).sum(2)
        out.append(moved.reshape(k * s, -1))
        start += k * s
    return jnp.concatenate(out)


def transpose(stacks: tuple[Stack, ...]) -> tuple[Stack, ...]:
    """Fᵀ."""
    return tuple(stack.mT for stack in stacks)


def sandwich(stacks: tuple[Stack, ...], x: Float[Array, "d d"]) -> Float[Array, "d d"]:
    """F x Fᵀ of a symmetric x."""
    return apply(stacks, apply(stacks, x).T)


def sde_of(kernel: Kernel, harmonics: int) -> SDE:
    """The kernel as a state and features; periodic kernels as so many waves.

    Raises `DataError` where a part of the kernel has no such form.
    """
    moving: list[Moving] = []
    features: list[Features] = []
    parts: list[Part] = []
    states = columns = 0
    for term in kernel.terms:
        first = (states, columns)
        for amplitude, factors in _terms(term):
            if all(isinstance(f, FIXED) for f in factors):
                feature, count = _fixed(amplitude, factors, harmonics)
                features.append(feature)
                columns += count
            else:
                state = _moving(amplitude, factors, harmonics)
                moving.append(state)
                states += state.row.size
        parts.append(Part((first[0], states), (first[1], columns)))
    if not moving:  # a state that is always zero
        moving.append(Moving(jnp.zeros((1, 1)), jnp.zeros((1, 1, 1)), lambda gap: jnp.zeros((1, 1, 1))))
    blocks = [block for state in moving for block in state.stationary]
    return SDE(
        row=jnp.concatenate([state.row.ravel() for state in moving]),
        stationary=jax.scipy.linalg.block_diag(*blocks),
        blocks=tuple(state.transition for state in moving),
        columns=tuple(features),
        parts=tuple(parts),
    )


def _terms(kernel: Kernel) -> list[Term]:
    """The kernel as a sum of products, of the one column that there is."""
    terms = terms_of(kernel, powers=True)
    return [Term(a, tuple(placed(k)[0] if placed(k)[1] == (0,) else k for k in factors)) for a, factors in terms]


def parts_of(kernel: Kernel, harmonics: int) -> tuple[Part, ...]:
    """Where the terms of the kernel are; computes nothing, and refuses what `sde_of` refuses."""
    found: list[Part] = []
    eqx.filter_eval_shape(lambda k: found.extend(sde_of(k, harmonics).parts), kernel)
    return tuple(found)


# -- states ------------------------------------------------------------------------------------------------------


def _moving(amplitude: Float[Array, ""], factors: tuple[Kernel, ...], harmonics: int) -> Moving:
    state = reduce(_kronecker, [_state(factor, harmonics) for factor in factors])
    return state._replace(stationary=amplitude * state.stationary)


def _kronecker(a: Moving, b: Moving) -> Moving:
    """The state of a product."""

    def both(p: Stack, q: Stack) -> Stack:
        size = (p.shape[0] * q.shape[0], p.shape[1] * q.shape[1])
        return jnp.einsum("iac,jbd->ijabcd", p, q).reshape(size[0], size[1], size[1])

    row = jnp.einsum("ia,jb->ijab", a.row, b.row).reshape(a.row.shape[0] * b.row.shape[0], -1)
    return Moving(row, both(a.stationary, b.stationary), lambda gap: both(a.transition(gap), b.transition(gap)))


def _state(kernel: Kernel, harmonics: int) -> Moving:
    """The state of an elementary kernel; those of derivatives are in units of λ, so that all are of one size."""
    if isinstance(kernel, Constant | White):
        forgets = isinstance(kernel, White)
        one = jnp.ones((1, 1, 1))
        return Moving(one[0], kernel.number("variance") * one, lambda gap: jnp.where(forgets & (gap != 0.0), 0.0, one))
    if isinstance(kernel, WAVES) and not isinstance(kernel, LocallyPeriodic):
        weights, rates = waves_of(kernel, harmonics)
        row = jnp.tile(jnp.array([1.0, 0.0]), (len(weights), 1))
        return Moving(row, weights[:, None, None] * jnp.eye(2), lambda gap: _rotation(rates * gap))
    if isinstance(kernel, Exponential | Matern32 | Matern52):
        return _matern(kernel)
    raise DataError(_refusal(kernel))


def _matern(kernel: Stationary) -> Moving:
    shape, nu2, profile = {
        Exponential: (np.ones((1, 1)), 1.0, _transition12),
        Matern32: (np.eye(2), 3.0, _transition32),
        Matern52: (MATERN52, 5.0, _transition52),
    }[type(kernel)]
    length = one_value(kernel, "lengthscale")
    inverse = 1.0 / length if kernel.projection is None else jnp.sqrt(length**-2 + jnp.square(kernel.projection).sum())
    rate = math.sqrt(nu2) * inverse
    row = jnp.zeros((1, len(shape))).at[0, 0].set(1.0)
    return Moving(row, (kernel.amplitude() * shape)[None], lambda gap: profile(jnp.minimum(rate * gap, LONGEST))[None])


def _transition12(u: Float[Array, ""]) -> Float[Array, "1 1"]:
    return jnp.exp(-u).reshape(1, 1)


def _transition32(u: Float[Array, ""]) -> Float[Array, "2 2"]:
    """e^{-u}(I + uN), with N the nilpotent part of the drift."""
    return jnp.exp(-u) * jnp.stack([1.0 + u, u, -u, 1.0 - u]).reshape(2, 2)


def _transition52(u: Float[Array, ""]) -> Float[Array, "3 3"]:
    """e^{-u}(I + uN + u²N²/2)."""
    h = 0.5 * u * u
    rows = [1.0 + u + h, u + 2.0 * h, h, -h, 1.0 + u - 2.0 * h, u - h, h - u, 2.0 * h - 3.0 * u, 1.0 - 2.0 * u + h]
    return jnp.exp(-u) * jnp.stack(rows).reshape(3, 3)


def _rotation(angle: Float[Array, " k"]) -> Float[Array, "k 2 2"]:
    cos, sin = jnp.cos(angle), jnp.sin(angle)
    return jnp.stack([cos, -sin, sin, cos], axis=-1).reshape(-1, 2, 2)


# -- features ----------------------------------------------------------------------------------------------------

FIXED = (Constant, Cosine, Periodic, Linear, FromFeatures)
"""Kernels of finite rank: functions that do not wander."""


def _fixed(amplitude: Float[Array, ""], factors: tuple[Kernel, ...], harmonics: int) -> tuple[Features, int]:
    """Features whose weights have variance one, and how many they are."""
    each = [_features(factor, harmonics) for factor in factors]

    def product(x: Float[Array, "n 1"], origin: Float[Array, ""]) -> Float[Array, "n p"]:
        columns = [of(x, origin) for of in each]
        together = reduce(lambda a, b: (a[:, :, None] * b[:, None, :]).reshape(x.shape[0], -1), columns)
        return root(amplitude) * together

    count = jax.eval_shape(product, jnp.zeros((1, 1)), jnp.zeros(())).shape[1]
    return product, count


def _features(kernel: Kernel, harmonics: int) -> Features:
    if isinstance(kernel, Constant):
        return lambda x, origin: root(kernel.number("variance")) * jnp.ones((x.shape[0], 1))
    if isinstance(kernel, Linear):
        return lambda x, origin: root(kernel.amplitude()) * kernel.embed(x)
    if isinstance(kernel, FromFeatures):
        return lambda x, origin: _weighted(kernel.features(x), kernel.covariance)
    if isinstance(kernel, LocallyPeriodic) or not isinstance(kernel, WAVES):
        raise DataError(_refusal(kernel))
    weights, rates = waves_of(kernel, harmonics)
    skip = 1 if isinstance(kernel, Periodic) else 0  # the sine of the constant

    def waves(x: Float[Array, "n 1"], origin: Float[Array, ""]) -> Float[Array, "n p"]:
        angle = (x - origin) * rates
        return jnp.concatenate([root(weights) * jnp.cos(angle), (root(weights) * jnp.sin(angle))[:, skip:]], axis=1)

    return waves


def _weighted(phi: Float[Array, "n p"], covariance: Array) -> Float[Array, "n p"]:
    """φᵀ S^{1/2}; not a number where S is not positive definite, which `condition` notices."""
    if covariance.ndim < 2:
        return phi * root(covariance)
    factor = factorize(covariance)
    return phi @ jnp.where(factor.ok, factor.root, jnp.nan)


def harmonics_for(kernel: Kernel, negligible: float) -> int:
    """How many waves the periodic parts of a kernel need, so that the others have less than a share `negligible`.

    Raises `DataError` where there are too many.
    """
    needed = [
        harmonics_of(float(one_value(factor, "lengthscale")), negligible, isinstance(factor, CenteredPeriodic))
        for factor in periodic_in(kernel)
    ]
    return max([HARMONICS[0], *needed])


def periodic_in(kernel: Kernel) -> list[Periodic]:
    """The periodic kernels that it is made of."""
    return [factor for _, factors in _terms(kernel) for factor in factors if isinstance(factor, Periodic)]


def _refusal(kernel: Kernel) -> str:
    remedy = {
        "RBF": "Matern52 is the smoothest that has one",
        "RationalQuadratic": "a sum of Matern52 of different lengthscales comes close",
        "Matern": "use Matern12, Matern32 or Matern52",
        "LocallyPeriodic": "use Periodic() * Matern32()",
        "OnColumns": "it is for functions of one input",
        "Linear": "times a kernel whose function wanders; alone or times a periodic one it has",
        "FromFeatures": "times a kernel whose function wanders; alone it has",
    }.get(type(kernel).__name__)
    found = type(kernel).__name__ + (f" ({remedy})" if remedy else "")
    return (
        f"StateSpace has no exact form for {found}; it takes sums "
        "and products of Matern12, Matern32, Matern52, Periodic, Cosine, Constant and White, and Linear trends. "
        "For any other kernel condition exactly (without using=)"
    )
