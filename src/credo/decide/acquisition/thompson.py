"""Thompson sampling: act as if one plausible function were the truth, another one each time.

Thompson (1933); drawn pathwise, so that the function can be climbed: Wilson et al. (2020), "Efficiently sampling
functions from Gaussian process posteriors".
"""

from collections.abc import Callable

import equinox as eqx
import jax.random as jr
from jaxtyping import Float, PRNGKeyArray

from credo.core.abilities import DrawsFunctions, HasCovariance, able
from credo.core.arrays import Array
from credo.core.checks import check_count
from credo.core.errors import DataError
from credo.core.pytrees import changed
from credo.decide.acquisition.base import Directed, deviation
from credo.decide.acquisition.checks import Beliefs, Points, single
from credo.decide.acquisition.joint_draws import root_of


class Thompson(Directed):
    """A draw of the function, as the score.

    For a belief without `sample_functions` the values at the candidates are drawn instead, jointly where the belief
    knows how they covary: that is a draw on one set of candidates, not a function that can be asked again.

    Args:
        features: random Fourier features of the function far from the data.
        maximize: False where small outcomes are good.
    """

    features: int = eqx.field(static=True, default=1024)
    function: Callable[[Array], Array] | None = None
    key: PRNGKeyArray | None = None

    def __check_init__(self) -> None:
        check_count(self.features, "features", 2)

    def prepared(self, belief: Beliefs, *, seed: int = 0, pending: Points = None) -> "Thompson":
        """With the function drawn."""
        if not able(belief, DrawsFunctions):
            return changed(self, function=None, key=jr.key(seed))
        drawn = belief.sample_functions(1, features=self.features, seed=seed)
        return changed(self, function=drawn, key=None)

    def __call__(self, belief: Beliefs, x: Float[Array, "m d"]) -> Float[Array, " m"]:
        """The value of ±f in this draw."""
        if self.function is not None:
            return self.turned(self.function(x)[0])
        if self.key is None:
            raise DataError("Thompson has not drawn a function yet; call prepared(belief, seed) first")
        prediction = single(belief).predict(x)
        normals = jr.normal(self.key, prediction.mean.shape)
        if not able(belief, HasCovariance):
            return self.turned(prediction.mean) + deviation(prediction.epistemic) * normals
        return self.turned(prediction.mean) + root_of(belief, x, belief.covariance(x, x)) @ normals
