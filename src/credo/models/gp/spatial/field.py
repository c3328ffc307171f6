"""`Field`: what is believed of a quantity everywhere, after measurements at scattered places.

    y = f(s) + w(s) + u(group) + ε        f a Gaussian process with a trend, w the nugget, ε known errors

The nugget is noise of the measurements, which the map leaves out, or, with `exact`, variation on a scale shorter than
any distance between them, which it has: then it honours the measurements and is nowhere surer than w. Given f and a
measurement with error variance e, w is N(ρ(y - f), ρe), ρ = nugget/(nugget + e); elsewhere it is not known at all.
Cressie (1993), "Statistics for spatial data", chapter 3; Chilès & Delfiner (2012), "Geostatistics".
"""

from collections.abc import Sequence
from typing import Any

import equinox as eqx
import numpy as np
from jaxtyping import Float

from credo.core.checks import by_name, check_count, check_real, check_table, check_vector, column_names
from credo.core.errors import DataError
from credo.core.linalg import solve
from credo.core.predictive import Normal
from credo.core.pytrees import changed
from credo.kernels import Kernel, OnSphere
from credo.kernels.derivative import check_differentiable
from credo.models.gp.belief import GP
from credo.models.gp.components import part_at
from credo.models.gp.derivatives import gradient, gradient_covariance
from credo.models.gp.large.neighbours import NeighboursGP
from credo.models.gp.large.vecchia import trend_columns
from credo.models.gp.spatial.functionals import linear_functionals
from credo.models.gp.spatial.grids import Grid, Map, exceedance
from credo.models.gp.spatial.longitudes import check_lonlat, shifted_longitudes
from credo.models.gp.spatial.priors import sphere_of
from credo.models.gp.spatial.simulation import simulate
from credo.models.gp.spatial.slopes import Gradient
from credo.models.gp.spatial.variograms import Variogram, empirical_variogram

CURVE = 200
"""Distances at which the learned variogram is known."""
PLAIN = ("x", "y")
"""What coordinates are called where nobody has named them."""
PLACES, SETTLED = (4, 8, 16, 32), 0.01
"""Places along a side of a block, tried in turn until its standard deviation changes by a smaller share."""
STEP = 1e-3
"""Half the step of a difference quotient, as a share of the extent of the points."""


class Field(eqx.Module):
    """A quantity that varies in space, as it is believed to be after measurements. Make it with `kriging`."""

    belief: Any
    """The Gaussian process, conditioned: a `GP`, or an approximation for many points."""
    coordinates: int = eqx.field(static=True)
    exact: bool = eqx.field(static=True, default=False)
    """Whether the nugget is part of the field."""
    lonlat: bool = eqx.field(static=True, default=False)
    groups: tuple[str, ...] = eqx.field(static=True, default=())
    names: tuple[str, ...] = eqx.field(static=True, default=PLAIN)
    notes: str = eqx.field(static=True, default="")
    """How it was learned."""

    # -- its parts -------------------------------------------------------------------------------------------

    @property
    def kernel(self) -> Kernel:
        """The covariance of the field, without the nugget and the groups."""
        if not self.groups:
            return self.belief.kernel
        return sum(part.kernel for part in self._parts()[:-1])

    def _parts(self) -> tuple[Any, ...]:
        """The terms of the field, and that of the groups, each on its columns."""
        return self.belief.kernel.parts

    @property
    def nugget(self) -> float:
        """The variance of what has no extent."""
        return float(self.belief.noise_variance())

    @property
    def group_variance(self) -> float:
        """The variance of the effects of groups; zero without them."""
        return float(self._parts()[-1].kernel.variance) if self.groups else 0.0

    @property
    def points(self) -> Float[np.ndarray, "n d"]:
        """Where it was measured."""
        return self.belief.seen.cut()[0][:, : self.coordinates]

    @property
    def values(self) -> Float[np.ndarray, " n"]:
        """What was measured."""
        return self.belief.seen.cut()[1]

    def alone(self) -> tuple[Any, float]:
        """A belief that is asked for the field, and the variance that it adds to every place for a group of its own."""
        if self.groups and isinstance(self.belief, GP):
            # Of the kernel only covariances with queries are still asked for; the factor knows the groups.
            return changed(self.belief, kernel=sum(self._parts()[:-1])), 0.0
        return self.belief, self.group_variance

    def rows(self, places: Any) -> Float[np.ndarray, "m d"]:
        """Places as rows of the belief: each of a group that nobody has seen. Frames go by the names of coordinates."""
        found = column_names(places)
        by_place = self.names[:2] == PLAIN and found is not None and {*found} != {*self.names}
        named = places if by_place else by_name(places, self.names, "places")
        table = np.asarray(check_table(named, "places", self.coordinates))
        if self.lonlat:
            check_lonlat(table, "places")
            west, east = self.points[:, 0].min(), self.points[:, 0].max()
            table = shifted_longitudes(table, (west + east) / 2 - 180.0)
        return np.column_stack([table, -1.0 - np.arange(len(table))]) if self.groups else table

    # -- at places -------------------------------------------------------------------------------------------

    def predict(self, places: object, *, errors: Any = None) -> Normal:
        """p(y | place) of a new measurement: the field is epistemic, a nugget that is noise and `errors` aleatoric."""
        table = self.rows(places)
        mean, variance = self._field_at(table)
        noise = np.zeros(len(table)) if self.exact else np.full(len(table), self.nugget)
        if errors is not None:
            noise = noise + np.asarray(check_vector(errors, "errors", len(table))) ** 2
        return Normal(mean, noise, variance)

    def _field_at(self, table: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Mean and variance of the field at rows of the belief."""
        belief, spare = self.alone()
        found = belief.function_at(table)
        mean, variance = np.asarray(found.mean), np.maximum(np.asarray(found.variance) - spare, 0.0)
        if not self.exact:
            return mean, variance
        where, pull, value, left = self._measured(table)
        mean, variance = mean.copy(), variance + self.nugget
        f, v = mean[where], variance[where] - self.nugget
        mean[where], variance[where] = f + pull * (value - f), (1 - pull) ** 2 * v + left
        return mean, variance

    def _measured(self, table: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Of rows at places of measurements: their numbers, ρ, the measurement, and the variance that is left of w."""
        from scipy.spatial import cKDTree

        x, y, _, extra = self.belief.seen.cut()
        distance, index = cKDTree(x).query(table)
        where = np.flatnonzero(distance == 0)
        twin = index[where]
        pull = self.nugget / (self.nugget + extra[twin]) if self.nugget > 0 else np.zeros(len(twin))
        return where, pull, y[twin], pull * extra[twin]

    def exceeds(self, places: object, threshold: float) -> Float[np.ndarray, " m"]:
        """P(f > threshold) at each place."""
        mean, variance = self._field_at(self.rows(places))
        return exceedance(mean, np.sqrt(variance), threshold)

    def draw(self, places: object, n: int = 1, *, seed: int = 0) -> Float[np.ndarray, "n m"]:
        """n draws of the whole field at the places; see `simulation.py`."""
        check_count(n, "n")
        table = self.rows(places)
        drawn = simulate(self.alone()[0], self.kernel, self.coordinates, self.group_variance, table, n, seed)
        if not self.exact:
            return drawn
        rng = np.random.default_rng([seed, 1])
        out = drawn + np.sqrt(self.nugget) * rng.normal(size=drawn.shape)
        where, pull, value, left = self._measured(table)
        f = drawn[:, where]
        out[:, where] = f + pull * (value - f) + np.sqrt(left) * rng.normal(size=f.shape)
        return out

    def gradient(self, places: object, *, step: float | None = None) -> Gradient:
        """∇f at the places, along both coordinates; with lonlat in units a kilometre (of the sphere's radius).

        Without a `step` it is the derivative, where the kernel has one; else, and of an approximation, a difference
        quotient over 2·step (in coordinates): rough fields have no derivative, but a slope over a distance.
        """
        table = self.rows(places)
        if step is not None and not check_real(step, "step") > 0:
            raise DataError(f"step, half the distance of a difference, must be positive, found {step!r}")
        if self.coordinates != 2:
            raise DataError(f"slope and aspect are of a field in the plane, found {self.coordinates} coordinates")
        belief, spare = self.alone()
        if step is None and isinstance(belief, GP) and not self.groups and _smooth(belief.kernel):
            found = Gradient(np.asarray(gradient(belief, table).mean), np.asarray(gradient_covariance(belief, table)))
        else:
            h = STEP * float(np.ptp(self.points, axis=0).max()) if step is None else step
            moves = h * np.array([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0], [0.0, -1.0]])
            weights = np.kron(np.eye(2), np.array([[0.5], [-0.5]])) / h
            found = Gradient(*linear_functionals(belief, self._around(table, moves), weights, spare))
        if not self.lonlat:
            return found
        high = np.cos(np.radians(table[:, 1]))
        unit = 1.0 / (np.radians(self.sphere.radius) * np.column_stack([high, np.ones(len(table))]))
        return Gradient(found.mean * unit, found.covariance * unit[:, :, None] * unit[:, None, :])

    def _around(self, table: np.ndarray, moves: np.ndarray) -> np.ndarray:
        """The places moved, each row of a group of its own."""
        points = np.repeat(table[:, None], len(moves), axis=1)
        points[:, :, :2] += moves
        if self.groups:
            points[:, :, -1] = -1.0 - np.arange(points[:, :, -1].size).reshape(points.shape[:2])
        return points

    @property
    def sphere(self) -> OnSphere:
        """The sphere that longitude and latitude are of."""
        found = sphere_of(self.kernel)
        assert found is not None
        return found

    def blocks(self, centres: object, size: tuple[float, float], *, points: int | None = None) -> Normal:
        """The averages of the field over rectangles of this width and height around the centres.

        The integral is the mean over points × points places of each block, None: so many that twice as many change
        its doubt by less than `SETTLED`; of the nugget it leaves nothing.
        """
        table, (belief, spare) = self.rows(centres), self.alone()
        if np.shape(size) != (2,) or not min(size) > 0:
            raise DataError(f"size is the width and the height of a block, both positive, found {size!r}")
        if points is not None:
            check_count(points, "points")
        mean, sd, left = np.zeros(len(table)), np.full(len(table), np.inf), np.arange(len(table))
        for count in PLACES if points is None else (points,):
            at = (np.arange(count) + 0.5) / count - 0.5
            moves = np.stack(np.meshgrid(size[0] * at, size[1] * at), -1).reshape(-1, 2)
            equal = np.full((len(moves), 1), 1.0 / len(moves))
            found = linear_functionals(belief, self._around(table[left], moves), equal, spare)
            before, now = sd[left], np.sqrt(np.maximum(found.covariance[:, 0, 0], 0.0))
            mean[left], sd[left] = found.mean[:, 0], now
            left = left[np.abs(before - now) > SETTLED * now]
            if not len(left):
                break
        return Normal(mean, np.zeros(len(table)), sd**2)

    def weights(self, places: object) -> Float[np.ndarray, "m n"]:
        """Kriging weights: the mean at a place is their sum with the measurements (and, of a known mean, the rest)."""
        belief, _ = self.alone()
        if not isinstance(belief, GP):
            raise DataError("kriging weights are those of an exact field: kriging(…, using=Exact())")
        rows, solved = belief.conditioned()
        cross = belief.prior.kernel.between(rows.x, self.rows(places))
        return np.asarray(solve(solved.root, cross)).T

    # -- on a grid -------------------------------------------------------------------------------------------

    def grid(self, cells: tuple[int, int] | None = None, size: float | None = None) -> Grid:
        """A grid that covers the measurements: about 10,000 cells, so many columns and rows, or cells of this size."""
        return Grid.around(self.points[:, :2], cells, size, self.lonlat)

    def map(
        self,
        grid: Grid | tuple[int, int] | None = None,
        *,
        threshold: float | None = None,
        slope: bool = False,
        at: Sequence[float] = (),
    ) -> Map:
        """Mean and standard deviation of the field on a grid, or on one of so many columns and rows.

        Args:
            grid: the grid; None is `grid()`.
            threshold: adds the layer "exceeds", P(f > threshold).
            slope: adds "slope", "slope_sd", "aspect" and "aspect_sd", over the width of a cell.
            at: the other coordinates, such as a time, where there are more than two.
        """
        cells = grid if isinstance(grid, Grid) else self.grid(grid)
        more = np.atleast_1d(np.asarray(at, dtype=float))
        if more.shape != (self.coordinates - 2,):
            raise DataError(f"at must give the {self.coordinates - 2} coordinates after the first two, found {at!r}")
        places = np.column_stack([cells.places, np.tile(more, (len(cells.places), 1))])
        mean, variance = self._field_at(self.rows(places))
        layers = {"mean": mean, "sd": np.sqrt(variance)}
        if threshold is not None:
            layers["exceeds"] = exceedance(mean, layers["sd"], threshold)
        if slope:
            layers |= self.gradient(places, step=min(cells.cell) / 2).layers()
        shaped = {name: layer.reshape(cells.shape) for name, layer in layers.items()}
        return Map(cells, shaped, (self.names[0], self.names[1]), self.lonlat)

    # -- how good it is --------------------------------------------------------------------------------------

    def variogram(self, *, classes: int = 15, most: float | None = None, robust: bool = False) -> Variogram:
        """The empirical variogram of what the trend leaves, and the learned one: of all directions, averaged.

        Distances are those of the coordinates, on a sphere chords in the unit of its radius.
        """
        rows = self.belief.seen.cut()[0]
        x, left, more = self.points, self.values - self._trend(rows), self.nugget + self.group_variance
        if self.groups and isinstance(self.belief, GP):
            left, more = left - self.group_effects().mean[rows[:, -1].astype(int)], self.nugget
        flat = self.sphere.map(x[:, :2]) if self.lonlat else x
        found = empirical_variogram(flat, left, classes=classes, most=most, robust=robust)
        h = np.linspace(0.0, float(found.distance.max()) * 1.05, CURVE)
        if self.lonlat:  # northwards from the middle, chords of these lengths
            along = np.zeros((1, CURVE, x.shape[1]))
            along[0, :, 1] = 2.0 * np.degrees(np.arcsin(np.minimum(h / (2.0 * self.sphere.radius), 1.0)))
        else:
            angles = np.pi * np.arange(8) / 8
            along = np.zeros((8, CURVE, x.shape[1]))
            along[:, :, 0], along[:, :, 1] = np.outer(np.cos(angles), h), np.outer(np.sin(angles), h)
        origin = np.zeros((1, x.shape[1]))
        total = float(np.asarray(self.kernel.variance_at(origin))[0])
        like = np.mean([np.asarray(self.kernel.between(each, origin))[:, 0] for each in along], axis=0)
        return found._replace(learned=(h, total - like + more))

    def _trend(self, rows: np.ndarray) -> np.ndarray:
        """The expected trend at rows of the belief."""
        mean = np.asarray(self.belief.mean.at(rows))
        own = self.belief.mean.kernel()
        if own is None:
            return mean
        if isinstance(self.belief, GP):
            return mean + np.asarray(own.between(rows, self.belief.seen.x)) @ self.belief.solved.alpha
        if isinstance(self.belief, NeighboursGP):
            return mean + np.asarray(trend_columns(own, rows)) @ self.belief.solved.mean
        return mean

    def group_effects(self) -> Normal:
        """What each of the `groups`, in their order, adds to the field."""
        if not (self.groups and isinstance(self.belief, GP)):
            raise DataError("effects are those of groups in an exact field: kriging(…, groups=…, using=Exact())")
        rows = np.zeros((len(self.groups), self.coordinates + 1))
        rows[:, -1] = np.arange(len(rows))
        mean, sd = part_at(self.belief, self._parts()[-1], rows)
        return Normal(mean, np.zeros(len(mean)), sd**2)

    def left_out(self, folds: Sequence[np.ndarray] | None = None) -> Normal:
        """Each measurement as a field predicts it that has not seen it, nor the others of its fold.

        Hyperparameters stay as they were learned from all. Without folds each is left out alone (of many points by an
        approximation, given their nearest). Folds are row numbers; see `credo.evaluate.spatial_blocks`.
        """
        rows = self.belief.seen
        x, _, scale, extra = rows.cut()
        if folds is None and isinstance(self.belief, GP):
            return self.belief.leave_one_out()
        if folds is None and isinstance(self.belief, NeighboursGP):
            _, mean, variance = self.belief.left_out(np.arange(rows.n), min(self.belief.asked, rows.n - 1))
            noise = self.nugget * scale + extra
            return Normal(mean, noise, np.maximum(variance - noise, 0.0))
        parts = [np.array([i]) for i in range(rows.n)] if folds is None else [np.asarray(f, dtype=int) for f in folds]
        if any(part.size and not 0 <= part.min() <= part.max() < rows.n for part in parts):
            raise DataError(f"folds are row numbers of the {rows.n} measurements, from 0, found others")
        mean, variance = np.full(rows.n, np.nan), np.full(rows.n, np.nan)
        for part in parts:
            after = self.belief.unconditioned().condition_on(rows.subset(np.setdiff1d(np.arange(rows.n), part)))
            found = after.function_at(x[part])
            mean[part], variance[part] = np.asarray(found.mean), np.asarray(found.variance)
        if np.isnan(mean).any():
            raise DataError(f"each of the {rows.n} measurements must be in a fold, {np.isnan(mean).sum()} are in none")
        return Normal(mean, self.nugget * scale + extra, variance)

    def condition(self, points: object, values: object, *, errors: Any = None) -> "Field":
        """The field after more measurements, with its hyperparameters as they are."""
        if self.groups:
            raise DataError("a field with groups is made from all its measurements at once: call kriging again")
        return changed(self, belief=self.belief.condition(self.rows(points), values, errors=errors))

    def __repr__(self) -> str:
        return f"Field({self.kernel!r}, nugget={self.nugget:.3g}, {len(self.values)} points, {self.belief.method})"


def _smooth(kernel: Kernel) -> bool:
    """Whether the field has derivatives."""
    try:
        check_differentiable(kernel)
    except DataError:
        return False
    return True
