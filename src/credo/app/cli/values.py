"""What people type, as values: durations, goals, outcomes, losses."""

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from credo.app.cli.terminal import refuse

if TYPE_CHECKING:
    from credo.decide.losses import Asymmetric

UNITS = {"": 1.0, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0}


def seconds(text: str | None, option: str) -> float | None:
    """A duration such as 90, 90s, 15m, 2h or 7d."""
    if text is None:
        return None
    match = re.fullmatch(r"\s*(\d+\.?\d*|\.\d+)\s*([a-z]*)\s*", text.lower())
    if match is None or match.group(2) not in UNITS or not float(match.group(1)):
        refuse(f"{option} takes a duration such as 90s, 15m, 2h or 7d, found {text!r}")
    return float(match.group(1)) * UNITS[match.group(2)]


def loss(text: str | None) -> tuple[float, float] | None:
    """What it costs to be one too low, one too high: `5,1`."""
    if text is None:
        return None
    try:
        under, over = (float(part) for part in text.replace(";", ",").split(","))
    except ValueError:
        refuse(f"--loss takes two numbers such as 5,1 (one too low costs 5, one too high costs 1), found {text!r}")
    if not (0 < under < float("inf") and 0 < over < float("inf")):
        refuse(f"--loss takes two positive costs, found {text!r}")
    return under, over


def asymmetric(prices: tuple[float, float]) -> "Asymmetric":
    """The loss with these prices."""
    import numpy as np

    from credo.decide.losses import Asymmetric

    return Asymmetric(under=np.asarray(prices[0]), over=np.asarray(prices[1]))


def goal(text: str | None) -> str | dict[str, str] | None:
    """`minimize`, or `yield=maximize,cost=minimize` for several objectives."""
    if text is None or "=" not in text:
        return text
    pairs = [part.partition("=") for part in text.split(",")]
    return {name.strip(): sense.strip() for name, _, sense in pairs}


def outcomes(texts: Sequence[str]) -> Any:
    """What was told: a number, a dict of named numbers, or None."""
    if len(texts) == 1 and "=" not in texts[0]:
        return _number(texts[0])
    pairs = [text.partition("=") for text in texts]
    for name, equals, _ in pairs:
        if not equals:
            refuse(f"several values are told by name, as in yield=1.2 cost=3, found {name!r}")
    return {name: _number(value) for name, _, value in pairs} if pairs else None


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        refuse(f"VALUE must be a number or NAME=NUMBER, found {text!r}; if there is none, say why: --failed 'reason'")
