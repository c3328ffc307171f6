"""An `HMM` in one line: how many states, what they show, how long they last, and which one it is in now."""

from typing import Any

import numpy as np

from credo.core import params
from credo.core.text import counted, plain, rounded


def describe(hmm: Any) -> str:
    """`HMM(3 states, Gaussian emission in 2 columns; stays 0.92 0.95 0.88; now state 2 with 0.97)`."""
    emission = hmm.emission
    shown = f"{type(emission).__name__} emission"
    if emission.columns is not None:
        shown += f" in {counted(emission.columns, 'column')}"
    said = [f"{counted(len(hmm.states), 'state')}, {shown}"]
    unknown = [name for name in ("start", "transition") if getattr(hmm, name) is None]
    if emission.states is None or not params.learnable(emission):
        unknown.append("emission")
    if unknown:
        said.append(f"{', '.join(unknown)} not known yet")
    transition = plain(hmm.transition, 2)
    if transition is not None:
        said.append(f"stays {rounded(np.diagonal(transition))}")
    state = plain(hmm.state, 1)
    if state is not None:
        best = int(state.argmax())
        said.append(f"now state {hmm.states[best]} with {state[best]:.2f}")
    return f"{type(hmm).__name__}({'; '.join(said)})"
