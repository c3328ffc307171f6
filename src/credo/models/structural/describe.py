"""A structural model in one line: its parts with the standard deviations of what is new in them at each time."""

from typing import TYPE_CHECKING

import numpy as np

from credo.core.text import counted, plain
from credo.models.structural.base import Part
from credo.models.structural.parts import AR, Cycle, Regression, Seasonal, Trend

if TYPE_CHECKING:
    from credo.models.structural.belief import Structural


def describe(model: "Structural") -> str:
    """`Structural(Trend(σ=0.18, slope σ=0.0095) + Seasonal(12, σ=0.01) + noise(σ=0.19); after 120 outcomes)`."""
    terms = [repr(part) for part in model.parts]
    if model.noise is not None:
        terms.append(f"noise({_sigma(model.noise)})")
    said = ("log y = " if model.log else "") + " + ".join(terms)
    past = None if model.past is None else plain(model.past.y, 1)
    if past is not None:
        said += f"; after {counted(int(np.isfinite(past).sum()), 'outcome')}"
    return f"Structural({said})"


def describe_part(part: Part) -> str:
    """`Seasonal(12, 2 waves, σ=0.01)`: the numbers of one part; what does not change has σ=0."""
    said: list[str] = []
    match part:
        case Seasonal():
            said = [f"{part.period:g}"] + ([] if part.harmonics is None else [counted(part.harmonics, "wave")])
        case Cycle():
            said = [f"period={_number(part.period)}"]
        case AR() if plain(part.partial, 1) is not None:
            said = [" ".join(f"{v:.3g}" for v in np.asarray(part.coefficients))]
        case AR():
            said = ["?"]
        case Regression():
            said = list(part.states)
    if hasattr(part, "variance"):
        said.append(_sigma(part.variance))
    if isinstance(part, Trend):
        said.append(f"slope {_sigma(part.slope)}")
    damping = getattr(part, "damping", None)
    if damping is not None:
        said.append(f"φ={_number(damping)}")
    return f"{type(part).__name__}({', '.join(said)})"


def _number(value: object) -> str:
    found = plain(value, 0)
    return "?" if found is None else f"{float(found):.3g}"


def _sigma(variance: object) -> str:
    found = plain(variance, 0)
    return f"σ={'0' if variance is None else '?' if found is None else f'{float(np.sqrt(found)):.3g}'}"
