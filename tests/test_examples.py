"""The examples of the README and the documentation run, in order, as a reader would type them."""

import re
from pathlib import Path

import matplotlib
import numpy as np
import pytest

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)


def with_examples() -> list[Path]:
    return [page for page in PAGES if BLOCK.search(page.read_text())]


@pytest.mark.parametrize("page", with_examples(), ids=lambda p: str(p.relative_to(ROOT)))
def test_the_examples_run(page, tmp_path, monkeypatch):
    """Blocks of a page share a namespace; a page that needs data and makes none finds X, y, X_new, y_new."""
    matplotlib.use("Agg")
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 2))
    y = X @ [1.0, -2.0] + 0.3 * rng.normal(size=60)
    namespace = {"X": X, "y": y, "X_new": X[:3] + 0.1, "y_new": y[:3], "np": np}
    for block in BLOCK.findall(page.read_text()):
        exec(compile(block, str(page), "exec"), namespace)
    assert "credo" in namespace
