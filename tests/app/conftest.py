from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from credo.app.cli import app
from credo.app.fit.families import FAMILIES, Family


def make_mixed_frame(n: int = 90, seed: int = 0) -> pd.DataFrame:
    """Every kind of column: numbers, a category, a flag, a date without order, an identifier, a constant."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "order_id": rng.permutation(n) + 1000,
            "size": rng.choice(["small", "large", "medium, boxed"], n, p=[0.5, 0.3, 0.2]),
            "weight": rng.normal(10, 2, n).round(3),
            "express": rng.choice(["yes", "no"], n),
            "shipped": rng.choice(pd.date_range("2020-01-01", periods=10).strftime("%Y-%m-%d"), n),
            "unit": "kg",
        }
    )
    effect = frame["size"].map({"small": 0.0, "large": 3.0, "medium, boxed": 1.0})
    noise = rng.normal(0, 0.5, n)
    frame["cost"] = (2 * frame["weight"] + effect + 1.5 * (frame["express"] == "yes") + noise).round(4)
    return frame


def only(*names: str, families: tuple[Family, ...] = FAMILIES) -> tuple[Family, ...]:
    """Families that propose only candidates of these names: a test needs one or two, and each costs seconds."""

    def few(family: Family) -> Family:
        kind = type(family)

        def propose(self: Any, data: Any) -> Any:
            return [c for c in kind.propose(self, data) if c.name in names]

        def follow(self: Any, done: Any, data: Any) -> Any:
            return [c for c in kind.follow(self, done, data) if c.name in names]

        return type(f"Few{kind.__name__}", (kind,), {"propose": propose, "follow": follow})()

    return tuple(map(few, families))


@pytest.fixture(name="only", scope="session")
def _only() -> Any:
    return only


@pytest.fixture
def mixed() -> pd.DataFrame:
    return make_mixed_frame()


@pytest.fixture(scope="session")
def fitted(tmp_path_factory: pytest.TempPathFactory) -> SimpleNamespace:
    """One `credo fit` through the command line, shared by all tests of its results."""
    folder: Path = tmp_path_factory.mktemp("fit")
    frame = make_mixed_frame()
    frame.loc[3, "weight"] = np.nan
    frame.loc[5, "cost"] = np.nan
    csv = folder / "orders.csv"
    frame.to_csv(csv, index=False)
    out = folder / "result"
    options = ["fit", str(csv), "--target", "cost", "--out", str(out), "--loss", "4,1"]
    run = CliRunner().invoke(app, options, obj=only("average", "lines", "curves"))
    assert run.exit_code == 0, run.output
    page = (out / "report.html").read_text(encoding="utf-8")
    return SimpleNamespace(folder=folder, csv=csv, frame=frame, out=out, model=out / "model.credo", page=page, run=run)
