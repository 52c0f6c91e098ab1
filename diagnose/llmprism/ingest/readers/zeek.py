"""Zeek's ``conn.log``, as tab-separated values or as JSON lines.

Zeek writes one line a connection, with what each side sent. A line becomes two records, one a
direction, over the whole length of the connection; ``orig_ip_bytes`` counts IP headers, as the
flow table does. Long connections hide steps: this format is enough for jobs and pairs.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import IO

import pyarrow as pa
import pyarrow.compute as pc

from llmprism.ingest.json_lines import first_object
from llmprism.ingest.json_lines import text_tables as json_tables
from llmprism.ingest.notes import Notes
from llmprism.ingest.options import Options
from llmprism.ingest.readers import register
from llmprism.ingest.records import BATCH_ROWS
from llmprism.ingest.sources import BROKEN, Source
from llmprism.ingest.tables import convert

_KEYS = ("ts", "duration", "proto", "id.orig_h", "id.orig_p", "id.resp_h", "id.resp_p")
_SIDES = ("orig", "resp")
_COUNTS = ("ip_bytes", "pkts", "bytes")
_ALL = (*_KEYS, *(f"{side}_{count}" for side in _SIDES for count in _COUNTS))
_OURS = {"start_ns": "ts", "duration": "duration", "protocol": "proto"}


def _recognises(head: bytes, _name: str) -> bool:
    return head.startswith(b"#separator") or {"id.orig_h", "ts"} <= first_object(head).keys()


@register("zeek", "Zeek conn.log, tab-separated or JSON", _recognises)
def read(source: Source, _options: Options, notes: Notes) -> Iterator[pa.Table]:
    """Yield the records of a connection log."""
    as_json = source.head.lstrip().startswith(b"{")
    tables = json_tables(source, _ALL, notes) if as_json else _tab_tables(source, notes)
    notes.remark(f"{source}: Zeek logs a connection as a whole, from its first to last packet")
    for table in tables:
        for sender, receiver in (_SIDES, _SIDES[::-1]):
            one = convert(table, _direction(sender, receiver), Options(time_unit="s"))
            yield one.filter(pc.fill_null(pc.not_equal(one["bytes"], 0), True))


def _direction(sender: str, receiver: str) -> dict[str, str]:
    return {
        **_OURS,
        "src": f"id.{sender}_h",
        "dst": f"id.{receiver}_h",
        "src_port": f"id.{sender}_p",
        "dst_port": f"id.{receiver}_p",
        "bytes": f"{sender}_ip_bytes",
        "packets": f"{sender}_pkts",
        "payload": f"{sender}_bytes",
    }


def _tab_tables(source: Source, notes: Notes) -> Iterator[pa.Table]:
    with source.text() as lines:
        rows: list[list[str | None]] = []
        try:
            for row in _rows(lines, notes):
                rows.append(row)
                if len(rows) >= BATCH_ROWS:
                    yield _table(rows)
                    rows = []
        except BROKEN as error:
            notes.drop("file not read to its end")
            notes.remark(f"{source}: read up to where it is damaged: {error}")
        if rows:
            yield _table(rows)


def _rows(lines: IO[str], notes: Notes) -> Iterator[list[str | None]]:
    """Yield the values of our columns a line, by the last ``#fields`` line before it."""
    places: list[int] = []
    width = 0
    for line in lines:
        values = line.rstrip("\r\n").split("\t")
        if line.startswith("#fields"):
            names = values[1:]
            width = len(names)
            places = [names.index(key) if key in names else -1 for key in _ALL]
        elif line.startswith("#") or not line.strip():
            continue
        elif not places or len(values) != width:
            notes.drop("line that does not fit its #fields")
        else:
            yield [None if place < 0 or values[place] == "-" else values[place] for place in places]


def _table(rows: list[list[str | None]]) -> pa.Table:
    columns = zip(*rows, strict=True)
    return pa.table(
        {key: pa.array(col, pa.string()) for key, col in zip(_ALL, columns, strict=True)}
    )
