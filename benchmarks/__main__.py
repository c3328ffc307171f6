"""`python -m benchmarks [--only=text] [name ...]`: all benchmarks, or those named; tables go to results/<name>.md.

`--only` runs the tasks whose name has the text (a regular expression), and leaves the rest of the file as it is.
"""

import os
import sys
import tempfile
from importlib import import_module
from pathlib import Path

from benchmarks.harness import report

HERE = Path(__file__).parent
OTHERS = (
    "conformal",
    "densities",
    "harness",
    "large_gp",
    "neural_tables",
    "objectives",
    "optimizers",
    "peers",
    "posteriordb",
    "regret",
    "series",
    "uci",
)
"""Modules that are not benchmarks, or are run by themselves."""


def main() -> None:
    known = sorted(p.stem for p in HERE.glob("*.py") if not p.stem.startswith("_") and p.stem not in OTHERS)
    only = next((a.split("=", 1)[1] for a in sys.argv[1:] if a.startswith("--only=")), "")
    names = [a for a in sys.argv[1:] if not a.startswith("--")] or known
    unknown = [name for name in names if name not in known]
    if unknown:
        sys.exit(f"there is no benchmark {', '.join(unknown)}; there are: {', '.join(known)}")
    with tempfile.TemporaryDirectory() as cache:
        # An empty compilation cache: first calls are first calls.
        os.environ["CREDO_CACHE"] = cache
        for name in names:
            module = import_module(f"benchmarks.{name}")
            report(name, module.TITLE, module.TASKS, only)


if __name__ == "__main__":
    main()
