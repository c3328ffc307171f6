"""credo: beliefs, predictions and decisions.

A belief is a value. Conditioning a belief on data gives another belief. A belief predicts; a prediction says
how much of its doubt is noise and how much is ignorance. A decision follows from a prediction and a loss.

    gp = credo.fit(credo.GP(), X, y)
    p = gp.predict(X_new)
    p.mean, p.interval(0.95), p.aleatoric, p.epistemic
    credo.decide(p, credo.losses.Asymmetric(under=5, over=1))

The public names are listed in `__init__.pyi` and load on first use, so that `import credo` is cheap until something
is computed.
"""

from credo.lazy import attach

__version__ = "0.1.0"

__all__, __getattr__, __dir__ = attach(__name__, __file__)
__all__ += ["__version__"]
