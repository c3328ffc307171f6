"""Basis expansions for linear models: what a straight line in φ(x) can bend to.

Choose `Affine` for straight lines, `Polynomial` for gentle curves and interactions, `BSpline` or `Bumps` for
smooth curves of unknown shape, `Fourier` for what repeats, `Haar` or `Daubechies` for jumps and kinks;
combine with `+`, `*`, `.on(...)`, `.keep(...)` and `.after(...)`.
"""

from credo.lazy import attach

__all__, __getattr__, __dir__ = attach(__name__, __file__)
