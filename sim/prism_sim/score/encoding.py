"""Conversion of a score to JSON and back, and to a flat list of figures.

The keys are those of the dataclasses (:mod:`prism_sim.score.declare`): a part that is *joined*
has its keys in the dictionary above it, after the part's own name and an underscore. Unknown keys
of a file are ignored, so that a newer file can be read.
"""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Mapping
from typing import Any, TypeVar, get_args, get_origin

from prism_sim.score.declare import Joined, declarations

T = TypeVar("T")

_NAMES = ("job", "fault")


def to_json(value: Any) -> Any:
    """``value``, dataclasses within it included, as dictionaries, lists and plain values."""
    if isinstance(value, Mapping):
        return {str(key): to_json(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [to_json(item) for item in value]
    if not dataclasses.is_dataclass(value):
        return value
    content: dict[str, Any] = {}
    for name, _, declaration in declarations(type(value)):
        part = to_json(getattr(value, name))
        if isinstance(declaration, Joined):
            content |= {f"{name}_{key}": item for key, item in part.items()}
        else:
            content[name] = part
    return content


def from_json(kind: type[T], content: Any, where: str = "") -> T:
    """The dataclass ``kind`` with the values of ``content``.

    Raises
    ------
    ValueError : a key is missing or its value has the wrong type; the message names it.
    """
    if not isinstance(content, Mapping):
        raise ValueError(f"{where.rstrip('.') or 'the score'} is not a table of keys and values")
    values = {}
    for name, hint, declaration in declarations(kind):
        if isinstance(declaration, Joined):
            own = {k.removeprefix(f"{name}_"): v for k, v in content.items()
                   if k.startswith(f"{name}_")}  # fmt: skip
            values[name] = from_json(hint, own, f"{where}{name}_")
        elif name not in content:
            raise ValueError(f"{where}{name} is missing")
        else:
            values[name] = _read(hint, content[name], f"{where}{name}")
    return kind(**values)


def _read(hint: Any, value: Any, where: str) -> Any:
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is types.UnionType:
        plain = [one for one in arguments if one is not types.NoneType]
        optional = len(plain) < len(arguments)
        if value is None and optional:
            return None
        if len(plain) == 1:
            return _read(plain[0], value, where)
        return _plain(tuple(plain), value, where)
    if isinstance(hint, type) and dataclasses.is_dataclass(hint):
        return from_json(hint, value, f"{where}.")
    if origin is dict and isinstance(value, Mapping):
        return {key: _read(arguments[1], item, f"{where}.{key}") for key, item in value.items()}
    if origin is list and isinstance(value, list):
        return [_read(arguments[0], item, f"{where}.{n}") for n, item in enumerate(value)]
    return _plain(origin or hint, value, where)


def _plain(kind: Any, value: Any, where: str) -> Any:
    if kind is Any:
        return value
    wanted = (int, float) if kind is float else kind
    if not isinstance(value, wanted) or (isinstance(value, bool) and kind in (int, float)):
        raise ValueError(f"{where} is {value!r}, which is not of the right type")
    return value


def flatten(content: Any, above: str = "") -> dict[str, float | None]:
    """Every number in ``content`` by its dotted path; None if undefined.

    Booleans count as 0 and 1, text is left out. The items of a list of named things are named by
    their field (``job``, ``fault``); any other list is left out.

    >>> flatten({"a": {"b": 1, "c": "x"}, "jobs": [{"job": "alpha", "ok": True}]})
    {'a.b': 1, 'jobs.alpha.ok': 1}
    """
    if isinstance(content, list):
        content = _by_name(content)
    if isinstance(content, Mapping):
        found: dict[str, float | None] = {}
        for key, value in content.items():
            found |= flatten(value, f"{above}.{key}" if above else str(key))
        return found
    if content is None or isinstance(content, (int, float)):
        return {above: int(content) if isinstance(content, bool) else content}
    return {}


def _by_name(items: list[Any]) -> dict[str, Any]:
    by_name: dict[str, Any] = {}
    for item in items:
        name = next((key for key in _NAMES if isinstance(item, dict) and key in item), "")
        if name:
            by_name[str(item[name])] = {key: item[key] for key in item if key != name}
    return by_name
