"""A campaign: the best setting of something expensive to try, on record in a file that survives crashes.

python examples/campaign.py
"""

import math
import tempfile
from pathlib import Path

from credo.decide import Campaign, Categorical, Real, Space


def experiment(temperature: float, rate: float, catalyst: str) -> float:
    """Stands for a day in the laboratory: the yield of a reaction."""
    best = {"Pd": 0.9, "Pt": 0.8}[catalyst]
    return best * math.exp(-(((temperature - 340) / 40) ** 2) - (math.log10(rate) + 2) ** 2)


space = Space({"temperature": Real(280, 400), "rate": Real(1e-4, 1.0, log=True), "catalyst": Categorical(["Pd", "Pt"])})
with tempfile.TemporaryDirectory() as folder:
    campaign = Campaign(space, goal="maximize", storage=str(Path(folder) / "lab.db"))
    for _ in range(25):
        trial = campaign.ask()
        campaign.tell(trial, experiment(**trial.point))
    best = campaign.best()
    low, high = best.interval
    print(f"best of {len(campaign.trials)}: {best.point}, expected yield {best.mean:.2f}, [{low:.2f}, {high:.2f}]")
