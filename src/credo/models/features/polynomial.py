"""Monomials, or none."""

from collections.abc import Iterator, Sequence
from itertools import combinations_with_replacement

import equinox as eqx
import numpy as np
from jaxtyping import Float

from credo.core.arrays import Array, namespace
from credo.models.features.base import Features, whole

_SUPERSCRIPTS = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")


class InterceptOnly(Features):
    """No columns: what a model believes without its inputs is its constant term."""

    def __call__(self, x: Float[Array, "n d"]) -> Float[Array, "n 0"]:
        """No columns."""
        return x[:, :0]

    def size(self, d: int) -> int:
        """None."""
        return 0

    def names(self, inputs: Sequence[str]) -> list[str]:
        """None."""
        return []


class Polynomial(Features):
    """All monomials ∏ᵢ xᵢ^aᵢ with 1 ≤ Σᵢ aᵢ ≤ degree, lowest degree first.

    `interactions=False` keeps the powers of single inputs. Powers of unscaled inputs differ by orders of
    magnitude, and powers of inputs far from zero are all alike: `Polynomial(3).after(Affine())` centres and scales
    the inputs first.
    Bishop (2006), section 3.1.
    """

    degree: int = eqx.field(static=True)
    interactions: bool = eqx.field(static=True)

    def __init__(self, degree: int = 2, interactions: bool = True):
        self.degree = whole("Polynomial", "degree", degree, least=1)
        self.interactions = interactions

    def __call__(self, x: Float[Array, "n d"]) -> Float[Array, "n p"]:
        """The monomials of each row."""
        blocks = [x]
        position: dict[tuple[int, ...], int] = {(column,): column for column in range(x.shape[1])}
        for monomials in list(self._monomials(x.shape[1]))[1:]:
            # Each monomial is its first factor times a monomial of the degree below.
            first = np.array([monomial[0] for monomial in monomials], dtype=int)
            rest = np.array([position[monomial[1:]] for monomial in monomials], dtype=int)
            blocks.append(x[:, first] * blocks[-1][:, rest])
            position = {monomial: index for index, monomial in enumerate(monomials)}
        return namespace(x).concatenate(blocks, axis=1)

    def size(self, d: int) -> int:
        """C(d + degree, degree) - 1, or d·degree without interactions."""
        return sum(len(monomials) for monomials in self._monomials(d))

    def names(self, inputs: Sequence[str]) -> list[str]:
        """Such as a, b, a², a·b, b²."""
        return [
            "·".join(_power(name, monomial.count(i)) for i, name in enumerate(inputs) if i in monomial)
            for monomials in self._monomials(len(inputs))
            for monomial in monomials
        ]

    def _monomials(self, d: int) -> Iterator[list[tuple[int, ...]]]:
        """For each degree, its monomials as sorted tuples of input columns: (0, 0, 1) is x₀²x₁."""
        for degree in range(1, self.degree + 1):
            if self.interactions:
                yield list(combinations_with_replacement(range(d), degree))
            else:
                yield [(column,) * degree for column in range(d)]


def _power(name: str, exponent: int) -> str:
    return name if exponent == 1 else name + str(exponent).translate(_SUPERSCRIPTS)
