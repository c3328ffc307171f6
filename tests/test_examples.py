"""The examples of the README and the documentation run, in order, as a reader would type them."""

import re
import subprocess
import sys
import warnings
from pathlib import Path

import matplotlib
import numpy as np
import pytest

import credo

ROOT = Path(__file__).parent.parent
README = ROOT / "README.md"
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
PAGES = [page for page in sorted((ROOT / "docs").rglob("*.md")) if BLOCK.search(page.read_text())]


def run(page: Path) -> None:
    """Blocks of a page share a namespace; a page that needs data and makes none finds X, y, X_new, y_new."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(60, 2))
    y = x @ [1.0, -2.0] + 0.3 * rng.normal(size=60)
    namespace = {"__name__": "__main__", "X": x, "y": y, "X_new": x[:3] + 0.1, "y_new": y[:3], "np": np}
    for block in BLOCK.findall(page.read_text(encoding="utf-8")):
        exec(compile(block, str(page), "exec"), namespace)
    assert namespace["credo"] is credo


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
@pytest.mark.usefixtures("unchecked")
def test_the_examples_run(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(matplotlib.rcParams, "backend", "Agg")
    run(page)


@pytest.mark.parametrize("page", [README, *PAGES], ids=lambda p: str(p.relative_to(ROOT)))
def test_names_load_by_themselves(page):
    """A reader has not imported what the other tests have: `credo.name` and `credo.folder.name` are public."""
    code = "\n".join(BLOCK.findall(page.read_text(encoding="utf-8")))
    for first, second in re.findall(r"(?<!from )(?<!import )\bcredo\.(\w+)(?:\.(\w+))?", code):
        assert first in credo.__all__, first
        public = getattr(getattr(credo, first), "__all__", [])
        assert not second or not public or second in public, f"{first}.{second}"


COPIED = [ROOT / "examples" / name for name in ("table.py", "campaign.py", "series.py")]


@pytest.mark.parametrize(
    "command", [[__file__, str(README)], *([str(path)] for path in COPIED)], ids=lambda c: c[-1][-9:]
)
def test_what_readers_copy_runs_for_them(command, tmp_path, as_users_compile):
    """In a process of its own, compiled with XLA's own settings."""
    done = subprocess.run(
        [sys.executable, *command], capture_output=True, text=True, check=False, cwd=tmp_path, env=as_users_compile
    )
    assert done.returncode == 0, done.stderr


if __name__ == "__main__":
    matplotlib.use("Agg")
    warnings.simplefilter("error")
    run(Path(sys.argv[1]))
