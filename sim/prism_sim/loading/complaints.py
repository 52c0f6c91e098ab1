"""Validation errors of pydantic as messages for the author of a scenario or of another file.

Pydantic reports an error and the path of the value from the top. Here pydantic's own union
tags are removed from the path, so that the line in the file can be found, and the message gets
the value as written and the most similar valid name. ``top`` is the model of the whole file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from prism_common.errors import Problem
from prism_sim.loading import foreign
from prism_sim.loading.scenario import Scenario
from prism_sim.scenario.base import Loc, descriptions
from prism_sim.scenario.presets import PRESETS
from prism_sim.scenario.source import Source
from prism_sim.scenario.words import did_you_mean, dotted, in_yaml_words

_KIND = "kind"


Top = type[BaseModel]


def plain_loc(loc: Loc, values: Any, top: Top = Scenario) -> Loc:
    """``loc`` from pydantic, without the tags of unions.

    >>> plain_loc(("faults", 0, "slow_gpu", "rank"), {"faults": [{"rank": -1}]})
    ('faults', 0, 'rank')
    """
    plain: list[str | int] = []
    for index, part in enumerate(loc):
        here = isinstance(values, dict) and part in values
        item = isinstance(values, list) and isinstance(part, int) and part < len(values)
        if here or item:
            plain.append(part)
            values = values[part]
        elif index == len(loc) - 1 and isinstance(values, dict) and not _is_tag(loc, top):
            plain.append(part)
    return tuple(plain)


def _is_tag(loc: Loc, top: Top) -> bool:
    """Whether the last part of ``loc`` names a member of a union rather than a key."""
    return loc[-1] in _members(_annotation(loc[:-1], top))


def field_at(loc: Loc, top: Top = Scenario) -> FieldInfo | None:
    """The model field at pydantic's ``loc``, if there is one."""
    model = model_at(loc[:-1], top)
    return model.model_fields.get(str(loc[-1])) if model and loc else None


def about(loc: Loc, top: Top = Scenario) -> str:
    """What the value at pydantic's ``loc`` means: its key and description, if there is one."""
    model = model_at(loc[:-1], top)
    text = descriptions(model).get(str(loc[-1]), "") if model and loc else ""
    return f"{loc[-1]}: {text}" if text else ""


def model_at(loc: Loc, top: Top = Scenario) -> type[BaseModel] | None:
    """The model at pydantic's ``loc``, if there is one."""
    annotation = _annotation(loc, top)
    return annotation if _is_model(annotation) else None


def _annotation(loc: Loc, top: Top) -> Any:
    """The type of the value at pydantic's ``loc``, tags included; None if there is none."""
    annotation: Any = top
    for part in loc:
        if isinstance(part, int):
            annotation = _bare(next(iter(get_args(annotation)), None))
        elif _is_model(annotation):
            known = annotation.model_fields.get(part)
            annotation = _bare(known.annotation) if known else None
        else:
            annotation = _members(annotation).get(part)
    return annotation


def _bare(annotation: Any) -> Any:
    """``annotation`` without its metadata, and without None as an alternative."""
    while get_origin(annotation) is Annotated:
        annotation = get_args(annotation)[0]
    if get_origin(annotation) in (Union, UnionType):
        rest = [member for member in get_args(annotation) if member is not type(None)]
        if len(rest) == 1:
            return _bare(rest[0])
    return annotation


def _members(annotation: Any) -> dict[Any, Any]:
    """The members of a union by their tags."""
    if get_origin(annotation) not in (Union, UnionType):
        return {}
    return dict(pair for member in get_args(annotation) for pair in _tagged(member))


def _tagged(member: Any) -> Iterable[tuple[str, Any]]:
    for note in getattr(member, "__metadata__", ()):
        if hasattr(note, "tag"):
            yield note.tag, _bare(member)
    if _is_model(member) and _KIND in member.model_fields:
        yield member.model_fields[_KIND].default, member


def _is_model(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, BaseModel)


def problem_of(error: ErrorDetails, source: Source, top: Top = Scenario) -> Problem:
    """One of pydantic's errors as a problem with a location and a remedy."""
    loc = plain_loc(error["loc"], source.values, top)
    what, how = _WORDS.get(error["type"], _value)(error, loc, top)
    if error["type"] == "extra_forbidden" and top is Scenario:
        part: Any = source.values
        for key in loc[:-1]:
            part = part[key]
        numbers = _numbers(part, model_at(error["loc"][:-1]))
        how = foreign.hint(str(loc[-1]), error["input"], numbers) or how
    beside = (*loc, _KIND)
    place = beside if error["type"] == "union_tag_invalid" and beside in source.places else loc
    return Problem(what, source.place(place), how)


def _unknown_key(error: ErrorDetails, loc: Loc, top: Top) -> tuple[str, str]:
    model = model_at(error["loc"][:-1], top)
    known = list(model.model_fields) if model else []
    key = str(loc[-1])
    return f"unknown key {key!r} in {_named(loc[:-1], top)}", did_you_mean(key, known)


def _numbers(written: Any, model: type[BaseModel] | None) -> foreign.Numbers:
    """The numbers of a job (or another part) by key, its defaults and its model's included."""
    values = written if isinstance(written, dict) else {}
    sizes = values.get("model")
    preset = PRESETS.get(sizes) if isinstance(sizes, str) else None

    def number(key: str) -> float | None:
        field = model.model_fields.get(key) if model else None
        below = sizes.get(key) if isinstance(sizes, dict) else getattr(preset, key, None)
        found = values.get(key, field.default if field else below)
        is_number = isinstance(found, (int, float)) and not isinstance(found, bool)
        return found if is_number else None

    return number


def _missing(error: ErrorDetails, loc: Loc, top: Top) -> tuple[str, str]:
    meaning = about(error["loc"], top) or loc[-1]
    return f"{_named(loc[:-1], top)} needs the key {loc[-1]!r}", f"add {meaning}"


def _unknown_kind(error: ErrorDetails, loc: Loc, top: Top) -> tuple[str, str]:
    known = [word.strip(" '") for word in error["ctx"]["expected_tags"].split(",")]
    tag = str(error["ctx"]["tag"])
    return f"{_named(loc, top)} has the unknown kind {tag!r}", did_you_mean(tag, known)


def _no_kind(error: ErrorDetails, loc: Loc, top: Top) -> tuple[str, str]:
    known = _members(_annotation(error["loc"], top))
    return f"{_named(loc, top)} needs the key 'kind'", f"add kind, one of: {', '.join(known)}"


def _not_one_of(error: ErrorDetails, loc: Loc, top: Top) -> tuple[str, str]:
    known = error["ctx"]["expected"].replace(" or ", ", ").split(", ")
    what = f"{_named(loc, top)} is {_shown(error['input'])}, which is not a valid value"
    return what, did_you_mean(str(error["input"]), [word.strip("'") for word in known])


def _rule(error: ErrorDetails, loc: Loc, top: Top) -> tuple[str, str]:
    what, _, how = str(error["ctx"]["error"]).partition("; ")
    return f"{_named(loc, top)}: {what}", how


def _value(error: ErrorDetails, loc: Loc, top: Top) -> tuple[str, str]:
    message = in_yaml_words(error["msg"])
    what = f"{_named(loc, top)} is {_shown(error['input'])}, and {message}"
    return what, about(error["loc"], top)


def _named(loc: Loc, top: Top) -> str:
    return dotted(loc) if loc or top is Scenario else "the file"


def _shown(value: Any) -> str:
    text = "empty" if value is None else repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


_WORDS: dict[str, Callable[[ErrorDetails, Loc, Top], tuple[str, str]]] = {
    "extra_forbidden": _unknown_key,
    "missing": _missing,
    "union_tag_invalid": _unknown_kind,
    "union_tag_not_found": _no_kind,
    "literal_error": _not_one_of,
    "value_error": _rule,
}
"""The function that words each of pydantic's error types; all others concern a plain value."""
