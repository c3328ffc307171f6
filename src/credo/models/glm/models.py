"""The generalized linear models by name: `GLM` with its likelihood chosen.

Each has an `__init__` of its own, or type checkers would take the fields of `GLM` for its arguments.
"""

from credo.core.checks import ArrayLike
from credo.kernels.base import Kernel
from credo.kernels.random_fourier import RandomFeatures
from credo.models import likelihoods
from credo.models.features import Features
from credo.models.glm.belief import GLM, WeightPrior
from credo.models.likelihoods.classes import Label
from credo.models.linear.priors import Intercept

Basis = Features | RandomFeatures | Kernel | None  # a kernel is refused in a sentence
Prior = WeightPrior | None
Constant = Intercept | bool | None
Labels = tuple[Label, ...] | None


class Logistic(GLM):
    """Two classes, P(second) = 1/(1 + e^-η). `classes` gives them in order; None finds them in the data."""

    def __init__(self, features: Basis = None, prior: Prior = None, intercept: Constant = True, classes: Labels = None):
        super().__init__(likelihoods.Bernoulli(classes), features, prior, intercept)


class Probit(GLM):
    """Two classes, P(second) = Φ(η)."""

    def __init__(self, features: Basis = None, prior: Prior = None, intercept: Constant = True, classes: Labels = None):
        super().__init__(likelihoods.Probit(classes), features, prior, intercept)


class Softmax(GLM):
    """Several classes, P(k) ∝ e^ηₖ; the last is the reference, η_K = 0."""

    def __init__(self, features: Basis = None, prior: Prior = None, intercept: Constant = True, classes: Labels = None):
        super().__init__(likelihoods.Categorical(classes), features, prior, intercept)


class OrdinalRegression(GLM):
    """Ordered classes, P(y ≤ k) = 1/(1 + e^(η - cₖ)); the cutpoints take the place of a constant term."""

    def __init__(self, features: Basis = None, prior: Prior = None, classes: Labels = None):
        super().__init__(likelihoods.Ordinal(classes), features, prior)


class PoissonRegression(GLM):
    """Counts, y ~ Poisson(exposure · e^η)."""

    def __init__(self, features: Basis = None, prior: Prior = None, intercept: Constant = True):
        super().__init__(likelihoods.Poisson(), features, prior, intercept)


class NegativeBinomialRegression(GLM):
    """Counts more spread than a Poisson's, Var[y] = μ + αμ² with μ = exposure · e^η; α is inferred with the weights."""

    def __init__(self, features: Basis = None, prior: Prior = None, intercept: Constant = True):
        super().__init__(likelihoods.NegativeBinomial(), features, prior, intercept)


class StudentTRegression(GLM):
    """Real outcomes with outliers, y = η + ε, ε ~ t_df(0, scale²); the scale is inferred with the weights."""

    def __init__(self, features: Basis = None, prior: Prior = None, intercept: Constant = True, df: ArrayLike = 4.0):
        super().__init__(likelihoods.StudentT(df), features, prior, intercept)
