"""Three smoothnesses of a noisy outcome: their evidence against sums over grids, what they predict against NumPy."""

import json

import numpy as np
import pytest

from credo.decide import Campaign, Real, Space
from credo.decide.campaign.model import model_of
from credo.decide.campaign.smooth_surrogates import WIDE, _smooth_plan, log_evidence, smoother_of
from credo.decide.campaign.surrogate import NOISY, learn_surrogate, log_squeeze, plan_for, squeezed
from credo.infer.averaging import Averaged
from credo.kernels import Matern52
from credo.models.gp import GP


def bowl(x):
    """A steep valley: most of the square is far below its top."""
    return -200 * np.square(x[:, 0] - 0.3) - 400 * np.square(x[:, 1] - 0.6 - 0.5 * x[:, 0])


def noisy(rng, function, n=40, sd=1.0, d=2):
    """Two of three rows near the top of the valley, as a campaign has them."""
    x = rng.uniform(size=(n, d))
    near = np.arange(n) % 3 > 0
    x[near, :2] = np.clip([0.3, 0.75] + 0.08 * rng.normal(size=(near.sum(), 2)), 0, 1)
    return x, function(x) + sd * rng.normal(size=n)


def test_the_evidence_of_a_kernel_integrates_its_hyperparameters(rng):
    """Against a sum over a grid in log θ: the difference between two kernels."""
    x = np.linspace(0, 1, 40)[:, None]
    rough = learn_surrogate(x, np.sin(9 * x[:, 0]) + 0.1 * rng.normal(size=40), typical=NOISY)
    found = smoother_of(rough)
    assert not found.is_surface
    level, high, noise = np.meshgrid(np.linspace(-2.75, 1, 16), np.linspace(-2, 3, 11), np.linspace(-6, -2, 17))
    grid = np.stack([level.ravel(), high.ravel(), noise.ravel()], axis=1)
    rows, _ = rough.belief.conditioned()
    wanted = []
    for plan in (plan_for(1, NOISY, False, Matern52), _smooth_plan(1, False)):
        objective = plan.objective(rows)
        assert [s.path for s in plan.slots] == ["kernel.lengthscale", "kernel.variance", "noise"]
        wanted.append(np.logaddexp.reduce([objective.value(v) for v in grid]))
    assert abs(np.diff(found.log_weights)[0] - np.diff(wanted)[0]) < 0.3


def test_the_density_of_squeezed_outcomes(rng):
    y = np.append(rng.normal(size=30), [-40.0, -1e3, -1e6])
    # Median and robust deviation are those of the bulk, so that single far outcomes can be moved alone.
    slopes = []
    for i in range(len(y)):
        step = 1e-4 * max(1.0, abs(y[i])) if y[i] < -20 else 0.0
        up, down = y.copy(), y.copy()
        up[i] += step
        down[i] -= step
        slopes.append((squeezed(up)[i] - squeezed(down)[i]) / (2 * step) if step else 1.0)
    np.testing.assert_allclose(log_squeeze(y), np.log(slopes).sum(), rtol=1e-5)
    assert log_squeeze(rng.normal(size=30)) == 0.0


def test_a_quadratic_surface_is_recognized_and_predicts_what_numpy_does(rng):
    """The belief in standard units against regression with the same kernel by dense solves, in the user's units."""
    x, y = noisy(rng, bowl)
    rough = learn_surrogate(x, y, typical=NOISY)
    assert np.abs(rough.plain - squeezed(rough.plain)).max() > 1.0
    found = smoother_of(rough)
    assert found.is_surface
    assert found.log_weights[1] > found.log_weights[0] + 10
    belief, queries = found.surrogate.belief, rng.uniform(size=(50, 2))
    unit = np.std(y)
    length, size, noise = (np.asarray(found.surface[p]) for p in ("kernel.lengthscale", "kernel.variance", "noise"))

    def covariance(a, b):
        squares = np.square((a[:, None] - b[None, :]) / length).sum(-1)
        u, w = ((each - 0.5) * np.sqrt(6) for each in (a, b))
        products = [
            1,
            u[:, :1] * w[:, 0],
            u[:, 1:] * w[:, 1],
            *(np.outer(u[:, i] * u[:, j], w[:, i] * w[:, j]) for i, j in ((0, 0), (0, 1), (1, 1))),
        ]
        return unit**2 * (size * np.exp(-0.5 * squares) + sum(products))

    solve = np.linalg.solve(covariance(x, x) + unit**2 * noise * np.eye(len(x)), np.eye(len(x)))
    mean = rough.center + covariance(queries, x) @ solve @ (y - rough.center)
    there = belief.predict(queries)
    np.testing.assert_allclose(found.surrogate.natural(np.asarray(there.mean)), mean, rtol=1e-5, atol=1e-4)
    variance = np.diag(covariance(queries, queries) - covariance(queries, x) @ solve @ covariance(x, queries))
    np.testing.assert_allclose(rough.scale**2 * np.asarray(there.epistemic), variance, rtol=1e-4)
    np.testing.assert_allclose(rough.scale**2 * np.asarray(there.aleatoric), unit**2 * noise[0], rtol=1e-6)
    errors = [
        each.natural(np.asarray(each.belief.predict(queries).mean)) - bowl(queries) for each in (rough, found.surrogate)
    ]
    good = bowl(queries) > -20
    assert np.abs(errors[1][good]).mean() < 0.5 * np.abs(errors[0][good]).mean()


def test_the_evidence_of_a_surface_in_the_same_units(rng):
    """Multiplying all outcomes by a number changes no difference of evidence."""
    x, y = noisy(rng, bowl)
    small, large = (smoother_of(learn_surrogate(x, c * y, typical=NOISY)) for c in (1e-3, 1e3))
    np.testing.assert_allclose(np.diff(small.log_weights), np.diff(large.log_weights), atol=1e-3)


def test_what_is_no_surface(rng):
    x, y = noisy(rng, lambda x: np.sin(12 * x[:, 0]) + np.cos(9 * x[:, 1]), n=60, sd=0.1)
    assert not smoother_of(learn_surrogate(x, y, typical=NOISY)).is_surface


def test_trials_are_compared_under_the_smoother_belief_where_that_is_evident(rng):
    space = Space.box(np.zeros(2), np.ones(2))
    beliefs = []
    for function, sd in ((bowl, 1.0), (lambda x: np.abs(np.sin(9 * x)).sum(1), 0.01)):
        x, y = noisy(rng, function, sd=sd)
        campaign = Campaign(space, noise="learn")
        for point, value in zip(space.decode(x), y, strict=True):
            campaign.add(point, float(value))
        model = model_of(campaign.problem, campaign.observations())
        beliefs.append(model.averaged())
        assert model.smoother.is_evident == (model.smoother.log_weights[1] > model.smoother.log_weights[0] + np.log(20))
    assert isinstance(beliefs[0], Averaged)
    assert isinstance(beliefs[1], GP)


def test_few_rows_and_many_columns_have_no_surface(rng):
    few = smoother_of(learn_surrogate(*noisy(rng, bowl, n=17), typical=NOISY))
    assert few.surface is None
    assert not few.is_surface
    wide = smoother_of(learn_surrogate(*noisy(rng, bowl, n=100, d=WIDE), typical=NOISY))
    assert wide.surface is None


def test_a_climb_goes_on_where_the_last_ended(rng):
    x, y = noisy(rng, bowl, n=37)
    rough = learn_surrogate(x, y, typical=NOISY)
    cold = smoother_of(rough)
    again = smoother_of(rough, json.loads(json.dumps(cold.surface)))
    np.testing.assert_allclose(again.log_weights, cold.log_weights, atol=0.02)
    for path, value in cold.surface.items():
        np.testing.assert_allclose(again.surface[path], value, rtol=0.05)


def test_noise_that_is_known(rng):
    x, y = noisy(rng, bowl)
    found = smoother_of(learn_surrogate(x, y, noise=np.ones(40), typical=NOISY))
    assert found.is_surface
    there = found.surrogate.belief.predict(x)
    np.testing.assert_allclose(found.surrogate.scale**2 * np.asarray(there.aleatoric), 1.0, rtol=1e-6)


@pytest.mark.parametrize("values", [np.zeros(14), np.full(14, 1e9), 1e12 * np.arange(14.0)])
def test_odd_outcomes(rng, values):
    found = smoother_of(learn_surrogate(rng.uniform(size=(14, 2)), values, typical=NOISY))
    assert np.isfinite(found.log_weights).all()


def test_a_disaster_is_squeezed(rng):
    x, y = noisy(rng, bowl, sd=0.1)
    y[7] = -1e9
    found = smoother_of(learn_surrogate(x, y, typical=NOISY))
    assert not found.is_surface
    assert np.isfinite(found.log_weights).all()


def test_a_campaign_remembers_the_surface(rng):
    campaign = Campaign(Space({"a": Real(0, 1), "b": Real(0, 1)}), noise="learn", seed=0)
    for point, value in zip(*noisy(rng, bowl, n=20), strict=True):
        campaign.add({"a": float(point[0]), "b": float(point[1])}, float(value))
    trial = campaign.ask()
    assert set(trial.why["hyper"][0]["surface"]) == {"kernel.lengthscale", "kernel.variance", "noise"}
    campaign.tell(trial, 0.0)
    assert "surface" in campaign.ask().why["hyper"][0]


def test_evidence_is_lower_where_the_noise_is_not(rng):
    """Without the prior belief's noise nothing explains twins that differ."""
    x, y = noisy(rng, bowl, n=20)
    rough = learn_surrogate(np.repeat(x, 2, axis=0), np.repeat(y, 2) + rng.normal(size=40), typical=NOISY)
    rows, _ = rough.belief.conditioned()
    plan = plan_for(2, NOISY, False, Matern52)
    objective = plan.objective(rows)
    quiet = type(rough.belief)(rough.belief.kernel, rough.belief.mean, 1e-8)
    assert log_evidence(quiet, plan, objective) < log_evidence(rough.belief, plan, objective) - 10
