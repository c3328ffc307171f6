"""A space as JSON, in and out; a mistake is refused with the path of its key.

{"parameters": {"rate": {"type": "real", "low": 1e-5, "high": 0.1, "log": true},
                "optimizer": {"type": "categorical", "choices": ["adam", "sgd"]},
                "momentum": {"type": "real", "low": 0, "high": 1, "when": {"optimizer": ["sgd"]}}},
 "constraints": ["momentum + 2*rate <= 1"]}
"""

import json
import keyword
import os
from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any, NoReturn

from credo.core.errors import DataError, FileError
from credo.decide.space.choices import Boolean, Categorical, Ordinal
from credo.decide.space.conditions import resolve
from credo.decide.space.constraints import Check, Constraint, LinearConstraint, as_constraint, parse
from credo.decide.space.parameters import Integer, Parameter, Real

CLASSES: tuple[type[Parameter], ...] = (Real, Integer, Categorical, Ordinal, Boolean)
TYPES = {kind.__name__.lower(): kind for kind in CLASSES}
Checks = Mapping[str, Callable[..., object]]
"""The functions of `Check` constraints by name."""
JSON = dict[str, Any]
Parts = tuple[dict[str, Parameter], list[Constraint], JSON]


def parameter_from_json(spec: object, path: str, name: str) -> Parameter:
    """The parameter that `to_json` wrote; a mistake is refused with the path of its key."""
    if not isinstance(spec, Mapping):
        raise DataError(f'{path} must be an object such as {{"type": "real", "low": 0, "high": 1}}, found {spec!r}')
    kind = spec.get("type")
    if not isinstance(kind, str) or kind not in TYPES:
        found = f"found {kind!r}" if "type" in spec else "found none"
        raise DataError(f"{path}.type must be one of {', '.join(TYPES)}, {found}")
    known = {f.name: f.default is MISSING for f in fields(TYPES[kind]) if f.name != "name"}
    for key in spec:
        if key != "type" and key not in known:
            raise DataError(f"{path}.{key} is not a key of a parameter of type {kind}; it has {', '.join(known)}")
    for key in (key for key, required in known.items() if required and key not in spec):
        raise DataError(f"{path}.{key} is missing: a parameter of type {kind} needs it")
    if "when" in spec and not isinstance(spec["when"], Mapping):
        raise DataError(f'{path}.when must be an object such as {{"other": ["value"]}}, found {spec["when"]!r}')
    try:
        return TYPES[kind](name=name, **{key: value for key, value in spec.items() if key != "type"})
    except DataError as error:
        raise DataError(f"{path}: {error}") from None


def parameter_to_json(parameter: Parameter) -> JSON:
    """The parameter without its name."""
    kind = next(key for key, made in TYPES.items() if made is type(parameter))
    given = {f.name: getattr(parameter, f.name) for f in fields(parameter) if f.name not in ("when", "name")}
    spec = {key: list(value) if isinstance(value, tuple) else value for key, value in given.items()}
    if spec.get("log") is False:
        del spec["log"]
    return {"type": kind, **spec, **({"when": {k: list(v) for k, v in parameter.when}} if parameter.when else {})}


def constraint_from_json(spec: object, checks: Checks) -> Constraint:
    """The constraint that `to_json` wrote."""
    if isinstance(spec, str):
        return parse(spec)
    given = spec if isinstance(spec, Mapping) else {}
    if "linear" in given and set(given) <= {"linear", "at_most", "at_least"}:
        return LinearConstraint(given["linear"], given.get("at_most"), given.get("at_least"))
    if set(given) == {"check"}:
        name = given["check"]
        if name not in checks:
            raise DataError(
                f"the check {name!r} is a function, which JSON cannot hold; pass checks={{{name!r}: function}}"
            )
        return Check(checks[name], name)
    raise DataError(
        f'expected text such as "a + 2*b <= 5", {{"linear": {{"a": 1, "b": 2}}, "at_most": 5}} or {{"check": "name"}}, '
        f"found {spec!r}"
    )


def constraint_to_json(constraint: Constraint) -> str | JSON:
    """Text where its names can be read back from text, otherwise an object; of a `Check`, the name."""
    if isinstance(constraint, Check):
        return {"check": constraint.name}
    if all(name.isidentifier() and not keyword.iskeyword(name) for name, _ in constraint.coefficients):
        return str(constraint)
    sides = {"at_most": constraint.at_most, "at_least": constraint.at_least}
    return {"linear": dict(constraint.coefficients), **{k: v for k, v in sides.items() if v is not None}}


def load(source: object) -> JSON:
    """The JSON object in a mapping, in text that begins with a brace, or in the file at a path."""
    if isinstance(source, Mapping):
        return dict(source)
    if not isinstance(source, str | os.PathLike):
        raise DataError(f"a space is read from a dict, JSON text or the path of a file, found {source!r}")
    text, label = source, "the JSON text"
    if not (isinstance(source, str) and source.lstrip().startswith("{")):
        label = str(source)
        try:
            text = Path(source).read_text(encoding="utf-8")
        except (OSError, ValueError) as error:
            why = getattr(error, "strerror", None) or error
            raise FileError(f"cannot read the space from {label}: {why}") from None
    try:
        found = json.loads(str(text), object_pairs_hook=_unique, parse_constant=_refuse_constant)
    except (json.JSONDecodeError, RecursionError) as error:
        raise DataError(f"{label} is not JSON: {error}") from None
    if not isinstance(found, dict):
        raise DataError(f"{label} must hold an object with the key parameters, found {type(found).__name__}")
    return found


def read(found: JSON, checks: Checks, extra: bool) -> Parts:
    """The parameters, the constraints and, with `extra`, the other keys."""
    others = {key: value for key, value in found.items() if key not in ("parameters", "constraints")}
    if others and not extra:
        names = ", ".join(map(repr, others))
        raise DataError(f"a space has the keys parameters and constraints, found also {names}; take them out")
    specs = found.get("parameters")
    if not isinstance(specs, Mapping) or not specs:
        what = f"found {specs!r}" if "parameters" in found else "found none"
        raise DataError(f"parameters must be an object that maps names to parameters, {what}")
    parameters = {name: parameter_from_json(spec, f"parameters.{name}", name) for name, spec in specs.items()}
    resolve(list(parameters.values()), lambda name: f"parameters.{name}.when")
    texts = found.get("constraints", [])
    if not isinstance(texts, list | tuple):
        raise DataError(f"constraints must be a list, found {texts!r}")
    constraints: list[Constraint] = []
    for i, spec in enumerate(texts):
        try:
            constraints.append(as_constraint(constraint_from_json(spec, checks), parameters))
        except DataError as error:
            raise DataError(f"constraints[{i}]: {error}") from None
    return parameters, constraints, others


def _unique(pairs: list[tuple[str, object]]) -> JSON:
    found = dict(pairs)
    if len(found) < len(pairs):
        keys = [key for key, _ in pairs]
        raise DataError(f"the key {next(k for i, k in enumerate(keys) if k in keys[:i])!r} is there twice; keep one")
    return found


def _refuse_constant(text: str) -> NoReturn:
    raise DataError(f"{text} is not a number that JSON knows; write a finite one")
