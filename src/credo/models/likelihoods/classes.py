"""Labels: two classes by logit or probit, several by softmax."""

import equinox as eqx
import numpy as np
from jaxtyping import Float

from credo.core.arrays import Array, is_traced, namespace, special
from credo.core.checks import ArrayLike, as_numpy, check_vector
from credo.core.errors import DataError
from credo.core.special import LOG_2PI, softplus
from credo.models.likelihoods.base import Likelihood, Terms, average

Label = str | int | float | bool
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
    raw = as_numpy(y, "y")
    raw = raw[:, 0] if raw.ndim == 2 and raw.shape[1] == 1 else raw
    if raw.ndim != 1 or raw.shape[0] == 0:
        raise DataError(f"y must be a vector of labels, one for each row, found shape {raw.shape}")
    if raw.dtype.kind not in "biufOU":
        raise DataError(f"y must hold labels (text or numbers), found {raw.dtype}")
    return raw


def shown(classes: tuple[Label, ...]) -> str:
    """The first few labels, for a message."""
    return ", ".join(map(repr, classes[:5])) + (", …" if len(classes) > 5 else "")


class Classes(Likelihood):
    """What likelihoods of labels share: which classes there are, in which order."""

    classes: tuple[Label, ...] | None = eqx.field(
        static=True, default=None, converter=lambda v: v if v is None else tuple(v)
    )

    def encode(self, y: ArrayLike) -> Array:
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
            raise DataError(f"y has {found!r} at row {row}, but the classes are {shown(self.classes)}")
        return out

    def found(self, y: ArrayLike, least: int, most: int | None) -> tuple[Label, ...]:
        """The classes of y, where there are as many as there should be."""
        found = find_classes(y)
        name = type(self).__name__
        if len(found) < 2:
            raise DataError(
                f"y has one class only, {shown(found)}: there is nothing to tell apart; add rows of another"
            )
        if most is not None and len(found) > most:
            raise DataError(
                f"{name} tells two classes apart, but y has {len(found)} distinct values ({shown(found)}); for more "
                "classes use Softmax, for numbers a regression"
            )
        if len(found) < least:
            raise DataError(f"{name} needs at least {least} classes, found {shown(found)}; for two use Logistic")
        return found


class Bernoulli(Classes):
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
        return type(self)((0, 1) if is_traced(y) else self.found(y, 2, 2))

    def log_prob(self, eta: Float[Array, "..."], y: Float[Array, "*n"]) -> Float[Array, "..."]:
        """-log(1 + e^∓η)."""
        return -softplus((1 - 2 * y) * eta)

    def mean(self, eta: Float[Array, "..."]) -> Float[Array, "..."]:
        """P(y = 1)."""
        return special(eta).expit(eta)

    def terms(self, z: Float[Array, "*n 1"], y: Float[Array, "*m"]) -> Terms:
        """y - p and p(1 - p)."""
        eta, xp = z[..., 0], namespace(z, y)
        small = xp.exp(-xp.abs(eta))
        p = xp.where(eta >= 0, 1.0, small) / (1 + small)
        value = -xp.maximum((1 - 2 * y) * eta, 0) - xp.log1p(small)
        return value, (y - p)[..., None], (small / (1 + small) ** 2)[..., None, None]

    def curvature_slope(self, z: Float[Array, "*n 1"], y: Float[Array, "*m"], spread: Float[Array, "*n 1 1"]) -> Array:
        """p(1 - p)(1 - 2p)."""
        xp = namespace(z, spread)
        small = xp.exp(-xp.abs(z))
        return -xp.sign(z) * small * (1 - small) / (1 + small) ** 3 * spread[..., 0]

    def started(self, y: Float[Array, " n"], w: Float[Array, " n"]) -> tuple["Likelihood", Float[Array, ""]]:
        """η of the share of the second class."""
        share = namespace(y, w).clip(average(y, w), 1e-3, 1 - 1e-3)
        return self, special(share).logit(share)


class Probit(Bernoulli):
    """P(y = 1 | η) = Φ(η)."""

    def log_prob(self, eta: Float[Array, "..."], y: Float[Array, "*n"]) -> Float[Array, "..."]:
        """log Φ(±η), exact far out in the tails."""
        return special(eta, y).log_ndtr((2 * y - 1) * eta)

    def mean(self, eta: Float[Array, "..."]) -> Float[Array, "..."]:
        """P(y = 1)."""
        return special(eta).ndtr(eta)

    def terms(self, z: Float[Array, "*n 1"], y: Float[Array, "*m"]) -> Terms:
        """±λ and λ(λ + t), with t = ±η and the inverse Mills ratio λ = φ(t)/Φ(t)."""
        sign = 2 * y - 1
        value, ratio, curvature = mills(sign * z[..., 0])
        return value, (sign * ratio)[..., None], curvature[..., None, None]

    def curvature_slope(self, z: Float[Array, "*n 1"], y: Float[Array, "*m"], spread: Float[Array, "*n 1 1"]) -> Array:
        """±(λ - h(2λ + t)), with the curvature h."""
        sign = 2 * y - 1
        t = sign * z[..., 0]
        _, ratio, curvature = mills(t)
        return (sign * (ratio - curvature * (2 * ratio + t)))[..., None] * spread[..., 0]

    def started(self, y: Float[Array, " n"], w: Float[Array, " n"]) -> tuple["Likelihood", Float[Array, ""]]:
        """η of the share of the second class."""
        return self, special(y, w).ndtri(namespace(y, w).clip(average(y, w), 1e-3, 1 - 1e-3))


def mills(t: Float[Array, "*n"]) -> tuple[Array, Array, Array]:
    """log Φ(t), λ = φ(t)/Φ(t), and λ(λ + t)."""
    xp, value = namespace(t), special(t).log_ndtr(t)
    ratio = xp.exp(-0.5 * (t * t + LOG_2PI) - value)
    return value, ratio, ratio * xp.maximum(ratio + t, 0)


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

    @property
    def coupling(self) -> Float[np.ndarray, "c c"]:
        """I - 11ᵀ/K: of differences to the last class where the weights of all K have the same prior."""
        return np.eye(self.width) - 1 / (self.width + 1)

    def adapt(self, y: ArrayLike) -> "Likelihood":
        """With the labels of y as classes; the last is the reference."""
        if self.classes is not None:
            return self
        if is_traced(y):
            raise DataError("the classes cannot be found in traced labels; give classes=(...)")
        return Categorical(self.found(y, 2, None))

    def log_prob(self, eta: Float[Array, "..."], y: Float[Array, "*n"]) -> Float[Array, "..."]:
        """η_y - log Σ e^ηⱼ."""
        chosen = (y[..., None] == np.arange(eta.shape[-1])) * eta
        return chosen.sum(-1) - special(eta, y).logsumexp(_logits(eta), axis=-1)

    def mean(self, eta: Float[Array, "..."]) -> Float[Array, "..."]:
        """The probabilities of the K classes."""
        logits = _logits(eta)
        xp = namespace(logits)
        shares = xp.exp(logits - logits.max(-1, keepdims=True))
        return shares / shares.sum(-1, keepdims=True)

    def terms(self, z: Float[Array, "*n c"], y: Float[Array, "*m"]) -> Terms:
        """δ_y - p and diag(p) - ppᵀ."""
        p, c = self.mean(z)[..., :-1], z.shape[-1]
        curvature = np.eye(c) * p[..., None] - p[..., None] * p[..., None, :]
        return self.log_prob(z, y), (y[..., None] == np.arange(c)) - p, curvature

    def expected_terms(self, weights: Float[Array, " s"], z: Float[Array, "n s c"], y: Float[Array, " n"]) -> Terms:
        """δ_y - E[p] and diag(E[p]) - E[ppᵀ], without a matrix for each node."""
        p, c = self.mean(z)[..., :-1], z.shape[-1]
        weighted = weights[:, None] * p
        mean = weighted.sum(1)
        curvature = np.eye(c) * mean[..., None] - weighted.swapaxes(1, 2) @ p
        return self.log_prob(z, y[:, None]) @ weights, (y[:, None] == np.arange(c)) - mean, curvature

    def curvature_slope(self, z: Float[Array, "*n c"], y: Float[Array, "*m"], spread: Float[Array, "*n c c"]) -> Array:
        """pₗ(Sₗₗ - Σⱼ pⱼSⱼⱼ - 2(Sp)ₗ + 2pᵀSp)."""
        p = self.mean(z)[..., :-1]
        diagonal, pull = spread.diagonal(axis1=-2, axis2=-1), (spread * p[..., None, :]).sum(-1)
        each = diagonal - 2 * pull
        return p * (each - (p * (diagonal - 2 * pull)).sum(-1, keepdims=True))


def _logits(eta: Float[Array, "*n c"]) -> Float[Array, "*n k"]:
    xp = namespace(eta)
    return xp.concatenate([eta, xp.zeros((*eta.shape[:-1], 1))], axis=-1)
