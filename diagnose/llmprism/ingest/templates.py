"""Templates of NetFlow v9 and IPFIX: what the fields of a record are, and a data set read by one.

A template lists the number and the length of each field. Data sets are decoded with numpy, a whole
set at a time; only where the length of a field varies, record by record. Whole numbers have any
length from 1 to 8 bytes (RFC 7011, 6.2).

A column is named by the number of its field; ``r1`` is field 1 of the reverse direction (RFC 5103),
``8#1`` the second field 8 of a record.

An exporter of a tunnel sends the fields of the outer header and those of the inner one, under the
same numbers. The n-th address, the n-th ports and the n-th protocol are of one header; mixed, they
would name a connection that does not exist. The inner header says between whom the traffic is:
it is taken wherever its addresses are set, and else the one outside it. A template without
repetitions has one header; it may have fields for IPv4 and for IPv6.
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from llmprism.numerics.arrays import Array

Columns = Mapping[str, Array]
"""By name: uint64 of each record; of addresses, their bytes."""

_VARIABLE = 65_535
_REVERSE = 29_305  # the enterprise number of the reverse direction
_ADDRESSES = {"8": 4, "12": 4, "27": 16, "28": 16}
_WANTED = frozenset(
    str(number)
    for number in (
        *(1, 2, 4, 7, 8, 10, 11, 12, 14, 21, 22, 23, 24, 27, 28, 34, 48, 50, 61, 85, 86),
        *range(150, 163),
        *(171, 172, 231, 232, 233, 298, 299, 302, 305, 306, 309, 310),
        *range(322, 326),
    )
)
_V9_INTERFACE = 2  # the scope "interface" of NetFlow v9


class Field(NamedTuple):
    """A field that is needed: its column, its place in a record, and its length [bytes]."""

    name: str
    place: int
    size: int


@dataclass(frozen=True)
class Template:
    """What the fields of a record are.

    Attributes
    ----------
    fields : those that are needed; their places hold if no length varies.
    sizes : of all fields [bytes], 65,535 where it varies.
    names : of all fields, empty if not needed.
    headers : which of the fields belong to one packet header, best first.
    is_options : whether its records describe the exporter and not flows.
    """

    fields: tuple[Field, ...]
    sizes: tuple[int, ...]
    names: tuple[str, ...]
    headers: tuple[Header, ...]
    is_options: bool

    @property
    def smallest(self) -> int:
        """Bytes of the shortest record."""
        return sum(1 if size == _VARIABLE else size for size in self.sizes)


def _template(fields: list[tuple[str, int]], is_options: bool) -> Template:
    """Return the template of (number, size); the number of a field that is not needed is empty."""
    sizes = tuple(size for _, size in fields)
    names = tuple(map(_kept, numbered([number for number, _ in fields])))
    places = np.concatenate([[0], np.cumsum(sizes)]).tolist()
    needed = tuple(
        Field(name, place, size)
        for name, place, size in zip(names, places, sizes, strict=False)
        if name
    )
    return Template(needed, sizes, names, headers_of([one for one in names if one]), is_options)


def _kept(name: str) -> str:
    """Return the name of a field that is needed, or nothing: few fields may repeat."""
    number, _, again = name.partition("#")
    if number.removeprefix("r") not in _WANTED:
        return ""
    return name if not again or (number in KINDS and int(again) < MOST_HEADERS) else ""


def templates(
    body: bytes, version: int, *, are_options: bool = False
) -> Iterator[tuple[int, Template]]:
    """The templates of flow records or of options in a set, each with its number."""
    place, head = 0, 6 if are_options else 4
    while place + head <= len(body):
        number, count = struct.unpack_from(">HH", body, place)
        if number < 256:
            return  # padding
        scope: list[tuple[str, int]] = []
        if are_options and version == 9:  # lengths [bytes] of the fields of a scope, and of others
            found, _ = _fields(body, place + head, count // 4, False)
            scope = [("10" if kind == str(_V9_INTERFACE) else "", size) for kind, size in found]
            place, count = place + count, struct.unpack_from(">H", body, place + 4)[0] // 4
        fields, place = _fields(body, place + head, count, version == 10)
        if scope or fields:
            yield number, _template(scope + fields, are_options)


def _fields(
    body: bytes, place: int, count: int, is_ipfix: bool
) -> tuple[list[tuple[str, int]], int]:
    fields = []
    for _ in range(count):
        number, size = struct.unpack_from(">HH", body, place)
        place += 4
        name = str(number)
        if is_ipfix and number >= 0x8000:
            enterprise = struct.unpack_from(">I", body, place)[0]
            place += 4
            name = f"r{number & 0x7FFF}" if enterprise == _REVERSE else ""
        fields.append((name, size))
    return fields, place


def columns_of(template: Template, body: bytes) -> tuple[Columns, int, bool]:
    """Return the needed columns of a data set, its records, and whether the last one is cut."""
    if _VARIABLE in template.sizes:
        return _varying(template, body)
    size = template.smallest
    if not size:
        return {}, 0, False
    count = len(body) // size
    rows = np.frombuffer(body, np.uint8, count * size).reshape(count, size)
    found = {
        one.name: _column(one.name, rows[:, one.place : one.place + one.size])
        for one in template.fields
    }
    return {name: column for name, column in found.items() if column is not None}, count, False


def _column(name: str, raw: Array) -> Array | None:
    """Return the values of bytes, shape (records, bytes); None where their number is wrong."""
    count, size = raw.shape
    wanted = _ADDRESSES.get(name.partition("#")[0])
    if wanted is not None:
        return np.ascontiguousarray(raw).view(f"V{size}").ravel() if size == wanted else None
    if not 1 <= size <= 8:
        return None
    wide = np.zeros((count, 8), dtype=np.uint8)
    wide[:, 8 - size :] = raw
    return wide.view(">u8").ravel().astype(np.uint64)


def _varying(template: Template, body: bytes) -> tuple[Columns, int, bool]:
    parts: dict[str, list[bytes]] = {one.name: [] for one in template.fields}
    place, smallest, is_cut = 0, template.smallest, False
    count = 0
    while place + smallest <= len(body):
        row, place = _record(template, body, place)
        is_cut = place > len(body)
        if is_cut:
            break
        count += 1
        for name, value in row:
            parts[name].append(value)
    columns = {name: _joined(name, values) for name, values in parts.items()}
    return {name: col for name, col in columns.items() if col is not None}, count, is_cut


def _record(template: Template, body: bytes, place: int) -> tuple[list[tuple[str, bytes]], int]:
    """Return the needed fields of a record and its end, which is beyond the set if it is cut."""
    row = []
    for name, size in zip(template.names, template.sizes, strict=True):
        if size == _VARIABLE:
            size, place = int.from_bytes(body[place : place + 1], "big"), place + 1
            if size == 255:
                size, place = int.from_bytes(body[place : place + 2], "big"), place + 2
        if name:
            row.append((name, body[place : place + size]))
        place += size
    return row, place


def _joined(name: str, values: list[bytes]) -> Array | None:
    """Return the values of one field; None if some have no length that it may have."""
    size = max(map(len, values), default=1)
    if name.partition("#")[0] not in _ADDRESSES:
        values = [one.rjust(size, b"\0") for one in values]
    if size == 0 or any(len(one) != size for one in values):
        return None
    return _column(name, np.frombuffer(b"".join(values), np.uint8).reshape(len(values), size))


KINDS = {"8": 0, "27": 0, "12": 1, "28": 1, "7": 2, "11": 3, "4": 4}
"""Fields of a header; those of one number here are alternatives: IPv4 and IPv6."""
MOST_HEADERS = 4
"""Of one record; a packet in a tunnel in a tunnel has three."""


class Header(NamedTuple):
    """Names of the fields of one header, for each kind; of addresses, IPv4 first."""

    src: tuple[str, ...] = ()
    dst: tuple[str, ...] = ()
    src_port: tuple[str, ...] = ()
    dst_port: tuple[str, ...] = ()
    protocol: tuple[str, ...] = ()


def numbered(numbers: Sequence[str]) -> Iterator[str]:
    """Yield a name for each field: its number, and from the second occurrence on, which one.

    >>> list(numbered(["8", "7", "8"]))
    ['8', '7', '8#1']
    """
    seen: Counter[str] = Counter()
    for number in numbers:
        yield f"{number}#{seen[number]}" if seen[number] else number
        seen[number] += 1


def headers_of(names: Sequence[str]) -> tuple[Header, ...]:
    """Return the headers of a template whose fields have ``names``, best first.

    >>> [one.src_port for one in headers_of(["27", "28", "7", "8", "12", "7#1"])]
    [('7#1',), ('7',)]
    """
    fields = [name for name in names if _number(name) in KINDS]
    counts = Counter(map(_number, fields))
    depth = max(counts.values(), default=1)
    headers: list[list[list[str]]] = [[[] for _ in Header._fields] for _ in range(depth)]
    for name, place in _placed(fields, counts, depth):
        headers[place][KINDS[_number(name)]].append(name)
    found = [Header(*(tuple(sorted(kind, key=_is_long)) for kind in one)) for one in headers]
    ends = [(one, place) for place, one in enumerate(found) if one.src and one.dst] or [
        (found[0], 0)
    ]
    best = sorted(ends, key=lambda one: (sum(map(bool, one[0])), one[1]), reverse=True)
    return tuple(header for header, _ in best)


def _placed(fields: list[str], counts: Counter[str], depth: int) -> Iterator[tuple[str, int]]:
    """Yield each field and the number of its header, from the outside."""
    of_kind = Counter(KINDS[number] for number in counts.elements())
    repeated = (number for number, count in counts.items() if count == depth)
    measure = 0 if of_kind[0] == depth else next(repeated, 0)
    seen: Counter[str | int] = Counter()
    for name in fields:
        number, kind = _number(name), KINDS[_number(name)]
        if of_kind[kind] == depth:  # one in each header, of either family
            place = seen[kind]
        elif counts[number] == depth:
            place = seen[number]
        else:  # in some headers only: by its place in the template
            place = seen[measure] - 1
        yield name, min(max(place, 0), depth - 1)
        seen[number] += 1
        seen[kind] += 1


def _number(name: str) -> str:
    return name.partition("#")[0]


def _is_long(name: str) -> bool:
    """Whether an address is of IPv6."""
    return _number(name) in ("27", "28")
