"""The climb of `fitting` for large tables on a CPU: in NumPy, whose BLAS is faster than XLA's, block by block.

It starts from the mode of some of the rows: then two or three passes over all of them are enough.
"""

from typing import NamedTuple

import equinox as eqx
import numpy as np

from credo.core.arrays import bucket, pad_rows, put
from credo.models.glm.fitting import (
    MAX_STEPS,
    SLACK,
    Before,
    Climb,
    Rows,
    assemble,
    next_damping,
    propose,
    row_terms,
    size_of,
    start,
)
from credo.models.likelihoods import Likelihood

NEAR = 1e-3
"""The same for large tables, whose curvature is not computed again after so short a step."""
BLOCK = 2**11
"""Rows of a table that fit the cache together."""
PILOT = 2**13
"""Rows of a large table from which the climb starts."""

_propose_compiled = eqx.filter_jit(propose)
_row_terms_compiled = eqx.filter_jit(row_terms)
_prior_compiled = eqx.filter_jit(lambda before, likelihood, u: before.slopes(likelihood, u))


class _Table(NamedTuple):
    """Rows in NumPy."""

    design: np.ndarray
    y: np.ndarray
    weights: np.ndarray
    offset: np.ndarray
    likelihood: Likelihood

    def height(self, before: Before, u: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
        """`height`, a block of rows at a time while it is in the cache."""
        s = size_of(self.likelihood)
        w = u[s:].reshape(self.design.shape[1], -1)
        prior, slope, full = (np.array(v) for v in _prior_compiled(before, self.likelihood, put(u)))
        value, everything = float(prior), None
        if self.likelihood.numpy_slopes(np.zeros(1), np.zeros(1)) is None:
            eta = self.design @ w + self.offset[:, None]
            rows = (pad_rows(v, bucket(len(eta))) for v in (eta, self.y, self.weights))
            part, g, h = _row_terms_compiled(self.likelihood, put(u[:s]), *(put(v) for v in rows))
            value, everything = value + float(part), (np.asarray(g), np.asarray(h))
        for i in range(0, len(self.y), BLOCK):
            block = slice(i, min(i + BLOCK, len(self.y)))
            design = self.design[block]
            if everything is None:
                eta = design @ w[:, 0] + self.offset[block]
                each, slopes, curvatures = self.likelihood.numpy_slopes(eta, self.y[block]) or (eta, eta, eta)
                weights = self.weights[block]
                value += float(weights @ each)
                more = assemble(design, (weights * slopes)[:, None], (weights * curvatures)[:, None, None], 0)
            else:
                more = assemble(design, everything[0][block], everything[1][block], s)
            slope += more[0]
            full += more[1]
        return value, slope, full

    def some(self, n: int) -> "_Table":
        """n of the rows, at random."""
        chosen = np.sort(np.random.default_rng(0).choice(len(self.y), n, replace=False))
        design, y, weights, offset = (v[chosen] for v in self[:4])
        return _Table(design, y, weights, offset, self.likelihood)


def climb_on_host(before: Before, rows: Rows, intercept: bool) -> Climb:
    """The same in NumPy, from the mode of some of the rows."""
    arrays = [np.asarray(v) for v in (rows.design, rows.y, rows.weights, rows.offset)]
    table = _Table(arrays[0], arrays[1], arrays[2], arrays[3], rows.likelihood)
    u = np.asarray(_start_compiled(rows, intercept, before.mean))
    if len(table.y) > 2 * PILOT:
        first = _ascend(before, table.some(PILOT), u, 0.3)
        # Without a prior some of the rows may be separable where all are not.
        if float(first.stride) < 0.3 and np.max(np.abs(np.asarray(first.u) - u)) < 100:
            u = np.asarray(first.u)
    return _ascend(before, table, u, NEAR)


_start_compiled = eqx.filter_jit(start)


def _ascend(before: Before, table: _Table, u: np.ndarray, near: float) -> Climb:
    """Steps until one is shorter than `near`; the next would be about its square, and the curvature stays as it is."""
    here, damping, stride, count = table.height(before, u), 0.0, np.inf, 0
    while count < MAX_STEPS:
        count += 1
        change, long, ok = (np.asarray(v) for v in _propose_compiled(put(here[1]), put(here[2]), put(damping)))
        if ok and damping == 0.0 and long < near:
            u, stride = u + change, float(long) ** 2
            here = (here[0] + 0.5 * stride, here[1], here[2])
            break
        there = table.height(before, u + change)
        good = bool(ok) and bool(np.isfinite(there[0])) and there[0] >= here[0] - SLACK * abs(here[0])
        stride = float(long) if good and damping == 0.0 else stride
        u, here = (u + change, there) if good else (u, here)
        damping = float(next_damping(damping, good))
    numbers = (u, np.asarray(here[0]), here[2], np.asarray(stride), np.asarray(count))
    return Climb(*(put(v) for v in numbers))
