"""NUTS on published posteriors with reference draws; opt-in: it skips where $CREDO_DATA (../shared/data) has none.

The models, and how an error is measured in Monte Carlo standard errors of both sides, are those of the benchmark.
"""

import importlib
import os
from pathlib import Path

import pytest

from credo.infer import NUTS

ROOT = Path(__file__).parents[2]
DATA = Path(os.environ.get("CREDO_DATA", ROOT.parent / "shared" / "data")) / "posteriordb"
NAMES = (
    "eight_schools-eight_schools_noncentered",
    "gp_pois_regr-gp_regr",
    "kidiq-kidscore_momiq",
    "low_dim_gauss_mix-low_dim_gauss_mix",
    "nes1992-nes",
    "sblrc-blr",
)
MOST = 5.0

pytestmark = pytest.mark.slow


@pytest.fixture
def benchmark(monkeypatch):
    """benchmarks/posteriordb.py, with the data above and fewer draws."""
    monkeypatch.syspath_prepend(str(ROOT))
    module = importlib.import_module("benchmarks.posteriordb")
    monkeypatch.setattr(module, "DATA", DATA)
    monkeypatch.setitem(module.METHODS, "NUTS", NUTS(draws=1000, warmup=400))
    return module


def test_the_models_are_those_that_have_references(benchmark):
    assert set(benchmark.PROBLEMS) == set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_nuts_agrees_with_the_reference(name, benchmark):
    if not (DATA / f"{name}.json").is_file():
        pytest.skip(f"no reference draws of {name} in {DATA}")
    row = benchmark.run(name, "NUTS")
    assert row.mean_error < MOST
    assert row.sd_error < MOST
    assert row.rhat < 1.01
