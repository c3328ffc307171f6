"""Point estimates as inference methods: `using=ML()`, `using=MAP()`, `using=PlugIn()`.

    ML        θ̂ = argmax p(data | θ)
    MAP       θ̂ = argmax p(data | θ) p(θ)
    PlugIn    θ̂ = E[θ | data]

A point estimate is a belief without ignorance: its predictions are p(y | θ̂), all noise. That is what full Bayesian
conditioning repairs, and why the difference can be looked at by changing one word.
"""

from abc import ABC
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from credo.core.abilities import HasPointEstimates
from credo.infer.method import Solver


class PointEstimate(Solver, ABC):
    """A single guess for what is unknown."""

    needs: ClassVar[type] = HasPointEstimates

    def conclude(self, belief: Any, statistics: Any, data: tuple[object, ...], options: Mapping[str, object]) -> Any:
        """The guess under the hyperparameters that were chosen."""
        return self.condition(belief, *data, **options)


@dataclass(frozen=True)
class ML(PointEstimate):
    """Maximum likelihood: θ̂ = argmax p(data | θ). It depends on no hyperparameters, so `fit` chooses none."""

    learns: ClassVar[bool] = False

    def condition(self, belief: HasPointEstimates, *data: object, **options: object) -> Any:
        """The belief with its parameters at their most likely values."""
        return belief.maximum_likelihood(*data, **options)


@dataclass(frozen=True)
class MAP(PointEstimate):
    """Maximum a posteriori: θ̂ = argmax p(data | θ) p(θ)."""

    def condition(self, belief: HasPointEstimates, *data: object, **options: object) -> Any:
        """The belief with its parameters at the mode of their posterior."""
        return belief.maximum_a_posteriori(*data, **options)


@dataclass(frozen=True)
class PlugIn(PointEstimate):
    """The posterior mean taken for the truth: θ̂ = E[θ | data]."""

    def condition(self, belief: HasPointEstimates, *data: object, **options: object) -> Any:
        """The belief with its parameters at their posterior mean."""
        return belief.plug_in(*data, **options)
