"""What a generative belief keeps of its rows: counts and sums that add, and subtract."""

from typing import Any, NamedTuple

import equinox as eqx
import jax
from jaxtyping import Float

from credo.core.arrays import Array
from credo.models.densities import Density
from credo.models.generative.tables import Labelled


class Seen(eqx.Module):
    """How many rows of each class there are, their statistics, and what the density does not depend on."""

    counts: Float[Array, " k"]
    sums: Any
    log_base: Float[Array, ""]

    def __add__(self, other: "Seen") -> "Seen":
        return jax.tree.map(lambda a, b: a + b, self, other)

    def __sub__(self, other: "Seen") -> "Seen":
        return jax.tree.map(lambda a, b: a - b, self, other)


class Statistics(NamedTuple):
    """The sums of what was seen in full, and the rows of which something is hidden."""

    seen: Seen | None
    rest: Labelled | None = None


class PointEstimate(eqx.Module):
    """Single guesses: shares of the classes, and the density at its parameters."""

    shares: Float[Array, " k"]
    density: Density
