import itertools
import os
from pathlib import Path

# Before jax is imported: tests of one worker share compiled code with the others through the cache on disk.
os.environ.setdefault("CREDO_CACHE", os.path.join(os.path.dirname(__file__), "..", ".pytest_cache", "jax"))

import hypothesis
import jax
import numpy as np
import pytest

hypothesis.settings.register_profile("credo", deadline=None, max_examples=25, derandomize=True)
hypothesis.settings.load_profile("credo")

MAPS = Path("/proc/self/maps")
MOST_MAPS = 30_000
"""Every compiled program maps memory of its own, and Linux allows a process 65 530 maps: then it is killed."""


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(20_26)


_tests = itertools.count()


@pytest.fixture(autouse=True)
def _forget_programs():
    yield
    if next(_tests) % 10 == 9 and MAPS.exists() and MAPS.read_bytes().count(b"\n") > MOST_MAPS:
        jax.clear_caches()
