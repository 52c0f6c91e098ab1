"""Fields that a template repeats: which of them belong to one packet header.

An exporter of a tunnel sends the fields of the outer header and those of the inner one, under the
same numbers. The n-th address, the n-th ports and the n-th protocol are of one header; mixed, they
would name a connection that does not exist. The inner header says between whom the traffic is:
it is taken wherever its addresses are set, and else the one outside it.

A template without repetitions has one header; it may have fields for IPv4 and for IPv6.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

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
