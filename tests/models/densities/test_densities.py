"""The families of densities: densities, statistics, maximization, starts, samples and errors."""

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from scipy import stats

from credo.core import params
from credo.core.errors import DataError, NotPositiveDefinite
from credo.core.pytrees import changed
from credo.models.conjugate import GammaPoisson, NormalInverseGamma, NormalInverseWishart
from credo.models.densities import (
    CategoricalDensity,
    CustomDensity,
    Gaussian,
    GaussianMixture,
    HasDraws,
    HasStatistics,
    IsConjugate,
    Observed,
    Poisson,
    Regression,
    VonMises,
)
from credo.models.densities.base import require

T, K = 30, 2
STRUCTURES = ("full", "diagonal", "tied", "spherical")


def log_prob(emission, x, seen, inputs=None, complete=False):
    return _log_prob(
        changed(emission, prior=None) if hasattr(emission, "prior") else emission, x, seen, inputs, complete
    )


@eqx.filter_jit
def _log_prob(emission, x, seen, inputs, complete):
    return emission.log_prob(Observed(x, seen, inputs, complete))


@eqx.filter_jit
def expect(emission, x, seen, weight, inputs=None, complete=False):
    return emission.expected_statistics(Observed(x, seen, inputs, complete), weight)


@eqx.filter_jit
def maximized(emission, statistics):
    return emission.maximize(statistics)


@eqx.filter_jit
def climb(emission, x, seen, weight, inputs, steps):
    """So many steps, and the objective at each."""
    rows = Observed(x, seen, inputs)

    def step(e, _):
        value = (weight * e.log_prob(rows)).sum() + e.log_prior()
        return e.maximize(e.expected_statistics(rows, weight)), value

    return jax.lax.scan(step, emission, None, steps)


@eqx.filter_jit
def slope(emission, slots, vector, x, seen, weight, inputs, complete=False):
    """The objective of the M-step and its gradient in unconstrained coordinates."""

    def objective(vector):
        e = params.from_vector(emission, slots, vector)
        return (weight * e.log_prob(Observed(x, seen, inputs, complete))).sum() + e.log_prior()

    return jax.value_and_grad(objective)(vector)


def data(family, rng, d=2):
    """A table for the family, inputs where it has some, soft weights, and single entries and rows missing."""
    u = rng.normal(size=(T, 2)) if family.startswith("regression") else None
    if family == "categorical":
        x = rng.integers(0, 3, (T, 1)).astype(float)
    elif family == "poisson":
        x = rng.poisson([2.0, 7.0], (T, 2)).astype(float)
    elif family == "vonmises":
        x = rng.vonmises([0.5, -2.0], [3.0, 1.0], (T, 2))
    else:
        x = rng.normal(size=(T, d)) @ np.array([[1.0, 0.7], [0.0, 1.5]]) + [30.0, -3.0]
        x[::2] += [4.0, 1.0]
    seen = rng.random(x.shape) < 0.8
    seen[3] = False
    weight = rng.dirichlet(np.ones(K), T)
    return np.where(seen, x, 0.0), seen, weight, u


def build(family, prior="weak"):
    kind, _, structure = family.partition("-")
    return {
        "gaussian": lambda: Gaussian(structure, prior=prior),
        "regression": lambda: Regression(covariance=structure, prior=prior),
        "mixture": lambda: GaussianMixture(2, structure, prior=prior),
        "categorical": lambda: CategoricalDensity(3, prior=prior),
        "poisson": lambda: Poisson(prior=prior),
        "vonmises": lambda: VonMises(prior=prior),
    }[kind]()


def prepared(family, x, seen, u, prior="weak", seed=1):
    return build(family, prior).resized(K, x.shape[1]).adapt(Observed(x, seen, u), seed=seed)


GAUSSIANS = [f"gaussian-{s}" for s in STRUCTURES]
REGRESSIONS = ["regression-full", "regression-diagonal"]
FAMILIES = [*GAUSSIANS, *REGRESSIONS, "mixture-diagonal", "mixture-full", "categorical", "poisson", "vonmises"]
CLOSED = [f for f in FAMILIES if not f.startswith("mixture")]


def covariances(emission):
    """Σ of each state as a matrix."""
    k, d = emission.k, emission.columns
    c = np.asarray(emission.covariance)
    return {
        "full": lambda: c,
        "tied": lambda: np.broadcast_to(c, (k, d, d)),
        "diagonal": lambda: np.stack([np.diag(v) for v in c]),
        "spherical": lambda: c[:, None, None] * np.eye(d),
    }[emission.structure]()


def oracle(emission, x, seen, u):
    """log p of the seen entries by SciPy, row by row and state by state."""
    out = np.zeros((len(x), emission.k))
    for t in range(len(x)):
        o = np.flatnonzero(seen[t])
        for k in range(emission.k):
            if len(o):
                out[t, k] = _one(emission, k, x[t], o, None if u is None else u[t])
    return out


def _one(emission, k, x, o, u):
    if isinstance(emission, CategoricalDensity):
        return np.log(emission.probs[k, int(x[0])])
    if isinstance(emission, Poisson):
        return stats.poisson.logpmf(x[o], np.asarray(emission.rate)[k, o]).sum()
    if isinstance(emission, VonMises):
        return stats.vonmises.logpdf(
            x[o], np.asarray(emission.concentration)[k, o], np.asarray(emission.direction)[k, o]
        ).sum()
    if isinstance(emission, GaussianMixture):
        c = emission.components
        parts = [_one(emission.parts, k * c + j, x, o, u) + np.log(emission.mixing[k, j]) for j in range(c)]
        return np.logaddexp.reduce(parts)
    mean = np.asarray(emission.mean)[k] if u is None else np.asarray(emission.weights[k]) @ u + emission.bias[k]
    return stats.multivariate_normal.logpdf(x[o], np.asarray(mean)[o], covariances(emission)[k][np.ix_(o, o)])


@pytest.mark.parametrize("family", FAMILIES)
def test_densities_integrate_missing_entries_out(family, rng):
    x, seen, _, u = data(family, rng)
    emission = prepared(family, x, seen, u)
    got = log_prob(emission, x, seen, u)
    np.testing.assert_allclose(got, oracle(emission, x, seen, u), rtol=1e-9, atol=1e-9)
    assert np.all(got[3] == 0)


@pytest.mark.parametrize("family", FAMILIES)
def test_whole_rows_take_the_short_way(family, rng):
    x, seen, weight, u = data(family, rng)
    seen = np.broadcast_to(seen[:, :1], seen.shape).copy()
    emission = prepared(family, x, seen, u)
    x = np.where(seen, x, 0.0)
    fast, slow = log_prob(emission, x, seen, u, complete=True), log_prob(emission, x, seen, u)
    np.testing.assert_allclose(fast, slow, rtol=1e-10, atol=1e-10)
    pair = [expect(emission, x, seen, weight, u, complete=c) for c in (True, False)]
    for a, b in zip(*(jax.tree.leaves(s) for s in pair), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("family", ["gaussian-full", "gaussian-diagonal", "poisson", "categorical", "mixture-full"])
def test_statistics_of_two_data_sets_add(family, rng):
    x, seen, weight, u = data(family, rng)
    emission = prepared(family, x, seen, u)
    whole = expect(emission, x, seen, weight, u)
    first = np.arange(T)[:, None] < 11
    halves = [expect(emission, x, seen, weight * part, u) for part in (first, ~first)]
    for a, b in zip(jax.tree.leaves(whole), jax.tree.leaves(jax.tree.map(jnp.add, *halves)), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-10)


def test_many_rows_are_summed_in_blocks(rng):
    rows = 2 * 2048 + 17
    x, w = rng.normal(size=(rows, 2)) + 5, rng.dirichlet(np.ones(K), rows)
    seen = np.ones_like(x, bool)
    emission = Gaussian("full").resized(K, 2).adapt(Observed(x, seen))
    got = expect(emission, x, seen, w, complete=True)
    y = x - np.asarray(emission.origin)
    np.testing.assert_allclose(got.mass, w.sum(0), rtol=1e-12)
    np.testing.assert_allclose(got.xv[:, :, 0], w.T @ y, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(got.xx, np.einsum("tk,ti,tj->kij", w, y, y), rtol=1e-10)


@pytest.mark.parametrize(
    ("family", "prior"),
    [(f, "weak") for f in CLOSED] + [(f, None) for f in ("gaussian-full", "gaussian-spherical", "poisson", "vonmises")],
)
@pytest.mark.usefixtures("unchecked")
def test_maximize_finds_the_maximum(family, prior, rng):
    x, seen, weight, u = data(family, rng)
    joint = family in ("gaussian-full", "gaussian-tied", "regression-full")
    if joint:  # else the statistics of a row with a gap are expectations
        seen = np.broadcast_to(seen[:, :1], seen.shape).copy()
        x = np.where(seen, x, 0.0)
    start = prepared(family, x, seen, u, prior)
    best = maximized(start, expect(start, x, seen, weight, u, joint))
    slots = params.layout(best)
    vector = np.asarray(params.to_vector(best, slots))
    top, gradient = slope(best, slots, vector, x, seen, weight, u, joint)
    assert np.abs(gradient).max() < 1e-6
    for _ in range(3):
        moved = vector + 0.02 * rng.normal(size=vector.shape)
        assert slope(best, slots, moved, x, seen, weight, u, joint)[0] < top


@pytest.mark.parametrize(
    ("family", "prior"),
    [
        ("gaussian-full", "weak"),
        ("gaussian-tied", None),
        ("regression-full", "weak"),
        ("mixture-diagonal", "weak"),
        ("mixture-full", None),
    ],
)
@pytest.mark.usefixtures("unchecked")
def test_latent_parts_climb(family, prior, rng):
    """Where entries or components are latent, a step never lowers the objective, and it ends in a maximum."""
    x, seen, weight, u = data(family, rng)
    emission = prepared(family, x, seen, u, prior)
    to_the_end = family in ("gaussian-full", "mixture-diagonal")
    emission, trace = climb(emission, x, seen, weight, u, 300 if to_the_end else 30)
    assert np.all(np.diff(trace) > -1e-9 * (1 + np.abs(trace[:-1])))
    if to_the_end:
        slots = params.layout(emission)
        gradient = slope(emission, slots, params.to_vector(emission, slots), x, seen, weight, u)[1]
        assert np.abs(gradient).max() < 2e-2


def test_maximum_likelihood_by_formula(rng):
    x, seen, weight, _ = data("gaussian-full", rng)
    x = x + 7 * (~seen)
    seen = np.ones_like(seen)
    n = weight.sum(0)
    mean = weight.T @ x / n[:, None]
    deviation = x[:, None] - mean
    scatter = np.einsum("tk,tki,tkj->kij", weight, deviation, deviation)
    wanted = {
        "full": scatter / n[:, None, None],
        "tied": scatter.sum(0) / T,
        "diagonal": np.diagonal(scatter, axis1=1, axis2=2) / n[:, None],
        "spherical": np.trace(scatter, axis1=1, axis2=2) / (2 * n),
    }
    for structure, covariance in wanted.items():
        start = prepared(f"gaussian-{structure}", x, seen, None, None)
        best = maximized(start, expect(start, x, seen, weight, complete=True))
        np.testing.assert_allclose(best.mean, mean, rtol=1e-9)
        np.testing.assert_allclose(best.covariance, covariance, rtol=1e-6)  # the floor is a millionth of a row
    start = prepared("poisson", np.abs(np.round(x)), seen, None, None)
    best = maximized(start, expect(start, np.abs(np.round(x)), seen, weight))
    np.testing.assert_allclose(best.rate, weight.T @ np.abs(np.round(x)) / n[:, None], rtol=1e-9)


def test_weighted_regression_by_formula(rng):
    x, seen, weight, u = data("regression-full", rng)
    seen = np.ones_like(seen)
    v = np.column_stack([u, np.ones(T)])
    for structure in ("full", "diagonal"):
        start = prepared(f"regression-{structure}", x, seen, u, None)
        best = maximized(start, expect(start, x, seen, weight, u, complete=True))
        for k in range(K):
            root = np.sqrt(weight[:, k])[:, None]
            slopes = np.linalg.lstsq(v * root, x * root, rcond=None)[0]
            residual = x - v @ slopes
            found = np.column_stack([best.weights[k], best.bias[k]])
            np.testing.assert_allclose(found, slopes.T, rtol=1e-7)
            noise = (residual * weight[:, [k]]).T @ residual / weight[:, k].sum()
            np.testing.assert_allclose(best.covariance[k], noise if structure == "full" else np.diag(noise), rtol=1e-5)


@pytest.mark.parametrize(
    ("family", "prior"),
    [(f, None) for f in FAMILIES] + [(f, "weak") for f in (*GAUSSIANS, "categorical", "poisson", "vonmises")],
)
@pytest.mark.usefixtures("unchecked")
def test_a_state_never_visited(family, prior, rng):
    x, seen, weight, u = data(family, rng)
    emission = prepared(family, x, seen, u, prior)
    weight = np.column_stack([np.ones(T), np.zeros(T)])
    after = maximized(emission, expect(emission, x, seen, weight, u))
    before, now = params.learnable(emission), params.learnable(after)
    assert all(np.isfinite(value).all() for value in now.values())
    assert np.isfinite(log_prob(after, x, seen, u)).all()
    if prior is None and "tied" not in family:
        for path, value in now.items():
            np.testing.assert_array_equal(value.reshape(K, -1)[1], before[path].reshape(K, -1)[1], err_msg=path)


@pytest.mark.parametrize("structure", STRUCTURES)
@pytest.mark.parametrize("prior", ["weak", None])
@pytest.mark.usefixtures("unchecked")
def test_covariances_do_not_collapse(structure, prior):
    """A state that explains one point only, and columns that are the same."""
    x = np.linspace(-1, 1, T)[:, None] * np.ones(2)
    seen = np.ones_like(x, bool)
    weight = np.zeros((T, K))
    weight[:, 0], weight[0] = 1.0, [0.0, 1.0]
    emission = prepared(f"gaussian-{structure}", x, seen, None, prior)
    for _ in range(3):
        emission = maximized(emission, expect(emission, x, seen, weight, complete=True))
    matrices = covariances(emission)
    np.testing.assert_array_equal(matrices, np.swapaxes(matrices, 1, 2))
    assert np.linalg.eigvalsh(matrices).min() > 1e-9
    assert np.isfinite(log_prob(emission, x, seen, complete=True)).all()


@pytest.mark.parametrize("family", FAMILIES)
def test_starts(family, rng):
    x, seen, _, u = data(family, rng)
    a, b, c = (params.learnable(prepared(family, x, seen, u, seed=s)) for s in (0, 1, 0))
    assert any(not np.allclose(a[path], b[path]) for path in a)
    for path in a:
        np.testing.assert_array_equal(a[path], c[path])
    nothing = np.zeros_like(seen)
    few = np.arange(T)[:, None] < 1
    for mask in (nothing, seen & few):
        emission = prepared(family, np.where(mask, x, 0.0), mask, u)
        assert all(np.isfinite(value).all() for value in params.learnable(emission).values())
        assert np.isfinite(log_prob(emission, x, mask, u)).all()


def test_what_is_given_is_kept(rng):
    x, seen, _, _ = data("gaussian-full", rng)
    mean, covariance = rng.normal(size=(K, 2)), np.stack([np.eye(2), 2 * np.eye(2)])
    emission = Gaussian(mean=mean, covariance=covariance).resized(K, 2).adapt(Observed(x, seen))
    np.testing.assert_array_equal(emission.mean, mean)
    np.testing.assert_array_equal(emission.covariance, covariance)
    half = Gaussian("diagonal", mean=mean).resized(K, 2).adapt(Observed(x, seen))
    assert half.covariance.shape == (K, 2) and half.prior is not None
    assert Gaussian(mean=[1.0, 2.0], covariance=[1.0, 3.0]).structure == "spherical"
    assert Gaussian(mean=mean, covariance=np.eye(2), structure="tied").structure == "tied"
    assert Gaussian(mean=mean, covariance=np.ones((K, 2))).structure == "diagonal"


def test_priors_that_are_given(rng):
    x, seen, _, _ = data("gaussian-full", rng)
    seen = np.ones_like(seen)
    wishart = NormalInverseWishart([1.0, 2.0], 3.0, 6.0, [[2.0, 0.5], [0.5, 1.0]])
    hard = np.zeros((T, K))
    hard[:, 0] = 1
    start = prepared("gaussian-full", x, seen, None, wishart)
    best = maximized(start, expect(start, x, seen, hard, complete=True))
    mode, before = wishart.condition(x).mode(), wishart.mode()
    np.testing.assert_allclose(best.mean, [mode.mean, before.mean], rtol=1e-9)
    np.testing.assert_allclose(best.covariance, [mode.covariance, before.covariance], rtol=1e-8)
    gamma = NormalInverseGamma(1.0, 3.0, 2.0, 0.5)
    start = prepared("gaussian-diagonal", x, seen, None, gamma)
    best = maximized(start, expect(start, x, seen, hard, complete=True))
    modes = [gamma.condition(x[:, j]).mode() for j in range(2)]
    np.testing.assert_allclose(best.mean[0], [m.mean for m in modes], rtol=1e-9)
    np.testing.assert_allclose(best.covariance[0], [m.variance for m in modes], rtol=1e-8)
    counts = rng.poisson(4.0, (T, 2)).astype(float)
    start = prepared("poisson", counts, seen, None, GammaPoisson(2.0, 3.0))
    best = maximized(start, expect(start, counts, seen, hard))
    np.testing.assert_allclose(best.rate, [(1 + counts.sum(0)) / (3 + T), [1 / 3] * 2], rtol=1e-12)


def test_custom_is_a_gaussian_written_by_hand(rng):
    def log_likelihood(p, x, u):
        return -0.5 * ((x - p["mean"]) ** 2 + np.log(2 * np.pi)).sum(-1)

    mean = rng.normal(size=(K, 2))
    emission = CustomDensity(log_likelihood, {"mean": mean}).resized(K, 2)
    x, seen = rng.normal(size=(T, 2)), np.ones((T, 2), bool)
    seen[4] = False
    known = Gaussian(mean=mean, covariance=np.ones((K, 2))).resized(K, 2)
    np.testing.assert_allclose(log_prob(emission, x, seen), log_prob(known, x, seen), rtol=1e-12)
    assert list(params.learnable(emission)) == ["params.mean.value"]
    for ability in (HasStatistics, HasDraws, IsConjugate):
        with pytest.raises(DataError, match=r"^CustomDensity has no .*; learn it by gradient \(using=Evidence\(\)\)$"):
            require(emission, ability)
    with pytest.raises(DataError, match="row 2 without column 1"):
        emission.check(Observed(x, np.arange(2 * T).reshape(T, 2) != 5))
    with pytest.raises(DataError, match="2 numbers"):
        log_prob(CustomDensity(lambda p, x, u: p, np.ones(3)).resized(K, 2), x, seen)
    with pytest.raises(DataError, match="pass sample="):
        emission.sample(jr.key(0), jnp.zeros(3, int))


def test_a_network_among_the_parameters_of_a_custom_density_is_learned(rng):
    """Two hidden states that follow the inputs differently, by a network; its gradient is that of its own weights."""

    def log_likelihood(p, x, u):
        return -0.5 * ((x[0] - p["network"](u)) / 0.1) ** 2

    network = eqx.nn.MLP(1, K, 3, 1, jnp.tanh, key=jr.key(0))
    emission = CustomDensity(log_likelihood, {"network": network}).resized(K, 1)
    assert list(params.learnable(emission)) == ["params.network.weights"]
    x, u = rng.normal(size=(T, 1)), rng.normal(size=(T, 1))
    found = emission.log_prob(Observed(x, np.ones((T, 1), bool), u))
    np.testing.assert_allclose(found, -50 * (x - jax.vmap(network)(u)) ** 2, rtol=1e-9)
    moved = emission.adapt(Observed(x, np.ones((T, 1), bool), u), seed=1)
    assert not np.allclose(moved.values["network"].layers[0].weight, network.layers[0].weight)


@pytest.mark.parametrize(
    "family",
    ["gaussian-full", "gaussian-spherical", "regression-full", "mixture-full", "categorical", "poisson", "vonmises"],
)
@pytest.mark.usefixtures("unchecked")
def test_samples_look_like_their_state(family, rng):
    x, seen, _, u = data(family, rng)
    emission = prepared(family, x, seen, u)
    n = 4000
    states = np.arange(n) % K
    inputs = None if u is None else np.broadcast_to(u[0], (n, 2))
    drawn = np.asarray(eqx.filter_jit(lambda e, k, s, u: e.sample(k, s, u))(emission, jr.key(3), states, inputs))
    score = np.asarray(log_prob(emission, drawn, np.ones_like(drawn, bool), inputs))
    # E[p_j(x)/p_k(x)] = 1 for x ~ p_k, whatever the family; the ratio is bounded in a mixture of the two.
    ratio = np.exp(score - np.logaddexp(*score.T)[:, None])
    for k in range(K):
        mine = ratio[:, k]
        half = 0.5 * (mine[states == 0].mean() + mine[states == 1].mean())
        assert abs(half - 0.5) < 4.5 * mine.std() / np.sqrt(n)
    prediction = emission.predictive(jnp.eye(K)[:1], None if u is None else jnp.asarray(u[:1]))
    if family not in ("vonmises", "categorical"):
        for j in range(drawn.shape[1]):
            mean, std = (np.ravel(v)[j] for v in (prediction.mean, prediction.std))
            mine = drawn[states == 0, j]
            assert abs(mine.mean() - mean) < 4.5 * std / np.sqrt(len(mine))
            assert abs(mine.std() / std - 1) < 0.2


def test_bad_data_and_arguments():
    ones = np.ones((3, 1), bool)
    with pytest.raises(DataError, match=r"codes from 0 to 2, found 3 at row 1, column 0"):
        CategoricalDensity(3).check(Observed(np.array([[0.0], [3.0], [1.0]]), ones))
    with pytest.raises(DataError, match="row 2, column 0"):
        CategoricalDensity().check(Observed(np.array([[0.0], [3.0], [1.5]]), ones))
    with pytest.raises(DataError, match="whole numbers ≥ 0 .counts., found -1 at row 0"):
        Poisson().check(Observed(np.array([[-1.0], [3.0], [1.0]]), ones))
    Poisson().check(Observed(np.array([[-1.0], [3.0], [1.0]]), ~ones))
    with pytest.raises(DataError, match="degrees"):
        VonMises().check(Observed(np.array([[0.0], [90.0], [1.0]]), ones))
    with pytest.raises(DataError, match="one column"):
        CategoricalDensity(3).resized(2, 2)
    with pytest.raises(DataError, match="given for 2 components, found 3"):
        Gaussian(mean=[0.0, 1.0]).resized(3, 1)
    with pytest.raises(DataError, match="full, diagonal, tied, spherical"):
        Gaussian("banded")
    with pytest.raises(DataError, match=r"must have shape \(2, 1, 1\), found \(2, 2, 2\)"):
        Gaussian(mean=[0.0, 1.0], covariance=np.ones((2, 2, 2)))
    with pytest.raises(NotPositiveDefinite):
        Gaussian(mean=np.zeros((1, 2)), covariance=[[[1.0, 2.0], [2.0, 1.0]]])
    with pytest.raises(DataError, match="positive variances"):
        Gaussian(mean=[0.0, 1.0], covariance=[1.0, 0.0])
    with pytest.raises(DataError, match='prior must be "weak", None'):
        Gaussian(prior="strong")
    with pytest.raises(DataError, match="sum to 1"):
        CategoricalDensity(probs=[[0.5, 0.6]])
    with pytest.raises(DataError, match="concentrations ≥ 1"):
        CategoricalDensity(3, prior=0.5).resized(2)
    with pytest.raises(DataError, match="need inputs"):
        Regression().resized(2, 1).adapt(Observed(np.zeros((3, 1)), ones))
    flat = Gaussian(mean=[1.0, 2.0], covariance=[1.0, 1.0], prior=None)
    statistics = expect(flat, np.zeros((3, 1)), ones, np.full((3, 2), 0.5))
    with pytest.raises(DataError, match="pass prior"):
        flat.draw(jr.key(0), statistics)
    with pytest.raises(DataError, match="positive numbers"):
        Poisson([1.0, 0.0])
    with pytest.raises(DataError, match="does not know its shape"):
        Gaussian().adapt(Observed(np.zeros((3, 1)), ones))
