"""Values of a column of a sweep on an axis or in a legend: their positions and short names.

Values may be numbers, words, truth values, or JSON text of lists and mappings, such as faults. The
name of a list or mapping has only the parts that distinguish it from the others of its column.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd

LEFT_OUT, NONE = "left out", "none"


def is_number(column: pd.Series) -> bool:
    """Whether a column has numbers, and not categories or truth values."""
    from pandas.api.types import is_bool_dtype, is_numeric_dtype

    return bool(is_numeric_dtype(column)) and not is_bool_dtype(column)


def distinct(column: pd.Series) -> list[Any]:
    """The values of a column in the order in which they occur; numbers by size."""
    values = list(dict.fromkeys(column.dropna()))
    return sorted(values) if is_number(column) else values


def names_of(values: Sequence[Any]) -> dict[Any, str]:
    """A short name for each value.

    >>> names_of([0.5, 100000.0, True, "packed", "null"]).values()
    dict_values(['0.5', '100000', 'true', 'packed', 'left out'])
    >>> faults = ['[]', '[{"kind": "slow_gpu", "rank": 1}]', '[{"kind": "slow_nic", "rank": 1}]']
    >>> names_of(faults).values()
    dict_values(['none', 'slow_gpu', 'slow_nic'])
    """
    read = {value: _read(value) for value in values}
    parts = {v: dict(_parts(one)) for v, one in read.items() if isinstance(one, (dict, list))}
    keys = _distinguishing([part for part in parts.values() if part])
    return {value: _name(one, parts.get(value, {}), keys) for value, one in read.items()}


def _read(value: Any) -> Any:
    """JSON text as lists and mappings; other values unchanged."""
    if not isinstance(value, str) or value[:1] not in '[{n"':
        return value
    try:
        return json.loads(value)
    except ValueError:
        return value


def _name(value: Any, parts: dict[str, Any], keys: list[str]) -> str:
    if value is None:
        return LEFT_OUT
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (int, float)):
        return f"{value:.6g}"
    if not isinstance(value, (dict, list)):
        return str(value)
    words = [_word(key, parts[key]) for key in keys if key in parts]
    return ", ".join(words) if words else NONE if not value else json.dumps(value)


def _word(key: str, value: Any) -> str:
    """One part of a value: a kind by its name alone, others with their keys."""
    last = key.rpartition(".")[2]
    shown = f"{value:g}" if isinstance(value, float) else str(value)
    return shown if last == "kind" or last.isdecimal() else f"{last} {shown}"


def _parts(value: Any, above: str = "") -> Iterator[tuple[str, Any]]:
    """The plain values inside a list or mapping, with their dotted paths."""
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, inner in items:
        path = f"{above}.{key}" if above else str(key)
        if isinstance(inner, (dict, list)):
            yield from _parts(inner, path)
        else:
            yield path, inner


def _distinguishing(values: list[dict[str, Any]]) -> list[str]:
    """Paths by which the values can be distinguished; as few as possible, kinds first."""
    paths = dict.fromkeys(path for value in values for path in value)
    ordered = sorted(paths, key=lambda path: not path.endswith("kind"))
    chosen: list[str] = []
    for path in ordered:
        if _classes(values, [*chosen, path]) > max(1, _classes(values, chosen)):
            chosen.append(path)
    return chosen or ordered[:1]


def _classes(values: list[dict[str, Any]], paths: list[str]) -> int:
    """Number of values that differ in some of ``paths``."""
    return len({json.dumps([value.get(path) for path in paths]) for value in values})
