"""Labels: two classes by logit or probit, several by softmax, ordered ones by cutpoints."""

from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy import special, stats
from jaxtyping import Float
from scipy import special as scipy_special

from credo.core.arrays import Array, is_traced
from credo.core.checks import ArrayLike, check_vector
from credo.core.errors import DataError
from credo.core.params import Constraint
from credo.core.special import softplus
from credo.models.likelihoods.base import ClosedForm, Likelihood, Numbers, average

Label = Any
"""A class as the user calls it: text, a whole number, a truth value."""


def find_classes(y: ArrayLike) -> tuple[Label, ...]:
    """The distinct labels of y in their order, as plain values."""
    raw = _labels(y)
    if raw.dtype.kind == "f" and not np.all(np.isfinite(raw)):
        raise DataError(f"y has a missing label at row {int(np.argmax(~np.isfinite(raw)))}; drop such rows")
    if raw.dtype.kind == "O":
        missing = [i for i, v in enumerate(raw) if v is None or v != v]
        if missing:
            raise DataError(f"y has a missing label at row {missing[0]}; drop such rows")
        kinds = {"text" if isinstance(v, str) else "number" for v in raw}
        if len(kinds) > 1:
            raise DataError("y mixes text and numbers; give all labels as text")
    values = np.unique(raw).tolist()
    return tuple(int(v) if isinstance(v, float) and v.is_integer() else v for v in values)


def _labels(y: ArrayLike) -> np.ndarray:
    raw = np.asarray(y.to_numpy() if hasattr(y, "to_numpy") else y)
    raw = raw[:, 0] if raw.ndim == 2 and raw.shape[1] == 1 else raw
    if raw.ndim != 1 or raw.shape[0] == 0:
        raise DataError(f"y must be a vector of labels, one for each row, found shape {raw.shape}")
    if raw.dtype.kind not in "biufOU":
        raise DataError(f"y must hold labels (text or numbers), found {raw.dtype}")
    return raw


def _shown(classes: tuple[Label, ...]) -> str:
    return ", ".join(map(repr, classes[:5])) + (", …" if len(classes) > 5 else "")


class Classes(Likelihood):
    """What likelihoods of labels share: which classes there are, in which order."""

    classes: tuple[Label, ...] | None = eqx.field(
        static=True, default=None, converter=lambda v: v if v is None else tuple(v)
    )

    def encode(self, y: ArrayLike) -> Any:
        """The position of each label among the classes; traced values are taken for positions."""
        if is_traced(y):
            return check_vector(y, "y")
        assert self.classes is not None
        raw = _labels(y)
        out = np.full(raw.shape, -1.0)
        for i, label in enumerate(self.classes):
            out[raw == label] = i
        if out.min() < 0:
            row = int(np.argmax(out < 0))
            found = raw.tolist()[row]
            raise DataError(f"y has {found!r} at row {row}, but the classes are {_shown(self.classes)}")
        return out

    def _found(self, y: ArrayLike, least: int, most: int | None) -> tuple[Label, ...]:
        found = find_classes(y)
        name = type(self).__name__
        if len(found) < 2:
            raise DataError(
                f"y has one class only, {_shown(found)}: there is nothing to tell apart; add rows of another"
            )
        if most is not None and len(found) > most:
            raise DataError(
                f"{name} tells two classes apart, but y has {len(found)} distinct values ({_shown(found)}); for more "
                "classes use Softmax, for numbers a regression"
            )
        if len(found) < least:
            raise DataError(f"{name} needs at least {least} classes, found {_shown(found)}; for two use Logistic")
        return found


class Bernoulli(Classes, ClosedForm):
    """P(y = 1 | η) = 1/(1 + e^-η), the logit link."""

    def __check_init__(self) -> None:
        if self.classes is not None and len(set(self.classes)) != 2:
            raise DataError(
                f"{type(self).__name__} has two classes, found classes={self.classes!r}; for more use Softmax"
            )

    def adapt(self, y: ArrayLike) -> "Likelihood":
        """With the two labels of y as classes; the second is what η speaks for."""
        if self.classes is not None:
            return self
        return type(self)((0, 1) if is_traced(y) else self._found(y, 2, 2))

    def log_prob(self, eta: Float[Array, "..."], y: Float[Array, "*n"]) -> Float[Array, "*n"]:
        """-log(1 + e^∓η)."""
        return -softplus((1 - 2 * y) * eta)

    def mean(self, eta: Float[Array, "..."]) -> Float[Array, "..."]:
        """P(y = 1)."""
        return jax.nn.sigmoid(eta)

    def terms(self, eta: Float[Numbers, " n"], y: Float[Numbers, " n"]) -> tuple[Numbers, Numbers, Numbers]:
        """y - p and p(1 - p)."""
        xp = np if isinstance(eta, np.ndarray) else jnp
        small = xp.exp(-abs(eta))
        p = xp.where(eta >= 0, 1.0, small) / (1 + small)
        return -xp.maximum((1 - 2 * y) * eta, 0) - xp.log1p(small), y - p, small / (1 + small) ** 2

    def curvature_slope(self, eta: Float[Numbers, " n"], y: Float[Numbers, " n"]) -> Numbers:
        """p(1 - p)(1 - 2p)."""
        xp = np if isinstance(eta, np.ndarray) else jnp
        small = xp.exp(-abs(eta))
        return -xp.sign(eta) * small * (1 - small) / (1 + small) ** 3

    def started(self, y: Float[Array, " n"], w: Float[Array, " n"]) -> tuple["Likelihood", Float[Array, ""]]:
        """η of the share of the second class."""
        share = jnp.clip(average(y, w), 1e-3, 1 - 1e-3)
        return self, jnp.log(share) - jnp.log1p(-share)


class Probit(Bernoulli):
    """P(y = 1 | η) = Φ(η)."""

    def log_prob(self, eta: Float[Array, "..."], y: Float[Array, "*n"]) -> Float[Array, "*n"]:
        """log Φ(±η), exact far out in the tails."""
        return special.log_ndtr((2 * y - 1) * eta)

    def mean(self, eta: Float[Array, "..."]) -> Float[Array, "..."]:
        """P(y = 1)."""
        return special.ndtr(eta)

    def terms(self, eta: Float[Numbers, " n"], y: Float[Numbers, " n"]) -> tuple[Numbers, Numbers, Numbers]:
        """±λ and λ(λ + z), with z = ±η and the inverse Mills ratio λ = φ(z)/Φ(z)."""
        xp, sign = (np if isinstance(eta, np.ndarray) else jnp), 2 * y - 1
        value, ratio = _mills(sign * eta)
        return value, sign * ratio, ratio * xp.maximum(ratio + sign * eta, 0)

    def curvature_slope(self, eta: Float[Numbers, " n"], y: Float[Numbers, " n"]) -> Numbers:
        """±(λ - h(2λ + z)), with the curvature h."""
        sign = 2 * y - 1
        _, ratio = _mills(sign * eta)
        h = self.terms(eta, y)[2]
        return sign * (ratio - h * (2 * ratio + sign * eta))

    def started(self, y: Float[Array, " n"], w: Float[Array, " n"]) -> tuple["Likelihood", Float[Array, ""]]:
        """η of the share of the second class."""
        return self, special.ndtri(jnp.clip(average(y, w), 1e-3, 1 - 1e-3))


def _mills(z: Numbers) -> tuple[Numbers, Numbers]:
    """log Φ(z) and φ(z)/Φ(z)."""
    if isinstance(z, np.ndarray):
        value = scipy_special.log_ndtr(z)
        return value, np.exp(-0.5 * z * z - 0.5 * np.log(2 * np.pi) - value)
    value = special.log_ndtr(z)
    return value, jnp.exp(stats.norm.logpdf(z) - value)


class Categorical(Classes):
    """P(y = k | η) = e^ηₖ/Σⱼ e^ηⱼ with η_K = 0: K - 1 predictors, so that the weights are determined."""

    @property
    def vector(self) -> bool:
        """A row has K - 1 linear predictors."""
        return True

    @property
    def width(self) -> int:
        """K - 1."""
        if self.classes is None:
            raise DataError("the classes are not known yet; condition on data first, or give classes=(...)")
        return len(self.classes) - 1

    def adapt(self, y: ArrayLike) -> "Likelihood":
        """With the labels of y as classes; the last is the reference."""
        if self.classes is not None:
            return self
        if is_traced(y):
            raise DataError("the classes cannot be found in traced labels; give classes=(...)")
        return Categorical(self._found(y, 2, None))

    def _logits(self, eta: Array) -> Array:
        return jnp.concatenate([eta, jnp.zeros((*eta.shape[:-1], 1))], axis=-1)

    def log_prob(self, eta: Float[Array, "..."], y: Float[Array, "*n"]) -> Float[Array, "*n"]:
        """η_y - log Σ e^ηⱼ."""
        logits = self._logits(eta)
        chosen = jax.nn.one_hot(y.astype(int), logits.shape[-1], dtype=float)
        return jnp.sum(chosen * logits, axis=-1) - special.logsumexp(logits, axis=-1)

    def mean(self, eta: Float[Array, "..."]) -> Float[Array, "..."]:
        """The probabilities of the K classes."""
        return jax.nn.softmax(self._logits(eta), axis=-1)


class Ordinal(Classes):
    """P(y ≤ k | η) = 1/(1 + e^(η - cₖ)): ordered classes, larger η for later ones. McCullagh (1980)."""

    shifts: ClassVar[bool] = False

    cutpoints: Float[Array, " c"] | None = eqx.field(
        default=None, metadata={"constraint": Constraint("ordered_vector")}
    )

    def adapt(self, y: ArrayLike) -> "Likelihood":
        """With the labels of y in their order as classes; text has none, so its order must be given."""
        classes = self.classes
        if classes is None:
            if is_traced(y):
                raise DataError("the classes cannot be found in traced labels; give classes=(...)")
            classes = self._found(y, 3, None)
            if isinstance(classes[0], str):
                raise DataError(
                    f"text has no order of its own: give classes=(...), the labels {_shown(classes)} in order"
                )
        if self.cutpoints is not None:
            return self
        return Ordinal(classes, jnp.linspace(-1.0, 1.0, len(classes) - 1))

    def log_prob(self, eta: Float[Array, "..."], y: Float[Array, "*n"]) -> Float[Array, "*n"]:
        """log [σ(a) - σ(b)] = log σ(a) + log σ(-b) + log(1 - e^(b-a)), a = c_y - η, b = c_{y-1} - η."""
        c = self._cutpoints()
        last = c.shape[0]
        upper = jax.nn.one_hot(jnp.clip(y, 0, last - 1).astype(int), last, dtype=float) @ c - eta
        lower = jax.nn.one_hot(jnp.clip(y - 1, 0, last - 1).astype(int), last, dtype=float) @ c - eta
        gap = jnp.where((y > 0) & (y < last), upper - lower, jnp.inf)
        inside = jnp.where(gap < jnp.inf, jnp.log(-jnp.expm1(-jnp.where(gap < jnp.inf, gap, 1.0))), 0.0)
        return (
            jnp.where(y < last, jax.nn.log_sigmoid(upper), 0.0)
            + jnp.where(y > 0, jax.nn.log_sigmoid(-lower), 0.0)
            + inside
        )

    def mean(self, eta: Float[Array, "..."]) -> Float[Array, "..."]:
        """The probabilities of the K classes."""
        below = jax.nn.sigmoid(self._cutpoints() - eta[..., None])
        edges = jnp.ones((*below.shape[:-1], 1))
        return jnp.diff(jnp.concatenate([0 * edges, below, edges], axis=-1), axis=-1)

    def started(self, y: Float[Array, " n"], w: Float[Array, " n"]) -> tuple["Likelihood", Float[Array, ""]]:
        """Cutpoints at the shares of the classes, each of which is given half a row."""
        c = self._cutpoints()
        held = jax.vmap(lambda k: jnp.sum(jnp.where(y == k, w, 0.0)))(jnp.arange(c.shape[0] + 1.0)) + 0.5
        share = jnp.cumsum(held)[:-1] / jnp.sum(held)
        return Ordinal(self.classes, jnp.log(share) - jnp.log1p(-share)), jnp.zeros(())

    def log_prior(self) -> Float[Array, ""]:
        """cₖ ~ N(0, 5²), in order."""
        return jnp.sum(stats.norm.logpdf(self._cutpoints(), 0.0, 5.0))

    def _cutpoints(self) -> Array:
        if self.cutpoints is None:
            raise DataError("the classes are not known yet; condition on data first, or give classes=(...)")
        return self.cutpoints
