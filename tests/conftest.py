import itertools
import os
from importlib.metadata import version
from pathlib import Path

# Before jax is imported: tests of one worker share compiled code with the others through the cache on disk.
os.environ.setdefault("CREDO_CACHE", os.path.join(os.path.dirname(__file__), "..", ".pytest_cache", "jax"))
# Most of the time of the suite is XLA compiling small programs: here it does so quickly, and not well. What users'
# settings compile is tested by `test_compiled.py` and by the examples, which run in processes of their own.
# JAX from 0.12 on ends at a flag that it does not know.
os.environ.setdefault(
    "XLA_FLAGS",
    "--xla_backend_optimization_level=0"
    + " --xla_cpu_use_fusion_emitters=false" * version("jax").startswith(("0.9.", "0.10.", "0.11.")),
)

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
def as_users_compile() -> dict[str, str]:
    """The environment of a process that compiles with XLA's own settings."""
    return {name: value for name, value in os.environ.items() if name != "XLA_FLAGS"}


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(20_26)


_tests = itertools.count()


@pytest.fixture(autouse=True)
def _forget_programs():
    yield
    if next(_tests) % 10 == 9 and MAPS.exists() and MAPS.read_bytes().count(b"\n") > MOST_MAPS:
        jax.clear_caches()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What runs in processes of its own takes longest: first, so that nothing waits for it in the end."""
    items.sort(key=lambda item: item.path.name not in ("test_examples.py", "test_compiled.py"))
