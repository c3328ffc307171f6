import os

# Before jax is imported: tests of one worker share compiled code with the others through the cache on disk.
os.environ.setdefault("CREDO_CACHE", os.path.join(os.path.dirname(__file__), "..", ".pytest_cache", "jax"))

import hypothesis
import numpy as np
import pytest

hypothesis.settings.register_profile("credo", deadline=None, max_examples=25, derandomize=True)
hypothesis.settings.load_profile("credo")


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(20_26)
