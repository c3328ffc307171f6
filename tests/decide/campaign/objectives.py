"""Functions that a worker process can import."""

import os


def bowl(point):
    return -((point["x"] - 0.3) ** 2) - point["y"] ** 2


def fragile(point):
    """Raises or ends its process, each in a part of the space."""
    if point["x"] < 0.25:
        raise ValueError("x is too small")
    if point["x"] < 0.5:
        os.kill(os.getpid(), 9)
    return point["x"]
