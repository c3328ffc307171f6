"""How a posterior is computed, and hyperparameters chosen, knowing only densities."""

from credo.infer.learn import Evidence, Learned, LocalOptimum, fit, learn
from credo.infer.point import MAP, ML

__all__ = ["MAP", "ML", "Evidence", "Learned", "LocalOptimum", "fit", "learn"]
