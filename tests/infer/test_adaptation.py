"""The warm-up: windows, the metric, the step size by dual averaging, running moments."""

import jax.numpy as jnp
import numpy as np
import pytest

from credo.infer.mcmc.adaptation import DualAveraging, RunningMoments, StepSizeAndMetric, adapt, window_ends
from credo.infer.mcmc.chains import BLOCK, _steps
from credo.infer.mcmc.nuts import NUTS
from credo.infer.target import ParameterSpace, Target


def test_windows_double_and_leave_the_end_to_the_step_size():
    assert window_ends(1000).tolist() == [20, 60, 140, 300, 900]
    assert window_ends(200).tolist() == [20, 60, 150]
    for number in range(30):
        ends = window_ends(number)
        assert np.all(np.diff(ends) > 0) and (len(ends) == 0 or ends[-1] <= number)


def test_warm_up_learns_the_metric_and_the_acceptance(rng):
    root = np.asarray([[2.0, 0.0], [18.0, 3.0]])  # deviations 2 and 18.2, correlation 0.99

    def normal(u):
        z = jnp.linalg.solve(root, u)
        return -0.5 * z @ z

    target, sampler, u, rates, lengths = Target(ParameterSpace.of(np.ones(2)), normal), NUTS(), np.ones(2), [], []

    def move(root, averaging, most, exploring):
        nonlocal u
        count = min(BLOCK, most)
        random = sampler.random_numbers(rng, BLOCK, 2, exploring)
        u, averaging, (positions, info) = _steps(sampler, target, u, root, averaging, random, np.asarray(count))
        rates.append(np.asarray(info.acceptance)[:count].mean())
        lengths.append((count, exploring))
        return np.asarray(positions)[:count], averaging

    tuning = adapt(move, StepSizeAndMetric(np.ones(()), np.eye(2)), 0.8, 1000)
    assert lengths == [(20, True), *((n, False) for n in (40, 80, 160, 250, 250, 100, 100))]
    found = tuning.inverse_mass_matrix_root
    np.testing.assert_allclose(found @ found.T, root @ root.T, rtol=0.25)
    move(found, DualAveraging.around(tuning.step_size), BLOCK, False)
    assert 0.7 < rates[-1] < 0.95


def test_dual_averaging_finds_where_the_acceptance_is_as_asked():
    averaging = DualAveraging.around(np.ones(2), 0.8)  # two step sizes at once
    held = DualAveraging.around(np.ones(2))
    for _ in range(400):
        # 80 % are accepted at ε = 0.669 and at 0.223.
        averaging = averaging.after(np.exp(-np.exp(averaging.log_step) / np.asarray([3.0, 1.0])))
    np.testing.assert_allclose(np.exp(averaging.log_average), -np.log(0.8) * np.array([3.0, 1.0]), rtol=0.05)
    np.testing.assert_array_equal(held.after(np.ones(2)).log_step, held.log_step)


@pytest.mark.parametrize("dense", [False, True])
def test_running_moments_are_those_of_all_draws(dense):
    x = np.random.default_rng(0).normal(size=(50, 3)) * [1.0, 5.0, 0.1] + 100.0
    covariance = np.cov(x.T)
    blocks = RunningMoments.of(x[:20], dense).merge(RunningMoments.of(x[20:], dense))
    np.testing.assert_allclose(blocks.mean, x.mean(0), rtol=1e-12)
    np.testing.assert_allclose(blocks.scatter / 49, covariance if dense else np.diag(covariance), rtol=1e-8)
