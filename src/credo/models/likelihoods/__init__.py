"""How outcomes follow from a linear predictor η: p(y | η), for generalized linear models.

    Bernoulli       P(y = 1) = 1/(1 + e^-η)                                 two classes
    Probit          P(y = 1) = Φ(η)
    Categorical     P(y = k) = e^ηₖ/Σⱼ e^ηⱼ,  η_K = 0                       the last class is the reference
    Ordinal         P(y ≤ k) = 1/(1 + e^(η - cₖ)),  c₁ < … < c_{K-1}
    Poisson         y ~ Poisson(e^η)
    NegativeBinomial  E[y] = μ = e^η,  Var[y] = μ + αμ²                     α is the dispersion
    StudentT        y ~ t_df(η, scale²)

A likelihood is a density of one row and broadcasts over rows; its slope and curvature in η are written out
(`ClosedForm`) or follow by automatic differentiation. Numbers of its own (α, the scale, the cutpoints) are believed in
and learned like the weights; each has a weak prior. McCullagh & Nelder (1989); Agresti (2010), §3.2.
"""

from credo.lazy import attach

__all__, __getattr__, __dir__ = attach(__name__, __file__)
