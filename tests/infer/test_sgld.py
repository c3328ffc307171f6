"""SGLD against closed forms: with all rows in a batch it is ULA, with few its bias shrinks with the step."""

import dataclasses

import jax.numpy as jnp
import numpy as np
import pytest

from credo.core.errors import DataError, NotConverged, NotConvergedWarning
from credo.infer.mcmc import sgld
from credo.infer.mcmc.sgld import SGLD
from credo.infer.rows import RowDensity, RowSource
from credo.infer.target import ParameterSpace

ROWS = np.random.default_rng(3).normal(1.0, 1.0, size=200)
PRECISION = 200 + 1 / 4
"""Of the mean θ of rows N(θ, 1) under a prior N(0, 4)."""
CENTER = ROWS.sum() / PRECISION


def log_prior(theta):
    return -(theta**2) / 8


def log_likelihood(theta, y):
    return -0.5 * (y - theta) ** 2


def run(settings, data=ROWS, seed=0, **options):
    return settings.run_rows(log_prior, log_likelihood, 0.0, data, seed=seed, **options)


def autoregressive(x, rho):
    """The standard error of the mean of x² for draws of an AR(1) with this coefficient."""
    return np.sqrt(2 / len(x) * (1 + rho**2) / (1 - rho**2)) * x.var()


def test_with_all_rows_in_a_batch_it_is_ula():
    for share in (0.8, 0.2):
        step = share / PRECISION
        found = run(SGLD(step, batch=200, decay=0.0, passes=8_000, burn=0.05, draws=7_600))
        x = np.asarray(found.values) - CENTER
        assert abs(np.mean(x**2) - 1 / PRECISION / (1 - step * PRECISION / 2)) < 4.5 * autoregressive(x, 1 - share)
        assert abs(x.mean()) < 4.5 * x.std() * np.sqrt((2 - share) / share / len(x))
    assert "bias that shrinks with the step" in found.verdict


def test_the_bias_of_minibatches_shrinks_with_the_step():
    """The noise of the gradient alone widens the draws by about 1 + ε n²/2m."""
    widths = []
    for share, passes in ((0.4, 1000), (0.1, 2000), (0.02, 6000)):
        found = run(SGLD(share / PRECISION, batch=20, decay=0.0, passes=passes, burn=0.05, draws=4000))
        x = np.asarray(found.values)
        widths.append(x.var() * PRECISION)
        assert abs(x.mean() - CENTER) < 6 * x.std() / np.sqrt(passes * 10 * share / 4)
    assert widths[0] > 1.3 * widths[1] > 1.3 * widths[2]
    assert 0.8 < widths[2] < 1.3


def test_decaying_steps_forget_the_start_and_find_the_posterior():
    found = run(SGLD(0.3 / PRECISION, batch=20, decay=0.55, offset=100.0, passes=4000, burn=0.3))
    x = np.asarray(found.values)
    assert abs(x.mean() - CENTER) < 0.2 / np.sqrt(PRECISION)
    assert 0.75 < x.var() * PRECISION < 1.4


def test_every_row_counts_the_same_whatever_the_batch():
    """The same noise, outcomes shifted by 1: the difference is Π(1 - εₜA) and does not depend on batches or padding."""
    settings = SGLD(0.2 / PRECISION, batch=30, decay=0.5, offset=5.0, passes=3, burn=0.0, draws=100)
    one, other = (np.asarray(run(settings, ROWS + shift).values) for shift in (0.0, 1.0))
    sizes = settings.schedule(20)
    want, gap = [], 0.0
    for size in sizes:
        gap += size * (200 - PRECISION * gap)
        want.append(gap)
    np.testing.assert_allclose(other - one, np.array(want)[settings._wanted(sizes)], rtol=1e-9)


@pytest.mark.parametrize("precondition", [False, True])
def test_steps_are_those_of_the_formula(precondition):
    """Against a loop in NumPy; the last minibatch has three rows of four, and after it nothing moves."""
    rng = np.random.default_rng(0)
    x, y, noise = rng.normal(size=(6, 4, 2)), rng.normal(size=(6, 4)), rng.normal(size=(6, 2))
    plan = np.array([[0.01, 0.008, 0.006, 0.004, 0.002, 0.0], [4, 4, 4, 4, 3, 1]])
    model = RowDensity(
        ParameterSpace.of(np.zeros(2)), lambda w: -0.5 * (w**2).sum(), lambda w, x, y: -0.5 * (y - x @ w) ** 2
    )
    start, squares = rng.normal(size=2), np.full(2, 0.3)
    u, v, path = sgld._steps(*sgld._parts(model), start, squares, (x, y), 19, plan, noise, precondition)
    w, want = start, []
    for i, (size, count) in enumerate(plan.T):
        table, outcome = x[i, : int(count)], y[i, : int(count)]
        gradient = -w + 19 / count * table.T @ (outcome - table @ w)
        if size and precondition:
            squares = 0.99 * squares + 0.01 * (gradient / 19) ** 2
        metric = 1 / (1e-5 + np.sqrt(squares)) if precondition else 1.0
        w = w + size * metric * gradient + np.sqrt(2 * size * metric) * noise[i]
        want.append(w)
    np.testing.assert_allclose(path, want, rtol=1e-12)
    np.testing.assert_array_equal(u, path[-1])
    np.testing.assert_allclose(v, squares, rtol=1e-12)


def test_draws_are_kept_in_proportion_to_the_step():
    settings = SGLD(1.0, decay=0.8, offset=10.0, burn=0.2, draws=200)
    sizes = settings.schedule(10_000)
    np.testing.assert_allclose(sizes[:3], (1 + np.arange(3) / 10) ** -0.8, rtol=1e-12)
    wanted = settings._wanted(sizes)
    clock = np.cumsum(sizes)
    assert len(wanted) == 200 and wanted[-1] == 9_999
    for step in (1000, 3000, 8000):
        share = (clock[step] - 0.2 * clock[-1]) / (0.8 * clock[-1])
        assert abs((wanted <= step).mean() - share) < 0.01


def test_rows_from_memory_disk_and_chunks_give_the_same_posterior(tmp_path):
    on_disk = np.memmap(tmp_path / "y.bin", dtype=float, mode="w+", shape=ROWS.shape)
    on_disk[:] = ROWS
    settings = SGLD(0.1 / PRECISION, batch=20, decay=0.0, passes=500, burn=0.1)
    for data, rows in ((ROWS, None), (on_disk, None), ([ROWS[:130], ROWS[130:]], 200)):
        found = run(settings, data, rows=rows)
        assert abs(float(found.mean) - CENTER) < 0.3 / np.sqrt(PRECISION)
    first, again = (run(settings, seed=7) for _ in range(2))
    np.testing.assert_array_equal(first.chains, again.chains)


def test_several_numbers_under_constraints_with_a_metric():
    """A normal with mean 5 and scale 0.1: the curvatures of the two differ by a factor of fifty."""
    y = np.random.default_rng(0).normal(5.0, 0.1, size=2000)

    def prior(theta):
        return -(theta["mean"] ** 2) / 200 - theta["scale"]

    def likelihood(theta, y):
        return -jnp.log(theta["scale"]) - 0.5 * ((y - theta["mean"]) / theta["scale"]) ** 2

    settings = SGLD(5e-7, batch=200, decay=0.55, offset=500.0, passes=400, precondition=True)
    found = settings.run_rows(prior, likelihood, {"mean": 5.05, "scale": 0.15}, y, {"scale": "positive"})
    assert abs(float(found.mean["mean"]) - y.mean()) < 2 * 0.1 / np.sqrt(2000)
    np.testing.assert_allclose(float(found.mean["scale"]), y.std(), rtol=0.03)
    assert 0.7 < float(found.std["mean"]) / (0.1 / np.sqrt(2000)) < 1.6


def test_an_interrupted_run_returns_what_it_has(monkeypatch):
    whole = RowSource.blocks

    def failing(*about):
        yield next(whole(*about))
        raise KeyboardInterrupt

    settings = SGLD(1e-4, batch=20, passes=1000, burn=0.0, draws=1000)
    monkeypatch.setattr(sgld, "ROWS", 2000)
    monkeypatch.setattr(RowSource, "blocks", failing)
    with pytest.warns(NotConvergedWarning, match=r"Interrupted after [\d,]+ draws"):
        found = run(settings)
    assert found.verdict.startswith("Interrupted")
    assert 0 < found.chains.shape[1] < 1000


@pytest.mark.parametrize(
    ("changes", "data", "message"),
    [
        ({"step_size": -1.0}, ROWS, "step_size must be a positive number"),
        ({"batch": 0}, ROWS, "batch must be a whole number"),
        ({"decay": 2.0}, ROWS, "decay must be in"),
        ({"burn": 1.0}, ROWS, "burn must be a share"),
        ({"offset": 0.0}, ROWS, "offset must be a positive"),
        ({}, (ROWS, ROWS[:3]), r"same number of rows, found \[3, 200\]"),
        ({}, iter([ROWS]), "rows, the number of rows in all, is needed"),
        ({}, 3.0, "data must be arrays or an iterable"),
    ],
)
def test_bad_input(changes, data, message):
    with pytest.raises(DataError, match=message):
        run(dataclasses.replace(SGLD(1e-4), **changes), data)


def test_iterators_that_end_too_early_are_noticed():
    with pytest.raises(DataError, match="is gone through once"):
        run(SGLD(1e-4, passes=2), iter([ROWS]), rows=200)
    with pytest.raises(DataError, match="more rows than were promised, rows = 100"):
        run(SGLD(1e-6, batch=20), [ROWS], rows=100)
    with pytest.raises(DataError, match=r"same rows, found \[200, 3\]"):
        run(SGLD(1e-6), [(ROWS, ROWS[:3])], rows=200)
    with pytest.raises(DataError, match="rows = 100000 was promised"):
        run(SGLD(1e-6, batch=20), [ROWS], rows=100_000)


def test_steps_that_are_too_long_are_noticed():
    with pytest.raises(NotConverged, match="lower step_size"):
        run(SGLD(10.0, batch=20, decay=0.0, passes=100))


# -- running moments ---------------------------------------------------------------------------------------------------


def test_running_moments_are_those_of_the_draws():
    """Mean and covariance of the draws that would have been kept, by NumPy; of many numbers SWAG's."""
    data = np.random.default_rng(5).normal(size=(60, 3))
    many = SGLD(0.01, batch=10, passes=20, draws=50, burn=0.2)

    def likelihood(theta, rows):
        return -0.5 * ((rows - theta) ** 2).sum(-1)

    def found(**settings):
        method = dataclasses.replace(many, **settings)
        return method.run_rows(lambda t: -0.5 * (t**2).sum(), likelihood, np.zeros(3), data, seed=1)

    draws = np.asarray(found().values)
    law = found(keep="moments")
    np.testing.assert_allclose(law.center, draws.mean(0), rtol=1e-10)
    np.testing.assert_allclose(law.covariance, np.cov(draws.T, bias=True), rtol=1e-6)
    few = {"draws": 5, "rank": 3}  # too few for a matrix of three numbers
    five, swag = np.asarray(found(**few).values), found(keep="moments", **few)
    deviations = [five[i] - five[: i + 1].mean(0) for i in (2, 3, 4)]
    np.testing.assert_allclose(swag.center, five.mean(0), rtol=1e-10)
    np.testing.assert_allclose(swag.scale**2, five.var(0) / 2, rtol=1e-9)
    np.testing.assert_allclose(swag.factor, np.stack(deviations, axis=1) / 2, rtol=1e-9)
    drawn = swag.vectors(20_000, np.random.default_rng(0))
    want = np.diag(swag.scale**2) + swag.factor @ swag.factor.T
    np.testing.assert_allclose(np.cov(drawn.T), want, atol=0.05 * want.max())
    assert np.shape(swag.mean) == (3,)
    with pytest.raises(DataError, match="keep must be"):
        SGLD(0.1, keep="all")
