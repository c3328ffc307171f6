"""Point estimates as inference methods: `condition(..., using=ML())`, `condition(..., using=MAP())`.

A point estimate is a belief without ignorance: its predictions are all noise. That is what full Bayesian
conditioning repairs, and why the difference can be looked at by changing one word.
"""

from typing import Any, NamedTuple

from credo.core.belief import Belief
from credo.core.errors import DataError


class ML(NamedTuple):
    """Maximum likelihood: θ̂ = argmax p(data | θ)."""

    def condition(self, belief: Belief, *data: Any, **options: Any) -> Any:
        """The belief with its parameters at their most likely values."""
        return _method_of(belief, "maximum_likelihood")(*data, **options)


class MAP(NamedTuple):
    """Maximum a posteriori: θ̂ = argmax p(data | θ) p(θ)."""

    def condition(self, belief: Belief, *data: Any, **options: Any) -> Any:
        """The belief with its parameters at the mode of their posterior."""
        return _method_of(belief, "maximum_a_posteriori")(*data, **options)


def _method_of(belief: Belief, name: str) -> Any:
    method = getattr(belief, name, None)
    if method is None:
        raise DataError(f"{type(belief).__name__} offers no {name.replace('_', ' ')}; condition it without using=")
    return method
