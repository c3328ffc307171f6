"""Learnable numbers: declared on the field, addressed by path, optimized without constraints.

A model declares what may be learned, and in which range, where the number lives:

    class RBF(Kernel):
        lengthscale: Array | None = positive(None, unset=1.0)

A number that nobody has given is None, and means `unset` until the data choose it (`adapt`) or `settled` writes it
down: a default is never recognised by its value.

`learnable(belief)` lists such numbers by path ("kernel.lengthscale"), `replace` sets them, and
`layout(belief, fixed)` says how the free ones lie in one unconstrained vector u (`to_vector`, `from_vector`), by the
maps of `core.bijectors`.
"""

import dataclasses
import difflib
import functools
import math
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, NamedTuple, Protocol, TypeAlias, TypeVar, runtime_checkable

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Float

from credo.core.arrays import Array, Numeric, as_float, host, namespace
from credo.core.bijectors import BIJECTORS, Bijector
from credo.core.errors import DataError
from credo.core.pytrees import changed

M = TypeVar("M")


@runtime_checkable
class Prior(Protocol):
    """What knows the log density of a learnable number in natural units; of each entry for an array of them."""

    def log_prob(self, value: Array) -> Array:
        """log p(θ)."""


Priors: TypeAlias = Mapping[str, Prior]
"""By the path of the number."""

LOG_RANGE = 25.0
"""A positive number may move by a factor e^±25 from where it starts unless its field declares a range."""


class Constraint(NamedTuple):
    """Where a learnable number lives, and the range in which `learn` searches for it."""

    kind: str
    low: float | None = None
    high: float | None = None


ABSENT = ()
"""The value of a number that a part does not have: it is not learnable, unlike one that is None until it is set."""


def _declare(
    kind: str, default: Any, low: float | None = None, high: float | None = None, unset: float | None = None
) -> Any:
    options = {} if default is dataclasses.MISSING else {"default": default}
    metadata = {"constraint": Constraint(kind, low, high), "unset": unset}
    return eqx.field(converter=_to_array, metadata=metadata, **options)


def _to_array(value: Any) -> Any:
    """Numbers as an array; what stands for them (None, a law of noise, a tracer) as it is."""
    wrong = isinstance(value, complex | str | bytes | dict | set)  # which `as_float` refuses
    numeric = wrong or isinstance(value, int | float | list | tuple | np.ndarray | np.generic | jax.Array)
    return as_float(value) if numeric and not is_absent(value) else value


def real(default: object = dataclasses.MISSING, *, unset: float | None = None) -> Any:
    """Declares a learnable real number; where it is None it means `unset`."""
    return _declare("real", default, unset=unset)


def positive(
    default: object = dataclasses.MISSING,
    low: float | None = None,
    high: float | None = None,
    *,
    unset: float | None = None,
) -> Any:
    """Declares a learnable number > 0, searched between `low` and `high`; where it is None it means `unset`."""
    return _declare("positive", default, low, high, unset)


def unit_interval(default: object = dataclasses.MISSING) -> Any:
    """Declares a learnable number in (0, 1)."""
    return _declare("unit_interval", default)


def simplex(default: object = dataclasses.MISSING) -> Any:
    """Declares a learnable vector of probabilities that sum to one."""
    return _declare("simplex", default)


def positive_definite(default: object = dataclasses.MISSING) -> Any:
    """Declares a learnable symmetric positive definite matrix."""
    return _declare("positive_definite", default)


def number(default: float) -> Any:
    """Declares a number that is not learned."""
    return eqx.field(converter=as_float, default=default)


def given(*, unset: float) -> Any:
    """Declares numbers that the user or `adapt` sets and that are not learned; None means `unset`."""
    return eqx.field(default=None, converter=_to_array, metadata={"unset": unset})


def is_absent(value: object) -> bool:
    """Whether a value is `ABSENT`."""
    return isinstance(value, tuple) and not value


def meaning(module: eqx.Module, name: str) -> Any:
    """The number of a field: itself, or what it means while nobody has set it."""
    value, cls = getattr(module, name), type(module)
    return as_float(_unset_of(cls)[name]) if value is None else value


@functools.cache
def _unset_of(cls: type[eqx.Module]) -> dict[str, float]:
    fields = dataclasses.fields(cls)
    return {f.name: f.metadata["unset"] for f in fields if f.metadata.get("unset") is not None}


def settled(tree: M) -> M:
    """The tree with every number that nobody has set at what it means until then."""
    if isinstance(tree, eqx.Module):
        inside = {f.name: getattr(tree, f.name) for f in dataclasses.fields(tree)}
        new = {name: settled(value) for name, value in inside.items()}
        new |= {name: meaning(tree, name) for name in _unset_of(type(tree)) if inside[name] is None}
        return changed(tree, **{name: value for name, value in new.items() if value is not inside[name]})
    if type(tree) in (tuple, list) and tree:
        return type(tree)(settled(item) for item in tree)  # type: ignore[attr-defined,call-arg]
    return tree


def constant() -> Any:
    """Declares a part whose numbers are taken as known: none of them is learnable."""
    return eqx.field(metadata={"constant": True})


def _walk(node: object, prefix: str) -> Iterator[tuple[str, Any, Constraint]]:
    if dataclasses.is_dataclass(node) and not isinstance(node, type):
        for field in dataclasses.fields(node):
            value = getattr(node, field.name, None)
            constraint = field.metadata.get("constraint")
            path = f"{prefix}{field.name}"
            if value is None and constraint is not None and field.metadata.get("unset") is not None:
                value = as_float(field.metadata["unset"])
            if constraint is not None and eqx.is_array_like(value):
                yield path, value, constraint
            elif not field.metadata.get("static", False) and not field.metadata.get("constant", False):
                yield from _walk(value, f"{path}.")
    elif isinstance(node, list | tuple):
        for i, item in enumerate(node):
            yield from _walk(item, f"{prefix}{i}.")
    elif isinstance(node, dict):
        for key, item in node.items():
            yield from _walk(item, f"{prefix}{key}.")


def learnable(belief: object) -> dict[str, Array]:
    """The learnable numbers of a belief by path, in the order of its fields."""
    return {path: value for path, value, _ in _walk(belief, "")}


def constraint_of(belief: object, path: str) -> Constraint:
    """The constraint that the field at `path` declares."""
    return {p: c for p, _, c in _walk(belief, "")}[check_path(belief, path)]


def check_path(belief: object, path: str) -> str:
    """`path` itself, if it names a learnable number of the belief; otherwise an error with the nearest that does."""
    paths = list(learnable(belief))
    if path in paths:
        return path
    near = difflib.get_close_matches(str(path), paths, n=1, cutoff=0.4)
    hint = f"did you mean {near[0]!r}? " if near else ""
    raise DataError(f"there is no learnable number at {path!r}; {hint}learnable are: {', '.join(paths) or 'none'}")


def expand_paths(belief: object, paths: Iterable[str]) -> list[str]:
    """The learnable paths that the given ones name; a path of a part ("kernel") names all below it."""
    if isinstance(paths, str) or not isinstance(paths, Iterable):
        found = f"the text {paths!r}; pass [{paths!r}]" if isinstance(paths, str) else f"a {type(paths).__name__}"
        raise DataError(f"fixed must be a list of paths, found {found}")
    known = list(learnable(belief))
    out: list[str] = []
    for path in paths:
        below = [p for p in known if p.startswith(f"{path}.")]
        out += below or [check_path(belief, path)]
    return out


def _set(node: Any, parts: list[str], value: Any) -> Any:
    """The node with the value at the end of a path; all that is not on the path is shared."""
    if not parts:
        return value
    name, *rest = parts
    if isinstance(node, list | tuple):
        items = list(node)
        items[int(name)] = _set(items[int(name)], rest, value)
        return type(node)(*items) if hasattr(node, "_fields") else type(node)(items)
    if isinstance(node, dict):
        return {key: _set(item, rest, value) if key == name else item for key, item in node.items()}
    return changed(node, **{name: _set(getattr(node, name), rest, value)})


def replace(belief: M, values: Mapping[str, Numeric]) -> M:
    """The belief with the learnable numbers at the given paths set to new values (in natural units)."""
    known = learnable(belief) if values else {}
    for path, value in values.items():
        belief = _set(belief, (path if path in known else check_path(belief, path)).split("."), as_float(value))
    return belief


def bijector(constraint: Constraint) -> Bijector:
    """The map between the numbers that the constraint allows and unconstrained ones."""
    return BIJECTORS[constraint.kind]


class Slot(NamedTuple):
    """Where one learnable number lies in the unconstrained vector."""

    path: str
    constraint: Constraint
    shape: tuple[int, ...]
    start: int
    stop: int


Layout = tuple[Slot, ...]
"""The free learnable numbers of a belief in order; hashable, so compiled code can be reused for it."""


def layout(belief: object, fixed: Iterable[str] = ()) -> Layout:
    """How the learnable numbers that are not `fixed` lie in one unconstrained vector."""
    held = set(expand_paths(belief, fixed))
    return layout_of((path, c, np.shape(value)) for path, value, c in _walk(belief, "") if path not in held)


def layout_of(numbers: Iterable[tuple[str, Constraint, tuple[int, ...]]]) -> Layout:
    """How numbers of these paths, constraints and shapes lie in one unconstrained vector."""
    slots: list[Slot] = []
    for path, constraint, shape in numbers:
        free = tuple(bijector(constraint).inverse_shape(shape))
        start = slots[-1].stop if slots else 0
        slots.append(Slot(path, constraint, free, start, start + math.prod(free)))
    return tuple(slots)


def pack(slots: Layout, values: Iterable[Array]) -> Float[Array, "*n k"]:
    """The numbers of the slots, unconstrained, side by side; leading axes that they share are batches."""
    with np.errstate(divide="ignore"):  # a number at the edge of its constraint lies at ±∞
        free = [host(bijector(s.constraint).inverse(as_float(v))) for s, v in zip(slots, values, strict=True)]
    flat = [f.reshape((*f.shape[: f.ndim - len(s.shape)], s.stop - s.start)) for s, f in zip(slots, free, strict=True)]
    return namespace(flat).concatenate(flat, axis=-1) if flat else np.zeros(0)


def unpack(slots: Layout, vectors: Float[Array, "*n k"]) -> list[Array]:
    """The numbers of the slots in natural units; NumPy's unless the vectors are traced."""
    u = host(vectors)
    batch = u.shape[:-1]
    return [bijector(s.constraint).forward(u[..., s.start : s.stop].reshape((*batch, *s.shape))) for s in slots]


def to_vector(belief: object, slots: Layout) -> Float[Array, " k"]:
    """The free numbers of the belief, unconstrained."""
    values = learnable(belief)
    return pack(slots, (values[s.path] for s in slots))


def natural_values(slots: Layout, vector: Float[Array, "*n k"]) -> dict[str, Array]:
    """The free numbers in natural units, by path; NumPy's unless the vector is traced."""
    return dict(zip((s.path for s in slots), unpack(slots, vector), strict=True))


def from_vector(belief: M, slots: Layout, vector: Float[Array, " k"]) -> M:
    """The belief whose free numbers are those of the unconstrained vector."""
    return replace(belief, natural_values(slots, vector))


def log_jacobian(slots: Layout, vector: Float[Array, " k"], paths: Collection[str] | None = None) -> Float[Array, ""]:
    """Σ log |det ∂θ/∂u|, over the numbers at `paths` (None: all): turns densities of θ into densities of u."""
    chosen = [s for s in slots if paths is None or s.path in paths]
    parts = [bijector(s.constraint).log_slope(vector[s.start : s.stop].reshape(s.shape)) for s in chosen]
    return sum(parts, start=np.zeros(()))


def log_jacobian_gradient(slots: Layout, vector: Float[np.ndarray, " k"], paths: Collection[str]) -> np.ndarray:
    """The gradient of `log_jacobian`."""
    out = np.zeros_like(vector)
    for s in slots:
        if s.path in paths:
            out[s.start : s.stop] = bijector(s.constraint).bend(vector[s.start : s.stop].reshape(s.shape)).reshape(-1)
    return out


def coordinate_names(slots: Layout) -> list[str]:
    """The name of each coordinate of the vector: its path, with an index where the number is an array."""
    return [s.path if s.stop - s.start == 1 else f"{s.path}[{i}]" for s in slots for i in range(s.stop - s.start)]


def bounds(slots: Layout, vector: Float[Array, " k"]) -> tuple[np.ndarray, np.ndarray]:
    """The box in which `learn` searches, around the starting vector."""
    u = np.asarray(vector)
    lower, upper = np.full(u.shape, -np.inf), np.full(u.shape, np.inf)
    for s in slots:
        where = slice(s.start, s.stop)
        if s.constraint.kind == "positive":
            low, high = s.constraint.low, s.constraint.high
            lower[where] = u[where] - LOG_RANGE if low is None else np.log(low)
            upper[where] = u[where] + LOG_RANGE if high is None else np.log(high)
        elif s.constraint.kind == "unit_interval":
            lower[where], upper[where] = -LOG_RANGE, LOG_RANGE
    return np.minimum(lower, u), np.maximum(upper, u)


def check_priors(belief: object, priors: Mapping[str, object] | None) -> dict[str, Any]:
    """`priors` as a dict: every key is a learnable path and every value has a log density, or is None (no prior)."""
    if not isinstance(priors or {}, Mapping):
        raise DataError(f"priors must be a dictionary of distributions by path, found {priors!r:.80}")
    for path, prior in (priors or {}).items():
        check_path(belief, path)
        if prior is not None and not isinstance(prior, Prior):
            raise DataError(
                f"priors[{path!r}] must be a distribution with log_prob, found {type(prior).__name__}; "
                "e.g. numpyro.distributions.LogNormal(0, 1)"
            )
    return dict(priors or {})


def log_prior(belief: object, priors: Priors) -> Float[Array, ""]:
    """Σ log p(θ) over the paths in `priors`: densities in natural units, no Jacobian is added.

    The maximum of evidence × prior is thus the mode in the units that the field has.
    """
    values = learnable(belief)
    return sum((prior.log_prob(values[path]).sum() for path, prior in priors.items()), start=np.zeros(()))
