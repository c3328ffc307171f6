"""Kernels on strings: what pieces two texts share, or how many edits lie between them.

A string is a row of character codes (Unicode), padded with -1 to a fixed `width`.

    Spectrum(3)(["gattaca", "attac"])

`Spectrum` and `Subsequence` are inner products of features, so covariances. `EditDistance` is not one in general.
Gram matrices are computed a row at a time and in blocks of columns, so memory stays small.
"""

from abc import abstractmethod
from dataclasses import KW_ONLY

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Bool, Float, Int, UInt64

from credo.core.arrays import Array, is_traced
from credo.core.checks import check_table
from credo.core.errors import DataError
from credo.core.params import positive, unit_interval
from credo.kernels.discrete import Coded, Counting, as_items, is_table

WIDTH = 64
PADDING = -1
BLOCK = 32
"""Pairs of strings worked on at a time: a table of 64² for each of them stays in the cache."""


class Strings(Coded):
    """What kernels on strings share: how strings are read."""

    _: KW_ONLY
    width: int = eqx.field(default=WIDTH, static=True)
    compiled = True

    def encode(self, x: object, name: str = "X", columns: int | None = None) -> Array:
        """Strings, or rows of character codes with -1 behind the end, as rows of codes."""
        if not is_table(x):
            x = _codes(as_items(x, name, "strings"), self.width, name)
        table = check_table(x, name, columns)
        if not is_traced(table):
            ended = np.maximum.accumulate(table == PADDING, axis=1)
            if (table != np.round(table)).any() or (table < PADDING).any() or (ended & (table != PADDING)).any():
                raise DataError(
                    f"{name} must hold strings, or rows of character codes ≥ 0 followed by nothing but {PADDING}; "
                    "pass the strings and let the kernel encode them"
                )
        return table


def _codes(strings: list[object], width: int, name: str) -> np.ndarray:
    rows = np.full((len(strings), width), float(PADDING))
    for i, text in enumerate(strings):
        if not isinstance(text, str):
            raise DataError(f"{name} must be a list of strings, found {type(text).__name__} {text!r} at {i}")
        if len(text) > width:
            raise DataError(
                f"{name}[{i}] has {len(text)} characters, the kernel reads up to {width}; "
                f"give it width={1 << (len(text) - 1).bit_length()}, or cut the strings"
            )
        rows[i, : len(text)] = [ord(c) for c in text]
    return rows


class Pairwise(Strings):
    """A similarity that needs a dynamic program for each pair of strings."""

    @abstractmethod
    def compare(self, x: Int[Array, " d"], z: Int[Array, " d"]) -> Float[Array, ""]:
        """The result of the program for two strings."""


def _compare_all(kernel: Pairwise, x: Float[Array, "n d"], z: Float[Array, "m d"]) -> Float[Array, "n m"]:
    # Checkpointed: the gradient computes a table again rather than keep those of all pairs.
    compare = jax.checkpoint(lambda s, t: kernel.compare(s, t))
    a, b = x.astype(jnp.int32), z.astype(jnp.int32)
    return lax.map(lambda s: lax.map(lambda t: compare(s, t), b, batch_size=BLOCK), a)


def _compare_own(kernel: Pairwise, x: Float[Array, "n d"]) -> Float[Array, " n"]:
    compare = jax.checkpoint(lambda s, t: kernel.compare(s, t))
    return lax.map(lambda s: compare(s, s), x.astype(jnp.int32), batch_size=BLOCK)


class Spectrum(Strings, Counting):
    """#(s, t) = Σᵤ #ᵤ(s) #ᵤ(t) over all strings u of `length` characters, #ᵤ(s) the times that u occurs in s.

    Normalized by default. Strings shorter than `length` have no part: see `Counting`.
    Leslie, Eskin & Noble (2002), "The spectrum kernel: a string kernel for SVM protein classification".
    """

    length: int = eqx.field(default=3, static=True)
    symbols = (("k", "length"),)

    def __check_init__(self) -> None:
        _check_sizes(self.length, self.width)

    def counts(self, x: Float[Array, "n d"], z: Float[Array, "m d"]) -> Float[Array, "n m"]:
        """Σᵢⱼ [sᵢ…sᵢ₊ₖ₋₁ = tⱼ…tⱼ₊ₖ₋₁], by hashes: N pieces collide with probability N²/2⁶⁵."""
        return count_common(*self._pieces(x), *self._pieces(z))

    def _pieces(self, x: Float[Array, "n d"]) -> tuple[UInt64[Array, "n 1 w"], Bool[Array, "n 1 w"]]:
        n = x.shape[1] - self.length + 1
        if n < 1:
            return jnp.zeros((x.shape[0], 1, 0), jnp.uint64), jnp.zeros((x.shape[0], 1, 0), bool)
        codes = jnp.maximum(x, 0.0).astype(jnp.uint64)
        hashed = jnp.zeros((x.shape[0], n), jnp.uint64)
        for p in range(self.length):
            hashed = mix(hashed + codes[:, p : p + n] + jnp.uint64(1))
        return hashed[:, None, :], (x[:, self.length - 1 :] >= 0)[:, None, :]


class Subsequence(Pairwise, Counting):
    """#(s, t) = Σᵤ Σ λ^(span in s + span in t) over all common subsequences u of `length` characters, gaps allowed.

    The span of an occurrence is the number of characters from its first to its last, so gaps cost a factor
    λ = `decay` for each character. Normalized by default; O(length · width²) for a pair.
    Lodhi, Saunders, Shawe-Taylor, Cristianini & Watkins (2002), "Text classification using string kernels".
    """

    length: int = eqx.field(default=3, static=True)
    decay: Float[Array, ""] = unit_interval(0.5)
    symbols = (("k", "length"), ("λ", "decay"))

    def __check_init__(self) -> None:
        _check_sizes(self.length, self.width)
        if not is_traced(self.decay) and not 0 < float(self.decay) < 1:
            raise DataError(f"decay must be between 0 and 1, found {float(self.decay):g}")

    def compare(self, x: Int[Array, " d"], z: Int[Array, " d"]) -> Float[Array, ""]:
        """#(s, t) by the recursion over prefixes.

        `before`[i, j] sums over the common subsequences of p characters of s₀…sᵢ₋₁ and t₀…tⱼ₋₁ the weight
        λ^(characters from their start to i and to j); one more character at (i, j) adds λ² to it.
        """
        same = (x[:, None] == z[None, :]) & (x >= 0)[:, None]
        before = jnp.ones(same.shape)
        for _ in range(self.length - 1):
            ending = jnp.where(same, before, 0.0)
            before = _fade(_fade(ending, self.decay).T, self.decay).T
        return jnp.square(self.decay) * jnp.where(same, before, 0.0).sum()

    def counts(self, x: Float[Array, "n d"], z: Float[Array, "m d"]) -> Float[Array, "n m"]:
        """#(s, t), in blocks."""
        return _compare_all(self, x, z)

    def own_counts(self, x: Float[Array, "n d"]) -> Float[Array, " n"]:
        """#(s, s), in blocks."""
        return _compare_own(self, x)


def _fade(rows: Float[jax.Array, "n m"], decay: Float[Array, ""]) -> Float[jax.Array, "n m"]:
    """yᵢ = Σ_{i' < i} λ^(i - i') rowᵢ'."""

    def step(total: jax.Array, row: jax.Array) -> tuple[jax.Array, jax.Array]:
        return jnp.multiply(decay, total + row), total

    return lax.scan(step, jnp.zeros_like(rows[0]), rows)[1]


class EditDistance(Pairwise):
    """k(s, t) = s² exp(-γ d(s, t)), d the Levenshtein distance and γ = `rate`.

    Not positive semi-definite in general: with γ = 0.1, {b, aa, ab, ba, bab} has a matrix with eigenvalue -0.026.
    Use `tabulate(EditDistance(γ), strings)`, which checks the whole matrix and repairs or refuses it, or a kernel
    that is always valid: `Spectrum`, `Subsequence`. Levenshtein (1966); Wagner & Fischer (1974).
    """

    rate: Float[Array, ""] = positive(0.1, low=1e-4, high=1e2)
    symbols = (("γ", "rate"),)

    def compare(self, x: Int[Array, " d"], z: Int[Array, " d"]) -> Float[Array, ""]:
        """d(s, t): the fewest insertions, deletions and replacements of a character that turn s into t."""
        places = jnp.arange(z.shape[0] + 1)

        def step(above: jax.Array, character: jax.Array) -> tuple[jax.Array, None]:
            replaced = above[:-1] + (z != character)
            best = jnp.concatenate([above[:1] + 1, jnp.minimum(above[1:] + 1, replaced)])
            # Insertions: the least of best[j'] + (j - j') over j' ≤ j.
            row = lax.cummin(best - places) + places
            return jnp.where(character >= 0, row, above), None

        last, _ = lax.scan(step, places, jnp.asarray(x))
        return last[(z >= 0).sum()].astype(float)

    def similarities(self, x: Float[Array, "n d"], z: Float[Array, "m d"]) -> Float[Array, "n m"]:
        """exp(-γ d), in blocks."""
        return jnp.exp(-self.rate * _compare_all(self, x, z))


def mix(value: UInt64[jax.Array, "..."]) -> UInt64[jax.Array, "..."]:
    """A bijection of the 64-bit integers that scatters them: the finalizer of SplitMix64.

    Steele, Lea & Flood (2014), "Fast splittable pseudorandom number generators".
    """
    value = value + jnp.uint64(0x9E3779B97F4A7C15)
    value = (value ^ (value >> jnp.uint64(30))) * jnp.uint64(0xBF58476D1CE4E5B9)
    value = (value ^ (value >> jnp.uint64(27))) * jnp.uint64(0x94D049BB133111EB)
    return value ^ (value >> jnp.uint64(31))


def count_common(
    x: UInt64[Array, "n r v"], real_x: Bool[Array, "n r v"], z: UInt64[Array, "m r w"], real_z: Bool[Array, "m r w"]
) -> Float[Array, "n m"]:
    """Σᵣ Σ_{v,w} [xᵣᵥ = zᵣ_w] over the entries that are real, a row of x at a time."""

    def row(one: tuple[Array, Array]) -> Array:
        own, real = one
        same = (own[None, :, :, None] == z[:, :, None, :]) & real[None, :, :, None] & real_z[:, :, None, :]
        return same.sum((1, 2, 3), dtype=float)

    return lax.map(row, (x, real_x))


def _check_sizes(length: int, width: int) -> None:
    if not 1 <= length <= width:
        raise DataError(f"length must be a whole number from 1 to the width {width}, found {length!r}")
