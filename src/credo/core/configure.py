"""`configure`: how JAX runs under credo."""

import os
import warnings
from pathlib import Path

import jax
from jax._src import xla_bridge


def configure(cache: str | os.PathLike[str] | None = None) -> None:
    """Turns on float64 and the on-disk compilation cache, for all of the process: also for your own JAX code.

    Called when `credo.core` is first imported (`import credo` alone leaves JAX as it is) unless the environment has
    CREDO_CONFIGURE=0. The cache lives in `cache`, or $CREDO_CACHE, or where you have told JAX to keep it
    (`jax_compilation_cache_dir`, $JAX_COMPILATION_CACHE_DIR: then how it is kept is yours, too), or the user's cache
    folder; one that cannot be written is left alone. Every program is kept: small ones are many, and are compiled in
    every process otherwise.
    """
    jax.config.update("jax_enable_x64", True)
    own = cache or os.environ.get("CREDO_CACHE") or None
    if own is None and getattr(jax.config, "jax_compilation_cache_dir", None) is not None:
        return
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    folder = Path(own or Path(base) / "credo" / "jax")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return
    jax.config.update("jax_compilation_cache_dir", str(folder))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", 0)


def _at_fork() -> None:
    """Says so where a process is forked whose compiled programs have threads, which the child will wait for in vain."""
    if xla_bridge.backends_are_initialized():
        warnings.warn(
            "this process is forked after credo has compiled programs, and they would hang in the child: start workers "
            'with multiprocessing.get_context("spawn"), joblib or Dask, or fork before the first fit',
            RuntimeWarning,
            stacklevel=2,
        )


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_at_fork)
