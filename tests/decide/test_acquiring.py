from types import SimpleNamespace

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import pytest

import credo
from credo import plots
from credo.core.errors import DataError
from credo.core.predictive import Categorical, Normal
from credo.decide.acquiring import Margin, Uncertainty, acquire
from credo.decide.acquisition import BALD, ExpectedImprovement, MaxVariance, MutualInformation, UpperConfidenceBound
from credo.decide.active_learning import ActiveCurves, learn_actively, learning_curves
from credo.decide.joint_information import greedy_gain
from credo.decide.space import Real, Space
from credo.kernels import RBF

RNG = np.random.default_rng(4)
X, Y = RNG.uniform(size=(7, 2)), RNG.normal(size=7)
POOL = RNG.uniform(size=(40, 2))
GP = credo.GP(RBF(0.3), mean=0.0, noise=0.1).condition(X, Y)
LABELS = np.where(POOL[:, 0] + 0.4 * RNG.normal(size=40) > 0.5, "late", "early")
CLASSIFIER = credo.Logistic(classes=("early", "late")).condition(POOL[:15], LABELS[:15])


class Noisy(eqx.Module):
    """Doubt and noise that are known functions of x; it knows nothing of covariances."""

    def predict(self, x):
        x = jnp.asarray(x)
        return Normal(jnp.zeros(x.shape[0]), 0.1 + x[:, 1], 0.5 + x[:, 0])


# -- one at a time -----------------------------------------------------------------------------------------------


def test_the_default_for_numbers_is_the_ratio_of_doubt_to_noise():
    found = acquire(Noisy(), POOL)
    ratio = (0.5 + POOL[:, 0]) / (0.1 + POOL[:, 1])
    assert found.index[0] == np.argmax(ratio)
    np.testing.assert_allclose(found.score, 0.5 * np.log1p(ratio.max()), rtol=1e-12)
    np.testing.assert_array_equal(found.x, POOL[found.index])


def test_the_default_for_classes_is_bald():
    p = CLASSIFIER.predict(POOL)
    assert acquire(CLASSIFIER, POOL).index[0] == np.argmax(np.asarray(p.epistemic))


def test_scores_of_classes():
    probs = np.asarray([[0.5, 0.3, 0.2], [0.4, 0.4, 0.2], [1.0, 0.0, 0.0]])
    belief = SimpleNamespace(predict=lambda x: Categorical.certain(probs))
    x = jnp.zeros((3, 1))
    np.testing.assert_allclose(Uncertainty()(belief, x), [0.5, 0.6, 0.0], atol=1e-15)
    np.testing.assert_allclose(Margin()(belief, x), [0.8, 1.0, 0.0], atol=1e-15)
    p = np.asarray(CLASSIFIER.predict(POOL).prob)
    half = np.argmin(np.abs(p - 0.5))
    assert acquire(CLASSIFIER, POOL, Uncertainty()).index[0] == half
    assert acquire(CLASSIFIER, POOL, Margin()).index[0] == half
    with pytest.raises(DataError, match="Margin needs a prediction of classes"):
        acquire(GP, POOL, Margin())


# -- batches -----------------------------------------------------------------------------------------------------


def test_a_batch_by_information_is_the_greedy_one_after_what_is_pending():
    found = acquire(GP, POOL, n=5, pending=POOL[:2] + 0.01)
    after = GP.condition(POOL[:2] + 0.01, [3.0, -3.0])  # whatever comes out
    want = greedy_gain(after, POOL, 5)
    np.testing.assert_array_equal(found.index, want.chosen)
    np.testing.assert_allclose(found.score, want.gains, rtol=1e-6)


def test_a_batch_by_variance_believes_its_choices():
    """With noise that is the same everywhere, the largest variance has the largest information."""
    found = acquire(GP, POOL, MaxVariance(), n=4)
    np.testing.assert_array_equal(found.index, acquire(GP, POOL, n=4).index)
    last = GP.condition(found.x[:3], np.zeros(3)).predict(found.x[3:]).epistemic
    np.testing.assert_allclose(found.score[3], last[0], rtol=1e-6)


def test_a_batch_by_improvement_does_not_repeat_itself():
    found = acquire(GP, POOL, ExpectedImprovement(), n=3, pending=POOL[:1])
    assert len(set(found.index.tolist())) == 3
    believed = GP.condition(POOL[:1], GP.predict(POOL[:1]).mean)
    alone = acquire(believed, POOL, ExpectedImprovement())
    assert found.index[0] == alone.index[0]
    np.testing.assert_allclose(found.score[0], alone.score[0], rtol=1e-6)


def test_a_batch_of_classes_is_spread_out():
    score = np.asarray(CLASSIFIER.predict(POOL).epistemic)
    found = acquire(CLASSIFIER, POOL, n=4)
    weight = (score - score.min()) / np.ptp(score)
    chosen = [int(np.argmax(weight))]
    for _ in range(3):
        gaps = np.linalg.norm((POOL[:, None] - POOL[chosen]) / POOL.std(0), axis=-1).min(1)
        chosen.append(int(np.argmax(weight * gaps)))
    np.testing.assert_array_equal(found.index, chosen)
    np.testing.assert_allclose(found.score, score[chosen], rtol=1e-12)
    # What waits keeps others away: the first choice, pending, is not chosen again.
    assert acquire(CLASSIFIER, POOL, n=1, pending=found.x[:1]).index[0] == chosen[1]


def test_equal_scores_are_spread_over_the_pool():
    class Flat(eqx.Module):
        def predict(self, x):
            return Normal(jnp.zeros(len(x)), jnp.ones(len(x)), jnp.ones(len(x)))

    line = np.asarray([[0.0], [0.1], [0.5], [1.0]])
    np.testing.assert_array_equal(acquire(Flat(), line, n=3).index, [0, 3, 2])


# -- spaces ------------------------------------------------------------------------------------------------------


def test_in_a_box_the_score_is_climbed():
    box = (np.zeros(2), np.ones(2))
    found = acquire(GP, box)
    grid = np.stack(np.meshgrid(*[np.linspace(0, 1, 41)] * 2), -1).reshape(-1, 2)
    best = np.max(np.asarray(MutualInformation()(GP, jnp.asarray(grid))))
    assert found.index is None
    assert found.score[0] >= best - 1e-9
    p = GP.predict(found.x)
    np.testing.assert_allclose(found.score, 0.5 * np.log1p(p.epistemic / p.aleatoric), rtol=1e-8)


def test_a_batch_in_a_space_beats_the_pool():
    space = Space({"a": Real(0.0, 1.0), "b": Real(0.0, 1.0)})
    found = acquire(GP, space, n=2, pending=[{"a": 0.2, "b": 0.9}])
    after = GP.condition([[0.2, 0.9]], [0.0])
    assert found.score.sum() >= greedy_gain(after, POOL, 2).gain
    np.testing.assert_allclose([list(p.values()) for p in found.points], found.x, atol=1e-12)
    np.testing.assert_allclose(found.score, greedy_gain(after, found.x, 2).gains, rtol=1e-5)


def test_a_batch_of_classes_in_a_box():
    found = acquire(CLASSIFIER, (np.zeros(2), np.ones(2)), n=3)
    assert found.x.shape == (3, 2)
    assert np.all((found.x >= 0) & (found.x <= 1))
    gaps = np.linalg.norm(found.x[:, None] - found.x, axis=-1)[np.triu_indices(3, 1)]
    assert gaps.min() > 0.2


def test_bad_candidates():
    with pytest.raises(DataError, match="n must be at most the number of candidates, 40, found 41"):
        acquire(GP, POOL, n=41)
    with pytest.raises(DataError, match="n must be a whole number of at least 1"):
        acquire(GP, POOL, n=0)
    with pytest.raises(DataError, match="candidates contains NaN"):
        acquire(GP, np.full((2, 2), np.nan))
    with pytest.raises(DataError, match="pending must have 2 columns"):
        acquire(GP, POOL, pending=[[1.0]])
    with pytest.raises(DataError, match="lower < upper"):
        acquire(GP, (np.ones(2), np.zeros(2)))


# -- the loop ----------------------------------------------------------------------------------------------------


def test_the_loop_asks_for_what_greedy_choices_ask_for():
    """Hyperparameters held: the information does not depend on outcomes, so the loop follows `greedy_gain`."""
    prior = credo.GP(RBF(0.3), mean=0.0, noise=0.1)
    asked = []

    def oracle(x):
        asked.append(len(x))
        return np.sin(6 * x[:, 0]) + x[:, 1]

    run = learn_actively(
        prior, POOL, oracle, 12, start=[3, 8], refit=0, watch=lambda b: b.predict(POOL).epistemic.sum()
    )
    after = prior.condition(POOL[[3, 8]], [0.0, 0.0])
    rest = np.setdiff1d(np.arange(40), [3, 8])
    np.testing.assert_array_equal(run.chosen, [3, 8, *rest[greedy_gain(after, POOL[rest], 10).chosen]])
    assert asked == [2] + [1] * 10
    assert [step.labels for step in run.history] == list(range(2, 13))
    left = [step.watched for step in run.history]
    assert np.all(np.diff(left) < 0)
    want = prior.condition(POOL[run.chosen], run.outcomes)
    np.testing.assert_allclose(run.belief.predict(POOL).mean, want.predict(POOL).mean, rtol=1e-6, atol=1e-9)


@pytest.mark.slow
def test_batches_and_refits():
    y = np.sin(6 * POOL[:, 0]) + POOL[:, 1]
    run = learn_actively(credo.GP(RBF()), POOL, y, 14, start=6, batch=3, refit=4, seed=2)
    assert [len(step.asked) for step in run.history] == [6, 3, 3, 2]
    assert len(set(run.chosen.tolist())) == 14
    np.testing.assert_array_equal(run.outcomes, y[run.chosen])
    learned = credo.fit(credo.GP(RBF()), POOL[run.chosen[:12]], y[run.chosen[:12]], seed=2)
    np.testing.assert_allclose(run.belief.kernel.lengthscale, learned.kernel.lengthscale, rtol=1e-9)


def test_random_choices_are_paired_by_the_seed():
    prior = credo.GP(RBF(0.3), mean=0.0, noise=0.1)
    runs = [learn_actively(prior, POOL, np.zeros(40), 9, kind, refit=0, seed=5) for kind in ("random", "random", None)]
    np.testing.assert_array_equal(runs[0].chosen, runs[1].chosen)
    np.testing.assert_array_equal(runs[0].chosen[:5], runs[2].chosen[:5])
    assert len(set(runs[0].chosen.tolist())) == 9
    assert runs[0].history[1].score is None


def test_learning_classes_actively():
    y = np.where(POOL[:, 0] > 0.5, "late", "early")
    model = credo.Logistic(classes=("early", "late"))
    curves = learning_curves(
        model, POOL, y, 12, BALD(), against=Uncertainty(), seeds=[0, 1], start=4, batch=4, refit=0, score="accuracy"
    )
    assert list(curves.scores) == ["active", "Uncertainty"]
    np.testing.assert_array_equal(curves.labels, [4, 8, 12])
    assert curves.scores["active"].shape == (2, 3)
    assert np.all((curves.scores["active"] >= 0) & (curves.scores["active"] <= 1))
    assert curves.name == "accuracy"


def test_active_learning_beats_random():
    rng = np.random.default_rng(0)
    pool = rng.beta(0.5, 3.0, size=(120, 1))  # random choices crowd at one end
    y = np.sin(8 * pool[:, 0]) + 0.05 * rng.normal(size=120)
    grid = np.linspace(pool.min(), pool.max(), 50)[:, None]
    prior = credo.GP(RBF(0.25), mean=0.0, noise=0.0025)
    curves = learning_curves(
        prior, pool, y, 14, test=(grid, np.sin(8 * grid[:, 0])), seeds=3, refit=0, start=2, batch=2
    )
    assert curves.name == "rmse"
    medians = {way: curves.quartiles(way)[1] for way in curves.scores}
    assert medians["active"][-1] < 0.5 * medians["random"][-1]
    assert curves.needed() <= 10


def test_the_picture_of_curves_shows_both_ways_and_what_is_saved():
    active, other = np.asarray([[4.0, 2.0, 1.0]]), np.asarray([[4.0, 3.0, 2.0]])
    ax = plots.learning_curves(ActiveCurves(np.asarray([5, 10, 15]), {"active": active, "random": other}, "rmse"))
    lines = {line.get_label(): line.get_ydata() for line in ax.get_lines()}
    np.testing.assert_array_equal(lines["active"], active[0])
    np.testing.assert_array_equal(lines["random"], other[0])
    assert [text.get_text() for text in ax.texts] == ["10 instead of 15"]
    assert ax.get_yscale() == "log"


def test_the_numbers_of_curves():
    active = np.asarray([[4.0, 2.0, 1.0], [6.0, 2.0, 0.5], [5.0, 3.0, 0.0]])
    other = np.asarray([[4.0, 3.0, 2.0], [6.0, 4.0, 2.0], [5.0, 4.0, 3.0]])
    curves = ActiveCurves(np.asarray([5, 10, 15]), {"active": active, "random": other}, "rmse")
    np.testing.assert_allclose(curves.quartiles(), np.quantile(active, [0.25, 0.5, 0.75], axis=0))
    assert curves.needed() == 10
    assert curves.needed(0.5) == 15
    assert curves.needed(0.1) is None
    assert curves.needed(2.0, "random") == 15
    assert str(curves).splitlines()[2].split() == ["10", "2", "(2", "to", "2.5)", "4", "(3.5", "to", "4)"]
    better = ActiveCurves(
        np.asarray([5, 10]), {"active": 1 - active[:, :2] / 10, "random": 1 - other[:, :2] / 10}, "accuracy"
    )
    assert better.needed() == 10
    with pytest.raises(DataError, match="one of 'active', 'random', found 'greedy'"):
        curves.quartiles("greedy")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"budget": 41}, "budget must be at most the number of rows in the pool, 40, found 41"),
        ({"budget": 4}, "start must be at most the budget, 4, found 5"),
        ({"start": [1, 1]}, "different rows of the pool's 40"),
        ({"start": [40]}, "different rows of the pool's 40"),
        ({"acquisition": "greedy"}, "or \"random\", found 'greedy'"),
        ({"batch": 0}, "batch must be a whole number of at least 1"),
        ({"oracle": np.zeros(39)}, "as many rows as each other"),
        ({"oracle": lambda x: [0.0]}, r"one outcome per input, 5, found shape \(1,\)"),
    ],
)
def test_bad_input_of_the_loop(options, message):
    arguments = {"oracle": np.zeros(40), "budget": 10, "refit": 0} | options
    with pytest.raises(DataError, match=message):
        learn_actively(credo.GP(RBF(0.3), mean=0.0, noise=0.1), POOL, **arguments)


def test_scores_with_a_direction_pass_through():
    low = acquire(GP, POOL, UpperConfidenceBound(0.0, maximize=False))
    assert low.index[0] == np.argmin(np.asarray(GP.predict(POOL).mean))
