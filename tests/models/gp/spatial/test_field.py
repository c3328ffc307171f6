"""Kriging against dense solves, functionals against dense joints and draws, and what is refused."""

import numpy as np
import pandas as pd
import pytest

import credo
from credo.core.errors import DataError
from credo.kernels import RBF, Exponential, Matern, Matern32, OnSphere
from credo.models.gp import Exact, Neighbours, RandomFeatures, spatial
from credo.models.gp.spatial.longitudes import unwrapped_longitudes
from credo.models.gp.spatial.priors import field_kernel
from credo.models.gp.spatial.simulation import JOINTLY
from credo.models.gp.spatial.slopes import Gradient

RNG = np.random.default_rng(3)
X = RNG.uniform(0, 10, (60, 2))
Y = 20 + np.sin(X[:, 0]) + 0.3 * X[:, 1] + 0.2 * RNG.normal(size=60)
PLACES = np.array([[2.0, 3.0], [5.5, 5.0], [9.0, 0.5], [12.0, 11.0]])
LENGTH, VARIANCE, NUGGET = 3.0, 1.5, 0.04


def known(kernel=Matern32, **options):
    """A field whose numbers are all given."""
    given = {"kernel": kernel(np.asarray(LENGTH), np.asarray(VARIANCE)), "nugget": NUGGET, "learn": False}
    return spatial.kriging(X, Y, **given | options)


def matern32(a, b):
    r = np.sqrt(3) * np.linalg.norm(a[:, None] - b[None], axis=2) / LENGTH
    return VARIANCE * (1 + r) * np.exp(-r)


def dense(basis, places, values=Y, noise=NUGGET):
    """Universal kriging by its system of equations with Lagrange multipliers: weights, mean and variance."""
    k, h = matern32(X, X) + np.diag(np.full(len(X), noise)), basis(X)
    p = h.shape[1]
    system = np.block([[k, h], [h.T, np.zeros((p, p))]])
    right = np.vstack([matern32(X, places), basis(places).T])
    solved = np.linalg.solve(system, right)
    variance = VARIANCE - np.sum(solved * right, axis=0)
    return solved[: len(X)].T, solved[: len(X)].T @ values, variance


def ones(x):
    return np.ones((len(x), 1))


def plane(x):
    return np.column_stack([np.ones(len(x)), x])


def surface(x):
    return np.column_stack([np.ones(len(x)), x, x[:, 0] ** 2, x[:, 0] * x[:, 1], x[:, 1] ** 2])


@pytest.mark.parametrize(("trend", "basis"), [("constant", ones), ("linear", plane), ("quadratic", surface)])
def test_kriging_is_the_system_of_equations(trend, basis):
    field = known(trend=trend)
    weights, mean, variance = dense(basis, PLACES)
    np.testing.assert_allclose(field.weights(PLACES).sum(1), 1.0, atol=1e-5)
    np.testing.assert_allclose(field.weights(PLACES), weights, atol=1e-4)
    p = field.predict(PLACES)
    np.testing.assert_allclose(p.mean, mean, atol=1e-3)
    np.testing.assert_allclose(p.epistemic, variance, rtol=1e-3)
    np.testing.assert_allclose(p.aleatoric, NUGGET)


def test_simple_kriging_has_a_known_mean():
    field = known(trend=20.0)
    lam = np.linalg.solve(matern32(X, X) + NUGGET * np.eye(60), matern32(X, PLACES)).T
    np.testing.assert_allclose(field.predict(PLACES).mean, 20 + lam @ (Y - 20), rtol=1e-8)


def test_the_nugget_as_micro_scale_variation_honours_the_measurements():
    field, smooth = known(exact=True), known()
    p = field.predict(X)
    np.testing.assert_allclose(p.mean, Y)
    np.testing.assert_allclose(p.std, 0.0, atol=1e-12)
    away, plain = field.predict(PLACES), smooth.predict(PLACES)
    np.testing.assert_allclose(away.mean, plain.mean)
    np.testing.assert_allclose(away.epistemic, plain.epistemic + NUGGET)
    np.testing.assert_allclose(field.draw(X[:5], 3), np.tile(Y[:5], (3, 1)), atol=1e-6)
    many = field.draw(np.concatenate([X, RNG.uniform(0, 10, (JOINTLY, 2))]), 2)
    assert np.isfinite(many).all()
    np.testing.assert_allclose(many[:, :60], np.tile(Y, (2, 1)), atol=1e-6)


def test_micro_scale_variation_beside_known_errors_is_a_white_kernel():
    errors = np.where(np.arange(60) < 30, 0.5, 0.1)
    field = known(exact=True, errors=errors)
    precision = np.linalg.inv(matern32(X, X) + np.diag(NUGGET + errors**2) + 1e6 * Y.var())
    p = field.predict(X)  # y less its error, whose law given y this is
    np.testing.assert_allclose(p.mean, Y - errors**2 * (precision @ (Y - Y.mean())), atol=1e-4)
    np.testing.assert_allclose(p.epistemic, errors**2 - errors**4 * np.diag(precision), atol=1e-4)
    np.testing.assert_allclose(field.predict(PLACES, errors=np.full(4, 0.5)).aleatoric, 0.25)


def test_a_field_of_nearest_points_is_the_exact_one_with_all_of_them():
    exact = known(trend="linear")
    near = known(trend="linear", using=Neighbours(59, predict=60))
    for a, b in ((exact.predict(PLACES), near.predict(PLACES)), *_functionals(exact, near)):
        np.testing.assert_allclose(b.mean, a.mean, rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(b.epistemic, a.epistemic, rtol=1e-4)
    one, other = (f.gradient(PLACES, step=0.1) for f in (exact, near))
    np.testing.assert_allclose(one.covariance, other.covariance, rtol=1e-3, atol=1e-6)
    np.testing.assert_allclose(near.variogram().learned[1], exact.variogram().learned[1])


def _functionals(*fields):
    return [tuple(field.blocks(PLACES, (2.0, 1.0)) for field in fields)]


@pytest.mark.parametrize("using", [Exact(), RandomFeatures(50)], ids=["exact", "random"])
def test_block_averages_are_those_of_the_joint_law(using):
    field = known(using=using)
    centres = PLACES[:2]
    got = field.blocks(centres, (2.0, 1.0), points=4)
    at = (np.arange(4) + 0.5) / 4 - 0.5
    moves = np.stack(np.meshgrid(2.0 * at, at), -1).reshape(-1, 2)
    for i, centre in enumerate(centres):
        joint = field.belief.predict(centre + moves, joint=True)
        np.testing.assert_allclose(got.mean[i], np.mean(joint.mean), rtol=1e-7)
        np.testing.assert_allclose(got.epistemic[i], np.mean(joint.latent_covariance), rtol=1e-5)
    assert np.all(got.epistemic < field.predict(centres).epistemic)


def test_wide_blocks_take_as_many_places_as_they_need():
    field = known(Exponential)
    side = np.concatenate(
        [2.5 * (at + 1 + np.polynomial.legendre.leggauss(16)[0]) for at in (0, 2)]
    )  # two panels a side
    one = np.tile(np.polynomial.legendre.leggauss(16)[1], 2) / 4
    law = field.belief.predict(np.stack(np.meshgrid(side, side), -1).reshape(-1, 2), joint=True)
    w = np.outer(one, one).ravel()
    got = field.blocks([[5.0, 5.0], [3.0, 3.0]], (10.0, 10.0))
    np.testing.assert_allclose(got.std[0], np.sqrt(w @ law.latent_covariance @ w), rtol=0.02)
    np.testing.assert_allclose(got.mean[0], w @ law.mean, atol=0.1 * got.std[0])


def test_a_gradient_is_the_limit_of_differences():
    field, h = known(), 1e-2
    found = field.gradient(PLACES)
    moved = np.concatenate([PLACES + m for m in ([h, 0], [-h, 0], [0, h], [0, -h])])
    joint = field.belief.predict(moved, joint=True)
    difference = np.kron(np.array([[0.5, -0.5, 0, 0], [0, 0, 0.5, -0.5]]), np.eye(len(PLACES))) / h
    mean, covariance = difference @ joint.mean, difference @ joint.latent_covariance @ difference.T
    np.testing.assert_allclose(found.mean.T.ravel(), mean, atol=5e-3)
    for i in range(len(PLACES)):
        own = covariance[i :: len(PLACES), i :: len(PLACES)]
        np.testing.assert_allclose(found.covariance[i], own, rtol=0.02, atol=5e-3)


def test_slope_and_aspect_are_those_of_drawn_gradients():
    found = known().gradient(PLACES)
    rng, n = np.random.default_rng(0), 40_000
    for i in range(len(PLACES)):
        drawn = rng.multivariate_normal(found.mean[i], found.covariance[i], n)
        length = np.linalg.norm(drawn, axis=1)
        np.testing.assert_allclose(found.slope[i], length.mean(), rtol=0.02)
        np.testing.assert_allclose(found.slope_sd[i], length.std(), rtol=0.03)
        downhill = -(drawn / length[:, None]).mean(0)
        np.testing.assert_allclose(
            np.cos(np.radians(found.aspect[i])), downhill[1] / np.linalg.norm(downhill), atol=0.05
        )
        np.testing.assert_allclose(
            found.aspect_sd[i], np.degrees(np.sqrt(-2 * np.log(np.linalg.norm(downhill)))), rtol=0.05
        )


def test_derivative_and_short_difference_agree():
    field = known()
    derivative, difference = field.gradient(PLACES), field.gradient(PLACES, step=1e-2)
    np.testing.assert_allclose(difference.mean, derivative.mean, atol=5e-3)
    np.testing.assert_allclose(difference.covariance, derivative.covariance, rtol=0.02, atol=5e-3)
    rough = known(Exponential).gradient(PLACES, step=0.5)  # no derivative, but a slope over a distance
    assert np.all(np.isfinite(rough.slope))


def test_aspect_is_where_the_field_falls():
    east = Gradient(np.array([[2.0, 0.0]]), 1e-8 * np.eye(2)[None])  # rises eastwards: falls to the west
    south = Gradient(np.array([[0.0, 1.0]]), 1e-8 * np.eye(2)[None])
    np.testing.assert_allclose([east.aspect[0], south.aspect[0]], [270.0, 180.0], atol=1e-6)
    unknown = Gradient(np.zeros((1, 2)), np.eye(2)[None])
    assert unknown.aspect_sd[0] > 180
    np.testing.assert_allclose(unknown.slope, np.sqrt(np.pi / 2), rtol=0.02)


def test_exceedance_is_the_share_of_draws():
    field, n, threshold = known(), 4000, 21.5
    p = field.exceeds(PLACES, threshold)
    share = np.mean(field.draw(PLACES, n) > threshold, axis=0)
    np.testing.assert_array_less(np.abs(share - p), 4.5 * np.sqrt(p * (1 - p) / n) + 1e-4)
    made = field.map((6, 5), threshold=threshold)
    np.testing.assert_allclose(made.layers["exceeds"], made.exceeds(threshold))


@pytest.mark.parametrize(("kernel", "nugget"), [(Exponential, 0.04), (RBF, 0.04), (RBF, 1e-3)])
def test_draws_of_more_places_than_are_drawn_jointly_have_the_law_of_the_field(kernel, nugget):
    field, n = known(kernel, trend="linear", nugget=nugget), 300
    grid = spatial.Grid(np.linspace(0, 10, 51), np.linspace(0, 10, 51))
    assert len(grid.places) > JOINTLY
    some = RNG.permutation(len(grid.places))[:60]
    joint = field.belief.predict(grid.places[some], joint=True)
    drawn, sd = field.draw(grid.places, n, seed=1)[:, some], np.sqrt(np.diag(joint.latent_covariance))
    assert np.sqrt(np.mean(((drawn.mean(0) - joint.mean) / (sd / np.sqrt(n))) ** 2)) < 1.8
    np.testing.assert_allclose(drawn.std(0), sd, rtol=4.5 / np.sqrt(2 * n))
    apart = np.cov(drawn.T) / np.outer(sd, sd) - joint.latent_covariance / np.outer(sd, sd)
    assert np.sqrt(np.mean(apart**2)) < 1.5 / np.sqrt(n)


def test_simulation_by_nearest_has_the_law_of_the_field():
    field = known(trend="linear", using=Neighbours(20, predict=60))
    places, n = spatial.Grid(np.linspace(1, 9, 9), np.linspace(1, 9, 8)).places, 1500
    joint = known(trend="linear").belief.predict(places, joint=True)
    drawn = field.draw(places, n, seed=1)
    sd = np.sqrt(np.diag(joint.latent_covariance))
    np.testing.assert_array_less(np.abs(drawn.mean(0) - joint.mean), 5 * sd / np.sqrt(n) + 0.02 * sd)
    np.testing.assert_allclose(drawn.std(0), sd, rtol=0.12)
    near = np.abs(np.corrcoef(drawn.T) - joint.latent_covariance / np.outer(sd, sd))
    assert near.max() < 0.15


def test_groups_have_effects_beside_the_field():
    rng = np.random.default_rng(5)
    group = rng.integers(0, 3, 60)
    shifted = Y + np.array([0.0, 3.0, -2.0])[group]
    names = np.array(["a", "b", "c"])[group]
    kernel = Matern32(np.asarray(LENGTH), np.asarray(VARIANCE)) + Exponential(np.asarray(9.0), np.asarray(0.5))
    options = {"kernel": kernel, "nugget": NUGGET, "learn": False}
    field = spatial.kriging(X, shifted, groups=names, **options)
    effects = field.group_effects()
    assert field.groups == ("a", "b", "c")
    np.testing.assert_allclose(np.diff(effects.mean), [3.0, -5.0], atol=0.4)
    near = spatial.kriging(X, shifted, groups=names, using=Neighbours(59, predict=60), **options)
    np.testing.assert_allclose(near.predict(PLACES).mean, field.predict(PLACES).mean, atol=1e-4)
    np.testing.assert_allclose(near.predict(PLACES).epistemic, field.predict(PLACES).epistemic, rtol=1e-3)
    np.testing.assert_allclose(
        near.blocks(PLACES, (1.0, 1.0)).epistemic, field.blocks(PLACES, (1.0, 1.0)).epistemic, rtol=1e-3
    )
    np.testing.assert_allclose(
        near.gradient(PLACES, step=0.1).mean, field.gradient(PLACES, step=0.1).mean, rtol=1e-3, atol=1e-4
    )
    np.testing.assert_allclose(near.draw(PLACES, 1500).std(0), field.predict(PLACES).epistemic ** 0.5, rtol=0.1)


def test_draws_of_many_places_know_the_groups():
    group = np.arange(60) % 2
    kernel = Matern32(np.asarray(LENGTH), np.asarray(VARIANCE))
    options = {"kernel": kernel, "nugget": NUGGET, "learn": False}
    field = spatial.kriging(X, Y + np.array([0.0, 5.0])[group], groups=group, **options)
    many, n = RNG.uniform(0, 10, (JOINTLY + 1, 2)), 100
    drawn, sure = field.draw(many, n, seed=1), field.predict(many)
    sd = np.sqrt(sure.epistemic)
    np.testing.assert_array_less(np.abs(drawn.mean(0) - sure.mean), 5 * sd / np.sqrt(n) + 0.1 * sd)


def test_left_out_measurements_are_not_seen():
    field = known()
    folds = [np.arange(0, 20), np.arange(20, 60)]
    got = field.left_out(folds)
    rest = known(trend="constant")
    want = rest.belief.unconditioned().condition(X[20:], Y[20:]).predict(X[:20])
    np.testing.assert_allclose(got.mean[:20], want.mean, rtol=1e-7)
    alone = field.left_out()
    np.testing.assert_allclose(alone.mean, field.left_out([np.array([i]) for i in range(60)]).mean, rtol=1e-5)
    with pytest.raises(DataError, match="40 are in none"):
        field.left_out(folds[:1])


def test_the_earth_is_round():
    rng = np.random.default_rng(0)
    points = np.column_stack([rng.uniform(170, 190, 40), rng.uniform(-80, 80, 40)])
    values = np.cos(np.radians(points[:, 0])) * np.cos(np.radians(points[:, 1]))
    kernel = Matern32(np.asarray(3000.0), np.asarray(1.0))
    field, other = (
        spatial.kriging(
            np.column_stack([lon, points[:, 1]]), values, lonlat=True, kernel=kernel, nugget=1e-4, learn=False
        )
        for lon in (points[:, 0], (points[:, 0] + 180) % 360 - 180)
    )
    np.testing.assert_allclose(field.predict([[180.0, 10.0]]).mean, other.predict([[-180.0, 10.0]]).mean, rtol=1e-8)
    # Values fall with the cosine of the longitude: by sin(λ) cos(φ) a radian, on a circle of latitude of R cos(φ).
    gradient = field.gradient([[185.0, 20.0]])
    slope = -np.sin(np.radians(185.0)) / 6371.0088
    np.testing.assert_allclose(gradient.mean[0, 0], slope, atol=4 * gradient.sd[0, 0])
    v = field.variogram()
    assert v.learned is not None and v.distance.max() < 2 * 6371.0088
    assert isinstance(field.kernel, OnSphere)


def test_learning_recovers_a_field_and_saves_it(tmp_path):
    rng = np.random.default_rng(1)
    x = rng.uniform(0, 10, (100, 2))
    truth = np.sin(x[:, 0]) + np.cos(0.7 * x[:, 1])
    field = spatial.kriging(x, truth + 0.1 * rng.normal(size=100))
    places = rng.uniform(1, 9, (200, 2))
    p = field.predict(places)
    error = p.mean - np.sin(places[:, 0]) - np.cos(0.7 * places[:, 1])
    assert np.sqrt(np.mean(error**2)) < 0.15
    assert np.mean(np.abs(error) < 1.96 * np.sqrt(p.epistemic)) > 0.85
    again = credo.load(credo.save(field, tmp_path / "field.credo"))
    np.testing.assert_allclose(again.predict(places).mean, p.mean)
    more = field.condition([[5.0, 5.0]], [0.0])
    assert more.predict([[5.0, 5.0]]).epistemic < field.predict([[5.0, 5.0]]).epistemic
    assert "exact" in field.notes and repr(field).startswith("Field(")


def test_the_kernel_that_is_chosen_has_two_scales_and_may_turn():
    long, short = field_kernel(None, X, Y, False, False).parts
    assert isinstance(long, Exponential) and isinstance(short, Matern32)
    np.testing.assert_allclose(long.lengthscale / short.lengthscale, 8.0)
    turned, _ = field_kernel(None, X, Y, True, False).parts
    assert turned.lengthscale.shape == (2,) and turned.projection.shape == (1, 2)


@pytest.mark.slow
def test_directions_are_learned():
    """The derivative of a rough kernel by its Λ was that of rounding where points are one."""
    rng = np.random.default_rng(0)
    x = rng.uniform(0, 10, (80, 2))
    y = np.sin(2 * (x @ [-0.5, 0.866])) + 0.1 * rng.normal(size=80)
    round_, turned = (spatial.kriging(x, y, anisotropic=a) for a in (False, True))
    gain = [float(f.belief.unconditioned().log_evidence(x, y)) for f in (turned, round_)]
    assert gain[0] > gain[1] + 20
    errors = [np.sqrt(np.mean((f.left_out().mean - y) ** 2)) for f in (turned, round_)]
    assert errors[0] < 0.6 * errors[1]


def test_layers_of_many_places_are_those_of_each(monkeypatch):
    mean, root = RNG.normal(size=(50, 2)), RNG.normal(size=(50, 2, 2))
    whole = Gradient(mean, root @ root.swapaxes(1, 2))
    at_once = whole.layers()
    monkeypatch.setattr("credo.models.gp.large.base.CHUNK", 1)  # sixteen at a time
    for name, layer in whole.layers().items():
        np.testing.assert_allclose(layer, at_once[name], rtol=1e-12)
        np.testing.assert_allclose(getattr(whole, name), layer, rtol=1e-12)


def test_space_and_time():
    rng = np.random.default_rng(2)
    s = np.column_stack([X, rng.uniform(0, 3, 60)])
    kernel = Matern(np.asarray(3.0), np.asarray(1.0), smoothness=1.0).on(0, 1) * Exponential(np.asarray(2.0)).on(2)
    field = spatial.kriging(s, Y, kernel=kernel, nugget=0.1, learn=False)
    early, late = (field.map((4, 4), at=(t,)).mean for t in (0.0, 3.0))
    assert not np.allclose(early, late)
    with pytest.raises(DataError, match="1 coordinates after"):
        field.map((4, 4))


BAD = [
    ({"points": X[:, :1]}, "two coordinates"),
    ({"values": Y[:5]}, "y must have|rows"),
    ({"points": np.ones((60, 2))}, "one place"),
    ({"points": X[:2], "values": Y[:2]}, "three measurements"),
    ({"trend": "cubic"}, "one of constant, linear, quadratic"),
    ({"points": X * 100, "lonlat": True}, "longitude and latitude"),
    ({"errors": -np.ones(60)}, "must not be negative"),
    ({"groups": ["a"] * 60}, "two groups"),
    ({"groups": ["a", "b"]}, "each of the 60 points"),
    ({"groups": ["a", None] * 30}, "missing labels"),
    ({"groups": ["a", "b"] * 30, "exact": True}, "do not go together"),
    ({"points": np.vstack([X[:59], X[:1]]), "exact": True}, "both measured at"),
    ({"learn": False}, "give both"),
    ({"anisotropic": True, "kernel": RBF()}, "rank=1"),
]


@pytest.mark.parametrize(("options", "said"), BAD, ids=[s[:12] for _, s in BAD])
def test_bad_input_is_refused(options, said):
    given = {"points": X, "values": Y} | options
    with pytest.raises(DataError, match=said):
        spatial.kriging(given.pop("points"), given.pop("values"), **given)


@pytest.mark.usefixtures("unchecked")
def test_bad_questions_are_refused():
    field = known()
    for ask, said in (
        (lambda: field.predict([[1.0, 2.0, 3.0]]), "columns"),
        (lambda: field.blocks(PLACES, (1.0, 0.0)), "both positive"),
        (lambda: field.blocks(PLACES, 3.0), "size"),
        (lambda: field.gradient(PLACES, step=0.0), "must be positive"),
        (lambda: field.map((3, 3), at=1.0), "0 coordinates after"),
        (lambda: field.map((3,)), "columns and rows"),
        (lambda: field.left_out([np.arange(61)]), "row numbers of the 60"),
        (lambda: field.group_effects(), "groups"),
        (lambda: field.exceeds(PLACES, np.nan), "threshold"),
        (lambda: field.variogram(most=1e-9), "no two points are within"),
        (lambda: known(using=Neighbours(5)).weights(PLACES), "exact field"),
    ):
        with pytest.raises(DataError, match=said):
            ask()


def test_a_map_of_the_whole_earth_and_one_across_the_line_where_longitudes_jump():
    rng = np.random.default_rng(8)
    lat = np.degrees(np.arcsin(rng.uniform(-1, 1, 120)))
    values = 10 * np.cos(np.radians(lat)) + 0.1 * rng.normal(size=120)
    kernel = OnSphere(Matern32(np.asarray(3000.0), np.asarray(30.0)))
    given = {"lonlat": True, "kernel": kernel, "nugget": 0.01, "learn": False}
    made = spatial.kriging(np.column_stack([rng.uniform(-180, 180, 120), lat]), values, **given).map(
        (18, 9), slope=True
    )
    assert all(np.isfinite(layer).all() for layer in made.layers.values())
    poles = spatial.kriging([[0.0, 89.0], [0.0, -89.0], [90.0, 0.0]], values[:3], **given)
    assert np.isfinite(poles.variogram(most=1e5).learned[1]).all()
    east = np.column_stack([rng.uniform(170, 190, 40), rng.uniform(-20, -10, 40)])
    apart = np.column_stack([np.where(east[:, 0] > 180, east[:, 0] - 360, east[:, 0]), east[:, 1]])
    honours = spatial.kriging(apart, values[:40], exact=True, **given).predict(apart)
    np.testing.assert_allclose(honours.mean, values[:40])
    np.testing.assert_allclose(honours.epistemic, 0.0, atol=1e-12)
    one, other = (spatial.kriging(p, values[:40], trend="linear", **given) for p in (east, apart))
    np.testing.assert_allclose(one.grid().x, other.grid().x)
    for places in ([[178.0, -15.0]], [[183.0, -15.0]], [[-177.0, -15.0]]):
        p, q = one.predict(places), other.predict(places)
        np.testing.assert_allclose([p.mean, p.variance], [q.mean, q.variance], rtol=1e-5)


def test_places_on_both_sides_of_the_meridian_are_one_region():
    rng = np.random.default_rng(0)
    lon = rng.uniform(-15, 15, 50)
    for stated in (lon % 360, (lon + 180) % 360 - 180):
        got = unwrapped_longitudes(np.column_stack([stated, lon]))
        np.testing.assert_allclose(got[:, 0], lon, atol=1e-9)
    pacific = unwrapped_longitudes(np.column_stack([(lon + 360) % 360 - 180, lon]))
    np.testing.assert_allclose(pacific[:, 0], lon + 180, atol=1e-9)


@pytest.mark.parametrize("trend", ["linear", "quadratic"])
def test_trends_around_the_earth_have_no_seam(trend, tmp_path):
    rng = np.random.default_rng(0)
    places = np.column_stack([rng.uniform(-180, 180, 200), np.degrees(np.arcsin(rng.uniform(-1, 1, 200)))])
    values = 5 * np.sin(np.radians(places[:, 0] - 170)) + rng.normal(size=200)
    given = {"lonlat": True, "kernel": OnSphere(Matern32(500.0, 0.1)), "nugget": 0.5, "learn": False}
    field = spatial.kriging(places, values, trend=trend, **given)
    both = np.array([[-179.9999, 10.0], [179.9999, 10.0], [0.0, 90.0], [90.0, 90.0]])
    p = field.predict(both)
    np.testing.assert_allclose(p.mean[[0, 2]], p.mean[[1, 3]], atol=1e-3)
    np.testing.assert_allclose(p.epistemic[[0, 2]], p.epistemic[[1, 3]], rtol=1e-3)
    credo.save(field, tmp_path / "field.credo")
    np.testing.assert_array_equal(credo.load(tmp_path / "field.credo").predict(both).mean, p.mean)


def test_frames_of_places_go_by_the_names_of_coordinates():
    given = {"kernel": Matern32(np.asarray(3.0), np.asarray(1.5)), "nugget": 0.04, "learn": False}
    field = spatial.kriging(pd.DataFrame(X, columns=["east", "north"]), Y, **given)
    places = pd.DataFrame(PLACES, columns=["east", "north"])
    want = field.predict(PLACES).mean
    np.testing.assert_array_equal(field.predict(places[["north", "east"]]).mean, want)
    np.testing.assert_array_equal(field.condition(places[["north", "east"]], want).points[-4:], PLACES)
    with pytest.raises(DataError, match="missing 'north'"):
        field.predict(places.rename(columns={"north": "up"}))
    plain = spatial.kriging(X, Y, **given)
    np.testing.assert_array_equal(plain.predict(places).mean, want)
    with pytest.raises(DataError, match="exact=True"):
        spatial.kriging(X, Y, nugget=0.0)
