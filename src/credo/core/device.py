"""The machine: its cores, the threads of its linear algebra, its memory."""

import os

import numpy as np


def cores() -> int:
    """The processor cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else (os.cpu_count() or 1)


def aligned(shape: tuple[int, ...]) -> np.ndarray:
    """Float64 memory to be written to and then `put` without a copy: it begins at a multiple of 64 bytes."""
    size = 8 * int(np.prod(shape))
    memory = np.empty(size + 64, dtype=np.uint8)
    skip = -memory.ctypes.data % 64
    return memory[skip : skip + size].view(float).reshape(shape)
