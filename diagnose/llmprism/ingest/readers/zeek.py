"""Zeek's ``conn.log``, as separated values or as JSON lines.

Zeek writes one line a connection, with what each side sent. A line becomes two records, one a
direction, over the whole length of the connection. ``orig_ip_bytes`` counts IP headers, as the
flow table does; where Zeek does not log it, the payload ``orig_bytes`` is taken. Long
connections hide steps: this format is enough for jobs and pairs.

A site can change the separator, the text of an unset field, the names of fields and the form of
times (``LogAscii`` and ``Log`` in Zeek's scripts). The head of a file states the first two.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from llmprism.ingest.bounds import LONGEST_TEXT
from llmprism.ingest.json_lines import first_object
from llmprism.ingest.json_lines import text_tables as json_tables
from llmprism.ingest.options import Options
from llmprism.ingest.readers import register
from llmprism.ingest.records import text_tables
from llmprism.ingest.sources import Source
from llmprism.ingest.tables import convert
from llmprism.io.notes import Notes

_SIDES = ("orig", "resp")
_COUNTS = ("ip_bytes", "pkts", "bytes")
_NAMES = {  # of a field: Zeek's own; with another scope separator; renamed as in Zeek's tests
    "id.orig_h": ("id_orig_h", "src"),
    "id.orig_p": ("id_orig_p", "src_port"),
    "id.resp_h": ("id_resp_h", "dst"),
    "id.resp_p": ("id_resp_p", "dst_port"),
}
_ALL = (
    *("ts", "duration", "proto", *_NAMES),
    *(f"{side}_{count}" for side in _SIDES for count in _COUNTS),
)
_OURS = {"start_ns": "ts", "duration": "duration", "protocol": "proto"}
_OTHER_LOG = "line of another log of Zeek"


def _recognises(head: bytes, _name: str) -> bool:
    content = first_object(head)
    host = any(name in content for name in ("id.orig_h", "id_orig_h"))
    return head.startswith(b"#separator") or ("ts" in content and host)


@register("zeek", "Zeek conn.log, tab-separated or JSON", _recognises)
def read(source: Source, _options: Options, notes: Notes) -> Iterator[pa.Table]:
    """Yield the records of a connection log."""
    as_json = source.head.lstrip().startswith(b"{")
    tables = _json_tables(source, notes) if as_json else text_tables(_rows(source, notes), _ALL)
    notes.remark(f"{source}: Zeek logs a connection as a whole, from its first to last packet")
    for table in tables:
        for sender, receiver in (_SIDES, _SIDES[::-1]):
            one = convert(_with_sizes(table, sender), _direction(sender, receiver), Options())
            yield one.filter(pc.fill_null(pc.not_equal(one["bytes"], 0), True))


def _with_sizes(table: pa.Table, sender: str) -> pa.Table:
    """Return the table with a size on every line that has one (of packets, or of payload)."""
    sizes = pc.coalesce(table[f"{sender}_ip_bytes"], table[f"{sender}_bytes"])
    place = table.schema.get_field_index("duration")
    instant = pc.fill_null(table["duration"], "0")  # of a connection of one packet, Zeek logs none
    return table.append_column("size", sizes).set_column(place, "duration", instant)


def _direction(sender: str, receiver: str) -> dict[str, str]:
    return {
        **_OURS,
        "src": f"id.{sender}_h",
        "dst": f"id.{receiver}_h",
        "src_port": f"id.{sender}_p",
        "dst_port": f"id.{receiver}_p",
        "bytes": "size",
        "packets": f"{sender}_pkts",
        "payload": f"{sender}_bytes",
    }


def _json_tables(source: Source, notes: Notes) -> Iterator[pa.Table]:
    renamed = [name for names in _NAMES.values() for name in names]
    for table in json_tables(source, (*_ALL, *renamed, "_path"), notes):
        of_connections = pc.fill_null(pc.starts_with(table["_path"], "conn"), True)
        kept = table.filter(of_connections)
        notes.drop(_OTHER_LOG, len(table) - len(kept))
        yield pa.table({
            key: pc.coalesce(kept[key], *(kept[name] for name in _NAMES.get(key, ())))
            for key in _ALL
        })  # fmt: skip


@dataclass
class _Head:
    """The last head of a file of separated values: what its ``#`` lines state."""

    separator: str = "\t"
    unset: str = "-"
    has_sizes: bool = True
    width: int = 0
    places: list[int] = field(default_factory=list)

    def take(self, line: str) -> None:
        """Take a line that starts with ``#``."""
        name, _, value = line.partition(self.separator)
        if line.startswith("#separator "):  # a space, whatever the separator is
            self.separator = _unescaped(line.removeprefix("#separator ")) or self.separator
        elif name == "#unset_field":
            self.unset = value
        elif name == "#fields":
            names = value.split(self.separator)
            self.has_sizes = any(f"{_SIDES[0]}_{count}" in names for count in _COUNTS)
            self.width = len(names)
            self.places = [self._place(key, names) for key in _ALL]

    @staticmethod
    def _place(key: str, names: list[str]) -> int:
        return next(
            (names.index(name) for name in (key, *_NAMES.get(key, ())) if name in names), -1
        )

    def values(self, line: str) -> list[str | None] | None:
        """Return our columns of a line; None for a line that does not fit the head."""
        values = line.split(self.separator)
        if not self.places or len(values) != self.width:
            return None
        found = (None if place < 0 else values[place] for place in self.places)
        return [
            None if one is None or one == self.unset or len(one) > LONGEST_TEXT else one
            for one in found
        ]


def _unescaped(text: str) -> str:
    r"""A text in which Zeek writes bytes as ``\x09``."""
    return re.sub(r"\\x([0-9a-fA-F]{2})", lambda found: chr(int(found[1], 16)), text)


def _rows(source: Source, notes: Notes) -> Iterator[list[str | None]]:
    """Yield the values of our columns a line, by the last head before it."""
    head = _Head()
    for text in source.lines(notes):
        line = text.rstrip("\r\n")
        if line.startswith("#"):
            head.take(line)
        elif not line.strip():
            continue
        elif not head.has_sizes:
            notes.drop(_OTHER_LOG)
        elif (values := head.values(line)) is None:
            notes.drop("line that does not fit its #fields")
        else:
            yield values
