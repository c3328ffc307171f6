"""Maximizing acquisitions, against dense grids and enumeration."""

import itertools

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import pytest

import credo
from credo.decide.acquisition import ExpectedImprovement, UpperConfidenceBound
from credo.decide.maximize import maximize
from credo.decide.space import Boolean, Categorical, Check, Integer, Ordinal, Real, Space
from credo.errors import DataError
from credo.kernels import Matern52

# The beliefs here have numbers that nobody has learned.
pytestmark = pytest.mark.filterwarnings("ignore:the outcomes contradict:credo.errors.MisfitWarning")


def believe(x, y, ell=0.3):
    return credo.GP(Matern52(np.full(x.shape[1], ell), 1.0), mean=0.0, noise=1e-6).condition(x, y)


@pytest.fixture(scope="module")
def plane():
    rng = np.random.default_rng(0)
    x = rng.uniform(size=(12, 2))
    gp = believe(x, np.sin(5 * x[:, 0]) + np.cos(4 * x[:, 1]))
    return gp, ExpectedImprovement().prepared(gp)


def on_a_grid(acquisition, gp, n=201):
    grid = np.stack(np.meshgrid(*2 * [np.linspace(0, 1, n)]), -1).reshape(-1, 2)
    values = np.asarray(acquisition.climb(gp, jnp.asarray(grid)))
    return grid, values


def test_no_point_of_a_grid_is_higher(plane):
    gp, acquisition = plane
    grid, values = on_a_grid(acquisition, gp)
    for seed in range(3):
        found = maximize(acquisition, gp, ([0, 0], [1, 1]), seed=seed)
        assert found.value >= values.max() - 1e-9
        assert np.linalg.norm(found.x - grid[values.argmax()]) < 0.02
        there = gp.predict(found.x[None])
        np.testing.assert_allclose(found.mean, there.mean, rtol=1e-10)
        np.testing.assert_allclose(found.std**2, there.epistemic, rtol=1e-7)


def test_a_part_of_the_box_and_a_space_of_reals(plane):
    gp, acquisition = plane
    lower, upper = np.array([0.2, 0.6]), np.array([0.5, 0.8])
    grid, values = on_a_grid(acquisition, gp)
    inside = ((grid >= lower) & (grid <= upper)).all(1)
    space = Space.box([0, 0], [1, 1])
    for over in (([0, 0], [1, 1]), space):
        found = maximize(acquisition, gp, over, within=(lower, upper))
        assert np.all((found.x >= lower) & (found.x <= upper))
        assert found.value >= values[inside].max() - 1e-9


def test_a_linear_constraint_is_kept_and_reached(plane):
    gp, acquisition = plane
    space = Space({"a": Real(0, 1), "b": Real(0, 1)}, constraints=["a + b <= 0.6"])
    grid, values = on_a_grid(acquisition, gp)
    found = maximize(acquisition, gp, space, near=grid[:1])
    assert found.x.sum() <= 0.6 + 1e-9
    assert found.value >= values[grid.sum(1) <= 0.6].max() - 1e-3


def test_a_check_that_only_a_program_knows_is_kept(plane):
    gp, acquisition = plane
    space = Space({"a": Real(0, 1), "b": Real(0, 1)}, constraints=[Check(lambda p: p["a"] * p["b"] < 0.2, "area")])
    grid, values = on_a_grid(acquisition, gp)
    found = maximize(acquisition, gp, space)
    assert found.x.prod() < 0.2
    assert found.value >= values[grid.prod(1) < 0.2].max() - 1e-3


def test_discrete_spaces_are_searched_to_the_end():
    kinds = Categorical(list("abcd"))
    space = Space({"n": Integer(1, 9), "level": Ordinal([1, 10, 100]), "on": Boolean(), "kind": kinds})
    points = [
        dict(zip(space.names, v, strict=True))
        for v in itertools.product(range(1, 10), [1, 10, 100], [False, True], "abcd")
    ]
    rows = space.encode(points)
    rng = np.random.default_rng(1)
    gp = believe(rows[rng.choice(len(rows), 20, replace=False)], rng.normal(size=20), ell=0.8)
    acquisition = UpperConfidenceBound(2.0**0.5)
    values = np.asarray(acquisition.climb(gp, jnp.asarray(rows)))
    found = maximize(acquisition, gp, space)
    np.testing.assert_array_equal(found.x, rows[values.argmax()])
    taken = rows[np.argsort(-values)[:3]]
    again = maximize(acquisition, gp, space, avoid=taken)
    np.testing.assert_array_equal(again.x, rows[np.argsort(-values)[3]])
    with pytest.raises(DataError, match="every point of the space has been tried"):
        maximize(acquisition, gp, space, avoid=rows)


def test_reals_move_whatever_the_choice_and_absent_ones_do_not():
    space = Space({"kind": Categorical(["a", "b"]), "a": Real(0, 1, when={"kind": "a"}), "b": Real(0, 1)})
    rows = space.encode([{"kind": "b", "b": 0.7}, {"kind": "a", "a": 0.2, "b": 0.3}, {"kind": "a", "a": 0.9, "b": 0.9}])
    gp = believe(rows, np.array([1.0, 0.2, -1.0]), ell=0.5)
    acquisition = UpperConfidenceBound(0.1)
    found = maximize(acquisition, gp, space)
    point = space.decode(found.x[None])[0]
    assert point["kind"] == "b"
    assert "a" not in point
    line = space.encode([{"kind": "b", "b": v} for v in np.linspace(0, 1, 401)])
    assert found.value >= np.asarray(acquisition.climb(gp, jnp.asarray(line))).max() - 1e-8


def test_bad_input(plane):
    gp, acquisition = plane
    with pytest.raises(DataError, match="lower < upper"):
        maximize(acquisition, gp, ([0, 1], [1, 1]))
    broken = ExpectedImprovement(best=0.0)
    bad = believe(np.zeros((1, 2)), np.zeros(1))
    bad = eqx.tree_at(lambda b: b.solved.alpha, bad, bad.solved.alpha * np.nan)
    with pytest.raises(DataError, match="not finite anywhere"):
        maximize(broken, bad, ([0, 0], [1, 1]))


@pytest.mark.parametrize("kind", [ExpectedImprovement(), UpperConfidenceBound(2.0)], ids=lambda k: type(k).__name__)
def test_a_divided_box_has_a_certificate(plane, kind):
    """No point of a grid scores more than the certificate above what was found."""
    gp, acquisition = plane[0], kind.prepared(plane[0])
    found = maximize(acquisition, gp, ([0, 0], [1, 1]), method="lipschitz")
    grid, _ = on_a_grid(acquisition, gp)
    values = np.asarray(acquisition(gp, grid))
    here = float(np.asarray(acquisition(gp, found.x[None]))[0])
    assert found.certificate <= 1e-2 * np.ptp(values) and values.max() <= here + found.certificate
    steps = np.abs(np.diff(values.reshape(201, 201), axis=0)).max() * 200
    assert found.lipschitz > steps and maximize(acquisition, gp, ([0, 0], [1, 1])).certificate is None


def test_a_divided_line_and_space():
    x = np.linspace(0, 1, 6)[:, None]
    gp = believe(x, np.sin(9 * x[:, 0]))
    acquisition = UpperConfidenceBound(1.0)
    space = Space({"a": Real(-3.0, 5.0)})
    line, box = (maximize(acquisition, gp, over, method="lipschitz") for over in (space, ([0.0], [1.0])))
    np.testing.assert_array_equal(line.x, box.x)
    grid = np.linspace(0, 1, 20_001)[:, None]
    assert np.asarray(acquisition(gp, grid)).max() <= line.value + line.certificate
    with pytest.raises(DataError, match="steeper than lipschitz=0.1"):
        maximize(acquisition, gp, space, method="lipschitz", lipschitz=0.1)
    given = maximize(acquisition, gp, space, method="lipschitz", lipschitz=2 * line.lipschitz)
    assert given.lipschitz == 2 * line.lipschitz and abs(given.value - line.value) <= line.certificate
    for over, more in (
        (Space({"a": Integer(0, 3)}), {}),
        (([0, 0, 0], [1, 1, 1]), {}),
        (Space({"a": Real(0, 1), "b": Real(0, 1)}, "a + b <= 1"), {}),
        (space, {"avoid": np.zeros((1, 1))}),
    ):
        with pytest.raises(DataError, match="for one or two real coordinates"):
            maximize(acquisition, gp, over, method="lipschitz", **more)
    with pytest.raises(DataError, match="method must be"):
        maximize(acquisition, gp, space, method="brute")
