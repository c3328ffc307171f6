"""Climbing a function in a box: from where the gradient is steep, and from where nothing gains."""

import numpy as np

from credo.infer.optimize import CONVERGED, DIVERGED, STOPPED, maximize, value_differences

WALLS = np.full(2, -25.0), np.full(2, 25.0)


def steep(u):
    """-Σ e³ᵘ - 90u: at the walls it is 10³² below its maximum at u = log(30)/3."""
    return float(-np.sum(np.exp(3 * u) - 90 * u)), 90 - 3 * np.exp(3 * u)


def test_a_steep_start_does_not_jump_to_the_walls():
    found = maximize(steep, [np.zeros(2)], *WALLS)
    assert found[0].status == CONVERGED
    np.testing.assert_allclose(found[0].vector, np.log(30) / 3, rtol=1e-6)


def test_the_first_step_has_the_length_that_is_asked_for():
    places = []

    def watched(u):
        places.append(u)
        return steep(u)

    maximize(watched, [np.zeros(2)], *WALLS, stride=0.1)
    assert np.abs(places[1]).max() <= 0.1 + 1e-12


def test_a_climb_that_gains_nothing_on_a_slope_has_not_converged():
    def broken(u):
        return -1.0, np.array([5.0, 5.0])  # the slope promises what the values never give

    assert maximize(broken, [np.zeros(2)], *WALLS)[0].status == STOPPED


def test_a_start_that_is_not_finite_diverges():
    assert maximize(lambda u: (np.nan, u), [np.zeros(2)], *WALLS)[0].status == DIVERGED


def test_a_start_at_the_maximum_has_converged():
    found = maximize(steep, [np.full(2, np.log(30) / 3)], *WALLS)
    assert found[0].status == CONVERGED


def test_a_climb_stops_where_it_is_highest_when_the_time_is_up():
    looks = []

    def value_and_grad(u):
        looks.append(u)
        return -(float((u - 3.0) @ (u - 3.0)) ** 2), -4.0 * (u - 3.0) * float((u - 3.0) @ (u - 3.0))

    bounds = np.full(2, -10.0), np.full(2, 10.0)
    starts = [np.zeros(2), np.ones(2)]
    found = maximize(value_and_grad, starts, *bounds, stop=lambda: len(looks) > 4)
    assert len(found) == 1 and found[0].status == "stopped" and len(looks) == 5
    assert found[0].value == max(value_and_grad(u)[0] for u in list(looks)) > value_and_grad(starts[0])[0]


def test_a_hessian_of_values_alone():
    matrix = np.array([[2.0, 0.3, -0.1], [0.3, 1.0, 0.4], [-0.1, 0.4, 3.0]])

    def values(points: np.ndarray) -> np.ndarray:
        return -0.5 * np.einsum("mi,ij,mj->m", points, matrix, points) + points @ [1.0, 2.0, 3.0]

    np.testing.assert_allclose(value_differences(values, np.array([0.2, -1.0, 0.5])), -matrix, atol=1e-7)
