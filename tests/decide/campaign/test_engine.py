"""Suggestions, from the record alone: quality on small problems, and every kind of record."""

import dataclasses
import warnings

import numpy as np
import pytest

from credo.decide.acquisition import Thompson, UpperConfidenceBound
from credo.decide.campaign import advice as advising
from credo.decide.campaign import engine
from credo.decide.campaign.advice import front, predicted_optimum
from credo.decide.campaign.model import model_of
from credo.decide.campaign.problem import Observations, Problem
from credo.decide.campaign.surrogate import learn_surrogate, squeezed
from credo.decide.space import Categorical, Integer, Real, Space
from credo.errors import DataError


def record(points, values, space=None, **more):
    """What a campaign would have on record."""
    n = len(points)
    given = {
        "points": tuple(points),
        "rows": (space or PLANE).encode(points),
        "numbers": np.arange(1, n + 1),
        "values": np.asarray(values, float).reshape(n, max(np.size(values) // max(n, 1), 1)),
        "constraints": np.zeros((n, 0)),
        "failed": np.zeros(n, bool),
        "noise": np.full(n, np.nan),
        "costs": np.full(n, np.nan),
        "fidelity": np.ones(n),
        "warm": np.zeros(n, bool),
        "why": (None,) * n,
    }
    return Observations(**(given | more))


def best(problem, seen):
    return advising.best(problem, seen, model_of(problem, seen))


def advice(problem, seen, tolerance=0.0):
    return advising.advice(problem, model_of(problem, seen), tolerance)


def play(problem, function, steps, start=()):
    """Ask and tell, one after the other."""
    points, values, whys = list(start), [function(p) for p in start], [None] * len(start)
    for k in range(steps):
        seen = record(points, values, problem.space, why=tuple(whys))
        found = engine.suggest(problem, seen, [], 1, k)[0]
        points.append(found.point)
        values.append(function(found.point))
        whys.append(found.why())
    return record(points, values, problem.space, why=tuple(whys))


def hill(point):
    return -((point["a"] - 0.3) ** 2) - (point["b"] - 0.7) ** 2


PLANE = Space({"a": Real(0, 1), "b": Real(0, 1)})


@pytest.fixture(scope="module")
def climbed():
    problem = Problem.of(PLANE, initial=5)
    return problem, play(problem, hill, 14)


def test_the_design_comes_first_and_then_the_top_is_found(climbed):
    problem, seen = climbed
    kinds = [why["kind"] for why in seen.why]
    assert kinds[:5] == ["design"] * 5
    assert set(kinds[5:]) <= {"explore", "exploit"}
    assert seen.values.max() > -1e-4
    top = best(problem, seen)
    assert top.point == seen.points[int(seen.values[:, 0].argmax())]
    assert top.interval[0] <= top.mean <= top.interval[1]
    point, mean, std = predicted_optimum(problem, model_of(problem, seen))
    assert abs(point["a"] - 0.3) < 0.02
    assert abs(point["b"] - 0.7) < 0.02
    assert abs(mean) < 1e-3
    assert std < 0.01


def test_minimizing_is_the_same_upside_down(climbed):
    _, seen = climbed
    problem = Problem.of(PLANE, "minimize", initial=5)
    upside = dataclasses.replace(seen, values=-seen.values)
    top = best(problem, upside)
    same = best(Problem.of(PLANE, initial=5), seen)
    assert top.point == same.point
    np.testing.assert_allclose(top.mean, -same.mean, rtol=1e-6, atol=1e-9)
    after = engine.suggest(problem, upside, [], 1, 3)[0]
    assert after.point == engine.suggest(Problem.of(PLANE, initial=5), seen, [], 1, 3)[0].point


def test_advice_says_how_much_is_left(climbed):
    problem, seen = climbed
    early = advice(problem, record(seen.points[:6], seen.values[:6]))
    late = advice(problem, seen, tolerance=0.05)
    assert late.expected_regret < early.expected_regret
    assert late.stop
    assert "within the tolerance" in late.message
    assert not early.stop


def test_a_batch_and_pending_points_are_apart(climbed):
    problem, seen = climbed
    pending = [{"a": 0.31, "b": 0.69}]
    batch = engine.suggest(problem, record(seen.points[:6], seen.values[:6]), pending, 3, 0)
    rows = PLANE.encode([*pending, *(each.point for each in batch)])
    between = np.linalg.norm(rows[:, None] - rows[None], axis=2) + np.eye(4)
    assert between.min() > 0.02


def test_the_seed_decides(climbed):
    problem, seen = climbed
    first, again = (engine.suggest(problem, seen, [], 1, 7)[0] for _ in range(2))
    assert first == again


@pytest.mark.parametrize("acquisition", [UpperConfidenceBound(2.0), Thompson(features=128), "MaxValueEntropySearch"])
def test_other_acquisitions(climbed, acquisition):
    _, seen = climbed
    problem = Problem.of(PLANE, initial=5, acquisition=acquisition)
    found = engine.suggest(problem, seen, [], 1, 0)[0]
    assert PLANE.check(found.point) == found.point
    failed = np.append(seen.failed[:-1], True)
    values = np.where(failed[:, None], np.nan, seen.values)
    assert engine.suggest(problem, dataclasses.replace(seen, failed=failed, values=values), [], 1, 0)


def test_failures_are_avoided(rng):
    points = PLANE.sample(24, seed=1)
    failed = np.array([p["a"] > 0.5 for p in points])
    values = np.where(failed, np.nan, [p["a"] + p["b"] for p in points])
    problem = Problem.of(PLANE, initial=5)
    found = engine.suggest(problem, record(points, values, failed=failed), [], 4, 0)
    assert 0.4 < found[0].point["a"] < 0.55  # the best that works is at its edge
    assert sum(each.point["a"] < 0.55 for each in found) >= 2


def test_all_failed_is_a_design_again():
    points = PLANE.sample(5)
    seen = record(points, np.full(5, np.nan), failed=np.ones(5, bool))
    assert engine.suggest(Problem.of(PLANE, initial=5), seen, [], 1, 0)[0].kind == "design"


def test_an_outcome_constraint_is_kept(rng):
    points = PLANE.sample(20, seed=2)
    values = [p["a"] + p["b"] for p in points]
    limits = np.array([[p["a"]] for p in points])
    problem = Problem.of(PLANE, outcome_constraints={"heat": "<= 0.4"}, initial=5)
    seen = record(points, values, constraints=limits)
    top = best(problem, seen)
    assert top.point["a"] <= 0.45
    found = engine.suggest(problem, seen, [], 1, 0)[0]
    assert 0.2 < found.point["a"] < 0.5
    assert found.point["b"] > 0.8


def test_two_objectives_push_the_front(rng):
    points = PLANE.sample(12, seed=3)
    values = np.array([[p["a"], 1 - p["a"] ** 2 - (p["b"] - 0.5) ** 2] for p in points])
    problem = Problem.of(PLANE, {"gain": "maximize", "life": "maximize"}, initial=5)
    seen = record(points, values)
    found = engine.suggest(problem, seen, [], 2, 0)
    assert all(each.kind == "front" for each in found)
    assert all(abs(each.point["b"] - 0.5) < 0.3 for each in found)
    on_front = front(problem, seen)
    for i in on_front:
        assert not np.any((values >= values[i]).all(1) & (values > values[i]).any(1))
    with pytest.raises(DataError, match="no single best point"):
        best(problem, seen)
    with pytest.raises(DataError, match="one objective"):
        advice(problem, seen)


def test_cheap_trials_come_first_where_they_tell_as_much():
    space = Space({"a": Real(0, 1), "epochs": Integer(1, 10)})
    points = space.sample(16, seed=0)
    values = [-((p["a"] - 0.6) ** 2) - 0.001 * (10 - p["epochs"]) for p in points]
    problem = Problem.of(space, fidelity="epochs", initial=5)
    levels = np.array([(p["epochs"] - 1) / 9 for p in points])
    seen = record(points, values, space, fidelity=levels, costs=0.1 + levels)
    found = engine.suggest(problem, seen, [], 1, 0)[0]
    assert found.point["epochs"] < 10
    cost = model_of(problem, seen).cost
    np.testing.assert_allclose([cost.fixed, cost.slope], [0.1, 1.0], rtol=1e-6)
    assert abs(best(problem, seen).point["a"] - 0.6) < 0.15


def test_choices_and_whole_numbers():
    space = Space({"kind": Categorical(["x", "y", "z"]), "n": Integer(0, 20), "c": Real(0.01, 1, log=True)})

    def outcome(p):
        return {"x": 0.0, "y": 1.0, "z": -1.0}[p["kind"]] - (p["n"] - 13) ** 2 / 50 - (np.log10(p["c"]) + 1) ** 2

    problem = Problem.of(space, initial=8)
    seen = play(problem, outcome, 22)
    top = best(problem, seen)
    assert top.point["kind"] == "y"
    assert abs(top.point["n"] - 13) <= 3
    assert top.value > 0.8


def test_a_finite_space_is_used_up():
    space = Space({"n": Integer(1, 6)})
    problem = Problem.of(space, initial=2)
    seen = play(problem, lambda p: float(p["n"] == 4), 6)
    assert {p["n"] for p in seen.points} == {1, 2, 3, 4, 5, 6}
    with pytest.raises(DataError, match="every point of the space"):
        engine.suggest(problem, seen, [], 1, 0)


@pytest.mark.parametrize("values", [np.zeros(6), np.full(6, 1e9), 1e-12 * np.arange(6.0), 1e12 * np.arange(6.0)])
def test_odd_outcomes(values):
    points = PLANE.sample(6)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = engine.suggest(Problem.of(PLANE, initial=5), record(points, values), [], 1, 0)[0]
    assert np.isfinite([found.mean, found.std]).all()


def test_duplicate_points_and_a_disaster():
    points = [*PLANE.sample(6), *PLANE.sample(6)]
    values = [hill(p) for p in points]
    values[3] = -1e9
    found = engine.suggest(Problem.of(PLANE, initial=5), record(points, values), [], 1, 0)[0]
    assert np.isfinite(found.std)
    assert squeezed(np.array([0.0, 1.0, 2.0, 3.0, -1e6])).min() > -200
    np.testing.assert_array_equal(squeezed(np.array([0.0, 1.0, 2.0, 3.0])), [0, 1, 2, 3])


def test_many_dimensions_keep_to_a_region(rng):
    space = Space.box(np.zeros(12), np.ones(12))
    points = space.sample(30, seed=0)
    values = -np.square(space.encode(points) - 0.4).sum(1)
    problem = Problem.of(space, initial=20)
    found = engine.suggest(problem, record(points, values, problem.space), [], 1, 0)[0]
    center = space.encode([points[int(values.argmax())]])
    assert np.abs(space.encode([found.point]) - center).max() < 0.81


def test_noise_that_is_known_is_not_learned(rng):
    x = rng.uniform(size=(20, 2))
    y = x[:, 0] + 0.5 * rng.normal(size=20)
    told = learn_surrogate(x, y, noise=np.full(20, 0.25))
    exact = learn_surrogate(x, y, noise=np.full(20, 0.0))
    residual = [np.abs(each.natural(each.fitted()) - y).max() for each in (told, exact)]
    assert residual[0] > 0.2
    assert residual[1] < 1e-3
    np.testing.assert_allclose(told.standard(told.natural(0.7)), 0.7)


def test_with_noise_a_lucky_trial_is_not_the_best(rng):
    line = [{"a": float(a), "b": 0.5} for a in np.linspace(0.0, 1.0, 21)]
    values = np.array([-4 * (p["a"] - 0.3) ** 2 for p in line]) + 0.1 * rng.normal(size=21)
    lucky = {"a": 0.95, "b": 0.5}
    seen = record([*line, lucky], [*values, 0.2])
    top = best(Problem.of(PLANE, noise="learn"), seen)
    assert abs(top.point["a"] - 0.3) < 0.16
    assert top.interval[0] < top.mean < top.interval[1]
    assert -0.3 < top.mean < 0.2


def noisy_bowl(rng, n, sd):
    points = PLANE.sample(n, seed=1)
    values = -4 * np.square(PLANE.encode(points) - 0.4).sum(1)
    return points, values + sd * rng.normal(size=n)


def test_noisy_outcomes_give_different_points_to_several_workers(rng):
    points, values = noisy_bowl(rng, 40, 0.3)
    found = engine.suggest(Problem.of(PLANE, initial=5, noise="learn"), record(points, values), points[:1], 2, 0)
    assert found[0].point != found[1].point
    told = record(points, values, noise=np.full(40, 0.09))
    assert engine.suggest(Problem.of(PLANE, initial=5, noise=0.09), told, [], 1, 0)[0].kind in ("explore", "exploit")


def test_known_noise_is_expected_of_outcomes_to_come(rng):
    x = rng.uniform(size=(20, 2))
    told = learn_surrogate(x, x[:, 0] + 0.5 * rng.normal(size=20), noise=np.full(20, 0.25))
    np.testing.assert_allclose(told.scale**2 * told.belief.predict(x).aleatoric, 0.25, rtol=1e-6)


def test_fitted_is_the_mean_at_the_rows(rng):
    x = rng.uniform(size=(15, 3))
    found = learn_surrogate(x, np.sin(4 * x[:, 0]) + 0.1 * rng.normal(size=15), sign=-1.0)
    np.testing.assert_allclose(found.fitted(), found.belief.predict(x).mean, rtol=1e-6, atol=1e-8)


def test_an_acquisition_nobody_knows():
    with pytest.raises(DataError, match="acquisition must be one of ExpectedImprovement, .*found 'best'"):
        Problem.of(PLANE, acquisition="best")
