"""Coregionalization: one kernel over several outputs that are functions of the same inputs.

    k((x, i), (z, j)) = Σ_q B_q[i, j] k_q(x, z),    B_q = A_q A_qᵀ + diag(κ_q)

Output i is Σ_q of r shared functions with kernel k_q, weighted by row i of the loadings A_q, and of one function of
its own with variance κ_q[i]. The linear model of coregionalization: Goovaerts (1997), "Geostatistics for natural
resources evaluation", §4.2; Álvarez, Rosasco & Lawrence (2012), "Kernels for vector-valued functions", §4.2.
"""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float, Int

from credo.core.arrays import Array, Numeric, as_float, is_traced, namespace
from credo.core.checks import check_table
from credo.core.errors import DataError
from credo.core.params import positive, real
from credo.kernels.base import Composite, InputScales, Kernel


class Coregionalized(Composite):
    """Σ_q B_q[i, j] k_q(x, z) for rows (x, i) whose last column is the number of the output.

    The terms of a sum count as kernels of their own, and amplitudes move into B_q, so that nothing is said twice.

    Args:
        kernels: k_1, k_2, …, or a single kernel.
        loadings: A, shape (q, p, r) for p outputs; (p, r) or (p,) is the same for each kernel.
        kappa: κ, shape (q, p) or what broadcasts to it.
    """

    kernels: tuple[Kernel, ...]
    loadings: Float[Array, "q p r"] = real()
    kappa: Float[Array, "q p"] = positive()
    is_stationary = False

    def __init__(self, kernels: Kernel | Sequence[Kernel], loadings: Numeric, kappa: Numeric = 1.0):
        given = (kernels,) if isinstance(kernels, Kernel) else tuple(kernels)
        if not given or not all(isinstance(k, Kernel) for k in given):
            raise DataError("Coregionalized takes a kernel or several, e.g. Coregionalized(RBF(), loadings)")
        split = [term.split_variance() for kernel in given for term in kernel.terms]
        each = [np.ones(()) if s is None or isinstance(s, tuple) else s for s, _ in split]
        amplitude, a, own = namespace(each).stack(each), as_float(loadings), as_float(kappa)
        xp = namespace(amplitude, a, own)
        a = a[:, None] if a.ndim == 1 else a
        q = len(split)
        if a.ndim not in (2, 3) or (a.ndim == 3 and a.shape[0] != q):
            raise DataError(f"loadings must have shape (p, r), or ({q}, p, r) for {q} kernel(s), found {a.shape}")
        a = xp.broadcast_to(a, (q, *a.shape[-2:]))
        if own.shape not in ((), (a.shape[1],), (q, a.shape[1])) or not (is_traced(own) or bool(np.all(own > 0))):
            raise DataError(f"kappa must hold positive numbers, shape ({q}, {a.shape[1]}), found shape {own.shape}")
        self.kernels = tuple(bare for _, bare in split)
        self.loadings = a * xp.sqrt(amplitude)[:, None, None]
        self.kappa = xp.broadcast_to(own, a.shape[:2]) * amplitude[:, None]

    @property
    def outputs(self) -> int:
        """p."""
        return self.loadings.shape[-2]

    def between_outputs(self) -> Float[Array, "q p p"]:
        """B_q."""
        shared = self.loadings @ self.loadings.swapaxes(1, 2)
        return shared + self.kappa[:, :, None] * np.eye(self.outputs)

    def gram(self, x: Float[Array, "n d"], z: Float[Array, "m d"]) -> Float[Array, "n m"]:
        """Σ_q B_q[i, j] ∘ K_q."""
        b, i, j = namespace(self, x, z).asarray(self.between_outputs()), _output(x), _output(z)
        parts = [b[q][i[:, None], j[None, :]] * k.gram(x[:, :-1], z[:, :-1]) for q, k in enumerate(self.kernels)]
        return sum(parts[1:], start=parts[0])

    def diagonal(self, x: Float[Array, "n d"]) -> Float[Array, " n"]:
        """Σ_q B_q[i, i] k_q(x, x)."""
        b, i = namespace(self, x).asarray(self.between_outputs()), _output(x)
        parts = [b[q, i, i] * k.diagonal(x[:, :-1]) for q, k in enumerate(self.kernels)]
        return sum(parts[1:], start=parts[0])

    def encode(self, x: object, name: str = "X", columns: int | None = None) -> Array:
        """A table whose last column is the number of the output."""
        table = check_table(x, name, columns)
        if table.shape[1] < 2:
            raise DataError(f"{name} needs inputs and, as its last column, the number of the output; found one column")
        if not is_traced(table):
            last = np.asarray(table)[:, -1]
            wrong = (last != np.round(last)) | (last < 0) | (last >= self.outputs)
            if wrong.any():
                row = int(np.argmax(wrong))
                raise DataError(
                    f"the last column of {name} is the number of the output, 0 to {self.outputs - 1}, "
                    f"found {last[row]:g} at row {row}"
                )
        return table

    def adapt(self, scales: InputScales) -> "Coregionalized":
        """Each k_q as it suits the inputs, with variance one; A and κ are the user's."""
        inside = scales.on(tuple(range(len(scales.spread) - 1)))._replace(variance=1.0)
        return Coregionalized([k.adapt(inside) for k in self.kernels], self.loadings, self.kappa)

    def formula(self) -> str:
        """B ⊗ k₁ + B ⊗ k₂."""
        p = self.outputs
        return " + ".join(f"B[{p}×{p}] ⊗ {k.formula()}" for k in self.kernels)


def _output(x: Float[Array, "n d"]) -> Int[Array, " n"]:
    """The number of the output of each row."""
    return x[:, -1].astype(int)
