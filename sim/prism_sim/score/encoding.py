"""Conversion of a score to JSON and back, and to a flat list of figures.

The keys are those of the dataclasses (:mod:`prism_sim.score.declare`): a part that is *joined*
has its keys in the dictionary above it, after the part's own name and an underscore. Unknown keys
of a file are ignored, so that a newer file can be read.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from functools import cache
from typing import Any, TypeVar, get_args, get_origin

from pydantic import TypeAdapter, ValidationError

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


def from_json(kind: type[T], content: Any) -> T:
    """The dataclass ``kind`` with the values of ``content``.

    Raises
    ------
    ValueError : a key is missing or its value has the wrong type; the message names it.
    """
    try:
        form: Any = kind
        found: T = _reader(form).validate_json(json.dumps(_parted(kind, content)), strict=True)
        return found
    except ValidationError as error:
        first = error.errors()[0]
        raise ValueError(f"{'.'.join(map(str, first['loc']))}: {first['msg']}") from None


@cache
def _reader(kind: Any) -> TypeAdapter[Any]:
    return TypeAdapter(kind)


def _parted(kind: Any, content: Any) -> Any:
    """``content`` with the keys of each joined part in a dictionary of their own."""
    if get_origin(kind) is list and isinstance(content, list):
        return [_parted(get_args(kind)[0], item) for item in content]
    if not isinstance(content, Mapping):
        return content
    if get_origin(kind) is dict:
        return {key: _parted(get_args(kind)[1], item) for key, item in content.items()}
    parted = dict(content)
    is_known = isinstance(kind, type) and dataclasses.is_dataclass(kind)
    for name, hint, declaration in declarations(kind) if is_known else ():
        if isinstance(declaration, Joined):
            prefix = f"{name}_"
            own = {k.removeprefix(prefix): v for k, v in content.items() if k.startswith(prefix)}
            parted[name] = _parted(hint, own)
        elif name in content:
            parted[name] = _parted(hint, content[name])
    return parted


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
