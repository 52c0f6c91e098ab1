"""A sweep over a study: every combination of some values, such as servers and failure rates."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import product
from math import prod
from typing import Annotated, Any

from pydantic import Field, field_validator
from pydantic.json_schema import SkipJsonSchema

from prism_sim.scenario.base import Closed

Value = float | int | str
MOST_POINTS = 400


class Point(Closed):
    """One combination of values, and the study with them."""

    values: dict[str, Value]
    study: Any


class Sweep(Closed):
    """Values to vary, one or two keys of the study."""

    over: dict[str, Annotated[tuple[Value, ...], Field(min_length=2)]] = Field(
        min_length=1, max_length=2
    )
    """values by key, with dots between keys: servers, failures.per_server_day,
    policies.0.checkpoint.interval, or policies.* for all policies"""
    points: SkipJsonSchema[tuple[Point, ...]] = ()
    """the studies, once read"""

    @field_validator("over")
    @classmethod
    def _not_too_many(cls, over: dict[str, tuple[Value, ...]]) -> dict[str, tuple[Value, ...]]:
        if (number := prod(map(len, over.values()))) > MOST_POINTS:
            raise ValueError(f"{number:,} combinations are more than {MOST_POINTS}")
        return over

    def combinations(self) -> Iterator[dict[str, Value]]:
        """Every combination of values, the last key fastest."""
        for values in product(*self.over.values()):
            yield dict(zip(self.over, values, strict=True))


def spelled_out(values: Mapping[str, Value], document: Mapping[str, Any]) -> dict[str, Value]:
    """Values by paths without ``*``, which stands for every item of a list of the study.

    >>> spelled_out({"a.b": 3, "c.*.d": 4}, {"c": [{"d": 1}, {}]})
    {'a.b': 3, 'c.0.d': 4, 'c.1.d': 4}
    """
    return {
        ".".join(way): value
        for path, value in values.items()
        for way in _ways(path.split("."), document)
    }


def _ways(path: list[str], holder: Any) -> Iterator[list[str]]:
    if not path:
        yield []
        return
    inside = dict(enumerate(holder)) if isinstance(holder, list) else holder or {}
    for name in map(str, inside) if path[0] == "*" else path[:1]:
        inner = {str(key): item for key, item in inside.items()}.get(name)
        yield from ([name, *way] for way in _ways(path[1:], inner))
