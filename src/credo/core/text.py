"""Small tools for the one line that a belief is printed as."""

import numpy as np

from credo.core.arrays import Numeric, is_traced


def counted(n: int, noun: str) -> str:
    """`1 state`, `3 states`."""
    return f"{n:,} {noun}{'' if n == 1 else 's'}"


def plain(value: object, ndim: int) -> np.ndarray | None:
    """The numbers of an array with so many axes; None where it is traced, stacked, or no array at all."""
    if is_traced(value) or not hasattr(value, "dtype") or getattr(value, "ndim", None) != ndim:
        return None
    try:
        return np.asarray(value, dtype=float)
    except (TypeError, ValueError):  # a placeholder with a shape and nothing in it
        return None


def rounded(values: Numeric, digits: int = 2, most: int = 8) -> str:
    """`0.92 0.95 0.88`; of many numbers, from the smallest to the largest."""
    array = np.atleast_1d(np.asarray(values, dtype=float))
    if len(array) > most:
        return f"{array.min():.{digits}f} to {array.max():.{digits}f}"
    return " ".join(f"{v:.{digits}f}" for v in array)
