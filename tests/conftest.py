import contextlib
import itertools
import os
import threading
import time
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

# Before jax is imported: tests of one worker share compiled code with the others through the cache on disk.
os.environ.setdefault("CREDO_CACHE", os.path.join(os.path.dirname(__file__), "..", ".pytest_cache", "jax"))
# Before NumPy and SciPy are: where each core has a worker, the threads of a factorization wait for each other, and a
# matrix of 300 rows costs thirty times the work.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
# Most of the time of the suite is XLA compiling small programs: here it does so quickly, and not well. What users'
# settings compile is tested by `test_compiled.py` and by the README's examples, which run in processes of their own.
# JAX from 0.12 on ends at a flag that it does not know.
os.environ.setdefault(
    "XLA_FLAGS",
    "--xla_backend_optimization_level=0"
    + " --xla_cpu_use_fusion_emitters=false --xla_cpu_parallel_codegen_split_count=1"
    * version("jax").startswith(("0.9.", "0.10.", "0.11.")),
)

import hypothesis
import jax
import jaxtyping
import numpy as np
import pytest
from jax._src.interpreters import mlir

hypothesis.settings.register_profile("credo", deadline=None, max_examples=25, derandomize=True)
hypothesis.settings.load_profile("credo")

_jaxtyped = jaxtyping.jaxtyped


def _outer_functions(**options: Any) -> Any:
    """`jaxtyped` for functions that are made once: an inner one would have its checks compiled at every call."""
    check = _jaxtyped(**options)
    return lambda made: made if "<locals>" in getattr(made, "__qualname__", "") else check(made)


# Before credo is imported, whose functions the import hook decorates with what it finds under this name.
jaxtyping.jaxtyped = _outer_functions

MAPS = Path("/proc/self/maps")
MOST_MAPS = 30_000
"""Every compiled program maps memory of its own, and Linux allows a process 65 530 maps: then it is killed."""


PROGRAMS_OF_A_CONTEXT = 100
"""Contexts keep all types and constants they have seen."""


@pytest.fixture(autouse=True, scope="session")
def _reuse_contexts():
    """JAX makes a context with all dialects for every program it lowers: a fifth of the time of small tests."""
    make = getattr(mlir, "make_ir_context", None)
    if make is None:  # private to JAX: should it be renamed, all is as before, only slower
        return
    local = threading.local()

    def shared() -> Any:
        local.uses = getattr(local, "uses", -1) + 1
        if local.uses % PROGRAMS_OF_A_CONTEXT == 0:
            local.context = make()
        return local.context

    mlir.make_ir_context = shared


@pytest.fixture
def as_users_compile() -> dict[str, str]:
    """The environment of a process that compiles with XLA's own settings."""
    return {name: value for name, value in os.environ.items() if name != "XLA_FLAGS"}


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(20_26)


@pytest.fixture
def unchecked(monkeypatch) -> None:
    """Without the checks of shapes, which cost more than what they check where small functions are called often."""
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)


WHOLE = {"app", "sklearn", "test_compilations.py", "test_examples.py", "test_metamorphic.py", "test_methods.py"}
"""Folders and files whose tests run much of the library at once."""


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item):
    """The shapes of one replication are those of all, and tests of the functions themselves have checked them.

    A hook and no fixture, so that fixtures of a module are unchecked, too.
    """
    checked = not (item.get_closest_marker("slow") or WHOLE & set(item.path.parts))
    before, jaxtyping.config.jaxtyping_disable = jaxtyping.config.jaxtyping_disable, not checked
    try:
        return (yield)
    finally:
        jaxtyping.config.jaxtyping_disable = before


_tests = itertools.count()


@pytest.fixture(autouse=True)
def _forget_programs():
    yield
    if next(_tests) % 10 == 9 and MAPS.exists() and MAPS.read_bytes().count(b"\n") > MOST_MAPS:
        jax.clear_caches()


LIMITS = {"slow": 30.0, "": 5.0}
"""CPU seconds that a test may take, with the marker `slow` and without: more is reported, `FAR` times as much fails the
run (machines differ, and what compiles first pays for others). Pages and fresh processes have limits of their own."""
FAR = 4
UNLIMITED = ("test_examples.py", "test_compiled.py", "test_package.py")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo):
    report = yield
    if call.when == "call" and item.path.name not in UNLIMITED:
        limit = LIMITS["slow" if item.get_closest_marker("slow") else ""]
        spent = time.process_time() - item.stash[_begun]
        if spent > limit:
            report.user_properties.append(("over", f"{spent:.1f} of {limit:.0f} s CPU: {item.nodeid}"))
            report.user_properties.append(("far_over", spent > FAR * limit))
    return report


_begun = pytest.StashKey[float]()


def pytest_runtest_call(item: pytest.Item) -> None:
    item.stash[_begun] = time.process_time()


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """The tests that took longer than they may, and whether that fails the run."""
    found = [dict(r.user_properties) for r in terminalreporter.getreports("passed") if r.when == "call"]
    over = [each for each in found if "over" in each]
    if over:
        terminalreporter.section("longer than the limit: make it smaller, or mark it slow")
        for each in sorted(over, key=lambda e: -float(e["over"].split()[0])):
            terminalreporter.write_line(each["over"] + (" (FAILS)" if each["far_over"] else ""))


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if reporter is None or os.environ.get("CI") != "true":
        return
    reports = [r for r in reporter.getreports("passed") if r.when == "call"]
    if any(dict(r.user_properties).get("far_over") for r in reports) and exitstatus == 0:
        session.exitstatus = 1


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The longest first, so that nothing waits for them in the end."""
    items.sort(key=lambda item: item.path.name not in ("test_examples.py", "test_compiled.py"))


@contextlib.contextmanager
def _compilations() -> Iterator[list[float]]:
    seconds: list[float] = []

    def listen(event: str, duration: float, **_: object) -> None:
        if event == "/jax/core/compile/backend_compile_duration":
            seconds.append(duration)

    jax.monitoring.register_event_duration_secs_listener(listen)
    try:
        yield seconds
    finally:
        jax.monitoring.unregister_event_duration_listener(listen)


@pytest.fixture
def compilations():
    """`with compilations() as compiled:` a list with one entry for each program that XLA compiles within the block."""
    return _compilations
