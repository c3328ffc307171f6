"""Pictures of predictions, beliefs, campaigns and plans: `axes = credo.plots.calibration(p, y)`.

Each draws into Axes and returns them (or a Figure where there are several); `axes.figure.savefig(...)` writes a file.
"""

from credo.lazy import attach

__all__, __getattr__, __dir__ = attach(__name__, __file__)
