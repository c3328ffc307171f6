import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest

from credo.core import params
from credo.errors import DataError


class Kernel(eqx.Module):
    lengthscale: jax.Array = params.positive(1.0)
    variance: jax.Array = params.positive(2.0, low=1e-3, high=1e3)


class Model(eqx.Module):
    kernel: Kernel
    terms: tuple
    mixing: jax.Array = params.simplex((0.2, 0.3, 0.5))
    rate: jax.Array = params.unit_interval(0.25)
    shift: jax.Array = params.real(-1.0)
    metric: jax.Array = params.positive_definite(((2.0, 0.5), (0.5, 1.0)))
    steps: int = eqx.field(static=True, default=3)


def model() -> Model:
    return Model(Kernel(), (Kernel(jnp.array([1.0, 2.0])),))


PATHS = [
    "kernel.lengthscale",
    "kernel.variance",
    "terms.0.lengthscale",
    "terms.0.variance",
    "mixing",
    "rate",
    "shift",
    "metric",
]


def test_learnable_numbers_are_found_by_path():
    assert list(params.learnable(model())) == PATHS


def test_flatten_and_back_is_the_identity():
    slots = params.layout(model())
    u = params.to_vector(model(), slots)
    assert u.shape == (1 + 1 + 2 + 1 + 2 + 1 + 1 + 3,)
    back = params.from_vector(model(), slots, u)
    for path in PATHS:
        np.testing.assert_allclose(params.learnable(back)[path], params.learnable(model())[path], rtol=1e-12)


def test_any_vector_gives_valid_numbers():
    slots = params.layout(model())
    u = jax.random.normal(jax.random.key(0), params.to_vector(model(), slots).shape) * 3
    values = params.learnable(params.from_vector(model(), slots, u))
    assert values["kernel.lengthscale"] > 0 and 0 < values["rate"] < 1
    assert np.all(values["mixing"] > 0) and np.isclose(values["mixing"].sum(), 1)
    assert np.all(np.linalg.eigvalsh(values["metric"]) > 0)


def test_fixed_paths_are_left_out_and_a_part_names_all_below_it():
    slots = params.layout(model(), fixed=["kernel", "mixing"])
    assert [s.path for s in slots] == PATHS[2:4] + PATHS[5:]
    names = params.coordinate_names(slots)
    assert names[:3] == ["terms.0.lengthscale[0]", "terms.0.lengthscale[1]", "terms.0.variance"]


def test_a_wrong_path_suggests_the_nearest():
    with pytest.raises(DataError, match="at 'kernel.lenghtscale'; did you mean 'kernel.lengthscale'"):
        params.layout(model(), fixed=["kernel.lenghtscale"])
    with pytest.raises(DataError, match="did you mean 'shift'"):
        params.replace(model(), {"shfit": 1.0})
    with pytest.raises(DataError, match=r"pass \['shift'\]"):
        params.layout(model(), fixed="shift")
    with pytest.raises(DataError, match="must be a distribution with log_prob, found float"):
        params.check_priors(model(), {"shift": 1.0})


def test_replace_sets_natural_values_and_nothing_else():
    new = params.replace(model(), {"terms.0.variance": 7.0, "rate": 0.5})
    assert float(new.terms[0].variance) == 7 and float(new.rate) == 0.5
    assert float(model().rate) == 0.25 and float(new.shift) == -1


def test_priors_are_densities_in_natural_units():
    priors = {"kernel.lengthscale": dist.LogNormal(0.0, 1.0), "terms.0.lengthscale": dist.Gamma(2.0, 1.0)}
    want = dist.LogNormal(0.0, 1.0).log_prob(1.0) + dist.Gamma(2.0, 1.0).log_prob(jnp.array([1.0, 2.0])).sum()
    np.testing.assert_allclose(params.log_prior(model(), priors), want)


def test_bounds_follow_the_declared_range():
    slots = params.layout(model())
    lower, upper = params.bounds(slots, params.to_vector(model(), slots))
    np.testing.assert_allclose([lower[1], upper[1]], np.log([1e-3, 1e3]))
    np.testing.assert_allclose([lower[0], upper[0]], [-params.LOG_RANGE, params.LOG_RANGE])
    assert np.isinf(lower[-4])


class Part(eqx.Module):
    """A number that is None until somebody sets it."""

    scale: jax.Array | None = params.positive(None, unset=2.0)
    none: jax.Array | tuple[()] | None = params.positive(None, unset=3.0)


def test_a_number_that_nobody_has_given_is_none_and_means_what_its_field_says():
    part = Part(none=params.ABSENT)
    assert part.scale is None and params.meaning(part, "scale") == 2.0
    assert {path: float(v) for path, v in params.learnable(part).items()} == {"scale": 2.0}
    assert float(params.replace(part, {"scale": 5.0}).scale) == 5.0
    slots = params.layout(part)
    np.testing.assert_allclose(params.to_vector(part, slots), np.log(2.0))
    np.testing.assert_allclose(params.from_vector(part, slots, np.zeros(1)).scale, 1.0)
    inside = params.settled((part, [Part()]))
    assert float(inside[0].scale) == 2.0 and inside[0].none == () and float(inside[1][0].none) == 3.0
    assert params.settled(inside[0]).scale is inside[0].scale
