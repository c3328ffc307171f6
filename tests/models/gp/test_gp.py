"""`GP` against dense NumPy: condition, predict, evidence and its gradient, more rows, missing and noisy ones."""

import warnings

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import optimize, stats

import credo
from credo.core import params
from credo.errors import DataError, MisfitWarning, NotPositiveDefinite
from credo.kernels import RBF, Constant, Exponential, Matern32, Matern52, White
from credo.models.features import Polynomial
from credo.models.gp import Basis, Staged, Zero
from credo.models.gp import Constant as ConstantMean
from credo.models.gp.evidence import CompiledModel, EvidenceObjective
from credo.models.linear import KnownNoise, Linear

RNG = np.random.default_rng(11)
X = RNG.normal(size=(20, 2))
Y = np.sin(2 * X[:, 0]) + X[:, 1] + 0.1 * RNG.normal(size=20)
Q = RNG.normal(size=(7, 2))
KERNEL = Matern52([0.7, 1.3], 1.7)


def matern52(a, b, lengthscale=(0.7, 1.3), variance=1.7):
    r = np.sqrt(5) * np.sqrt((((a[:, None] - b[None]) / np.asarray(lengthscale)) ** 2).sum(-1))
    return variance * (1 + r + r**2 / 3) * np.exp(-r)


def dense(x, y, q, k=matern52, mean=0.0, noise=0.2):
    """The posterior mean and covariance at q, and the log evidence, by the textbook."""
    covariance = k(x, x) + np.diag(np.broadcast_to(noise, len(y)))
    gain = np.linalg.solve(covariance, k(x, q)).T
    evidence = stats.multivariate_normal(np.full(len(y), mean), covariance).logpdf(y)
    return mean + gain @ (y - mean), k(q, q) - gain @ k(x, q), evidence


def gp(kernel=KERNEL, mean=0.0, noise=0.2):
    return credo.GP(kernel, mean, noise)


@pytest.mark.parametrize("n", [1, 20, 300])  # beyond 256 rows LAPACK takes over
def test_posterior_and_evidence_are_the_textbook_s(n):
    x = RNG.normal(size=(n, 2))
    y = np.cos(x).sum(1)
    mean, covariance, evidence = dense(x, y, Q)
    after = gp().condition(x, y)
    p = after.predict(Q, joint=True)
    np.testing.assert_allclose(p.mean, mean, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(p.epistemic, np.diag(covariance), rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(p.latent_covariance, covariance, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(p.aleatoric, 0.2)
    np.testing.assert_allclose(gp().log_evidence(x, y), evidence, rtol=1e-10)
    np.testing.assert_allclose(after.covariance(Q[:2], Q), covariance[:2], rtol=1e-8, atol=1e-10)


def test_the_prior_predicts_too():
    p = gp(mean=3.0).predict(Q)
    np.testing.assert_allclose(p.mean, 3.0)
    np.testing.assert_allclose(p.epistemic, 1.7)


@pytest.mark.parametrize(("n", "k"), [(20, 1), (20, 5), (31, 2), (60, 9), (300, 1), (318, 7)])
def test_more_rows_equal_starting_over(n, k):
    x, y = RNG.normal(size=(n + k, 2)), RNG.normal(size=n + k)
    grown = gp().condition(x[:n], y[:n]).condition(x[n:], y[n:])
    whole = gp().condition(x, y)
    a, b = grown.predict(Q), whole.predict(Q)
    np.testing.assert_allclose(a.mean, b.mean, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(a.epistemic, b.epistemic, rtol=1e-9, atol=1e-12)
    assert grown.seen.n == n + k
    again = grown.condition(Q, np.zeros(len(Q)))
    mean, *_ = dense(np.concatenate([x, Q]), np.concatenate([y, np.zeros(len(Q))]), Q)
    np.testing.assert_allclose(again.predict(Q).mean, mean, rtol=1e-8, atol=1e-10)


@pytest.fixture
def compiled():
    """The programs that XLA compiles during a test."""
    from jax._src import monitoring

    events = []

    def listen(name, *args, **kwargs):
        events.extend([name] * (name == "/jax/core/compile/backend_compile_duration"))

    monitoring.register_event_duration_secs_listener(listen)
    yield events
    monitoring.unregister_event_duration_listener(listen)


def test_one_row_at_a_time_compiles_nothing(compiled):
    belief = gp(RBF(1.234)).condition(X[:10], Y[:10])
    for i in range(100):
        belief = belief.condition(RNG.normal(size=(1, 2)), [float(i % 3)])
        belief.predict(Q)
    assert belief.seen.n == 110
    assert not compiled


def test_a_fit_and_its_prediction_compile_nothing(compiled):
    x = np.random.default_rng(5).normal(size=(37, 5))
    prediction = credo.fit(credo.GP(), x, np.sin(x[:, 0])).predict(x[:7])
    assert all(isinstance(v, np.ndarray) for v in (prediction.mean, prediction.std, *prediction.interval(0.95)))
    assert not compiled


@pytest.mark.parametrize("n", [20, 300])
def test_the_gradient_of_the_evidence_by_four_ways(n):
    x, y = RNG.normal(size=(n, 2)), RNG.normal(size=n)
    belief = gp()
    rows = belief.statistics(x, y)
    slots = params.layout(belief)
    u = np.asarray(params.to_vector(belief, slots))

    def log_evidence(v):
        return params.from_vector(belief, slots, v).evidence_of(rows)

    by_vjp = np.asarray(jax.grad(log_evidence)(jnp.asarray(u)))
    value, by_host = EvidenceObjective(CompiledModel(belief, slots, rows, {})).value_and_grad(u)
    np.testing.assert_allclose(value, log_evidence(jnp.asarray(u)), rtol=1e-10)
    np.testing.assert_allclose(by_host, by_vjp, rtol=1e-8, atol=1e-8)
    by_difference = optimize.approx_fprime(u, lambda v: float(log_evidence(jnp.asarray(v))), 1e-6)
    np.testing.assert_allclose(by_vjp, by_difference, rtol=1e-3, atol=1e-3)
    # The trace formula, ½ tr((ααᵀ - K⁻¹) ∂K/∂θ), with ∂K/∂θ from a two-point kernel differentiated by JAX.
    names = params.coordinate_names(slots)
    covariance = matern52(x, x) + 0.2 * np.eye(n)
    inverse = np.linalg.inv(covariance)
    alpha = inverse @ y
    gap = 0.5 * (np.outer(alpha, alpha) - inverse)

    def two_points(a, b, v):
        return params.from_vector(belief, slots, v).kernel.of(a, b)

    slope = jax.jit(jax.vmap(jax.vmap(jax.grad(two_points, 2), (None, 0, None)), (0, None, None)))
    slopes = np.array(slope(jnp.asarray(x), jnp.asarray(x), jnp.asarray(u)))
    slopes[..., names.index("noise")] = 0.2 * np.eye(n)
    np.testing.assert_allclose(np.einsum("ij,ijk->k", gap, slopes), by_vjp, rtol=1e-7, atol=1e-7)


@pytest.mark.parametrize("n", [20, 280])
def test_leave_one_out_is_refitting_without_each(n):
    x, y = RNG.normal(size=(n, 2)), RNG.normal(size=n)
    loo = gp(mean=1.0).condition(x, y).leave_one_out()
    for i in (0, 7, n - 1):
        rest = np.arange(n) != i
        mean, covariance, _ = dense(x[rest], y[rest], x[[i]], mean=1.0)
        np.testing.assert_allclose(loo.mean[i], mean[0], rtol=1e-8, atol=1e-9)
        np.testing.assert_allclose(loo.epistemic[i], covariance[0, 0], rtol=1e-7, atol=1e-9)
        np.testing.assert_allclose(loo.aleatoric[i], 0.2)


def test_missing_outcomes_are_left_out():
    y = np.where(np.arange(20) % 3 == 0, np.nan, Y)
    there = ~np.isnan(y)
    p, want = gp().condition(X, y).predict(Q), gp().condition(X[there], Y[there]).predict(Q)
    np.testing.assert_allclose(p.mean, want.mean, rtol=1e-10)
    with pytest.raises(DataError, match="NaN"):
        gp().condition(X, np.full(20, np.nan))


def test_every_row_may_have_its_own_noise():
    noise = np.linspace(0.05, 1.0, 20)
    mean, covariance, evidence = dense(X, Y, Q, noise=noise)
    known = credo.GP(KERNEL, 0.0, KnownNoise())
    p = known.condition(X, Y, noise=noise).predict(Q, noise=np.full(7, 0.3))
    np.testing.assert_allclose(p.mean, mean, rtol=1e-8)
    np.testing.assert_allclose(p.epistemic, np.diag(covariance), rtol=1e-8)
    np.testing.assert_allclose(p.aleatoric, 0.3)
    np.testing.assert_allclose(known.log_evidence(X, Y, noise=noise), evidence, rtol=1e-10)
    weighted = gp().condition(X, Y, weights=0.2 / noise).predict(Q)
    np.testing.assert_allclose(weighted.mean, mean, rtol=1e-8)
    with pytest.raises(DataError, match="KnownNoise"):
        known.condition(X, Y)
    with pytest.raises(DataError, match="not both"):
        gp().condition(X, Y, weights=noise, noise=noise)
    assert "noise" not in params.learnable(credo.fit(gp(noise=1.0), X, Y, noise=noise))


def test_a_basis_is_integrated_out():
    design = np.column_stack([np.ones(20), X])
    queries = np.column_stack([np.ones(7), Q])
    spread = np.diag([4.0, 2.0, 1.0])

    def k(a, b):
        pick = {20: design, 7: queries}
        return matern52(a, b) + pick[len(a)] @ spread @ pick[len(b)].T

    mean, covariance, evidence = dense(X, Y, Q, k)
    belief = credo.GP(KERNEL, Basis(covariance=np.diag(spread)), 0.2)
    p = belief.condition(X, Y).predict(Q)
    np.testing.assert_allclose(p.mean, mean, rtol=1e-8)
    np.testing.assert_allclose(p.epistemic, np.diag(covariance), rtol=1e-8)
    np.testing.assert_allclose(belief.log_evidence(X, Y), evidence, rtol=1e-10)


def test_mean_functions():
    base = gp().condition(X, Y - 3.0).predict(Q)
    for mean in (3.0, lambda x: jnp.full(x.shape[0], 3.0), ConstantMean(3.0, 0.0)):
        np.testing.assert_allclose(gp(mean=mean).condition(X, Y).predict(Q).mean, base.mean + 3.0, rtol=1e-10)
    line = credo.fit(Linear(), X, Y)
    p = gp(mean=line).condition(X, Y).predict(Q)
    residual = gp().condition(X, Y - np.asarray(line.predict(X).mean)).predict(Q)
    np.testing.assert_allclose(p.mean, residual.mean + line.predict(Q).mean, rtol=1e-8)
    trend = credo.fit(gp(mean=Polynomial(2), noise=1.0), X, Y)
    assert isinstance(trend.mean, Basis) and np.isfinite(trend.predict(Q).mean).all()
    with pytest.raises(DataError, match="mean must be"):
        credo.GP(RBF(), "linear")
    unknown = credo.GP(KERNEL, ConstantMean(0.0, 5.0), 0.2).condition(X, Y).predict(Q)
    summed = gp(KERNEL + Constant(5.0)).condition(X, Y).predict(Q)
    np.testing.assert_allclose(unknown.mean, summed.mean, rtol=1e-10)


@pytest.mark.parametrize("unit", [1e-8, 1.0, 1e8])
def test_units_do_not_matter(unit):
    x, y = X * np.array([unit, 1.0]), Y / unit
    base = credo.fit(credo.GP(), X, Y)
    p = credo.fit(credo.GP(), x, y).predict(Q * np.array([unit, 1.0]))
    np.testing.assert_allclose(p.mean * unit, base.predict(Q).mean, rtol=2e-2, atol=2e-2)
    np.testing.assert_allclose(p.std * unit, base.predict(Q).std, rtol=5e-2)


@pytest.mark.slow
def test_awkward_data():
    twice = np.concatenate([X, X])
    p = credo.fit(credo.GP(), twice, np.concatenate([Y, Y])).predict(Q)
    assert np.isfinite(p.mean).all() and (p.variance > 0).all()
    noiseless = gp(noise=1e-12).condition(twice, np.concatenate([Y, Y])).predict(X)
    np.testing.assert_allclose(noiseless.mean, Y, atol=1e-3)
    assert (np.asarray(noiseless.epistemic) >= 0).all()
    constant = np.column_stack([X, np.full(20, 7.0)])
    queries = np.column_stack([Q, np.full(7, 7.0)])
    np.testing.assert_allclose(
        credo.fit(credo.GP(), constant, Y).predict(queries).mean, credo.fit(credo.GP(), X, Y).predict(Q).mean, atol=0.3
    )
    one = credo.fit(credo.GP(), [[1.0]], [3.0]).predict([[1.0], [50.0]])
    assert np.isfinite(one.mean).all() and one.epistemic[1] > one.epistemic[0]
    wide = RNG.normal(size=(4, 9))
    assert np.isfinite(credo.fit(credo.GP(), wide, wide[:, 0]).predict(wide).mean).all()
    flat = credo.fit(credo.GP(), X, np.full(20, 2.0)).predict(Q)
    np.testing.assert_allclose(flat.mean, 2.0, atol=0.1)
    with pytest.raises(NotPositiveDefinite, match="dependent rows"):
        credo.GP(credo.kernels.Custom(lambda a, b: -(a * b).sum()), 0.0, 1e-6).condition(X, Y)


@pytest.mark.parametrize("n", [30, 400])
def test_gradients_and_negative_variances_at_coincident_points(n):
    x = np.repeat(RNG.normal(size=(n // 2, 2)), 2, axis=0)
    for kernel in (Exponential(), Matern32(), Matern52(), RBF()):
        belief = credo.GP(kernel, 0.0, 1e-10)
        rows = belief.statistics(x, np.sin(x[:, 0]))
        gradient = eqx.filter_jit(eqx.filter_grad(lambda b, r: b.evidence_of(r)))(belief, rows)
        assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(gradient))
        assert (np.asarray(belief.condition(x, np.sin(x[:, 0])).predict(x).epistemic) >= 0).all()


def test_fit_finds_what_made_the_data():
    rng = np.random.default_rng(1)
    x = rng.uniform(-3, 3, size=(150, 2))
    truth = gp(RBF([0.8, 2.0], 2.0), noise=0.05)
    f = np.linalg.cholesky(np.asarray(truth.kernel(x)) + 1e-9 * np.eye(150)) @ rng.normal(size=150)
    y = f + np.sqrt(0.05) * rng.normal(size=150)
    report = credo.fit(credo.GP(RBF(ard=True), Zero()), x, y, report=True)
    assert report.status == "converged"
    belief = report.belief
    np.testing.assert_allclose(belief.kernel.lengthscale, [0.8, 2.0], rtol=0.25)
    np.testing.assert_allclose(belief.noise, 0.05, rtol=0.4)
    rows = truth.statistics(x, y)
    priors = belief.default_priors(rows)
    assert report.log_evidence >= float(truth.evidence_of(rows) + params.log_prior(truth, priors))
    q = rng.uniform(-3, 3, size=(400, 2))
    joint = np.linalg.cholesky(np.asarray(truth.kernel(np.concatenate([x, q]))) + 1e-9 * np.eye(550))
    f_new = joint[150:, :150] @ np.linalg.solve(joint[:150, :150], f) + joint[150:, 150:] @ rng.normal(size=400)
    interval = belief.predict(q).interval(0.95)
    y_new = f_new + np.sqrt(0.05) * rng.normal(size=400)
    inside = (y_new > interval.lower) & (y_new < interval.upper)
    assert 0.90 < inside.mean() < 0.99


def test_staged_learning_reaches_the_maximum_of_a_full_climb():
    rng = np.random.default_rng(2)
    x = rng.normal(size=(420, 3))
    y = np.sin(2 * x[:, 0]) + 0.3 * x[:, 1] + 0.1 * rng.normal(size=420)
    staged = credo.learn(credo.GP(), x, y, report=True)
    full = credo.learn(credo.GP(), x, y, using=credo.infer.Evidence(starts=2), report=True)
    assert abs(staged.log_evidence - full.log_evidence) < 0.05
    assert "went on" in staged.notes[-1]


def test_priors_can_be_changed_and_taken_away():
    from numpyro.distributions import LogNormal

    few, outcomes = X[:6], Y[:6]
    rows = credo.GP(RBF()).statistics(few, outcomes)
    defaults = credo.GP(RBF()).default_priors(rows)
    assert set(defaults) == {"kernel.lengthscale", "kernel.variance", "noise"}
    held = credo.learn(credo.GP(RBF()), few, outcomes, priors={"noise": LogNormal(np.log(0.5), 0.01)})
    np.testing.assert_allclose(held.noise, 0.5, rtol=0.02)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", credo.errors.NotConvergedWarning)
        plain = credo.learn(credo.GP(RBF()), few, outcomes, priors=False, report=True)
        usual = credo.learn(credo.GP(RBF()), few, outcomes)
    bare = float(
        credo.GP(RBF(usual.kernel.lengthscale, usual.kernel.variance), usual.mean, usual.noise).evidence_of(rows)
    )
    assert plain.log_evidence >= bare - 1e-6  # without priors the evidence itself is climbed


def test_what_is_fixed_stays():
    belief = credo.fit(credo.GP(RBF(0.5), noise=0.3), X, Y, fixed=["noise", "kernel.lengthscale"])
    np.testing.assert_allclose(belief.noise, 0.3)
    np.testing.assert_allclose(belief.kernel.lengthscale, 0.5)


def test_learning_goes_on_from_all_rows_seen():
    first = credo.fit(credo.GP(), X[:12], Y[:12])
    more = credo.fit(first, X[12:], Y[12:], using=Staged())
    assert more.seen.n == 20
    assert "20 rows" in repr(more)


def test_names_of_a_data_frame_are_kept():
    import pandas as pd

    table = pd.DataFrame(X, columns=["height", "weight"])
    assert credo.fit(credo.GP(), table, Y).inputs == ("height", "weight")
    assert credo.GP().condition(table, Y).inputs == ("height", "weight")


def test_refusals():
    with pytest.raises(DataError, match="takes a kernel first"):
        credo.GP(3.0)
    with pytest.raises(DataError, match="variance and must be positive"):
        credo.GP(RBF(), noise=-1.0)
    with pytest.raises(DataError, match="2 columns"):
        gp().condition(X, Y).predict(Q[:, :1])
    with pytest.raises(DataError, match="lengthscales for inputs with 3 columns"):
        gp().condition(np.ones((3, 3)), [1, 2, 3])
    with pytest.raises(DataError, match="X and y"):
        gp().condition(X)
    with pytest.raises(DataError, match="seen no data"):
        gp().leave_one_out()


def test_white_noise_in_the_kernel_is_noise_in_the_model():
    np.testing.assert_allclose(
        credo.GP(KERNEL + White(0.1), 0.0, 0.1).log_evidence(X, Y), gp().log_evidence(X, Y), rtol=1e-10
    )


@pytest.mark.parametrize("n", [20, 300])
def test_watched_candidates_follow_every_row(n):
    x, y = RNG.normal(size=(n + 40, 2)), RNG.normal(size=n + 40)
    watched = gp(mean=1.0).condition(x[:n], y[:n]).at(Q)
    np.testing.assert_allclose(watched.predict().mean, watched.belief.predict(Q).mean, rtol=1e-8)
    for start, stop in ((n, n + 1), (n + 1, n + 4), (n + 4, n + 40)):
        watched = watched.condition(x[start:stop], y[start:stop])
        mean, covariance, _ = dense(x[:stop], y[:stop], Q, mean=1.0)
        np.testing.assert_allclose(watched.predict().mean, mean, rtol=1e-7, atol=1e-9)
        np.testing.assert_allclose(watched.predict().epistemic, np.diag(covariance), rtol=1e-7, atol=1e-9)
        assert watched.belief.seen.n == stop


@pytest.mark.parametrize("family", [credo.GP, credo.WarpedGP, lambda **given: credo.MultiGP(outputs=1, **given)])
def test_a_noise_of_one_that_was_given_is_where_learning_starts(family):
    x, y = RNG.normal(size=(12, 1)), 50.0 * RNG.normal(size=12)
    outcomes = y[:, None] if isinstance(family(), credo.MultiGP) else y
    given, free = (family(**noise).prepare(x, outcomes)[0] for noise in ({"noise": 1.0}, {}))
    np.testing.assert_allclose(given.noise, 1.0)
    assert np.all(np.asarray(free.noise) > 10.0)


def test_one_lengthscale_for_columns_in_unlike_units_is_said():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(12, 3)) * [1e-3, 1e3, 0.0]
    with pytest.warns(MisfitWarning, match=r"RBF has one lengthscale .* factor of .e\+0[56].*RBF\(ard=True\)"):
        credo.GP(RBF()).prepare(x, x[:, 1])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        credo.GP(RBF(ard=True)).prepare(x, x[:, 1])
        credo.GP(RBF()).prepare(x * [1e4, 1.0, 1.0], x[:, 1])


def test_conditioning_warns_where_the_outcomes_contradict_the_noise():
    rng = np.random.default_rng(0)
    x = rng.uniform(0, 10, size=(40, 2))
    y = 57 * np.sin(x[:, 0]) + 20 * rng.normal(size=40)
    with pytest.warns(MisfitWarning, match=r"contradict the noise variance of 1 that counts.*credo.fit"):
        credo.GP().condition(x, y)
    with pytest.warns(MisfitWarning, match=r"contradict the noise variance of 0.5, or the kernel"):
        credo.GP(noise=0.5).condition(x, y)
    with pytest.warns(MisfitWarning, match=r"contradict the noise of the rows"):
        credo.GP(noise=KnownNoise()).condition(x, y, noise=np.full(40, 0.5))
    with pytest.warns(MisfitWarning, match=r"contradict the noise variance of \[0.5, 0.5\]"):
        credo.MultiGP(outputs=2, noise=0.5).condition(x, np.column_stack([y, -y]))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        credo.GP(RBF(9.0), 0.0, 0.1).condition(
            x, 30.0 + np.sin(x[:, 0] / 3)
        )  # another mean than zero: most intervals hold
        credo.GP(noise=0.01).condition(x, np.sin(x[:, 0] / 3) + 40.0 * (np.arange(40) == 7))  # an outlier
        gp = credo.learn(credo.GP(), x, y).condition(x, y)
        credo.GP(noise=400.0).condition(x, y)
    assert np.mean(np.abs(y - np.asarray(gp.predict(x).mean)) < 1.96 * np.asarray(gp.predict(x).std)) > 0.9


@pytest.mark.parametrize(("a", "b"), [(1e-12, 0.0), (1e12, 0.0), (1.0, 1e8)])
def test_learning_does_not_depend_on_units_and_zeros(a, b):
    """The climb ends by what is gained, which has no units; a mean of 1e8 standard deviations is no constant."""
    rng = np.random.default_rng(3)
    x = rng.uniform(-2, 2, size=(24, 2))
    y = np.sin(2 * x[:, 0]) + 0.5 * x[:, 1] + 0.2 * rng.normal(size=24)
    shift = a * b * y.std()
    one = credo.fit(credo.GP(), x, y).predict(x[:5])
    other = credo.fit(credo.GP(), x, a * y + shift).predict(x[:5])
    np.testing.assert_allclose((np.asarray(other.mean) - shift) / a, one.mean, atol=1e-5 * float(np.min(one.std)))
    np.testing.assert_allclose(np.asarray(other.std) / a, one.std, rtol=1e-5)


@pytest.mark.slow
def test_learning_is_as_high_as_scikit_learns():
    """A climb on a third of 200 rows gave up columns that matter, and ended up to eight nats below."""
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import ConstantKernel, Matern, WhiteKernel

    n, d = 120, 6
    for seed in range(4):
        rng = np.random.default_rng(seed)
        x = rng.normal(size=(n, d))
        truth = Matern52(np.exp(rng.normal(0.5, 1.0, d)), 1.0)(x)
        y = rng.multivariate_normal(np.zeros(n), np.asarray(truth)) + (0.05, 0.2)[seed % 2] * rng.normal(size=n)
        kernel = ConstantKernel(1.0) * Matern(np.ones(d), (1e-5, 1e5), nu=2.5) + WhiteKernel(1.0, (1e-8, 1e3))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            peer = GaussianProcessRegressor(kernel, alpha=1e-10).fit(x, y).log_marginal_likelihood_value_
            learned = credo.learn(credo.GP(Matern52(ard=True), 0.0), x, y, priors=False, report=True)
        assert learned.log_evidence > peer - 0.05
