"""The machine: its cores, and the threads of its linear algebra."""

import contextlib
import functools
import os
import threading
from collections.abc import Iterator
from pathlib import Path

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


def physical_memory() -> float:
    """In bytes; infinite where the machine does not tell."""
    try:
        return float(os.sysconf("SC_PHYS_PAGES")) * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):  # Windows does not tell
        return float("inf")


def usable_memory() -> float:
    """In bytes, what this process may have: of the machine, of its container (cgroup) or of its own limit the least."""
    return min(physical_memory(), _container_memory(), _memory_to_limit())


@functools.cache
def _container_memory() -> float:
    for name in ("memory.max", "memory/memory.limit_in_bytes"):  # cgroups of version 2 and 1
        try:
            return float(Path("/sys/fs/cgroup", name).read_text())
        except (OSError, ValueError):  # none, or "max"
            continue
    return float("inf")


def _memory_to_limit() -> float:
    """How much is left of the address space where it is limited (`ulimit -v`)."""
    try:
        import resource

        limit = resource.getrlimit(resource.RLIMIT_AS)[0]
        if limit == resource.RLIM_INFINITY:
            return float("inf")
        taken = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    except (ImportError, OSError):  # Windows, or no /proc
        return float("inf")
    return float(max(limit - taken, 0))


def blas_threads(n: int) -> contextlib.AbstractContextManager[object]:
    """The BLAS threads for matrices of size n: one where more would wait for each other or crash, else all."""
    if ONE_THREAD < n <= SAFE_WITH_THREADS and not _is_crowded():
        return contextlib.nullcontext()
    return _one_thread()


@contextlib.contextmanager
def _one_thread() -> Iterator[None]:
    """BLAS at one thread, set and set back by one Python thread at a time: others take what they find.

    Two that each remember what they found would in the end leave it as the second has found it: at one.
    """
    if not _LIMITING.acquire(blocking=False):
        yield
        return
    try:
        busy = any(library.num_threads > 1 for library in _controller().lib_controllers)
        # Asking is cheap, setting is not: small factorizations are many.
        with _controller().limit(limits=1) if busy else contextlib.nullcontext():
            yield
    finally:
        _LIMITING.release()


_LIMITING = threading.Lock()


@functools.cache
def _controller() -> ThreadpoolController:
    return ThreadpoolController().select(user_api="blas")


def _is_crowded() -> bool:
    try:
        return os.getloadavg()[0] > CROWDED * (os.cpu_count() or 1)
    except (AttributeError, OSError):  # Windows does not tell
        return False
