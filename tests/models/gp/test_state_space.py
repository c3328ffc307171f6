"""`StateSpace` against the dense posterior, evidence and gradient, computed here with NumPy."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import credo
from credo.core import params
from credo.errors import DataError
from credo.kernels import (
    RBF,
    CenteredPeriodic,
    Constant,
    Cosine,
    Linear,
    LocallyPeriodic,
    Matern,
    Matern12,
    Matern32,
    Matern52,
    Periodic,
    RationalQuadratic,
    White,
)
from credo.models.gp import GP
from credo.models.gp.means import Basis
from credo.models.gp.means import Constant as ConstantMean
from credo.models.gp.state_space import StateSpace, StateSpaceGP, passes
from credo.models.gp.state_space.series import in_order
from credo.models.linear import KnownNoise

RNG = np.random.default_rng(8)
N = 40
TIMES = RNG.uniform(0.0, 10.0, N)
TIMES[3] = TIMES[17] = TIMES[29]  # repeated
X = TIMES[:, None]
Y = np.sin(TIMES) + 0.3 * RNG.normal(size=N)
QUERIES = np.concatenate([RNG.uniform(-3.0, 13.0, 12), TIMES[:4]])[:, None]

KERNELS = {
    "Matern12": Matern12(0.7, 2.0),
    "Matern32": Matern32(0.7, 2.0),
    "Matern52": Matern52(0.7, 2.0),
    "sum": Matern32(1.3) + Matern52(2.0, 0.5) + Constant(0.3) + White(0.2),
    "periodic": Periodic(0.8, 2.0, 3.1),
    "quasi-periodic": 1.5 * Matern32(2.0) * Periodic(1.2, 1.0, 2.7),
    "sum × periodic": (Matern12(0.9) + Constant(2.0)) * CenteredPeriodic(1.0, 1.0, 2.0),
    "trend, wave, power": Linear(0.2) + Cosine(2.2, 0.7) + Matern32(0.8) ** 2,
}


@eqx.filter_jit
def covariances(prior, x, z):
    return prior.kernel.gram(x, x), prior.kernel.gram(z, x), prior.kernel.diagonal(z), prior.mean(x), prior.mean(z)


class Dense:
    """The posterior by solving with the n × n covariance."""

    def __init__(self, gp, x, y, noise=None, queries=QUERIES):
        numbers = covariances(gp.prior, jnp.asarray(x, float), jnp.asarray(queries))
        k, self.cross, self.diagonal, mean, self.expected = (np.asarray(v) for v in numbers)
        self.covariance = k + np.diag(np.full(len(x), float(gp.prior.noise)) if noise is None else noise)
        self.residual = y - mean

    def predict(self):
        mean = self.expected + self.cross @ np.linalg.solve(self.covariance, self.residual)
        return mean, self.diagonal - np.sum(self.cross.T * np.linalg.solve(self.covariance, self.cross.T), 0)

    def log_evidence(self):
        _, determinant = np.linalg.slogdet(self.covariance)
        explained = self.residual @ np.linalg.solve(self.covariance, self.residual)
        return -0.5 * (explained + determinant + len(self.residual) * np.log(2 * np.pi))


def check(gp, x=X, y=Y, queries=QUERIES, rtol=1e-8, **options):
    after = gp.condition(x, y, using=StateSpace(), **options)
    assert isinstance(after, StateSpaceGP)
    dense = Dense(gp, x, y, options.get("noise"), queries)
    prediction = after.predict(queries)
    mean, variance = dense.predict()
    np.testing.assert_allclose(prediction.mean, mean, rtol=rtol, atol=rtol * np.abs(y).max())
    np.testing.assert_allclose(prediction.epistemic, variance, rtol=rtol)
    np.testing.assert_allclose(after.solved.log_evidence, dense.log_evidence(), rtol=rtol)
    return after


@pytest.mark.parametrize("name", KERNELS)
def test_posterior_and_evidence_are_those_of_the_dense_gp(name):
    check(GP(KERNELS[name], 0.4, 0.1))


@pytest.mark.parametrize("mean", [ConstantMean(0.2, 3.0), Basis(covariance=np.array([[1.0, 0.2], [0.2, 0.3]]))])
def test_uncertain_means_are_integrated_out(mean):
    check(GP(KERNELS["Matern32"], mean, 0.1))


def test_rows_may_have_noise_of_their_own():
    noise = RNG.uniform(0.05, 0.5, N)
    after = check(GP(KERNELS["Matern32"], 0.4, KnownNoise()), noise=noise)
    np.testing.assert_allclose(after.predict(QUERIES, noise=np.arange(1.0, 17.0)).aleatoric, np.arange(1.0, 17.0))
    gp = GP(KERNELS["Matern32"], 0.4, 0.1)
    weighted = gp.condition(X, Y, weights=0.1 / noise, using=StateSpace())
    np.testing.assert_allclose(weighted.predict(QUERIES).mean, after.predict(QUERIES).mean, rtol=1e-10)


@pytest.mark.parametrize("name", ["Matern52", "sum"])
@pytest.mark.parametrize("scale", [1e-9, 1e6])
def test_extreme_gaps(name, scale):
    """Half of the times have neighbours at 1e-9 lengthscales, or all are 1e6 apart."""
    times = (
        np.where(np.arange(N) % 2 == 0, np.arange(N) * 1.0, np.arange(N) - 1.0 + scale) if scale < 1 else TIMES * 1e6
    )
    check(GP(KERNELS[name], 0.4, 0.1), times[:, None], queries=times[:16, None] + 0.25)


@pytest.mark.parametrize("noise", [1e-6, 1e4])
def test_little_and_much_noise(noise):
    check(GP(KERNELS["Matern32"], 0.4, noise), np.arange(N)[:, None] / 4.0, rtol=1e-8)


def test_dates_far_from_zero():
    gp = GP(KERNELS["quasi-periodic"], 0.4, 0.1)
    far = 2.0**20  # exact, so that only the computation may lose digits
    here, there = (gp.condition(np.round(X, 3) + c, Y, using=StateSpace()) for c in (0.0, far))
    steps = np.round(QUERIES, 3)
    np.testing.assert_allclose(there.predict(steps + far).mean, here.predict(steps).mean, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("name", ["Matern52", "sum × periodic"])
def test_gradient_of_the_evidence(name):
    """Slopes against central differences of the dense evidence, in every hyperparameter."""
    gp = GP(KERNELS[name], ConstantMean(0.2, 3.0), 0.1)
    own, series = StateSpaceGP(gp), in_order(gp.statistics(X, Y))
    slots = params.layout(own)
    start = np.asarray(params.to_vector(own, slots))
    objective = credo.infer.Evidence().objective(own, slots, series, {})
    value, slope = objective.value_and_grad(start)
    h = 1e-4

    def dense(u):
        return Dense(params.from_vector(gp, slots, u), X, Y).log_evidence()

    np.testing.assert_allclose(value, dense(start), rtol=1e-8)
    for i, step in enumerate(h * np.eye(len(start))):
        want = (
            8 * (dense(start + step) - dense(start - step)) - dense(start + 2 * step) + dense(start - 2 * step)
        ) / 12
        np.testing.assert_allclose(slope[i], want / h, rtol=1e-7, atol=1e-7)


def test_many_rows_in_blocks_are_the_same():
    """2048 rows run in blocks side by side; their evidence is the sequential filter's, written out here."""
    x, noise = np.sort(RNG.uniform(0.0, 100.0, 2048)), 0.1
    y = np.sin(x) + 0.3 * RNG.normal(size=2048)
    gp = GP(Matern12(0.7, 2.0), 0.0, noise)
    mean, variance, total, last = 0.0, 2.0, 0.0, -np.inf
    for t, outcome in zip(x, y, strict=True):
        decay = np.exp(-(t - last) / 0.7)
        mean, variance, last = decay * mean, 2.0 + decay**2 * (variance - 2.0), t
        s = variance + noise
        total -= 0.5 * (np.log(2 * np.pi * s) + (outcome - mean) ** 2 / s)
        mean, variance = mean + variance / s * (outcome - mean), variance * noise / s
    after = gp.condition(x[:, None], y, using=StateSpace())
    np.testing.assert_allclose(after.solved.log_evidence, total, rtol=1e-11)
    end = after.predict(x[-1:, None])
    np.testing.assert_allclose([float(end.mean[0]), float(end.epistemic[0])], [mean, variance], rtol=1e-11)


def test_more_data_condition_it_again_in_any_order():
    gp = GP(KERNELS["Matern32"], 0.4, 0.1)
    whole = gp.condition(X, Y, using=StateSpace())
    first = gp.condition(X[:24], Y[:24], using=StateSpace())
    for halves in (
        first.condition(X[24:], Y[24:]),
        gp.condition(X[:24], Y[:24]).condition(X[24:], Y[24:], using=StateSpace()),
    ):
        np.testing.assert_allclose(halves.predict(QUERIES).mean, whole.predict(QUERIES).mean, rtol=1e-10)
        np.testing.assert_allclose(halves.predict(QUERIES).epistemic, whole.predict(QUERIES).epistemic, rtol=1e-9)
    chained = float(first.unconditioned().log_evidence(X[:24], Y[:24])) + float(first.log_evidence(X[24:], Y[24:]))
    np.testing.assert_allclose(chained, whole.unconditioned().log_evidence(X, Y), rtol=1e-10)
    missing = np.where(np.arange(N) < 24, Y, np.nan)
    np.testing.assert_allclose(
        gp.condition(X, missing, using=StateSpace()).predict(QUERIES).mean, first.predict(QUERIES).mean, rtol=1e-12
    )


def test_components_are_those_of_the_dense_gp_and_add_up():
    gp = GP(KERNELS["sum"], ConstantMean(0.2, 3.0), 0.1)
    after = gp.condition(X, Y, using=StateSpace())
    dense = Dense(gp, X, Y)
    parts = after.components(QUERIES)
    assert [part.is_mean for part in parts] == [False] * 4 + [True]
    for part in parts:
        cross = np.asarray(part.kernel(QUERIES, X))
        mean = cross @ np.linalg.solve(dense.covariance, dense.residual) + 0.2 * part.is_mean
        variance = np.diag(np.asarray(part.kernel(QUERIES))) - np.sum(
            cross.T * np.linalg.solve(dense.covariance, cross.T), 0
        )
        np.testing.assert_allclose(part.mean, mean, rtol=1e-8, atol=1e-9)
        np.testing.assert_allclose(part.std**2, variance, rtol=1e-8)
    np.testing.assert_allclose(sum(part.mean for part in parts), after.predict(QUERIES).mean, rtol=1e-8, atol=1e-9)


def test_leaving_one_out():
    gp = GP(KERNELS["sum"], ConstantMean(0.2, 3.0), 0.1)
    after = gp.condition(X, Y, using=StateSpace())
    precision = np.linalg.inv(Dense(gp, X, Y).covariance)
    order = np.argsort(TIMES, kind="stable")
    loo = after.leave_one_out()
    np.testing.assert_allclose(loo.mean, (Y - precision @ (Y - 0.2) / np.diag(precision))[order], rtol=1e-8, atol=1e-9)
    np.testing.assert_allclose(loo.variance, (1 / np.diag(precision))[order], rtol=1e-8)


def test_fit_finds_the_optimum_of_the_exact_fit():
    report = credo.fit(GP(Matern32()), X, Y, using=StateSpace(tolerance=1e-5, gain=1e-14), report=True)
    exact = credo.fit(GP(Matern32()), X, Y, using=credo.infer.Evidence(), report=True)
    assert isinstance(report.belief, StateSpaceGP) and report.status == "converged"
    np.testing.assert_allclose(report.log_evidence, exact.log_evidence, rtol=1e-8)
    np.testing.assert_allclose(report.belief.kernel.lengthscale, exact.belief.kernel.lengthscale, rtol=1e-3)
    np.testing.assert_allclose(report.belief.predict(QUERIES).mean, exact.belief.predict(QUERIES).mean, atol=1e-3)
    again = credo.learn(report.belief, using=StateSpace(starts=1))
    np.testing.assert_allclose(again.noise, report.belief.noise, rtol=0.05)


def test_the_waves_of_a_periodic_kernel_are_counted_while_it_is_learned():
    gp = GP(Periodic(0.8, 2.0, 3.1), 0.4, 0.1)
    own, slots = StateSpaceGP(gp), params.layout(gp, ["noise", "kernel.period", "kernel.variance"])
    objective = own.objective(slots, own.statistics(X, Y), {})
    for lengthscale, waves in ((0.4, 24), (3.0, 6)):
        value, slope = objective.value_and_grad(np.log([lengthscale]))
        candidate = params.from_vector(gp, slots, np.log([lengthscale]))
        np.testing.assert_allclose(value, Dense(candidate, X, Y).log_evidence(), rtol=1e-8)
        assert np.isfinite(slope).all() and StateSpaceGP(candidate).harmonics == waves
        assert params.from_vector(own, slots, np.log([lengthscale])).sized().harmonics == waves
    assert objective.value(np.log([0.011])) == -np.inf


def test_many_rows_are_learned_from_neighbours_first():
    x = np.linspace(0.0, 30.0, 200)[:, None]
    y = np.sin(x[:, 0]) + 0.1 * np.cos(37.0 * np.arange(200))
    method = StateSpace(window=48)
    report = credo.fit(GP(Matern32(), 0.0), x, y, using=method, report=True)
    whole = credo.fit(GP(Matern32(), 0.0), x, y, using=StateSpace(), report=True)
    assert "48 neighbouring rows" in report.notes[-1]
    np.testing.assert_allclose(report.log_evidence, whole.log_evidence, rtol=1e-5)


def test_it_is_a_belief(tmp_path):
    after = GP(KERNELS["sum"], ConstantMean(0.2, 3.0), 0.1).condition(X, Y, using=StateSpace())
    again = credo.load(credo.save(after, tmp_path / "belief"))
    np.testing.assert_array_equal(again.predict(QUERIES).mean, after.predict(QUERIES).mean)
    prior = after.unconditioned()
    np.testing.assert_allclose(prior.predict(QUERIES).epistemic, np.diag(prior.prior.kernel(QUERIES)), rtol=1e-12)
    assert "seen 40 rows" in repr(after) and "seen nothing" in repr(prior)
    assert prior.harmonics == 2 and after.as_gp().seen is None


@pytest.mark.parametrize(
    ("kernel", "words"),
    [
        (RBF(), "RBF.*Matern52"),
        (RationalQuadratic() + Matern12(), "RationalQuadratic"),
        (Matern(1.0), "Matern12, Matern32 or Matern52"),
        (LocallyPeriodic(), "Periodic.*Matern32"),
        (Linear() * Matern12(), "Linear"),
        (Periodic(0.01), "more than 128 waves"),
        (Matern32([1.0, 2.0]), "one input.*2 values of lengthscale"),
        (Matern32().on(1), "OnColumns.*one input"),
    ],
)
def test_kernels_without_a_state_are_refused(kernel, words):
    with pytest.raises(DataError, match=words):
        GP(kernel).condition(X, Y, using=StateSpace())


def test_other_mistakes_are_named():
    with pytest.raises(DataError, match="one input, found X with 2 columns"):
        GP(Matern32()).condition(np.column_stack([X, X]), Y, using=StateSpace())
    with pytest.raises(DataError, match="cannot use StateSpace for Linear: it needs a GP or a StateSpaceGP"):
        credo.Linear().condition(X, Y, using=StateSpace())
    with pytest.raises(DataError, match="KnownNoise"):
        GP(Matern32(), 0.0, KnownNoise()).condition(X, Y, using=StateSpace())
    with pytest.raises(DataError, match="no data yet"):
        StateSpaceGP(GP(Matern32())).leave_one_out()


def test_rows_are_sorted_under_jit_too():
    gp = GP(KERNELS["Matern32"], 0.4, 0.1)
    rows = gp.statistics(X, Y)
    traced = jax.jit(in_order)(rows)
    here = in_order(rows)
    np.testing.assert_allclose(
        passes.log_evidence(gp.prior, traced, 2), passes.log_evidence(gp.prior, here, 2), rtol=1e-12
    )
    np.testing.assert_array_equal(np.asarray(traced.gap)[:N], np.asarray(here.gap)[:N])


def test_where_nothing_is_learned_the_method_still_conditions(monkeypatch):
    gp = GP(Matern32(0.8, variance=1.2), 0.0, 0.1)
    held = ["kernel", "noise"]
    monkeypatch.setattr(GP, "log_evidence_of", lambda *_: pytest.fail("the dense evidence"))
    learned = credo.fit(gp, X, Y, using=StateSpace(), fixed=held, report=True)
    want = gp.condition(X, Y, using=StateSpace())
    assert isinstance(learned.belief, StateSpaceGP) and "nothing to learn" in learned.notes[0]
    np.testing.assert_allclose(learned.log_evidence, StateSpaceGP(gp).log_evidence(X, Y), rtol=1e-12)
    np.testing.assert_allclose(learned.belief.predict(QUERIES).mean, want.predict(QUERIES).mean, rtol=1e-12)
    n = 20_000  # 3 GB as a dense matrix
    times = np.linspace(0, 500, n)[:, None]
    after = credo.fit(gp, times, np.sin(times[:, 0]), using=StateSpace(), fixed=held)
    at = np.array([[3.0], [250.0]])
    p = after.predict(at)
    np.testing.assert_allclose(p.mean, np.sin(at[:, 0]), atol=4.5 * float(p.epistemic.max()) ** 0.5)


def test_functions_have_the_law_of_the_posterior():
    rng = np.random.default_rng(0)
    x = np.sort(rng.uniform(0, 5, 20))[:, None]
    after = GP(Matern52(1.0, 1.5), noise=0.1).condition(x, np.sin(x[:, 0]), using=StateSpace())
    at = np.asarray([[0.5], [2.0], [2.1], [6.0]])
    drawn = after.sample_functions(300, seed=1)
    draws, p = np.asarray(drawn(at)), after.predict(at)
    assert np.all(np.abs(draws.mean(0) - p.mean) < 4.5 * draws.std(0, ddof=1) / np.sqrt(300))
    np.testing.assert_allclose(draws.var(0), p.epistemic, rtol=0.4)
    np.testing.assert_allclose(drawn(at[:2]), draws[:, :2])


def test_more_rows_may_have_standard_errors():
    rng = np.random.default_rng(0)
    x, errors = rng.uniform(size=(30, 1)), rng.uniform(0.1, 0.3, 30)
    gp, y = GP(Matern32(0.3, 1.0), 0.0, 0.01), np.sin(6 * x[:, 0])
    first = gp.condition(x[:20], y[:20], errors=errors[:20], using=StateSpace())
    after = first.condition(x[20:], y[20:], errors=errors[20:])
    np.testing.assert_allclose(after.predict(x).mean, gp.condition(x, y, errors=errors).predict(x).mean, atol=1e-10)
