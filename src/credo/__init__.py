"""credo: beliefs, predictions and decisions.

A belief is a value. Conditioning a belief on data gives another belief. A belief predicts; a prediction says
how much of its doubt is noise and how much is ignorance. A decision follows from a prediction and a loss.

    gp = credo.fit(credo.GP(), X, y)
    p = gp.predict(X_new)
    p.mean, p.interval(0.95), p.aleatoric, p.epistemic
    credo.decide(p, credo.losses.Asymmetric(under=5, over=1))

The public names load on first use, so that `import credo` is cheap until something is computed.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

_HOME = {
    # verbs
    "learn": "infer.learning",
    "fit": "infer.learning",
    "condition": "infer.conditioning",
    "save": "core.files",
    "load": "core.files",
    "configure": "core.configure",
    "compare": "evaluate.comparison",
    "pool": "evaluate.pooling",
    "acquire": "decide.acquiring",
    "solve": "decide.mdp",
    "replace": "core.params",
    "chunks": "core.chunks",
    # beliefs
    "Belief": "core.belief",
    "Linear": "models.linear",
    "GP": "models.gp",
    "RobustGP": "models.gp",
    "HeteroscedasticGP": "models.gp",
    "WarpedGP": "models.gp",
    "MultiGP": "models.gp",
    "Averaged": "infer.averaging",
    "Grid": "models.grid",
    "Hypotheses": "models.conjugate",
    "BetaBernoulli": "models.conjugate",
    "BetaBinomial": "models.conjugate",
    "DirichletCategorical": "models.conjugate",
    "DirichletMultinomial": "models.conjugate",
    "GammaPoisson": "models.conjugate",
    "NormalKnownVariance": "models.conjugate",
    "NormalInverseGamma": "models.conjugate",
    "NormalInverseWishart": "models.conjugate",
    "HierarchicalBernoulli": "models.conjugate",
    "GLM": "models.glm",
    "Logistic": "models.glm",
    "Probit": "models.glm",
    "Softmax": "models.glm",
    "OrdinalRegression": "models.glm",
    "PoissonRegression": "models.glm",
    "NegativeBinomialRegression": "models.glm",
    "StudentTRegression": "models.glm",
    "MarkovChain": "models.markov",
    "MarkovSequence": "models.markov",
    "HMM": "models.hmm",
    "LDS": "models.lds",
    "StateSpaceModel": "models.nonlinear",
    # problems
    "MDP": "decide.mdp",
    # vocabulary
    "Predictive": "core.predictive",
    "Gaussian": "core.gaussian",
}
_FOLDERS = ("app", "core", "decide", "errors", "evaluate", "infer", "kernels", "losses", "models", "scale", "sklearn")

__all__ = [
    "GLM",
    "GP",
    "HMM",
    "LDS",
    "MDP",
    "Averaged",
    "Belief",
    "BetaBernoulli",
    "BetaBinomial",
    "DirichletCategorical",
    "DirichletMultinomial",
    "GammaPoisson",
    "Gaussian",
    "Grid",
    "HeteroscedasticGP",
    "HierarchicalBernoulli",
    "Hypotheses",
    "Linear",
    "Logistic",
    "MarkovChain",
    "MarkovSequence",
    "MultiGP",
    "NegativeBinomialRegression",
    "NormalInverseGamma",
    "NormalInverseWishart",
    "NormalKnownVariance",
    "OrdinalRegression",
    "PoissonRegression",
    "Predictive",
    "Probit",
    "RobustGP",
    "Softmax",
    "StateSpaceModel",
    "StudentTRegression",
    "WarpedGP",
    "__version__",
    "acquire",
    "app",
    "chunks",
    "compare",
    "condition",
    "configure",
    "core",
    "decide",
    "errors",
    "evaluate",
    "fit",
    "infer",
    "kernels",
    "learn",
    "load",
    "losses",
    "models",
    "pool",
    "replace",
    "save",
    "scale",
    "sklearn",
    "solve",
]

if TYPE_CHECKING:
    from credo import app, core, errors, evaluate, infer, kernels, losses, models, scale, sklearn
    from credo.core.belief import Belief
    from credo.core.chunks import chunks
    from credo.core.configure import configure
    from credo.core.files import load, save
    from credo.core.gaussian import Gaussian
    from credo.core.params import replace
    from credo.core.predictive import Predictive
    from credo.decide.acquiring import acquire
    from credo.decide.bayes import decide
    from credo.decide.mdp import MDP, solve
    from credo.evaluate.comparison import compare
    from credo.evaluate.pooling import pool
    from credo.infer.averaging import Averaged
    from credo.infer.conditioning import condition
    from credo.infer.learning import fit, learn
    from credo.models.conjugate import (
        BetaBernoulli,
        BetaBinomial,
        DirichletCategorical,
        DirichletMultinomial,
        GammaPoisson,
        HierarchicalBernoulli,
        Hypotheses,
        NormalInverseGamma,
        NormalInverseWishart,
        NormalKnownVariance,
    )
    from credo.models.glm import (
        GLM,
        Logistic,
        NegativeBinomialRegression,
        OrdinalRegression,
        PoissonRegression,
        Probit,
        Softmax,
        StudentTRegression,
    )
    from credo.models.gp import GP, HeteroscedasticGP, MultiGP, RobustGP, WarpedGP
    from credo.models.grid import Grid
    from credo.models.hmm import HMM
    from credo.models.lds import LDS
    from credo.models.linear import Linear
    from credo.models.markov import MarkovChain, MarkovSequence
    from credo.models.nonlinear import StateSpaceModel


def __getattr__(name: str) -> Any:
    if name in _HOME:
        value = getattr(import_module(f"credo.{_HOME[name]}"), name)
    elif name in _FOLDERS:
        value = import_module(f"credo.{name}")
    else:
        raise AttributeError(f"module 'credo' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
