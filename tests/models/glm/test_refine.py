"""Where Laplace's approximation of a generalized linear model fails: seen, and mended."""

import numpy as np
import pytest
from scipy import integrate, special, stats
from sklearn.datasets import load_wine
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

import credo
from credo.errors import NotConvergedWarning
from credo.models.glm import refine
from credo.models.linear import Isotropic


def posterior(x, y, precision):
    """Mode, mean and standard deviation of one weight of a logistic regression, and P(1 | x*), by quadrature."""
    grid = np.linspace(-40, 60, 200_001)
    log = stats.norm.logpdf(grid, 0, precision**-0.5)
    for a, b in zip(x, y, strict=True):
        log += -np.logaddexp(0, -a * grid) if b else -np.logaddexp(0, a * grid)
    p = np.exp(log - log.max())
    log_evidence = np.log(integrate.trapezoid(p, grid)) + log.max()
    p /= integrate.trapezoid(p, grid)
    mean = integrate.trapezoid(p * grid, grid)
    sd = np.sqrt(integrate.trapezoid(p * (grid - mean) ** 2, grid))

    def probability(at):
        return integrate.trapezoid(p * special.expit(at * grid), grid)

    return grid[p.argmax()], mean, sd, probability, log_evidence


X = np.array([-1.4, -1.1, -0.7, -0.2, 0.3, 0.5, 0.8, 1.2, 1.7, -0.9])


def logistic(precision):
    return credo.Logistic(prior=Isotropic(precision), intercept=False, classes=(0, 1))


def test_the_shift_is_that_of_the_mean_from_the_mode():
    y = (X + np.array([0.9, -0.3, 0.2, 0.8, -0.9, 0.1, 0.3, -0.1, 0.2, 0.1]) > 0).astype(int)
    model = logistic(0.3)
    rows = model.statistics(X[:, None], y)
    after = model.at_mode(rows)
    mode, mean, _, _, _ = posterior(X, y, 0.3)
    np.testing.assert_allclose(after.law.center, [mode], atol=1e-3)
    found = refine.skewness(model, after, rows) * float(after.law.root[0, 0])
    assert mean - mode > 0.1
    assert found == pytest.approx(mean - mode, rel=0.3)  # to first order


@pytest.mark.filterwarnings("ignore:do not trust:credo.errors.NotConvergedWarning")
def test_classes_that_are_separable():
    y = (X > 0).astype(int)
    model = logistic(0.01)
    _, mean, sd, probability, log_evidence = posterior(X, y, 0.01)
    plain = model.at_mode(model.statistics(X[:, None], y))
    mended = model.condition(X[:, None], y)
    assert mended.found is not None
    for at in (0.5, -1.0):
        want = probability(at)
        assert abs(float(mended.predict([[at]]).probs[0, 1]) - want) < 0.01
    assert abs(float(plain.predict([[0.5]]).probs[0, 1]) - probability(0.5)) > 0.02
    assert abs(float(mended.law.center[0]) - mean) < 0.15 * sd < 0.5 * abs(float(plain.law.center[0]) - mean)
    assert log_evidence - 0.3 < float(mended.law.log_evidence) < log_evidence  # a bound


def test_a_posterior_that_is_nearly_normal_is_left_as_it_is(rng):
    x = rng.normal(size=(200, 2))
    y = (x[:, 0] + rng.logistic(size=200) > 0).astype(int)
    assert credo.Logistic().condition(x, y).found is None


def test_too_many_numbers_for_it_are_said(monkeypatch):
    monkeypatch.setattr(refine, "MOST", 0)
    with pytest.warns(NotConvergedWarning, match=r"the posterior is skewed \(its mean is about .* tighter prior"):
        logistic(0.01).condition(X[:, None], (X > 0).astype(int))


@pytest.mark.filterwarnings("ignore:do not trust:credo.errors.NotConvergedWarning")
def test_held_out_wines():
    """Three cultivars that thirteen measurements tell apart almost perfectly: the figures of docs/classification.md."""
    x, y = load_wine(return_X_y=True)
    parts = train_test_split(x, y, test_size=0.2, random_state=0, stratify=y)
    scaler = StandardScaler().fit(parts[0])
    train, test = scaler.transform(parts[0]), scaler.transform(parts[1])
    learned = credo.fit(credo.Softmax(), train, parts[2])
    model = learned.unconditioned()
    plain = model.at_mode(model.statistics(train, parts[2]))
    losses = [log_loss(parts[3], np.asarray(belief.predict(test).probs)) for belief in (plain, learned)]
    assert losses[0] > 0.15
    assert losses[1] < 0.03
