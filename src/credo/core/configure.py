"""`configure`: how JAX runs under credo."""

import os
from pathlib import Path

import jax


def configure(cache: str | os.PathLike[str] | None = None) -> None:
    """Turns on float64 and the on-disk compilation cache.

    Called when `credo.core` is first imported (`import credo` alone leaves JAX as it is) unless the environment has
    CREDO_CONFIGURE=0. The cache lives in `cache`, or $CREDO_CACHE, or the user's cache folder; a folder that cannot be
    written is left alone. Every program is kept: small ones are many, and are compiled in every process otherwise.
    """
    jax.config.update("jax_enable_x64", True)
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    folder = Path(cache or os.environ.get("CREDO_CACHE") or Path(base) / "credo" / "jax")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return
    jax.config.update("jax_compilation_cache_dir", str(folder))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", 0)
