"""Pathfinder against closed forms, dense BFGS, and targets that a climb to the mode gets wrong."""

import jax.numpy as jnp
import numpy as np
import pytest
from jax.scipy import stats

import credo
from credo.core.errors import DataError, NotConverged
from credo.infer import HMC, NUTS, Laplace, RandomWalk
from credo.infer.mcmc import pathfinder
from credo.infer.mcmc.pathfinder import Pathfinder
from credo.infer.target import ParameterSpace, Target

K = 6


def funnel(p):
    return stats.norm.logpdf(p["v"], 0, 3) + stats.norm.logpdf(p["x"], 0, jnp.exp(p["v"] / 2)).sum()


def schools(p, y, sigma):
    prior = stats.norm.logpdf(p["z"]).sum() + stats.norm.logpdf(p["mu"], 0, 5) + stats.cauchy.logpdf(p["tau"], 0, 5)
    return prior + stats.norm.logpdf(y, p["mu"] + p["tau"] * p["z"], sigma).sum()


SCHOOLS = Target(
    ParameterSpace.of({"mu": 0.0, "tau": 1.0, "z": np.zeros(8)}, {"tau": "positive"}),
    schools,
    (jnp.array([28.0, 8, -3, 7, -1, 1, 18, 12]), jnp.array([15.0, 10, 16, 11, 9, 11, 10, 18])),
)
FUNNEL = Target(ParameterSpace.of({"v": 0.0, "x": np.zeros(4)}), funnel, ())


# -- the curvature that a path tells ------------------------------------------------------------------------------


def test_the_root_is_that_of_dense_bfgs(rng):
    scale = rng.uniform(0.1, 3, size=5)
    pairs, want = [], np.diag(scale)
    for _ in range(7):
        s = rng.normal(size=5)
        y = rng.normal(size=5)
        y = y if s @ y > 0 else -y
        left = np.eye(5) - np.outer(s, y) / (s @ y)
        want = left @ want @ left.T + np.outer(s, s) / (s @ y)
        pairs.append(np.stack([s, y]) / np.sqrt(s @ y))
    root, log_det = pathfinder.inverse_curvature(scale, np.stack(pairs))
    np.testing.assert_allclose(root @ root.T, want, rtol=1e-8, atol=1e-10 * np.abs(want).max())
    np.testing.assert_allclose(log_det, 0.5 * np.linalg.slogdet(want)[1], rtol=1e-8)


def test_conjugate_pairs_of_a_quadratic_give_its_inverse(rng):
    factor = rng.normal(size=(4, 4))
    precision = factor @ factor.T + 0.1 * np.eye(4)
    steps = rng.normal(size=(9, 4))
    steps[5] = steps[6] + 1e-9  # says nothing that the next one does not
    lengths = np.sqrt(np.einsum("ni,ij,nj->n", steps, precision, steps))
    pairs = np.stack([steps, steps @ precision], axis=1) / lengths[:, None, None]
    kept = pathfinder.conjugate(pairs)
    np.testing.assert_allclose(kept[:, 0] @ kept[:, 1].T, np.eye(4), atol=1e-10)
    np.testing.assert_allclose(kept[-1], pairs[-1], rtol=1e-12)
    root, _ = pathfinder.inverse_curvature(np.full(4, 7.0), kept)
    np.testing.assert_allclose(root @ root.T, np.linalg.inv(precision), rtol=1e-8)
    assert len(pathfinder.conjugate(pairs[5:7])) == 1
    assert pathfinder.conjugate(np.zeros((0, 2, 4))).shape == (0, 2, 4)


def test_the_diagonal_learns_scales(rng):
    precision = np.array([100.0, 1.0, 0.01])
    scale = np.ones(3)
    for s in rng.normal(size=(60, 3)) / np.sqrt(precision):
        new = pathfinder.rescaled(scale, s, precision * s)
        a, b, c = (precision * s) @ (scale * precision * s), s @ (precision * s), s @ (s / scale)
        # BFGS's update of diag(b/a·scale)⁻¹, written out: B - Bssᵀ B/(sᵀBs) + yyᵀ/(yᵀs)
        dense = np.diag(a / b / scale)
        dense = dense - np.outer(dense @ s, dense @ s) / (s @ dense @ s) + np.outer(precision * s, precision * s) / b
        np.testing.assert_allclose(1 / new, np.diag(dense), rtol=1e-9)
        assert c > 0
        scale = new
    assert np.all(np.abs(np.log(scale * precision)) < 1.5)


# -- laws ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("seed", "k", "scale"), [(3, K, 1.0), (4, K, 10.0), (5, 20, 1.0)])
def test_a_normal_target_is_exact(seed, k, scale, make_normal):
    target, mean, covariance, want = make_normal(seed, k, scale)
    found = Pathfinder(paths=2).run(target)
    unit = np.sqrt(np.diag(covariance))
    np.testing.assert_allclose((found.center - mean) / unit, 0, atol=1e-5)
    np.testing.assert_allclose(found.covariance / np.outer(unit, unit), covariance / np.outer(unit, unit), atol=1e-5)
    np.testing.assert_allclose(found.log_evidence, want, rtol=1e-6)
    assert found.verdict == "No sign of trouble."


def test_a_short_history_and_few_steps_are_worse(make_normal):
    target, _, _, want = make_normal(k=K)
    exact = float(Pathfinder().run(target).log_evidence)
    short = float(Pathfinder(history=2).run(target).log_evidence)
    early = float(Pathfinder(max_steps=3, paths=1).run(target).log_evidence)
    assert early < want - 0.1 and short < want - 1e-3 < exact < want + 1e-3  # ELBOs of laws that are not exact


def gamma(theta, shape, rate):
    return (shape - 1) * jnp.log(theta) - rate * theta


def test_constrained_densities():
    found = credo.condition(
        gamma, 1.0, data=(jnp.asarray(30.0), jnp.asarray(5.0)), constraints={"": "positive"}, using=Pathfinder()
    )
    # u = log θ has density ∝ exp(30u - 5eᵘ): mode log(30/5), curvature 30 there
    np.testing.assert_allclose(found.center, np.log(6.0), atol=0.05)
    np.testing.assert_allclose(found.root[0, 0], 30**-0.5, rtol=0.05)
    assert np.all(np.asarray(found.values) > 0) and abs(float(found.mean) - 6.0) < 0.2
    assert found.verdict == "No sign of trouble."


def test_a_glm_may_use_it(rng):
    x = rng.normal(size=(60, 2))
    y = (x[:, 0] + rng.logistic(size=60) > 0).astype(int)
    by_path = credo.Logistic().condition(x, y, using=Pathfinder())
    by_mode = credo.Logistic().condition(x, y, using=Laplace())
    np.testing.assert_allclose(by_path.predict(x).probs, by_mode.predict(x).probs, atol=0.03)


def test_the_funnel_has_no_mode_and_still_a_law():
    found = Pathfinder().run(FUNNEL)
    v, sd = float(found.center[0]), float(found.covariance[0, 0]) ** 0.5
    assert abs(v) < 4 and 0.3 < sd < 6
    assert np.isfinite(found.log_evidence) and float(found.log_evidence) < 0  # the density is normalized
    assert found.notes
    low = Laplace().run(FUNNEL)
    assert float(low.center[0]) < v - 3 and low.notes  # climbs down into the neck


def test_eight_schools():
    found = Pathfinder().run(SCHOOLS)
    # log p(y) by quadrature over (μ, τ), with θ integrated out
    mu, tau = np.meshgrid(np.linspace(-25, 30, 400), np.exp(np.linspace(-8, 6, 400)), indexing="ij")
    y, sigma = (np.asarray(v)[:, None, None] for v in SCHOOLS.data)
    log = np.asarray(stats.norm.logpdf(y, mu, np.sqrt(sigma**2 + tau**2))).sum(0)
    log += np.asarray(stats.norm.logpdf(mu, 0, 5) + stats.cauchy.logpdf(tau, 0, 5))
    want = np.log(np.trapezoid(np.trapezoid(np.exp(log) * tau, np.log(tau[0]), axis=1), mu[:, 0]))
    assert want - 4 < float(found.log_evidence) < want


def two_modes(theta):
    return jnp.logaddexp(-0.5 * jnp.sum((theta - 4) ** 2), -0.5 * jnp.sum((theta + 4) ** 2))


def test_other_modes_are_mentioned():
    target = Target(ParameterSpace.of(np.zeros(2)), two_modes, ())
    found = Pathfinder(paths=6).run(target)
    assert any("of what the paths found lies outside of this law" in note for note in found.notes)
    starts, _ = Pathfinder(paths=6).starts(target, np.zeros(2), 40)
    share = (starts[:, 0] > 0).mean()
    assert 0.1 < share < 0.9  # half of the mass on each side, whatever the number of paths there: sd 0.08


# -- starts -------------------------------------------------------------------------------------------------------


def test_starts_have_the_law_of_the_target(make_normal):
    target, mean, covariance, _ = make_normal(k=K)
    starts, law = Pathfinder(paths=4).starts(target, target.check(), 1000)
    assert len(np.unique(starts, axis=0)) == 1000
    z = np.linalg.solve(np.linalg.cholesky(covariance), (starts - mean).T).T
    np.testing.assert_allclose(z.mean(0), 0, atol=4.5 / 1000**0.5)
    np.testing.assert_allclose(z.T @ z / 1000, np.eye(K), atol=4.5 * (2 / 1000) ** 0.5)
    np.testing.assert_allclose(law.center, mean, atol=1e-4)
    again, _ = Pathfinder(paths=4).starts(target, target.check(), 1000)
    np.testing.assert_array_equal(starts, again)
    other, _ = Pathfinder(paths=4).starts(target, target.check(), 1000, seed=1)
    assert not np.any(np.isclose(starts, other).all(1))


def far(theta, place):
    return -0.5 * jnp.sum(((theta - place) / jnp.array([0.01, 100.0])) ** 2)


def test_chains_start_where_the_posterior_is():
    place = jnp.array([3000.0, -4000.0])
    target = Target(ParameterSpace.of(np.zeros(2)), far, (place,))
    sampler = NUTS(chains=2, draws=200, warmup=300, max_depth=6, start="pathfinder")
    found = sampler.run(target)
    z = (np.asarray(found.kept()) - np.asarray(place)) / np.array([0.01, 100.0])
    se = z.std(0) / np.sqrt(found.diagnostics.ess_bulk)
    assert np.all(np.abs(z.mean(0)) < 4.5 * se) and np.all(found.diagnostics.rhat < 1.05)
    starts, tuning, _ = sampler.prepare(target, target.check(), 0)
    np.testing.assert_allclose(
        tuning.inverse_mass_matrix_root, np.diag([0.01, 100.0]), rtol=1e-4, atol=1e-4
    )  # a root of the covariance
    assert np.all(np.abs((starts - np.asarray(place)) / np.array([0.01, 100.0])) < 5)
    _, tuning, _ = NUTS(metric="diagonal", start=Pathfinder(paths=1)).prepare(target, target.check(), 0)
    np.testing.assert_allclose(tuning.inverse_mass_matrix_root, [0.01, 100.0], rtol=1e-4)
    around, tuning, _ = NUTS(chains=2).prepare(target, target.check(), 0)
    np.testing.assert_array_equal(tuning.inverse_mass_matrix_root, np.eye(2))
    assert np.all(np.abs(around) < 10)  # the default is as it was


def test_every_sampler_has_it_and_compiled_code_does_not_depend_on_it(make_normal):
    target, mean, covariance, _ = make_normal(k=K)
    for sampler in (RandomWalk, HMC, NUTS):
        chosen = sampler(chains=3, start="pathfinder")
        starts = chosen.prepare(target, target.check(), 2).starts
        z = np.linalg.solve(np.linalg.cholesky(covariance), (starts - mean).T)
        assert starts.shape == (3, K) and np.all(np.abs(z) < 6)
        assert chosen.program() == sampler().program()


def walled(theta):
    return jnp.where(jnp.all(jnp.abs(theta) < 1e-3), -0.5 * theta @ theta, -jnp.inf)


def test_bad_input(make_normal):
    target, *_ = make_normal(k=K)
    for name, value in (("paths", 0), ("draws", 1), ("max_steps", 0), ("history", True)):
        with pytest.raises(DataError, match=f"{name} must be a whole number"):
            Pathfinder(**{name: value}).run(target)
    with pytest.raises(DataError, match="spread must be a number of at least 0"):
        Pathfinder(spread=-1.0).run(target)
    with pytest.raises(DataError, match="start must be 'init', 'pathfinder' or a Pathfinder"):
        NUTS(start="mode").run(target)
    with pytest.raises(NotConverged, match="no law with a finite ELBO"):
        Pathfinder(paths=2).run(Target(ParameterSpace.of(np.zeros(K)), walled, ()))
