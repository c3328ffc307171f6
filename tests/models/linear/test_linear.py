"""The exact linear model against dense formulas, SciPy and brute force."""

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
from scipy import integrate, stats

import credo
from credo.core.chunks import chunks
from credo.core.gaussian import Gaussian
from credo.errors import DataError, MisfitWarning
from credo.kernels import RBF, random_features
from credo.models.features import Affine, BSpline, Polynomial
from credo.models.gp import Independent
from credo.models.linear import (
    ARD,
    Covariance,
    FunctionSpace,
    Intercept,
    InverseGamma,
    Isotropic,
    KnownNoise,
    Linear,
    StudentTNoise,
)

N, D = 40, 3

pytestmark = pytest.mark.filterwarnings("ignore::credo.errors.MisfitWarning")  # of models that are wrong on purpose


@pytest.fixture
def data(rng):
    x = rng.normal(size=(N, D))
    return x, x @ [1.0, -0.5, 0.0] + 2 + 0.3 * rng.normal(size=N)


@pytest.fixture
def new(rng):
    return rng.normal(size=(7, D))


def gaussian_prior(rng):
    a = rng.normal(size=(D, D))
    return Gaussian(jnp.asarray(rng.normal(size=D)), jnp.asarray(a @ a.T + np.eye(D)))


def dense(belief: Linear, x: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Design matrix, prior mean and prior covariance of (b, w), written out."""
    phi = np.asarray(belief.features(jnp.asarray(x)))
    p = phi.shape[1]
    if isinstance(belief.prior, Gaussian):
        mean, cov = np.asarray(belief.prior.mean), np.asarray(belief.prior.covariance)
    else:
        mean, cov = np.zeros(p), np.diag(1 / np.broadcast_to(belief.prior.precision, p))
    if belief.intercept is None:
        return phi, mean, cov
    full = np.zeros((p + 1, p + 1))
    full[0, 0], full[1:, 1:] = belief.intercept.variance, cov
    return np.column_stack([np.ones(len(x)), phi]), np.concatenate([[belief.intercept.mean], mean]), full


BELIEFS = {
    "default": lambda rng: Linear(),
    "no intercept": lambda rng: Linear(noise=0.4, intercept=False),
    "general prior": lambda rng: Linear(prior=gaussian_prior(rng), noise=0.2, intercept=Intercept(1.0, 3.0)),
    "ard": lambda rng: Linear(prior=ARD([0.5, 2.0, 9.0]), noise=0.3),
    "polynomial": lambda rng: Linear(Polynomial(2), Isotropic(2.0), noise=0.1),
    "spline": lambda rng: Linear(BSpline(6, domain=(-4.0, 4.0)), noise=0.1),
    "scaled": lambda rng: Linear(Affine([1.0, 2.0, 3.0], [1.0, 2.0, 3.0]), noise=0.1),
}


@pytest.mark.parametrize("name", BELIEFS)
@pytest.mark.parametrize("rows", ["plain", "weights", "noise"])
def test_posterior_evidence_and_prediction_are_the_textbook_ones(name, rows, rng, data, new):
    x, y = data
    belief = BELIEFS[name](rng)
    options = {}
    variance = np.full(N, float(belief.noise))
    if rows == "weights":
        options["weights"] = rng.uniform(0.5, 3, N)
        variance = variance / options["weights"]
    if rows == "noise":
        options["noise"] = variance = rng.uniform(0.05, 0.5, N)
    phi, m0, s0 = dense(belief, x)
    marginal = np.diag(variance) + phi @ s0 @ phi.T
    gain = s0 @ phi.T @ np.linalg.inv(marginal)
    mean, cov = m0 + gain @ (y - phi @ m0), s0 - gain @ phi @ s0
    after = belief.condition(x, y, **options)
    phi_new, *_ = dense(belief, new)
    p = after.predict(new, joint=True)
    np.testing.assert_allclose(p.mean, phi_new @ mean, rtol=1e-8, atol=1e-9)
    np.testing.assert_allclose(p.latent_covariance, phi_new @ cov @ phi_new.T, rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(p.epistemic, np.diag(phi_new @ cov @ phi_new.T), rtol=1e-7)
    np.testing.assert_allclose(p.aleatoric, float(belief.noise))
    np.testing.assert_allclose(after.coefficients().mean, mean, rtol=1e-7, atol=1e-9)
    want = stats.multivariate_normal(phi @ m0, marginal).logpdf(y)
    np.testing.assert_allclose(belief.log_evidence(x, y, **options), want, rtol=1e-9)


def test_before_data_the_prediction_is_the_prior_one(new):
    belief = Linear(prior=Isotropic(4.0), noise=0.5, intercept=Intercept(1.0, 2.0))
    p = belief.predict(new)
    np.testing.assert_allclose(p.mean, 1.0)
    np.testing.assert_allclose(p.epistemic, 2 + (new**2).sum(1) / 4, rtol=1e-12)


def test_unknown_noise_gives_the_student_t_evidence_and_prediction(data, new):
    x, y = data
    belief = Linear(prior=Isotropic(0.7), noise=InverseGamma(2.0, 0.6), intercept=Intercept(0.5, 3.0))
    phi, m0, s0 = dense(belief, x)
    shape = np.eye(N) + phi @ s0 @ phi.T
    want = stats.multivariate_t(phi @ m0, 0.6 / 2.0 * shape, df=4.0).logpdf(y)
    np.testing.assert_allclose(belief.log_evidence(x, y), want, rtol=1e-9)
    after = belief.condition(x, y)
    p = after.predict(new)
    # p(y_new, y)/p(y) is a ratio of two multivariate Student-t densities.
    z = np.asarray(p.mean[0]) + 0.3
    both, _, _ = dense(belief, np.vstack([x, new[:1]]))
    joint = stats.multivariate_t(both @ m0, 0.3 * (np.eye(N + 1) + both @ s0 @ both.T), df=4.0)
    np.testing.assert_allclose(p.log_prob(z)[0], joint.logpdf(np.append(y, z)) - want, rtol=1e-8)
    np.testing.assert_allclose(p.aleatoric + p.epistemic, p.variance)
    np.testing.assert_allclose(p.aleatoric, after.noise_variance(), rtol=1e-12)


def test_unknown_noise_is_the_mixture_over_known_noise(data, new):
    x, y = data
    belief = Linear(prior=Isotropic(1.0), noise=InverseGamma(3.0, 0.5), intercept=Intercept(0.0, 4.0))
    target = float(belief.condition(x, y).predict(new).cdf(2.0)[0])
    prior = stats.invgamma(3.0, scale=0.5)

    def given(v):
        known = Linear(prior=Isotropic(1.0 / v), noise=v, intercept=Intercept(0.0, 4.0 * v))
        return prior.pdf(v) * np.exp(float(known.log_evidence(x, y)) + 30), known

    def weighted_cdf(v):
        weight, known = given(v)
        return weight * float(known.condition(x, y).predict(new[:1]).cdf(2.0)[0])

    nodes, w = np.polynomial.legendre.leggauss(60)
    v = 0.05 + 0.75 * (nodes + 1) / 2
    top = sum(wi * weighted_cdf(vi) for vi, wi in zip(v, w, strict=True))
    bottom = sum(wi * given(vi)[0] for vi, wi in zip(v, w, strict=True))
    np.testing.assert_allclose(top / bottom, target, rtol=1e-6)


@pytest.mark.parametrize("noise", [0.3, InverseGamma(2.0, 0.5)], ids=["known", "unknown"])
@pytest.mark.parametrize("cuts", [[20], list(range(1, 12)), [1, 2, 39]], ids=["halves", "row by row", "uneven"])
def test_rows_one_by_one_or_in_batches_give_the_batch_answer(noise, cuts, data, new, rng):
    x, y = data
    w = rng.uniform(0.5, 2, N)
    belief = Linear(Polynomial(2), noise=noise)
    whole = belief.condition(x, y, weights=w)
    step = belief
    evidence = 0.0
    for part in np.split(np.arange(N), cuts):
        evidence += float(step.log_evidence(x[part], y[part], weights=w[part]))
        step = step.condition(x[part], y[part], weights=w[part])
    np.testing.assert_allclose(step.weights.mean, whole.weights.mean, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(step.weights.precision, whole.weights.precision, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(step.predict(new).variance, whole.predict(new).variance, rtol=1e-8)
    np.testing.assert_allclose(evidence, belief.log_evidence(x, y, weights=w), rtol=1e-9)
    np.testing.assert_allclose(step.seen.gram, whole.seen.gram, rtol=1e-12)


def test_rows_one_at_a_time_are_the_rows_at_once(data, new):
    x, y = data
    belief = Linear().condition(x[:-3], y[:-3])
    for i in range(3):
        belief = belief.condition(x[i - 3 : i - 2 or None], y[i - 3 : i - 2 or None])
    at_once = Linear().condition(x, y).predict(new)
    np.testing.assert_allclose(belief.predict(new).mean, at_once.mean, rtol=1e-9)
    np.testing.assert_allclose(belief.predict(new).variance, at_once.variance, rtol=1e-9)


def test_a_row_that_overflows_is_refused(data):
    x, y = data
    belief = Linear().condition(np.tile(x, (1, 8)), y)
    with pytest.raises(DataError, match="the square of which is no number"):
        belief.condition(np.full((1, 24), 1e200), [0.0])


def test_forgetting_a_batch_is_never_having_seen_it(data, new):
    x, y = data
    belief = Linear(noise=InverseGamma())
    without = belief.condition(x, y).forget(x[:15], y[:15])
    np.testing.assert_allclose(without.predict(new).mean, belief.condition(x[15:], y[15:]).predict(new).mean, rtol=1e-9)
    np.testing.assert_allclose(without.predict(new).variance, belief.condition(x[15:], y[15:]).predict(new).variance)
    with pytest.raises(DataError, match="cannot forget 80 rows: the belief has seen 40"):
        belief.condition(x, y).forget(np.vstack([x, x]), np.append(y, y))
    with pytest.raises(DataError, match="nothing to forget"):
        belief.forget(x, y)


@pytest.mark.parametrize("options", [{}, {"weights": np.linspace(0.5, 2, N)}], ids=["plain", "weights"])
@pytest.mark.parametrize("noise", [0.3, InverseGamma(2.0, 0.5)], ids=["known", "unknown"])
def test_leave_one_out_is_what_n_refits_give(noise, options, data):
    x, y = data
    belief = Linear(noise=noise, intercept=Intercept(1.0, 5.0))
    p = belief.leave_one_out(x, y, **options)
    for i in (0, 7, N - 1):
        keep = np.arange(N) != i
        part = {k: v[keep] for k, v in options.items()}
        q = belief.condition(x[keep], y[keep], **part).predict(x[i : i + 1])
        np.testing.assert_allclose(p.mean[i], q.mean[0], rtol=1e-8)
        np.testing.assert_allclose(p.epistemic[i], q.epistemic[0], rtol=1e-8)
        if not options:
            np.testing.assert_allclose(p.log_prob(y)[i], q.log_prob(y[i])[0], rtol=1e-8)


def test_weight_space_and_function_space_agree(data, new):
    x, y = data
    belief = Linear(Polynomial(3), Isotropic(0.5), noise=0.2, intercept=Intercept(1.0, 2.0))
    weights = belief.condition(x, y)
    function = belief.condition(x, y, using=FunctionSpace())
    p, q = weights.predict(new, joint=True), function.predict(new, joint=True)
    np.testing.assert_allclose(q.mean, p.mean, rtol=1e-7)
    np.testing.assert_allclose(q.latent_covariance, p.latent_covariance, rtol=1e-5, atol=1e-8)
    np.testing.assert_allclose(weights.covariance(new, new), p.latent_covariance, rtol=1e-9)
    np.testing.assert_allclose(function.log_evidence(new, new[:, 0]), weights.log_evidence(new, new[:, 0]), rtol=1e-6)
    step = belief.condition(x[:10], y[:10], using=FunctionSpace()).condition(x[10:], y[10:])
    np.testing.assert_allclose(step.predict(new).mean, p.mean, rtol=1e-7)
    # Before data the covariance of the outcomes is ΦΣ₀Φᵀ with the prior Σ₀.
    phi, _, s0 = dense(belief, x)
    np.testing.assert_allclose(belief.covariance(x, x), phi @ s0 @ phi.T, rtol=1e-9)


def test_jit_and_vmap_leave_the_answer_alone(data, new):
    x, y = (jnp.asarray(a) for a in data)
    belief = Linear(Polynomial(2), noise=InverseGamma())
    eager = belief.condition(x, y).predict(new)
    jitted = jax.jit(lambda b, x, y, z: b.condition(x, y).predict(z))(belief, x, y, jnp.asarray(new))
    np.testing.assert_allclose(jitted.mean, eager.mean, rtol=1e-9)
    np.testing.assert_allclose(jitted.variance, eager.variance, rtol=1e-9)
    targets = jnp.stack([y, 2 * y])
    both = jax.vmap(lambda t: belief.condition(x, t).predict(jnp.asarray(new)).mean)(targets)
    np.testing.assert_allclose(both[1], belief.condition(x, 2 * y).predict(new).mean, rtol=1e-8)
    grad = jax.grad(lambda v: Linear(noise=v).evidence_of(Linear().statistics(x, y)))(jnp.asarray(0.5))
    step = 1e-5
    slope = (Linear(noise=0.5 + step).log_evidence(x, y) - Linear(noise=0.5 - step).log_evidence(x, y)) / (2 * step)
    np.testing.assert_allclose(grad, slope, rtol=1e-6)


def test_large_offsets_do_not_cancel(rng):
    """Years, kelvins, and a target far from zero: `fit` keeps its digits."""
    x = rng.normal(size=(200, 2))
    y = x @ [1.0, -2.0] + 0.1 * rng.normal(size=200)
    near = credo.fit(Linear(), x, y)
    offset = np.array([2e6, -3e5])
    far = credo.fit(Linear(), x + offset, y + 1e6)
    np.testing.assert_allclose(far.noise, near.noise, rtol=1e-5)
    np.testing.assert_allclose(far.predict(x + offset).mean - 1e6, near.predict(x).mean, atol=1e-6)


def test_chunks_of_any_kind_give_the_answer_of_the_whole(data, new, tmp_path):
    x, y = data
    want = Linear().condition(x, y).predict(new)
    np.save(tmp_path / "x.npy", x)
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    frame = pd.DataFrame(x, columns=["a", "b", "c"]).assign(target=y)
    frame.to_parquet(tmp_path / "t.parquet")
    sources = {
        "generator": ((x[i : i + 7], y[i : i + 7]) for i in range(0, N, 7)),
        "list": [(x[:1], y[:1]), (x[1:], y[1:])],
        "memmap": chunks(mapped, y, rows=9),
        "parquet": chunks(tmp_path / "t.parquet", target="target", rows=11),
    }
    for name, source in sources.items():
        got = Linear().condition(source).predict(new)
        np.testing.assert_allclose(got.mean, want.mean, rtol=1e-10, err_msg=name)
        np.testing.assert_allclose(got.variance, want.variance, rtol=1e-10, err_msg=name)
    fitted, learned = credo.fit(Linear(), x, y), credo.fit(Linear(), chunks(x, y, rows=6))
    np.testing.assert_allclose(learned.predict(new).mean, fitted.predict(new).mean, rtol=1e-8)


def test_names_come_from_data_frames_and_columns_are_checked(data):
    x, y = data
    frame = pd.DataFrame(x, columns=["age", "bmi", "bp"])
    belief = credo.fit(Linear(), frame, y)
    assert belief.coefficient_names() == ["intercept", "age", "bmi", "bp"]
    with pytest.raises(DataError, match="must have 3 columns.*found 2"):
        belief.predict(x[:, :2])
    assert Linear().condition(x, y).coefficient_names() == ["intercept", "x0", "x1", "x2"]


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda x, y: Linear(noise=-1.0), "noise is a variance and must be positive"),
        (lambda x, y: Linear(BSpline(5)).condition(x, y), "still has numbers to choose"),
        (lambda x, y: Linear().condition(x), "X and y, or on one iterable"),
        (lambda x, y: Linear().condition(iter(())), "iterable of chunks was empty"),
        (lambda x, y: Linear().condition([x, y]), "chunk 0 must be a tuple"),
        (lambda x, y: Linear().condition(x, y[:5]), "one value per row: 40 are expected, found 5"),
        (lambda x, y: Linear().condition(x, y, weights=np.zeros(N)), "weights must be positive"),
        (lambda x, y: Linear().condition(x, y, weights=np.ones(N), noise=np.ones(N)), "not both"),
        (lambda x, y: Linear(noise=KnownNoise()).condition(x, y), "give the variance of each row"),
        (
            lambda x, y: Linear(noise=InverseGamma()).condition(x, y, noise=np.ones(N)),
            "only where the model's own noise",
        ),
        (lambda x, y: credo.fit(Linear(), x, np.ones(N)), "y is constant"),
        (lambda x, y: Linear(prior=ARD([1.0, 2.0])).condition(x, y), "2 precisions, but there are 3 features"),
        (lambda x, y: Linear(prior=Gaussian.standard(2)).condition(x, y), "2 weights, but the features have 3"),
        (lambda x, y: Linear().condition(x, y).predict(x[:, :1]), "must have 3 columns.*found 1"),
        (lambda x, y: Linear().coefficients(), "seen no data"),
    ],
)
def test_bad_input_is_refused_with_a_sentence(call, words, data):
    with pytest.raises(DataError, match=words):
        call(*data)


def test_heteroscedastic_noise_is_learned_around(rng):
    """With the noise of each row given, `fit` learns the prior and leaves the noise alone."""
    x = rng.normal(size=(300, 1))
    variance = np.where(x[:, 0] > 0, 4.0, 0.01)
    y = 3 * x[:, 0] + np.sqrt(variance) * rng.normal(size=300)
    belief = credo.fit(Linear(), x, y, noise=variance)
    slope = belief.predict([[1.0]]).mean - belief.predict([[0.0]]).mean
    assert abs(float(slope[0]) - 3) < 0.05
    p = belief.predict([[1.0], [-1.0]], noise=[4.0, 0.01])
    np.testing.assert_allclose(p.aleatoric, [4.0, 0.01])
    blind = credo.fit(Linear(), x, y)
    assert p.epistemic.max() < blind.predict([[1.0]]).epistemic.max()


def test_predictive_density_integrates_to_one(data, new):
    p = credo.fit(Linear(noise=InverseGamma()), *data).predict(new[:1])
    total, _ = integrate.quad(lambda z: float(np.exp(p.log_prob(z)[0])), -20, 20, points=[float(p.mean[0])], limit=60)
    np.testing.assert_allclose(total, 1, rtol=1e-6)


def test_random_features_of_a_kernel_are_features_and_a_kernel_is_not():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(40, 3))
    y = np.sin(x[:, 0]) + 0.1 * rng.normal(size=40)
    phi = random_features(RBF(), 200, d=3)
    linear = credo.Linear(phi, prior=Isotropic(1.0), noise=0.01, intercept=None).condition(x, y)
    gp = credo.GP(RBF(), 0.0, 0.01).condition(x, y)
    np.testing.assert_allclose(linear.predict(x[:5]).mean, gp.predict(x[:5]).mean, atol=0.15)
    fitted = credo.fit(credo.Linear(random_features(RBF(), 30, d=3)), x, y)
    assert np.sqrt(np.mean((np.asarray(fitted.predict(x).mean) - np.sin(x[:, 0])) ** 2)) < 0.2
    for make in (credo.Linear, credo.Logistic):
        with pytest.raises(DataError, match=r"takes features first, found RBF; for a kernel use credo.GP\(kernel\)"):
            make(RBF())


def test_noise_that_the_residuals_contradict_is_said():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(100, 2))
    y = 50 * x[:, 0] + 57 * rng.normal(size=100)
    for data in ((x, y), ([(x[:50], y[:50]), (x[50:], y[50:])],)):
        with pytest.warns(MisfitWarning, match="the outcomes contradict the noise"):
            Linear().condition(*data)
    Linear(noise=57.0**2).condition(x, y)
    credo.fit(Linear(), x, y)


@pytest.mark.parametrize("a", [1e-150, 1e150])
def test_outcomes_whose_squares_are_no_numbers_are_refused(a):
    x = np.random.default_rng(0).normal(size=(30, 2))
    with pytest.raises(DataError, match="the squares of y are out of range"):
        credo.fit(Linear(), x, a * x[:, 0])


def test_noise_that_rows_share_is_a_dense_gaussian(tmp_path):
    rng = np.random.default_rng(2)
    n = 12
    x, root = rng.normal(size=(n, 2)), rng.normal(size=(n, n))
    s = 0.1 * root @ root.T + 0.3 * np.eye(n)
    y = x @ [1.0, -2.0] + np.linalg.cholesky(s) @ rng.normal(size=n)
    belief = Linear(prior=Isotropic(0.5), noise=Covariance(s, 0.7), intercept=False)
    after, queries = belief.condition(x, y), rng.normal(size=(3, 2))
    joint = x @ x.T / 0.5 + s
    gain = (queries @ x.T / 0.5) @ np.linalg.inv(joint)
    p = after.predict(queries)
    np.testing.assert_allclose(p.mean, gain @ y, rtol=1e-9)
    np.testing.assert_allclose(p.epistemic, np.diag(queries @ queries.T / 0.5 - gain @ x @ queries.T / 0.5), rtol=1e-9)
    np.testing.assert_allclose(p.aleatoric, 0.7)
    wanted = stats.multivariate_normal(np.zeros(n), joint).logpdf(y)
    np.testing.assert_allclose(belief.log_evidence(x, y), wanted, rtol=1e-9)
    independent = Linear(noise=Covariance(0.3 * np.eye(n))).condition(x, y).predict(queries)
    np.testing.assert_allclose(independent.mean, Linear(noise=0.3).condition(x, y).predict(queries).mean, rtol=1e-9)
    fitted = credo.fit(Linear(noise=Covariance(s)), x, y)
    assert np.all(np.abs(fitted.predict(x).mean - x @ [1.0, -2.0]) < 3.0)
    credo.save(fitted, tmp_path / "shared.credo")
    again = credo.load(tmp_path / "shared.credo")
    np.testing.assert_array_equal(again.predict(queries).mean, fitted.predict(queries).mean)
    np.testing.assert_array_equal(again.noise.matrix, s)
    with pytest.raises(DataError, match="that of 12 rows, found 5"):
        belief.condition(x[:5], y[:5])
    with pytest.raises(DataError, match="no leaving one out"):
        belief.leave_one_out(x, y)
    with pytest.raises(DataError, match="no weights or noise of single ones"):
        belief.condition(x, y, weights=np.ones(n))
    with pytest.raises(DataError, match="symmetric matrix"):
        Covariance(np.triu(np.ones((3, 3))))


def test_several_outcomes_have_a_belief_each():
    rng = np.random.default_rng(4)
    x = rng.normal(size=(30, 2))
    y = x @ [[1.0, -2.0], [0.5, 100.0]] + rng.normal(size=(30, 2))
    with pytest.raises(DataError, match="a belief for each"):
        credo.fit(Linear(), x, y)
    both = credo.fit(Independent([Linear(), Linear()]), x, y)
    p = both.predict(x[:3])
    for i in range(2):
        alone = credo.fit(Linear(), x, y[:, i], using=credo.infer.Evidence()).predict(x[:3])
        np.testing.assert_allclose(p.mean[:, i], alone.mean, rtol=1e-4)
        np.testing.assert_allclose(p.std[:, i], alone.std, rtol=1e-3)
    with pytest.raises(DataError, match="plain noise variance"):
        Independent([Linear(noise=StudentTNoise())])
