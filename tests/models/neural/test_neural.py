"""Networks: gradients by finite differences and by hand, ensembles as means of members, what goes wrong is said."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import special, stats

import credo
from credo.core.errors import DataError, NotConverged, NotConvergedWarning
from credo.core.predictive import Mixture
from credo.infer import MAP, ML, NUTS, SGLD, Laplace, PlugIn
from credo.infer.schedules import PolynomialDecay
from credo.models.neural import DropConnect, Dropout, Ensemble, Network, Neural, Stacked
from credo.models.neural.outcomes import ClassOutcome, CountOutcome, NumberOutcome, StudentTOutcome
from credo.models.neural.scaling import Scaling
from credo.models.neural.training import OPTIMIZERS, Settings, advance, schedules

RNG = np.random.default_rng(6)
X = RNG.normal(size=(40, 2))
Y = np.sin(X[:, 0]) + 0.1 * RNG.normal(size=40)
TINY = {"layers": (3,), "steps": 60, "batch": 8}
LABELS = np.array(["a", "b", "c"])[np.digitize(X[:, 0], [-0.5, 0.5])]
COUNTS = RNG.poisson(np.exp(0.5 + 0.4 * X[:, 0]))


def summary(p):
    return [np.asarray(v) for v in (p.mean, p.aleatoric, p.epistemic)]


# -- the network ------------------------------------------------------------------------------------------------------


def test_a_network_is_matrix_products_and_tanh():
    network = Network((2, 3, 4, 2))
    theta = RNG.normal(size=(5, network.size))
    found = network(theta, X)
    for k in range(5):
        (w1, b1), (w2, b2), (w3, b3) = network.layers(theta[k])
        want = np.tanh(np.tanh(X @ w1 + b1) @ w2 + b2) @ w3 + b3
        np.testing.assert_allclose(found[k], want, rtol=1e-12)
    assert network.size == 2 * 3 + 3 + 3 * 4 + 4 + 4 * 2 + 2


OUTCOMES = {
    "number": (NumberOutcome(), Y),
    "classes": (ClassOutcome(3), np.digitize(X[:, 0], [-0.5, 0.5]).astype(float)),
    "counts": (CountOutcome(), COUNTS.astype(float)),
    "student-t": (StudentTOutcome(), Y),
}


@pytest.mark.parametrize("name", OUTCOMES)
def test_gradients_are_finite_differences(name):
    outcome, y = OUTCOMES[name]
    network = Network((2, 3, outcome.width))
    theta = RNG.normal(size=network.size)

    def loss(t):
        return -jnp.sum(outcome.log_prob(network(t, X), y))

    found, h = np.asarray(jax.grad(loss)(jnp.asarray(theta))), 1e-6
    for j in range(network.size):
        step = h * (np.arange(network.size) == j)
        np.testing.assert_allclose(found[j], (loss(theta + step) - loss(theta - step)) / (2 * h), rtol=2e-5, atol=1e-6)


def test_backpropagation_by_hand():
    """δ of the outputs, through the transposed weights and tanh' = 1 - h²: what automatic differentiation finds."""
    network, outcome = Network((2, 3, 2)), NumberOutcome()
    theta = RNG.normal(size=network.size)
    (w1, b1), (w2, b2) = network.layers(theta)
    h = np.tanh(X @ w1 + b1)
    mean, log_variance = (h @ w2 + b2).T
    error = (mean - Y) * np.exp(-log_variance)
    delta = np.column_stack([error, 0.5 - 0.5 * (Y - mean) ** 2 * np.exp(-log_variance)])
    below = (delta @ w2.T) * (1 - h**2)
    want = np.concatenate([(X.T @ below).ravel(), below.sum(0), (h.T @ delta).ravel(), delta.sum(0)])
    found = jax.grad(lambda t: -jnp.sum(outcome.log_prob(network(t, X), Y)))(jnp.asarray(theta))
    np.testing.assert_allclose(found, want, rtol=1e-9)


def test_densities_are_scipys():
    f = RNG.normal(size=(40, 3))
    normal = NumberOutcome().log_prob(f[:, :2], Y)
    np.testing.assert_allclose(normal, stats.norm(f[:, 0], np.exp(0.5 * f[:, 1])).logpdf(Y), rtol=1e-12)
    y = OUTCOMES["classes"][1]
    want = special.log_softmax(f, axis=1)[np.arange(40), y.astype(int)]
    np.testing.assert_allclose(ClassOutcome(3).log_prob(f, y), want, rtol=1e-12)
    t = StudentTOutcome()
    want = stats.t(t.degrees(f), f[:, 0], np.exp(0.5 * f[:, 1])).logpdf(Y)
    np.testing.assert_allclose(t.log_prob(f, Y), want, rtol=1e-10)
    y = OUTCOMES["counts"][1]
    np.testing.assert_allclose(CountOutcome().log_prob(f[:, :1], y), stats.poisson(np.exp(f[:, 0])).logpmf(y))


def curvature(function, at, h=1e-3):
    """Second differences."""
    steps = h * np.eye(len(at))
    return np.array(
        [[sum(a * b * function(at + a * u + b * v) for a in (1, -1) for b in (1, -1)) for u in steps] for v in steps]
    ) / (4 * h**2)


def test_information_is_the_expected_curvature():
    """-E[∂² log p(y | f)] by sums over classes and counts and by quadrature over numbers."""
    f = np.array([0.3, -0.4, 0.6])
    for name, (outcome, _) in OUTCOMES.items():
        at = f[: outcome.width]
        y, weight = np.arange(60.0), np.ones(60)
        if outcome.continuous:
            z, w = np.polynomial.legendre.leggauss(400)
            y, weight = np.tan(0.5 * np.pi * z), 0.5 * np.pi * w / np.cos(0.5 * np.pi * z) ** 2
        y, weight = (y[:3], weight[:3]) if name == "classes" else (y, weight)

        def expected(g, outcome=outcome, y=y, weight=weight, at=at):
            each = outcome.log_prob(np.broadcast_to(g, (len(y), len(g))), y)
            return -(weight * np.exp(outcome.log_prob(np.broadcast_to(at, (len(y), len(at))), y))) @ each

        np.testing.assert_allclose(outcome.information(at), curvature(expected, at), atol=1e-5)


def test_beta_one_is_least_squares_and_zero_the_density():
    """With β = 1 the slope by the mean is that of ½(y - μ)²; with β = 0 the loss is -log p."""
    f = RNG.normal(size=(40, 2))
    slope = jax.grad(lambda v: NumberOutcome().loss(v, Y, 1.0).sum())(jnp.asarray(f))
    np.testing.assert_allclose(slope[:, 0], f[:, 0] - Y, rtol=1e-9)
    np.testing.assert_allclose(NumberOutcome().loss(f, Y, 0.0), -NumberOutcome().log_prob(f, Y))


def test_steps_are_adams():
    """Three steps of Kingma & Ba's algorithm 1 in NumPy, with the cosine, the decay and the fall of β."""
    network, outcome = Network((2, 3, 2)), NumberOutcome()
    theta = network.start(2, RNG)
    index = RNG.integers(0, 40, size=(3, 2, 8)).astype(np.int32)
    decay = np.array([0.1, 0.0])
    rates, betas = (each[:3] for each in schedules(Settings(6, 8, 0.05, 0), 6))
    state = (theta, OPTIMIZERS["adam"].init(jnp.asarray(theta)))
    (found, _), log_density = advance(state, network, outcome, X, Y, index, None, decay, rates, betas)
    m = v = np.zeros_like(theta)
    for t in range(3):
        beta = 1 - 2 * t / 6

        def loss(each, t=t, beta=beta):
            rows = [outcome.loss(network(each[k], X[index[t, k]]), Y[index[t, k]], beta).mean() for k in range(2)]
            return sum(rows) + 0.5 * sum(decay[k] * jnp.sum(each[k] ** 2) for k in range(2))

        g = np.asarray(jax.grad(loss)(jnp.asarray(theta)))
        m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g**2
        corrected = (m / (1 - 0.9 ** (t + 1))) / (np.sqrt(v / (1 - 0.999 ** (t + 1))) + 1e-8)
        theta = theta - 0.05 * 0.5 * (1 + np.cos(np.pi * t / 6)) * corrected
    np.testing.assert_allclose(found, theta, rtol=1e-7, atol=1e-10)
    np.testing.assert_allclose(log_density, outcome.log_prob(network(theta, X), Y), rtol=1e-6)


def test_long_gradients_are_shortened():
    """One step of plain gradient descent: the gradient, no longer than `clip`, times the step."""
    network, outcome = Network((2, 3, 2)), NumberOutcome()
    theta = network.start(1, RNG)
    index, one = np.arange(40, dtype=np.int32)[None, None], np.ones(1)
    state = (theta, OPTIMIZERS["sgd"].init(jnp.asarray(theta)))
    g = np.asarray(jax.grad(lambda t: outcome.loss(network(t, X), Y, 0.0).mean())(jnp.asarray(theta[0])))
    for clip in (None, 0.5 * np.linalg.norm(g)):
        (found, _), _ = advance(state, network, outcome, X, Y, index, None, 0 * one, one, 0 * one, "sgd", clip)
        np.testing.assert_allclose(found[0], theta[0] - g * (1.0 if clip is None else 0.5), rtol=1e-8)


def test_schedules_are_held_against_robbins_and_monro():
    rates, betas = schedules(Settings(4, 8, PolynomialDecay(1.0, 0.5, 1.0), 0), 4)
    np.testing.assert_allclose(rates, 0.5 / np.arange(1, 5))
    np.testing.assert_allclose(betas, [1, 0.5, 0, 0])
    good = Neural((3,), steps=60, step_size=PolynomialDecay(0.6, 0.05, 20), optimizer="momentum", clip=10.0)
    assert good.condition(X, Y).doubts() == ()
    with pytest.warns(NotConvergedWarning, match="Robbins and Monro's conditions: power 0.3"):
        Neural((3,), steps=60, step_size=PolynomialDecay(0.3, 0.05, 20)).condition(X, Y)
    for ask, words in (
        (lambda: Neural(optimizer="newton"), "optimizer must be one of adam, momentum, sgd"),
        (lambda: Neural(clip=0.0), "clip"),
    ):
        with pytest.raises(DataError, match=words):
            ask()


def test_outliers_hardly_move_a_student_t_network():
    x = np.linspace(-2, 2, 80)[:, None]
    y = x[:, 0] + 0.1 * RNG.normal(size=80)
    y[::10] += 30.0
    p = Neural((5,), "student-t", steps=1500).condition(x, y, using=Ensemble(2)).predict(x)
    assert np.median(np.abs(p.quantile(0.5) - x[:, 0])) < 0.3
    assert np.all(np.isfinite(p.std)) and np.mean(p.log_prob(y)) > stats.norm(y.mean(), y.std()).logpdf(y).mean() + 1


# -- the belief -------------------------------------------------------------------------------------------------------


def test_an_ensemble_is_the_mean_of_its_members():
    after = Neural(**TINY).condition(X, Y, using=Ensemble(4))
    p = after.predict(X[:3])
    assert isinstance(p, Mixture)
    each = [
        after.having(after.seen, after.scaling, after.members[k : k + 1], np.ones(1)).predict(X[:3]) for k in range(4)
    ]
    means = np.array([e.mean for e in each])
    np.testing.assert_allclose(p.mean, means.mean(0), rtol=1e-12)
    np.testing.assert_allclose(p.epistemic, means.var(0), rtol=1e-9)
    np.testing.assert_allclose(p.aleatoric, np.mean([e.aleatoric for e in each], axis=0), rtol=1e-12)
    y = Y[:3]
    np.testing.assert_allclose(p.log_prob(y), special.logsumexp([e.log_prob(y) for e in each], axis=0) - np.log(4))


def test_an_ensemble_of_one_is_its_member():
    one = Neural(**TINY).condition(X, Y, using=Ensemble(1))
    point = Neural(**TINY).condition(X, Y, using=MAP())
    for a, b in zip(summary(one.predict(X)), summary(point.predict(X)), strict=True):
        np.testing.assert_array_equal(a, b)
    np.testing.assert_array_equal(point.predict(X).epistemic, 0.0)


def test_bootstrap_members_have_their_own_rows():
    plain = Neural(**TINY).condition(X, Y, using=Ensemble(3))
    drawn = Neural(**TINY).condition(X, Y, using=Ensemble(3, bootstrap=True))
    assert not np.allclose(plain.members, drawn.members)


def test_dropout_is_a_set_of_masked_networks():
    after = Neural(**TINY).condition(X, Y, using=Dropout(0.5, 40))
    network = after.network(2)
    (_, _), (w2, _) = network.layers(np.asarray(after.members))
    dropped = np.all(w2 == 0, axis=2)
    assert dropped.any() and not dropped.all()
    kept = w2[~dropped[:, 0], 0]
    np.testing.assert_allclose(kept, np.broadcast_to(kept[:1], kept.shape))  # one network behind all
    single = Neural(**TINY).condition(X, Y, using=DropConnect(0.5, 40))
    matrices = np.asarray(single.members)[:, network.matrices > 0]
    biases = np.asarray(single.members)[:, network.matrices == 0]
    assert 0.3 < np.mean(matrices == 0) < 0.7
    np.testing.assert_allclose(biases, np.broadcast_to(biases[:1], biases.shape))
    assert np.all(after.predict(X).epistemic > 0)


def test_dropconnects_moments_in_closed_form():
    """Of one layer: E[f] = xᵀλ′(1 - p), Var[f] = Σ x²λ′² p(1 - p) with λ′ = λ/(1 - p)."""
    network, p, many = Network((3, 1)), 0.3, 20_000
    theta, x = np.array([0.5, -1.0, 2.0, 0.3]), np.array([[1.0, 2.0, -0.5]])
    f = network(theta * DropConnect(p).masks(network, np.random.default_rng(0), many), x)[:, 0, 0]
    mean, variance = x[0] @ theta[:3] + 0.3, np.sum((x[0] * theta[:3]) ** 2) * p / (1 - p)
    assert abs(f.mean() - mean) < 4.5 * np.sqrt(variance / many)
    np.testing.assert_allclose(f.var(), variance, rtol=0.05)


@pytest.mark.parametrize(("outcome", "y"), [("number", Y), ("classes", LABELS), ("counts", COUNTS)])
def test_fit_learns_and_has_both_kinds_of_doubt(outcome, y):
    found = credo.fit(Neural((8,), outcome, steps=400, batch=16), X, y, report=True)
    p = found.belief.predict(X)
    base = np.log(np.mean(y == np.unique(y)[:, None], axis=1)) if outcome == "classes" else None
    codes = np.searchsorted(np.unique(y), y) if outcome == "classes" else y
    score = np.mean(p.log_prob(codes))
    if outcome == "number":
        assert score > stats.norm(y.mean(), y.std()).logpdf(y).mean() + 0.5
    elif outcome == "classes":
        assert score > base[codes].mean() + 0.3 and found.belief.classes == ("a", "b", "c")
    else:
        assert score > stats.poisson(y.mean()).logpmf(y).mean()
    assert np.all(np.asarray(p.aleatoric) > 0) and np.all(np.asarray(p.epistemic) > -1e-12)
    far = found.belief.predict(X + 50.0)
    assert np.all(np.isfinite(far.mean))
    assert "weights of the decays" in found.notes[0]


def test_stacking_by_hand():
    """One fold left out at a time: the log density that is reported is that of rows nobody has seen."""
    belief = Neural(**TINY)
    found = credo.fit(belief, X, Y, using=Stacked(folds=2, decays=(0.1, 1.0)), report=True)
    assert found.belief.members.shape[1] == belief.network(2).size
    np.testing.assert_allclose(found.belief.shares.sum(), 1.0)
    assert found.log_evidence < np.sum(found.belief.predict(X).log_prob(Y)) + 40  # it has not seen what it judges
    fixed = credo.fit(Neural(precision=0.5, **TINY), X, Y, fixed=["precision"])
    np.testing.assert_allclose(fixed.precision, 0.5)


def test_twins_are_left_out_together():
    """Rows with the same inputs are in one fold; where inputs have a few levels only, they are spread."""
    x = np.concatenate([X, X[:15]])
    fold, folds = Stacked().divided(x, np.random.default_rng(0))
    np.testing.assert_array_equal(fold[40:], fold[:15])
    assert folds == 5 and set(fold) == set(range(5))
    assert len({*Stacked().divided(np.repeat([[0.0], [1.0]], 20, axis=0), np.random.default_rng(0))[0][:20]}) == 5
    fold, folds = Stacked().divided(RNG.normal(size=(6000, 2)), np.random.default_rng(0))
    assert folds == 1 and np.mean(fold == 0) == 0.1  # a tenth judges


def test_what_is_not_given_follows_from_the_rows():
    few, many = Neural().sized(100), Neural(steps=7).sized(50_000)
    assert (few.layers, few.steps, few.batch, few.step_size) == ((50,), 3000, 32, 0.02)
    assert (many.layers, many.steps, many.batch, many.step_size) == ((128, 128), 7, 256, 0.01)
    assert many.sized(100).layers == (50,)


@pytest.mark.slow
def test_many_rows_in_single_precision():
    x = RNG.normal(size=(5200, 2))
    y = np.sin(x[:, 0]) + 0.1 * RNG.normal(size=5200)
    found = credo.fit(Neural((8,), steps=600, clip=10.0), x, y, using=Stacked(decays=(0.1, 1.0)))
    assert found.members.dtype == float and np.isfinite(found.predict(x).mean).all()
    assert np.mean(found.predict(x).log_prob(y)) > stats.norm(0, 0.15).logpdf(0.15)
    dropped = Neural((8,), steps=200).condition(x, y, using=Dropout(0.1, 5))
    assert dropped.members.dtype == float


def test_the_log_density_is_what_methods_see():
    belief = Neural((2,), precision=0.7)
    target = belief.target(belief.statistics(X, Y))
    u = RNG.normal(size=target.space.size)
    scaling = Scaling.of(X, Y, True)
    z, t = scaling.rows(X, Y)
    f = belief.network(2)(u, z)
    want = stats.norm(f[:, 0], np.exp(0.5 * f[:, 1])).logpdf(t).sum() - 0.35 * np.sum(u**2)
    np.testing.assert_allclose(target(u), want, rtol=1e-9)


@pytest.mark.slow
def test_draws_of_the_weights_are_networks():
    belief = Neural((2,))
    for method in (NUTS(chains=1, draws=60, warmup=60), SGLD(1e-4, batch=8, passes=4), Laplace("gauss-newton")):
        with pytest.warns(NotConvergedWarning):
            after = belief.condition(X[:20], Y[:20], using=method)
        p = after.predict(X)
        assert len(after.members) <= 100 and np.all(np.asarray(p.epistemic) > 0)


def test_more_rows_train_anew():
    belief = Neural(**TINY)
    twice = belief.condition(X[:25], Y[:25]).condition(X[25:], Y[25:])
    for a, b in zip(summary(belief.condition(X, Y).predict(X)), summary(twice.predict(X)), strict=True):
        np.testing.assert_allclose(b, a, rtol=1e-12)


def test_point_estimates():
    ml = Neural(**TINY).condition(X, Y, using=ML())
    strong = credo.fit(Neural(precision=100.0, **TINY), X, Y, using=MAP())
    assert np.ptp(strong.predict(X).mean) < np.ptp(ml.predict(X).mean)
    assert len(strong.members) == 1
    with pytest.raises(DataError, match="units may be swapped"):
        Neural(**TINY).condition(X, Y, using=PlugIn())


# -- what goes wrong --------------------------------------------------------------------------------------------------


def test_few_rows_and_constants():
    one = Neural(**TINY).condition(X[:1], Y[:1])
    assert np.all(np.isfinite(one.predict(X).mean))
    with pytest.raises(DataError, match="at least two rows"):
        credo.fit(Neural(**TINY), X[:1], Y[:1])
    few = credo.fit(Neural(**TINY), X[:3], Y[:3])  # fewer rows than a batch, or than folds
    assert np.all(np.isfinite(few.predict(X).std))
    flat = Neural(layers=3, steps=300).condition(X, np.full(40, 7.0)).predict(X)
    np.testing.assert_allclose(flat.mean, 7.0, atol=0.2)
    same = Neural(**TINY).condition(np.ones((40, 2)), Y).predict(np.ones((1, 2)))
    np.testing.assert_allclose(same.mean, Y.mean(), atol=0.5)


def test_explosions_are_mended_or_refused():
    with pytest.raises(NotConverged, match="training exploded, also with 0.125 times the step; give a smaller step"):
        Neural((3,), steps=60, step_size=1e160).condition(X, Y)
    with pytest.warns(NotConvergedWarning, match=r"training exploded, and was repeated with 0.\d+ times the step"):
        mended = Neural((3,), steps=60, step_size=20.0, optimizer="sgd").condition(X, Y)
    assert np.all(np.isfinite(mended.predict(X).mean))


def test_what_cannot_be_is_refused():
    bad = X.copy()
    bad[3, 0] = np.nan
    for ask, words in (
        (lambda: Neural(outcome="text"), "outcome must be one of number, student-t, classes, counts"),
        (lambda: Neural(layers=(0,)), "layers"),
        (lambda: Neural(steps=0), "steps must be a whole number"),
        (lambda: Neural(classes=("a", "b")), 'classes are for outcome="classes"'),
        (lambda: Neural(**TINY).condition(bad, Y), "X contains NaN at row 3"),
        (lambda: Neural(**TINY).condition(X, Y[:3]), "one value per row"),
        (lambda: Neural(outcome="classes").condition(X, ["a"] * 40), "y has one class only"),
        (lambda: Neural(outcome="counts").condition(X, Y), "y must hold whole numbers"),
        (lambda: Neural(**TINY).condition(X, Y).predict(X[:, :1]), "X must have 2 columns"),
        (lambda: Neural(outcome="classes").predict(X), "the classes are not known yet"),
        (lambda: Stacked(folds=1), "folds must be a whole number"),
        (lambda: Dropout(1.5), "rate must lie between"),
        (lambda: credo.fit(Neural(**TINY), X, Y, priors={"precision": stats.norm()}), "prior"),
        (lambda: Neural(**TINY).condition(X, Y, using=credo.infer.EM()), "condition cannot use EM for Neural"),
    ):
        with pytest.raises(DataError, match=words):
            ask()
