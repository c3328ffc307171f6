"""Plans in the files of other programs: APPL's `.policy` (XML) and pomdp-solve's `.alpha` (text).

`.alpha` has two lines for each vector: the number of its action, then its value in every state. `.policy` has a line
for each: the action, and the value that the part of the state has that is seen (always 0 here), then the values.
"""

import os
from pathlib import Path
from xml.etree import ElementTree as ET

import numpy as np

from credo.core.errors import DataError
from credo.core.files import bytes_of, replacing
from credo.decide.pomdp.model import POMDP
from credo.decide.pomdp.plan import AlphaPlan
from credo.decide.pomdp.vectors import AlphaVectors

ENDINGS = (".alpha", ".policy")
NOWHERE = -1e30
"""Written for -inf: outside of a vector's block."""


def write(plan: AlphaPlan, path: Path) -> Path:
    """Writes the vectors of a plan (of its first step, where it has a horizon)."""
    if path.suffix.lower() not in ENDINGS:
        raise DataError(f"a plan is written to {' or '.join(ENDINGS)}, found {path.name}; credo.save writes .credo")
    table = np.maximum(plan.vectors.table, NOWHERE)
    rows = [" ".join(repr(v) for v in row) for row in table.tolist()]
    actions = plan.vectors.actions.tolist()
    if path.suffix.lower() == ".alpha":
        text = "".join(f"{a}\n{row}\n\n" for a, row in zip(actions, rows, strict=True))
    else:
        inside = "".join(
            f'<Vector action="{a}" obsValue="0">{row} </Vector>\n' for a, row in zip(actions, rows, strict=True)
        )
        text = (
            '<?xml version="1.0" encoding="ISO-8859-1"?>\n<Policy version="0.1" type="value" model="credo.pomdp">\n'
            f'<AlphaVector vectorLength="{table.shape[1]}" numObsValue="1" numVectors="{len(rows)}">\n'
            f"{inside}</AlphaVector>\n</Policy>\n"
        )
    with replacing(path) as beside:
        beside.write_text(text, encoding="utf-8")
    return path


def read(pomdp: POMDP, path: str | os.PathLike[str]) -> AlphaVectors:
    """The vectors of a file, for a problem."""
    path = Path(path)
    text = bytes_of(path).decode("utf-8", errors="replace")
    try:
        if path.suffix.lower() == ".policy":
            root = ET.fromstring(text)
            if any(each.get("numObsValue", "1") != "1" for each in root.iter("AlphaVector")):
                part = "holds vectors for the part of the state that is not seen (numObsValue is not 1)"
                raise DataError(f"{path.name} {part}; plan for the same problem written as .pomdp")
            found = [(each.get("action", ""), each.text or "") for each in root.iter("Vector")]
        else:
            lines = [line for line in text.splitlines() if line.strip()]
            found = list(zip(lines[::2], lines[1::2], strict=True))
        actions = np.array([int(a) for a, _ in found])
        table = np.array([row.split() for _, row in found], dtype=float)
    except (ValueError, ET.ParseError) as error:
        raise DataError(f"{path.name} is not a file of α-vectors: {error}") from None
    if not np.isfinite(table).all():
        raise DataError(f"{path.name} must hold finite values, found {table[~np.isfinite(table)][0]}")
    s, a, _ = pomdp.shape
    if table.ndim != 2 or table.shape[1] != s or not len(table) or actions.min() < 0 or actions.max() >= a:
        raise DataError(f"{path.name} must hold vectors of {s} values with actions below {a}, found {table.shape}")
    return AlphaVectors.dense(np.where(table <= NOWHERE, -np.inf, table), actions)
