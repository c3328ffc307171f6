"""`condition`: Bayes' rule for a model without a class, a log density over a pytree of numbers."""

from collections.abc import Callable, Mapping
from typing import Any

from credo.core.belief import Belief
from credo.core.errors import DataError
from credo.infer.method import Approximation
from credo.infer.posterior import trusted
from credo.infer.target import ParameterSpace, Target


def condition(
    log_density: Callable[..., Any] | Belief,
    init: Any,
    *more: object,
    using: object = None,
    data: tuple[Any, ...] = (),
    constraints: Mapping[str, object] | None = None,
    seed: int = 0,
    **options: Any,
) -> Any:
    """The posterior of the numbers in `init`, p(θ | data) ∝ exp(log_density(θ, *data)).

    Args:
        log_density: a function of a pytree like `init` (and of `data`) that returns log p(θ, data) up to a constant,
            written with jax.numpy. Or a belief, which is then conditioned on the arguments that follow.
        init: where to start: a number, an array, or a dict, list or pytree of them.
        more: further data of a belief.
        using: the method, e.g. `Laplace()`, `Variational()`, `NUTS()`; None is `NUTS()`.
        data: arrays for `log_density`. Calls with other data of the same shapes reuse compiled code, which they
            cannot where the function closes over its data.
        constraints: by path, e.g. {"scale": "positive"}; real where none is given. Densities are in natural units:
            the Jacobian is taken care of.
        seed: the same seed gives the same draws.
        options: of a belief's `condition`.
    """
    if isinstance(log_density, Belief):
        return log_density.condition(init, *more, *data, using=using, **options)
    if more or options:
        raise DataError("a log density takes its data by data=(…), found more arguments after init")
    if using is None:
        from credo.infer.mcmc.nuts import NUTS

        using = NUTS()
    if not isinstance(using, Approximation):
        found = f"the class {using.__name__}" if isinstance(using, type) else repr(using)
        raise DataError(
            "a log density is conditioned using=Laplace(), Variational(), Pathfinder(), SMC(), NUTS() or another "
            f"sampler, found {found}"
        )
    return trusted(using.run(Target(ParameterSpace.of(init, constraints), log_density, tuple(data)), seed))
