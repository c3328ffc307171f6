"""`check_kernel`: what every kernel promises, for ours and for yours."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from credo.core import params
from credo.core.arrays import Array
from credo.core.errors import DataError
from credo.core.linalg import factorize
from credo.kernels.base import Kernel

N = 12


def check_kernel(kernel: Kernel, x: object = None, *, columns: int = 2, seed: int = 0, tolerance: float = 1e-8) -> None:
    """Raises `DataError`, saying which promise is broken and by how much, or returns.

    Checked on `x` (random rows with repetitions if it is not given): symmetry, positive semi-definiteness, the
    batched form and the diagonal against the two-point form, finite values, and finite gradients in the
    learnable numbers and (where they have any) in the inputs, at coincident points too.
    """
    rows = _random(columns, seed) if x is None else np.asarray(kernel.encode(x))
    name = kernel.formula()
    gram = np.asarray(kernel.between(rows, rows))
    if not np.all(np.isfinite(gram)):
        raise DataError(f"{name} gives values that are not finite; check it at repeated and at far-away inputs")
    size = max(float(np.abs(gram).max()), 1e-300)
    _compare(name, "is not symmetric", gram, gram.T, size, tolerance)
    whole, pairs, part, diagonal = (np.asarray(form) for form in _forms(kernel, rows))
    _compare(name, "differs between known numbers and traced ones", gram, whole, size, tolerance)
    _compare(name, "differs between gram(x, z) and of(x, z)", gram, pairs, size, tolerance)
    _compare(name, "differs between a block of gram(x, z) and the whole", part, gram[:3, 3:], size, tolerance)
    for own in (diagonal, kernel.variance_at(rows)):
        _compare(name, "differs between diagonal(x) and gram(x, x)", np.asarray(own), np.diag(gram), size, tolerance)
    smallest = float(np.linalg.eigvalsh(0.5 * (gram + gram.T))[0])
    if smallest < -tolerance * size * len(rows):
        raise DataError(
            f"{name} is not positive semi-definite: on {len(rows)} inputs its smallest eigenvalue is {smallest:.3g}; "
            "it is not a covariance: build it from kernels by sums and products, or repair the matrix"
        )
    # XLA fuses a kernel with what follows, and has been seen to get it wrong: a factorization follows most often.
    root = np.asarray(_compiled_root(kernel, rows, np.asarray(size)))
    _compare(
        name,
        "differs when it is compiled with a factorization",
        root @ root.T,
        gram + size * np.eye(len(rows)),
        size,
        10 * tolerance,
    )
    _check_gradients(kernel, rows, name)


@eqx.filter_jit
def _forms(kernel: Kernel, rows: Array) -> tuple[Array, ...]:
    """All pairs at once and one by one, a block, and the diagonal."""
    pairs = jax.vmap(lambda a: jax.vmap(lambda b: kernel.of(a, b))(rows))(rows)
    return kernel.gram(rows, rows), pairs, kernel.gram(rows[:3], rows[3:]), kernel.diagonal(rows)


@eqx.filter_jit
def _compiled_root(kernel: Kernel, rows: Array, ridge: Array) -> Array:
    return factorize(kernel.gram(rows, rows) + ridge * jnp.eye(len(rows))).root


def _random(columns: int, seed: int) -> np.ndarray:
    rows = np.random.default_rng(seed).normal(size=(N, columns))
    return np.concatenate([rows, rows[:2], np.zeros((1, columns))])


def _compare(name: str, what: str, a: np.ndarray, b: np.ndarray, size: float, tolerance: float) -> None:
    gap = float(np.abs(a - b).max())
    if not gap <= tolerance * size:
        raise DataError(f"{name} {what}: the largest difference is {gap:.3g} for values up to {size:.3g}")


def _check_gradients(kernel: Kernel, rows: Array, name: str) -> None:
    for what, gradient in zip(("its numbers", "its inputs"), _gradients(kernel, rows), strict=True):
        if not bool(jnp.all(jnp.isfinite(gradient))):
            raise DataError(
                f"{name} has gradients in {what} that are not finite, often from √ or log at coincident points; "
                "write it in terms of squared distances, or guard both branches with jnp.where"
            )


@eqx.filter_jit
def _gradients(kernel: Kernel, rows: Array) -> tuple[jax.Array, jax.Array]:
    """Of an arbitrary sum over pairs, in the learnable numbers and in the inputs."""
    slots = params.layout(kernel)
    weight = jnp.cos(jnp.arange(len(rows) ** 2, dtype=float)).reshape(len(rows), len(rows))

    def total(u: jax.Array, x: jax.Array) -> jax.Array:
        return jnp.sum(weight * params.from_vector(kernel, slots, u).gram(x, x))

    return jax.grad(total, (0, 1))(params.to_vector(kernel, slots), rows)
