"""The examples of the README and the documentation run, in order, as a reader would type them."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
READER = """
import re, sys, warnings
import matplotlib
import numpy as np
import credo

matplotlib.use("Agg")
warnings.simplefilter("error")
page, pattern = sys.argv[1:]
rng = np.random.default_rng(0)
X = rng.normal(size=(60, 2))
y = X @ [1.0, -2.0] + 0.3 * rng.normal(size=60)
namespace = {"__name__": "__main__", "X": X, "y": y, "X_new": X[:3] + 0.1, "y_new": y[:3], "np": np}
for block in re.findall(pattern, open(page, encoding="utf-8").read(), re.MULTILINE | re.DOTALL):
    exec(compile(block, page, "exec"), namespace)
assert "credo" in namespace
"""


def with_examples() -> list[Path]:
    return [page for page in PAGES if BLOCK.search(page.read_text())]


@pytest.mark.parametrize("page", with_examples(), ids=lambda p: str(p.relative_to(ROOT)))
def test_the_examples_run(page, tmp_path, as_users_compile):
    """Blocks of a page share a namespace; a page that needs data and makes none finds X, y, X_new, y_new."""
    command = [sys.executable, "-c", READER, str(page), BLOCK.pattern]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path, env=as_users_compile)
    assert done.returncode == 0, done.stderr
