"""A sweep over a study: every combination of some values, such as servers and failure rates."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from copy import deepcopy
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


def changed(document: Mapping[str, Any], values: Mapping[str, Value]) -> dict[str, Any]:
    """A copy of a study's document with other values.

    >>> changed({"a": {"b": 1}, "c": [{"d": 1}, {"d": 2}]}, {"a.b": 3, "c.*.d": 4})
    {'a': {'b': 3}, 'c': [{'d': 4}, {'d': 4}]}

    Raises
    ------
    KeyError : with the key that leads nowhere.
    """
    made: dict[str, Any] = deepcopy(dict(document))
    for key, value in values.items():
        *way, last = key.split(".")
        holders: list[Any] = [made]
        for name in way:
            holders = [inner for holder in holders for inner in _inside(holder, name, key)]
        for holder in holders:
            if isinstance(holder, list):
                holder[_index(holder, last, key)] = value
            elif isinstance(holder, dict):
                holder[last] = value
            else:
                raise KeyError(key)
    return made


def _inside(holder: Any, name: str, key: str) -> list[Any]:
    """What ``name`` leads to inside ``holder``; keys of sections that are left out are added."""
    if isinstance(holder, list):
        return holder if name == "*" else [holder[_index(holder, name, key)]]
    if isinstance(holder, dict):
        return [holder.setdefault(name, {})]
    raise KeyError(key)


def _index(holder: list[Any], name: str, key: str) -> int:
    if not name.isdecimal() or int(name) >= len(holder):
        raise KeyError(key)
    return int(name)
