"""Templates of NetFlow v9 and IPFIX: what the fields of a record are, and a data set read by one.

A template lists the number and the length of each field. Data sets are decoded with numpy, a whole
set at a time; only where the length of a field varies, record by record.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

_VARIABLE = 65_535
_WANTED = frozenset(
    str(number)
    for number in (
        *(1, 2, 4, 7, 8, 11, 12, 21, 22, 23, 24, 27, 28, 34, 48, 50, 61, 85, 86),
        *range(150, 161),
        *(302, 305, 306),
    )
)


@dataclass(frozen=True)
class Template:
    """What the fields of a record are.

    Attributes
    ----------
    fields : (name, length); a name is the number of the field, or starts with _ if not needed.
    dtype : of a record; None where a length varies.
    is_options : whether its records describe the exporter and not flows.
    """

    fields: tuple[tuple[str, int], ...]
    dtype: np.dtype[Any] | None
    is_options: bool

    @property
    def smallest(self) -> int:
        """Bytes of the shortest record."""
        return sum(1 if size == _VARIABLE else size for _, size in self.fields)


def _field(number: int, size: int, place: int, is_wanted: bool) -> tuple[str, int]:
    return (str(number) if is_wanted and str(number) in _WANTED else f"_{place}", size)


def _template(fields: list[tuple[str, int]], is_options: bool) -> Template:
    names = [name for name, _ in fields]
    unique = [name if names.index(name) == i else f"_{i}" for i, name in enumerate(names)]
    fields = [(name, size) for name, (_, size) in zip(unique, fields, strict=True)]
    if any(size == _VARIABLE for _, size in fields):
        return Template(tuple(fields), None, is_options)
    kinds = [(name, _kind(name, size)) for name, size in fields]
    return Template(tuple(fields), np.dtype(kinds), is_options)


def _kind(name: str, size: int) -> str:
    if name.startswith("_") or size not in (1, 2, 4, 8):
        return f"V{size}"
    return f">u{size}"


def templates(body: bytes, version: int) -> Iterator[tuple[int, Template]]:
    """The templates of flow records in a set, each with its number."""
    place = 0
    while place + 4 <= len(body):
        number, count = struct.unpack_from(">HH", body, place)
        if number < 256:
            return  # padding
        place += 4
        fields, place = _fields(body, place, count, version == 10)
        if fields:
            yield number, _template(fields, False)


def _fields(
    body: bytes, place: int, count: int, is_ipfix: bool
) -> tuple[list[tuple[str, int]], int]:
    fields = []
    for i in range(count):
        number, size = struct.unpack_from(">HH", body, place)
        place += 4
        is_foreign = is_ipfix and number >= 0x8000
        place += 4 * is_foreign
        fields.append(_field(number, size, i, not is_foreign))
    return fields, place


def v9_options(body: bytes) -> Iterator[tuple[int, Template]]:
    """The options templates in a set of NetFlow v9, each with its number."""
    place = 0
    while place + 6 <= len(body):
        number, scopes, options = struct.unpack_from(">HHH", body, place)
        if number < 256:
            return
        found, _ = _fields(body, place + 6, scopes // 4, False)
        scope_fields = [(f"_s{i}", size) for i, (_, size) in enumerate(found)]
        fields, place = _fields(body, place + 6 + scopes, options // 4, False)
        yield number, _template(scope_fields + fields, True)


def ipfix_options(body: bytes) -> Iterator[tuple[int, Template]]:
    """The options templates in a set of IPFIX, each with its number."""
    place = 0
    while place + 6 <= len(body):
        number, count, _ = struct.unpack_from(">HHH", body, place)
        if number < 256:
            return
        fields, place = _fields(body, place + 6, count, True)
        if fields:
            yield number, _template(fields, True)


def columns_of(template: Template, body: bytes) -> tuple[dict[str, np.ndarray[Any, Any]], int]:
    """Return the needed columns of a data set, and how many records it has."""
    if template.dtype is None:
        return _varying(template, body)
    if template.dtype.itemsize == 0:
        return {}, 0
    found = np.frombuffer(body, template.dtype, len(body) // template.dtype.itemsize)
    names = [name for name, _ in template.fields if not name.startswith("_")]
    return {name: found[name] for name in names}, found.size


def _varying(template: Template, body: bytes) -> tuple[dict[str, np.ndarray[Any, Any]], int]:
    values: dict[str, list[bytes]] = {name: [] for name, _ in template.fields if name[0] != "_"}
    sizes = {name: size for name, size in template.fields if name[0] != "_"}
    place = count = 0
    while place + template.smallest <= len(body):
        for name, size in template.fields:
            if size == _VARIABLE:
                size, place = body[place], place + 1
                if size == 255:
                    size, place = int.from_bytes(body[place : place + 2], "big"), place + 2
            if place + size > len(body):
                raise ValueError("a record longer than its set")
            if name in values:
                values[name].append(body[place : place + size])
            place += size
        count += 1
    columns = {
        name: np.frombuffer(b"".join(parts), _kind(name, sizes[name]))
        for name, parts in values.items()
        if sizes[name] != _VARIABLE
    }
    return columns, count
