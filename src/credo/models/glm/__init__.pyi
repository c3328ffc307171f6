"""Generalized linear models: classes, counts and outliers from a linear predictor."""

from credo.models.glm.belief import GLM as GLM
from credo.models.glm.models import Logistic as Logistic
from credo.models.glm.models import NegativeBinomialRegression as NegativeBinomialRegression
from credo.models.glm.models import OrdinalRegression as OrdinalRegression
from credo.models.glm.models import PoissonRegression as PoissonRegression
from credo.models.glm.models import Probit as Probit
from credo.models.glm.models import Softmax as Softmax
from credo.models.glm.models import StudentTRegression as StudentTRegression
from credo.models.glm.newton import Rows as Rows
from credo.models.glm.predictions import WeightLaw as WeightLaw
