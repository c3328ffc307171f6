"""Gibbs sampling and its conjugate parts, against exact posteriors and quadrature."""

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from scipy import stats

from credo.core.errors import DataError
from credo.infer.mcmc.gibbs import Gibbs, Mean, Probabilities, Rate, Variance, conjugate_blocks
from credo.infer.target import ParameterSpace, Target

Y = np.random.default_rng(1).normal(2.0, 1.5, size=25)
SETTINGS = {"draws": 1000, "warmup": 100}


def effective(series):
    from blackjax.diagnostics import effective_sample_size

    return float(jax.jit(effective_sample_size)(jnp.asarray(series)))


def assert_mean(found, values, want):
    series = np.asarray(values).reshape(found.chains.shape[0], -1)
    se = series.std() / np.sqrt(effective(series))
    assert abs(series.mean() - want) < 4.5 * se, (series.mean(), want, se)


# -- a normal with both parts unknown: μ ~ N(1, 4), σ² ~ IG(3, 2) -------------------------------------------------


def normal(theta, y):
    mu, s2 = theta["mu"], theta["s2"]
    prior = -((mu - 1) ** 2) / 8 - 4 * jnp.log(s2) - 2 / s2
    return prior - 0.5 * y.size * jnp.log(s2) - 0.5 * ((y - mu) ** 2).sum() / s2


def normal_target(y=Y):
    return Target(ParameterSpace.of({"mu": 0.0, "s2": 1.0}, {"s2": "positive"}), normal, (jnp.asarray(y),))


def draw_mu(key, theta, y):
    precision = 1 / 4 + y.size / theta["s2"]
    return (1 / 4 + y.sum() / theta["s2"]) / precision + jr.normal(key) / jnp.sqrt(precision)


def draw_s2(key, theta, y):
    return (2 + 0.5 * ((y - theta["mu"]) ** 2).sum()) / jr.gamma(key, 3 + y.size / 2)


BY_HAND = {"mu": draw_mu, "s2": draw_s2}
DESCRIBED = conjugate_blocks({"mu": Mean(1.0, 4.0, noise="s2"), "s2": Variance(3.0, 2.0, mean="mu")})


def normal_by_quadrature(y):
    mu, s2 = np.meshgrid(np.linspace(-1, 5, 601), np.exp(np.linspace(-2, 4, 601)), indexing="ij")
    squares = (y**2).sum() - 2 * mu * y.sum() + y.size * mu**2
    log_p = -((mu - 1) ** 2) / 8 - 3 * np.log(s2) - 2 / s2 - 0.5 * y.size * np.log(s2) - 0.5 * squares / s2
    weights = np.exp(log_p - log_p.max())  # one power of s² is the grid's
    weights /= weights.sum()
    return {"mu": (weights * mu).sum(), "mu2": (weights * mu**2).sum(), "s2": (weights * s2).sum()}


@pytest.mark.parametrize("conditionals", [BY_HAND, DESCRIBED], ids=["by hand", "described"])
def test_a_normal_with_unknown_mean_and_variance(conditionals):
    found = Gibbs(conditionals, **SETTINGS).run(normal_target(), seed=1)
    want = normal_by_quadrature(Y)
    assert_mean(found, found.values["mu"], want["mu"])
    assert_mean(found, found.values["mu"] ** 2, want["mu2"])
    assert_mean(found, found.values["s2"], want["s2"])
    assert found.verdict == "No sign of trouble."


def test_the_same_seed_gives_the_same_draws_and_settings_are_hashable():
    sampler = Gibbs(DESCRIBED, **SETTINGS)
    first, second = (sampler.run(normal_target(), seed=4) for _ in range(2))
    np.testing.assert_array_equal(first.chains, second.chains)
    assert hash(sampler) == hash(Gibbs(DESCRIBED, **SETTINGS)) and sampler == Gibbs(DESCRIBED, **SETTINGS)


# -- groups: θⱼ ~ N(m, t²), yᵢ ~ N(θ of its group, 1), m ~ N(0, 9), t² ~ IG(4, 3) ---------------------------------

GROUP = np.repeat([0, 1, 2, 3], [3, 8, 5, 4])


def groups(theta, y, group):
    t2 = theta["t2"]
    prior = -(theta["m"] ** 2) / 18 - 5 * jnp.log(t2) - 3 / t2
    inner = -0.5 * ((theta["theta"] - theta["m"]) ** 2).sum() / t2 - 2 * jnp.log(t2)
    return prior + inner - 0.5 * ((y - theta["theta"][group]) ** 2).sum()


def test_a_hierarchy_of_groups(rng):
    y = rng.normal(GROUP - 1.0, 1.0)
    init = {"m": 0.0, "t2": 1.0, "theta": np.zeros(4)}
    target = Target(ParameterSpace.of(init, {"t2": "positive"}), groups, (jnp.asarray(y), jnp.asarray(GROUP)))
    blocks = conjugate_blocks(
        {
            "theta": Mean("m", "t2", noise=1.0, observed=0, group=1),
            "m": Mean(0.0, 9.0, noise="t2", observed="theta"),
            "t2": Variance(4.0, 3.0, mean="m", observed="theta"),
        }
    )
    found = Gibbs(blocks, **SETTINGS).run(target, seed=2)
    # Given m and t² the groups are known in closed form: quadrature over the two.
    m, t2 = np.meshgrid(np.linspace(-6, 6, 241), np.exp(np.linspace(-3, 4, 241)), indexing="ij")
    log_p = -(m**2) / 18 - 4 * np.log(t2) - 3 / t2
    means = []
    for j in range(4):
        part = y[j == GROUP]
        n, average = part.size, part.mean()
        log_p = log_p - 0.5 * np.log(t2 + 1 / n) - 0.5 * (average - m) ** 2 / (t2 + 1 / n)
        means.append((m / t2 + n * average) / (1 / t2 + n))
    weights = np.exp(log_p - log_p.max())
    weights /= weights.sum()
    assert_mean(found, found.values["m"], (weights * m).sum())
    assert_mean(found, found.values["t2"], (weights * t2).sum())
    for j in range(4):
        assert_mean(found, found.values["theta"][:, j], (weights * means[j]).sum())


# -- parts with an exact posterior ------------------------------------------------------------------------------


def test_dirichlet_categorical(rng):
    classes = rng.choice(3, size=30, p=[0.2, 0.3, 0.5])
    alpha = np.array([1.0, 2.0, 0.5])

    def density(theta, z):
        return ((jnp.asarray(alpha) - 1) * jnp.log(theta["p"])).sum() + jnp.log(theta["p"])[z].sum()

    target = Target(ParameterSpace.of({"p": np.full(3, 1 / 3)}, {"p": "simplex"}), density, (jnp.asarray(classes),))
    blocks = conjugate_blocks({"p": Probabilities(lambda theta, z: jnp.asarray(alpha))})
    found = Gibbs(blocks, **SETTINGS).run(target, seed=1)
    want = stats.dirichlet(alpha + np.bincount(classes, minlength=3))
    for i in range(3):
        assert_mean(found, found.values["p"][:, i], want.mean()[i])
        assert_mean(found, (found.values["p"][:, i] - want.mean()[i]) ** 2, want.var()[i])


def test_gamma_poisson_with_exposure_and_groups(rng):
    exposure = rng.uniform(0.5, 2.0, size=20)
    counts = rng.poisson(exposure * np.where(GROUP < 2, 1.0, 4.0))

    def density(theta, y, t, group):
        rates = theta["rate"]
        return jnp.log(rates).sum() - 0.5 * rates.sum() + (y * jnp.log(rates[group]) - rates[group] * t).sum()

    data = tuple(jnp.asarray(v) for v in (counts.astype(float), exposure, GROUP))
    target = Target(ParameterSpace.of({"rate": np.ones(4)}, {"rate": "positive"}), density, data)
    law = Rate(2.0, 0.5, exposure=lambda theta, y, t, group: t, observed=0, group=2)
    found = Gibbs(conjugate_blocks({"rate": law}), **SETTINGS).run(target, seed=1)
    for j in range(4):
        want = stats.gamma(2 + counts[j == GROUP].sum(), scale=1 / (0.5 + exposure[j == GROUP].sum()))
        assert_mean(found, found.values["rate"][:, j], want.mean())
        assert_mean(found, (found.values["rate"][:, j] - want.mean()) ** 2, want.var())


def test_parts_can_be_drawn_together():
    def both(key, theta, y):
        k_mu, k_s2 = jr.split(key)
        s2 = draw_s2(k_s2, theta["part"], y)
        return {"mu": draw_mu(k_mu, {"s2": s2}, y), "s2": s2}

    space = ParameterSpace.of({"part": {"mu": 0.0, "s2": 1.0}}, {"part.s2": "positive"})
    target = Target(space, lambda t, y: normal(t["part"], y), (jnp.asarray(Y),))
    found = Gibbs({"part": both}, **SETTINGS).run(target, seed=1)
    assert_mean(found, found.values["part"]["s2"], normal_by_quadrature(Y)["s2"])


# -- what is refused --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("conditionals", "message"),
    [
        ({"mu": lambda key, t, y: jnp.zeros(2), "s2": draw_s2}, r"conditional of 'mu' must return 'mu' of shape \(\)"),
        ({"mu": draw_mu}, "no conditional for s2"),
        ({"nu": draw_mu}, "conditionals name 'nu', but θ has the numbers: mu, s2"),
        (
            conjugate_blocks({"mu": Mean(0.0, 4.0, noise="s2"), "s2": Variance(3.0, 2.0, mean="mu")}),
            "conditional of 'mu', Mean.* is not that of the log density",
        ),
        (conjugate_blocks({"mu": Mean(1.0, 4.0, noise="s3")}), "there is no 's3' in θ"),
    ],
)
def test_bad_conditionals(conditionals, message):
    with pytest.raises(DataError, match=message):
        Gibbs(conditionals).run(normal_target())


def test_a_description_must_be_one():
    with pytest.raises(DataError, match="'mu' must be described by Mean"):
        conjugate_blocks({"mu": 3.0})
