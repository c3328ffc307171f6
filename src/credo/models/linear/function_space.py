"""The function-space view of a linear model: the same posterior through n × n matrices instead of q × q.

    f ~ GP(m₀(x), φ̃(x)ᵀP₀⁻¹φ̃(z))

cheaper when there are more features than rows, and the bridge to Gaussian processes.
Rasmussen & Williams (2006), eq. 2.12.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from credo.core.checks import ArrayLike, by_name, check_table
from credo.core.errors import DataError
from credo.core.linalg import inverse
from credo.infer.method import Solver
from credo.models.gp.belief import GP
from credo.models.gp.means import Basis
from credo.models.linear.belief import Linear


@dataclass(frozen=True)
class FunctionSpace(Solver):
    """The inference method: `linear.condition(X, y, using=FunctionSpace())` is a `GP`."""

    needs: ClassVar[type] = Linear

    def serves(self, subject: object, verb: str) -> bool:
        """Linear models whose noise is Gaussian and of known variance."""
        known = isinstance(subject, Linear) and not (subject.is_robust or subject.noise_law.integrated)
        return known and super().serves(subject, verb)

    def needs_of(self, subject: object, verb: str) -> str:
        """Such a model."""
        return "it needs Linear with Gaussian noise of known variance"

    def condition(self, belief: Linear, *data: ArrayLike, **options: ArrayLike) -> GP:
        """The posterior over functions: the belief about the weights is the mean and the kernel of the prior."""
        if len(data) != 2:
            raise DataError(f"the function-space view takes X and y, found {len(data)} arguments")
        belief._check_ready()
        has_intercept = belief.intercept is not None
        x = by_name(data[0], belief.inputs)
        q = belief.features.size(check_table(x, "X").shape[1]) + has_intercept
        root = belief._now(q).root
        assert root is not None
        kernel = Basis(belief.features, covariance=inverse(root), intercept=has_intercept).kernel()
        return GP(kernel, mean=belief, noise=belief.noise).condition(x, data[1], **options)

    def conclude(
        self, belief: Linear, statistics: object, data: tuple[ArrayLike, ...], options: Mapping[str, ArrayLike]
    ) -> GP:
        """The posterior over functions under the hyperparameters that were chosen."""
        return self.condition(belief, *data, **options)
