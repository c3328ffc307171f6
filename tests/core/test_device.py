"""The threads of linear algebra, and what importing credo does to the process."""

import os
import subprocess
import sys
import threading

import pytest
from threadpoolctl import ThreadpoolController

from credo.core import device


def blas() -> list[int]:
    return [each.num_threads for each in ThreadpoolController().select(user_api="blas").lib_controllers]


def test_fits_side_by_side_leave_the_threads_as_they_were():
    before = blas()
    together, leaving = threading.Barrier(4), threading.Barrier(4)
    seen: list[list[int]] = []

    def work(turn: int) -> None:
        for _ in range(20):
            with device.blas_threads(10):
                pass
        together.wait()
        with device.blas_threads(10):
            leaving.wait()
            if turn == 0:
                seen.append(blas())
            leaving.wait()

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert set(seen[0]) == {1}
    assert blas() == before


def test_overlapping_and_nested_requests_end_as_they_began():
    with ThreadpoolController().limit(limits=2):
        before = blas()
        with device.blas_threads(10), device.blas_threads(20):
            assert set(blas()) == {1}
        assert blas() == before


def run(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=os.environ | environment, check=True
    )


def test_a_cache_of_the_users_is_kept(tmp_path):
    show = "import credo.core, jax; c = jax.config; print(c.jax_compilation_cache_dir, c.jax_enable_x64)"
    mine = str(tmp_path / "mine")
    assert run(show, JAX_COMPILATION_CACHE_DIR=mine, CREDO_CACHE="").stdout.split() == [mine, "True"]
    own = str(tmp_path / "own")
    assert run(show, JAX_COMPILATION_CACHE_DIR=mine, CREDO_CACHE=own).stdout.split() == [own, "True"]
    config = f"import jax; jax.config.update('jax_compilation_cache_dir', {mine!r}); "
    assert run(config + show, CREDO_CACHE="").stdout.split() == [mine, "True"]
    home = run(show, CREDO_CACHE="", XDG_CACHE_HOME=str(tmp_path)).stdout.split()
    assert home == [str(tmp_path / "credo" / "jax"), "True"]
    assert run(show, CREDO_CONFIGURE="0").stdout.split() == ["None", "False"]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_fork_after_use_is_said():
    fork = (
        "import os, credo.core, jax.numpy as jnp; {}\npid = os.fork()\nos._exit(0) if pid == 0 else os.waitpid(pid, 0)"
    )
    assert "hang in the child: start workers with" in run(fork.format("jnp.ones(3) + 1")).stderr
    assert run(fork.format("")).stderr == ""


def test_the_limit_of_a_process_counts_as_its_memory():
    pytest.importorskip("resource")
    code = (
        "import resource; from credo.core import device; assert device.usable_memory() <= device.physical_memory();"
        "hard = resource.getrlimit(resource.RLIMIT_AS)[1]; resource.setrlimit(resource.RLIMIT_AS, (2**33, hard));"
        "assert 0 < device.usable_memory() < 2**33"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
