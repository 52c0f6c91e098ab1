"""Flow logs of Azure: of network security groups (version 2) and of virtual networks (version 4).

A blob is one document. Each network interface (``macAddress``) logs *tuples* of its flows: when one
begins, about once a minute while it goes on, and when it ends. A tuple counts both directions since
the tuple before it, so a record goes from one tuple of a flow to the next. Both interfaces of a
flow log it: an interface is an observation point, which is no switch. Times are those of the log:
enough for jobs and volumes, never for steps.

References: Azure Network Watcher, NSG flow logs; virtual network flow logs.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from llmprism.ingest.bounds import LONGEST_TEXT
from llmprism.ingest.json_lines import objects
from llmprism.ingest.options import Options
from llmprism.ingest.readers import register
from llmprism.ingest.records import text_tables
from llmprism.ingest.sources import Source
from llmprism.ingest.tables import convert
from llmprism.io.notes import Notes
from prism_common.errors import Problem, UserError
from prism_common.untrusted import whole

DENIED = "flow that Azure denied"
BROKEN_TUPLE = "tuple that is none of a flow log"
_PROTOCOLS = {"T": "6", "U": "17"}
_NAMES = ("start_ns", "end_ns", "src", "dst", "src_port", "dst_port", "protocol", "bytes")
_COLUMNS = (*_NAMES, "packets", "observer", "path")
_MS_NS, _S_NS = 1_000_000, 1_000_000_000
_MOST_MS = 1 << 43
_LATEST_S = 1 << 33  # seconds below, milliseconds above

Row = list[str]


def _recognises(head: bytes, _name: str) -> bool:
    return head.lstrip()[:1] in (b"{", b"[") and b'"flowTuples"' in head


@register("azure_flow_log", "flow logs of Azure (NSG version 2, VNet version 4)", _recognises)
def read(source: Source, options: Options, notes: Notes) -> Iterator[pa.Table]:
    """Yield the records of a flow log.

    Raises
    ------
    UserError : the log is of NSG version 1, which counts nothing.
    """
    notes.remark(f"{source}: Azure logs about a minute of a flow in a record")
    for table in text_tables(_all_rows(source, notes), _COLUMNS):
        yield convert(table, {name: name for name in _COLUMNS}, options, has_wall_clock=True)


def _all_rows(source: Source, notes: Notes) -> Iterator[Row]:
    latest: dict[tuple[str, ...], int] = {}
    for record in objects(source, notes):
        point = str(record.get("macAddress") or _inner(record).get("mac") or "")[:LONGEST_TEXT]
        for text, mac in _tuples(record, point):
            try:
                yield from _rows(text.split(","), mac, latest, notes, source)
            except (ValueError, IndexError):
                notes.drop(BROKEN_TUPLE)


def _inner(record: dict[str, Any]) -> dict[str, Any]:
    inner = record.get("properties", record.get("flowRecords"))
    return inner if isinstance(inner, dict) else {}


def _tuples(node: Any, mac: str, depth: int = 0) -> Iterator[tuple[str, str]]:
    """Yield the tuples in a record, which both versions nest in another way, with their MACs."""
    if isinstance(node, dict):
        mac = str(node.get("mac") or mac)[:LONGEST_TEXT]
        found = node.get("flowTuples")
        for text in found if isinstance(found, list) else ():
            yield str(text)[:LONGEST_TEXT], mac
    inside = node.values() if isinstance(node, dict) else node if isinstance(node, list) else ()
    for one in inside if depth < 10 else ():
        if isinstance(one, dict | list):
            yield from _tuples(one, mac, depth + 1)


def _rows(
    parts: list[str], mac: str, latest: dict[tuple[str, ...], int], notes: Notes, source: Source
) -> Iterator[Row]:
    """The records that a tuple completes: of each direction that has counts."""
    if len(parts) == 8:
        what = "these are NSG flow logs of version 1, which have no counts"
        how = "set the flow log to version 2, or use virtual network flow logs"
        raise UserError(Problem(what, str(source), how))
    is_virtual = not parts[7].isalpha() or parts[7] in ("B", "C", "E", "D")
    state = parts[7] if is_virtual else parts[8]
    if state == "D" or (not is_virtual and parts[7] == "D"):
        notes.drop(DENIED)
        return
    at = whole(parts[0], 1, _MOST_MS)
    at_ns = at * (_S_NS if at < _LATEST_S else _MS_NS)
    flow = (mac, *parts[1:6])
    begin_ns = at_ns if state == "B" else latest.get(flow, at_ns)
    latest[flow] = at_ns
    packets, nbytes, packets_back, bytes_back = (whole(text or "0") for text in parts[9:13])
    there = ((parts[1], parts[3]), (parts[2], parts[4]), packets, nbytes)
    back = ((parts[2], parts[4]), (parts[1], parts[3]), packets_back, bytes_back)
    for src, dst, count, size in (there, back):
        if size:
            values = (min(begin_ns, at_ns), at_ns, src[0], dst[0], src[1], dst[1])
            rest = (_PROTOCOLS.get(parts[5], parts[5]), size, count, mac, "?")
            yield [*map(str, values), *map(str, rest)]
