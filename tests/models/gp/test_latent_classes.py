"""LatentGP(Categorical()) against dense formulas, finite differences, draws and other names of classes."""

import numpy as np
import pytest
from scipy import stats

import credo
from credo.core import params
from credo.core.pytrees import changed
from credo.errors import DataError
from credo.infer import NUTS, Laplace, Variational
from credo.kernels import RBF
from credo.models.gp import EP, LatentClasses
from credo.models.likelihoods import Categorical

RNG = np.random.default_rng(0)
X = RNG.normal(size=(45, 2))
LOGITS = np.stack([2 * X[:, 0], 2 * X[:, 1], -X[:, 0] - X[:, 1]], axis=1)
Y = np.array(["ash", "birch", "cedar"])[(LOGITS + RNG.gumbel(size=LOGITS.shape)).argmax(1)]
QUERIES = RNG.normal(size=(20, 2))
PRIOR = credo.LatentGP(Categorical(("ash", "birch", "cedar")), RBF(1.5, 4.0), 0.0, concentration=0.05)


def dense():
    """(z, A_c⁻¹ of each class, noise) by formula, class by class."""
    own = Y[:, None] == np.array(["ash", "birch", "cedar"])
    alpha = 0.05 + own
    noise = np.log1p(1 / alpha)
    k = np.asarray(PRIOR.kernel.gram(X, X))
    return np.log(alpha) - noise / 2, [np.linalg.inv(k + np.diag(v)) for v in noise.T], noise


def test_the_regression_of_log_odds_is_the_formula():
    z, inverses, noise = dense()
    after = PRIOR.condition(X, Y)
    assert isinstance(after, LatentClasses) and after.classes == ("ash", "birch", "cedar")
    cross = np.asarray(PRIOR.kernel.gram(X, QUERIES))
    f = after.function(QUERIES)
    for c, inverse in enumerate(inverses):
        np.testing.assert_allclose(f.mean[:, c], cross.T @ inverse @ z[:, c], rtol=1e-8)
        np.testing.assert_allclose(f.variance[:, c], 4.0 - np.sum(cross * (inverse @ cross), axis=0), rtol=1e-7)
    k = np.asarray(PRIOR.kernel.gram(X, X))
    want = sum(stats.multivariate_normal.logpdf(z[:, c], np.zeros(45), k + np.diag(noise[:, c])) for c in range(3))
    np.testing.assert_allclose(PRIOR.log_evidence(X, Y), want, rtol=1e-9)


def test_probabilities_are_averages_over_the_functions():
    after = PRIOR.condition(X, Y)
    f, p = after.function(QUERIES), after.predict(QUERIES)
    draws = f.mean + f.std * np.random.default_rng(1).normal(size=(20_000, 20, 3))
    shares = np.exp(draws - draws.max(-1, keepdims=True))
    shares /= shares.sum(-1, keepdims=True)
    se = shares.std(0) / np.sqrt(len(shares))
    assert np.all(np.abs(p.probs - shares.mean(0)) < 4.5 * se + 3e-3)
    np.testing.assert_allclose(p.probs.sum(1), 1.0)
    assert np.all(p.epistemic >= 0) and np.all(p.aleatoric > 0)


def test_left_out_rows_are_left_out():
    left = PRIOR.condition(X, Y).leave_one_out()
    for i in (0, 7, 31):
        rest = np.arange(45) != i
        np.testing.assert_allclose(left.probs[i], PRIOR.condition(X[rest], Y[rest]).predict(X[[i]]).probs[0], rtol=1e-6)


@pytest.mark.parametrize("method", ["dirichlet", "variational"])
def test_gradients_of_what_is_climbed(method):
    belief, rows = credo.LatentGP(Categorical()).told(X, Y).prepare(X, Y)
    belief = changed(belief, method=method)
    slots = params.layout(belief)
    objective = belief.objective(slots, rows, belief.default_priors(rows))
    vector = np.asarray(params.to_vector(belief, slots))
    _, gradient = objective.value_and_grad(vector)
    steps = 1e-3 * np.eye(len(vector))
    slopes = [(objective.value(vector + h) - objective.value(vector - h)) / 2e-3 for h in steps]
    np.testing.assert_allclose(gradient, slopes, rtol=3e-2 if method == "variational" else 1e-4)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:do not trust")  # short runs, which are judged by how they differ
def test_the_variational_softmax_is_near_the_drawn_one():
    belief = credo.fit(credo.LatentGP(Categorical()), X, Y, using=Variational())
    drawn = [
        belief.unconditioned().condition(X, Y, using=NUTS(chains=2, draws=300, warmup=300), seed=i) for i in range(3)
    ]
    each = np.stack([b.predict(QUERIES).probs for b in drawn])
    se = np.sqrt(each.var(0, ddof=1).mean() / 3)
    assert np.abs(belief.predict(QUERIES).probs - each.mean(0)).max() < 0.03 + 4.5 * se


def test_names_of_classes_do_not_matter():
    renamed = np.array([{"ash": "z", "birch": "m", "cedar": "a"}[v] for v in Y])
    one, other = (credo.fit(credo.LatentGP(Categorical()), X, y) for y in (Y, renamed))
    np.testing.assert_allclose(other.predict(QUERIES).probs[:, ::-1], one.predict(QUERIES).probs, atol=1e-6)
    one, other = (
        credo.LatentGP(Categorical(), RBF(1.5, 4.0), 0.0).condition(X, y, using=Variational()) for y in (Y, renamed)
    )
    np.testing.assert_allclose(other.predict(QUERIES).probs[:, ::-1], one.predict(QUERIES).probs, atol=1e-3)


def test_overlapping_classes_are_not_overfitted_and_distant_inputs_are_doubted():
    after = credo.fit(credo.LatentGP(Categorical()), X, Y)
    truth = np.stack([2 * QUERIES[:, 0], 2 * QUERIES[:, 1], -QUERIES.sum(1)], axis=1)
    truth = np.exp(truth) / np.exp(truth).sum(1, keepdims=True)
    loss = -(truth * np.log(after.predict(QUERIES).probs)).sum(1).mean()
    assert loss < -(truth * np.log(truth)).sum(1).mean() + 0.2
    far = after.predict([[40.0, 40.0]])
    assert far.probs.max() < 0.8 and far.epistemic[0] > after.predict(X).epistemic.mean()
    again = after.unconditioned().condition(X[:30], Y[:30]).condition(X[30:], Y[30:])
    np.testing.assert_allclose(again.predict(QUERIES).probs, after.predict(QUERIES).probs, atol=1e-8)


def test_what_cannot_be_is_refused():
    with pytest.raises(DataError, match="far off for several classes"):
        PRIOR.condition(X, Y, using=Laplace())
    with pytest.raises(DataError, match="cannot use EP"):
        PRIOR.condition(X, Y, using=EP())
    with pytest.raises(DataError, match="one class only"):
        credo.fit(credo.LatentGP(Categorical()), X, ["ash"] * 45)
    with pytest.raises(DataError, match="but the classes are"):
        PRIOR.condition(X, Y).condition(X[:1], ["oak"])
    with pytest.raises(DataError, match="must be positive"):
        credo.LatentGP(Categorical(), concentration=0.0)
    with pytest.raises(DataError, match="takes Categorical"):
        LatentClasses(credo.models.likelihoods.Poisson())
    one = PRIOR.condition(X[:1], Y[:1])
    assert one.predict(X[:1]).probs[0].argmax() == ("ash", "birch", "cedar").index(Y[0])
