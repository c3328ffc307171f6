"""The machine: its cores, the threads of its linear algebra, its memory."""

import contextlib
import functools
import math
import os

import numpy as np
from threadpoolctl import ThreadpoolController

ONE_THREAD = 384
"""Up to this size a factorization is over before a second thread has joined; on a busy machine it waits for it."""

SAFE_WITH_THREADS = 12_000
"""Beyond this size SciPy's OpenBLAS is given one thread: its `potrf` with two has been seen to crash at 20 000."""

CROWDED = 1.5
"""With so many processes waiting for each core a second thread makes a factorization slower, up to thirty times."""


def cores() -> int:
    """The processor cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else (os.cpu_count() or 1)


def blas_threads(n: int) -> contextlib.AbstractContextManager[object]:
    """The BLAS threads for matrices of size n: one where more would wait for each other or crash, else all."""
    if ONE_THREAD < n <= SAFE_WITH_THREADS and not _is_crowded():
        return contextlib.nullcontext()
    controller = _controller()
    if all(library.num_threads == 1 for library in controller.lib_controllers):
        return contextlib.nullcontext()  # asking is cheap, setting is not: small factorizations are many
    return controller.limit(limits=1)


@functools.cache
def _controller() -> ThreadpoolController:
    return ThreadpoolController().select(user_api="blas")


def _is_crowded() -> bool:
    try:
        return os.getloadavg()[0] > CROWDED * (os.cpu_count() or 1)
    except (AttributeError, OSError):  # Windows does not tell
        return False


def aligned_empty(shape: tuple[int, ...]) -> np.ndarray:
    """Float64 memory to be written to and then `put` without a copy: it begins at a multiple of 64 bytes."""
    size = 8 * math.prod(shape)
    memory = np.empty(size + 64, dtype=np.uint8)
    skip = -memory.ctypes.data % 64
    return memory[skip : skip + size].view(float).reshape(shape)
