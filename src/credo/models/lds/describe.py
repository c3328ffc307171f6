"""An `LDS` in one line: its sizes, how long it remembers, and what it has seen."""

from typing import TYPE_CHECKING

import numpy as np

from credo.core.text import counted, plain
from credo.models.lds.checks import MATRICES, Varying

if TYPE_CHECKING:
    from credo.models.lds.belief import LDS


def describe(lds: "LDS") -> str:
    """`LDS(2 states, 1 output; spectral radius 0.98; after 120 outcomes)`: the radius is max |λ(F)|, below 1 stable."""
    sizes = [counted(lds.states, "state"), counted(lds.outputs, "output")]
    said = [", ".join(sizes + ([counted(lds.inputs, "input")] if lds.inputs else []))]
    if lds.transition is None:
        said.append("matrices not known yet")
    varying = [name for name in MATRICES if isinstance(getattr(lds, name), Varying)]
    if varying:
        said.append(f"{', '.join(varying)} given for each time")
    transition = plain(lds.transition, 2)
    if transition is not None and np.isfinite(transition).all():
        said.append(f"spectral radius {np.abs(np.linalg.eigvals(transition)).max():.3g}")
    time = plain(lds.time, 0)
    if lds.state is not None and time is not None:
        said.append(f"after {counted(int(time), 'outcome')}")
    return f"{type(lds).__name__}({'; '.join(said)})"
