"""Base classes of all parts of a scenario.

A scenario is written once and read by all later stages, so its models are closed (a misspelt
key is an error, and is not ignored silently) and frozen (no later stage can change them).
"""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import Any

from pydantic import BaseModel, ConfigDict, GetJsonSchemaHandler
from pydantic_core.core_schema import CoreSchema

Loc = tuple[str | int, ...]
"""The path from the top of a scenario to one of its values: ``("jobs", 0, "dp")``."""


class Closed(BaseModel):
    """A frozen model that refuses unknown keys and infinite numbers.

    A field is described by ``Field(description=...)``, or by the text below it.
    """

    model_config = ConfigDict(defer_build=True, extra="forbid", frozen=True, allow_inf_nan=False)

    @classmethod
    def __get_pydantic_json_schema__(
        cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler, /
    ) -> dict[str, Any]:
        schema = handler(core_schema)
        fields = handler.resolve_ref_schema(schema).get("properties", {})
        for name, text in descriptions(cls).items():
            if name in fields:
                fields[name]["description"] = text
        return schema


@cache
def descriptions(model: type[BaseModel]) -> dict[str, str]:
    """What each described field of a model means.

    Texts are read from the source on demand, since most programs never need them.

    >>> from pydantic import Field
    >>> class Wheel(Closed):
    ...     spokes: int = Field(description="How many there are.")
    >>> descriptions(Wheel)
    {'spokes': 'How many there are.'}
    """
    found: dict[str, str] = {}
    for part in reversed(model.__mro__):
        below = _texts(part.__module__).get(part.__name__, {})
        for name in inspect.get_annotations(part):
            found.pop(name, None)
            if name in below:
                found[name] = below[name]
    fields = model.model_fields.items()
    return found | {name: field.description for name, field in fields if field.description}


@cache
def _texts(module: str) -> dict[str, dict[str, str]]:
    """The text below each field of each class of a module, in one line."""
    try:
        source = inspect.getsource(sys.modules[module])
    except (KeyError, OSError, TypeError):  # a class that was made elsewhere than in a file
        return {}
    classes = (node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.ClassDef))
    return {one.name: dict(_texts_below(one.body)) for one in classes}


def _texts_below(body: list[ast.stmt]) -> Iterator[tuple[str, str]]:
    for field, below in pairwise(body):
        match field, below:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=text)):
                yield name, " ".join(str(text).split())


@dataclass(frozen=True)
class Remark:
    """An error or warning about the value at ``loc``.

    Attributes
    ----------
    loc : location of the value.
    what : description of the problem, with the wrong values.
    how : how to correct it.
    reads : other values that the remark depends on; it is dropped if one of them is invalid.
    """

    loc: Loc
    what: str
    how: str = ""
    reads: tuple[Loc, ...] = ()


Remarks = Iterator[Remark]
