"""Flow logs of Google Cloud VPC: entries of Cloud Logging, as lines (Cloud Storage) or one array.

A flow between two machines is reported by both, as ``SRC`` and as ``DEST``: it counts once, by its
source if that reports it. Reporters sample packets and scale their counts, at a rate that they do
not tell, so counts are estimates (``sampling``) and times those of some packets: enough for jobs
and volumes, never for steps.

Reference: Google Cloud, about VPC Flow Logs records.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from llmprism.ingest.columns import choose
from llmprism.ingest.json_lines import first_keys, objects, text_tables
from llmprism.ingest.notes import Notes
from llmprism.ingest.options import Options
from llmprism.ingest.readers import register
from llmprism.ingest.records import SCHEMA
from llmprism.ingest.sources import Source
from llmprism.ingest.tables import convert

REPEATED = "flow that its source reported as well"
_CONNECTION = ("src_ip", "dest_ip", "src_port", "dest_port", "protocol")
_MAPPING = {"start": "start_time", "end": "end_time", "src": "connection.src_ip"}
_MAPPING |= {"dst": "connection.dest_ip", "src_port": "connection.src_port"}
_MAPPING |= {"dst_port": "connection.dest_port", "protocol": "connection.protocol"}
_MAPPING |= {"bytes": "bytes_sent", "packets": "packets_sent", "observer": "reporter"}
_RATE = 10  # about one packet in ten is sampled
_MOST_FLOWS = 1 << 20  # whose source is known to report


def _prefix(head: bytes) -> str | None:
    """What stands before the keys of a record; None if these are no flow logs."""
    keys = set(first_keys(head))
    wanted = {"reporter", "bytes_sent", "connection.src_ip", "connection.dest_ip"}
    for prefix in ("jsonPayload.", "json_payload.", ""):
        if {f"{prefix}{key}" for key in wanted} <= keys:
            return prefix
    return None


def _recognises(head: bytes, _name: str) -> bool:
    return _prefix(head) is not None


@register("gcp_flow_log", "flow logs of Google Cloud VPC", _recognises)
def read(source: Source, options: Options, notes: Notes) -> Iterator[pa.Table]:
    """Yield the records of a flow log."""
    prefix = _prefix(source.head) or ""
    mapping = {ours: f"{prefix}{theirs}" for ours, theirs in _MAPPING.items()}
    mapping |= dict(options.mapping)
    keys = sorted(set(mapping.values()))
    chosen = choose(keys, mapping, options.time_unit, str(source))
    by_source = _flows_of_sources(source, prefix)
    notes.remark(f"{source}: Google Cloud samples packets; counts are estimates")
    for table in text_tables(source, keys, notes):
        repeated = _repeated(table, mapping, by_source)
        notes.drop(REPEATED, pc.sum(repeated).as_py() or 0)
        batch = convert(table.filter(pc.invert(repeated)), chosen, options, has_wall_clock=True)
        for name, value in (("path", "?"), ("sampling", _RATE)):
            field = SCHEMA.field(name)
            column = pa.array([value] * batch.num_rows, field.type)
            batch = batch.set_column(SCHEMA.get_field_index(name), field, column)
        yield batch


def _flows_of_sources(source: Source, prefix: str) -> set[tuple[str, ...]]:
    """The connections that a source reports."""
    found: set[tuple[str, ...]] = set()
    for one in objects(source, Notes()):
        record: Any = one.get(prefix.removesuffix("."), {}) if prefix else one
        if isinstance(record, dict) and record.get("reporter") == "SRC":
            ends = record.get("connection")
            if isinstance(ends, dict) and len(found) < _MOST_FLOWS:
                found.add(tuple(str(ends.get(key)) for key in _CONNECTION))
    return found


def _repeated(
    table: pa.Table, mapping: dict[str, str], by_source: set[tuple[str, ...]]
) -> pa.Array:
    keys = ("src", "dst", "src_port", "dst_port", "protocol")
    columns = [table[mapping[key]].to_pylist() for key in keys]
    reporters = table[mapping["observer"]].to_pylist()
    flows = zip(*columns, strict=True)
    return pa.array(
        [
            reporter == "DEST" and tuple(map(str, flow)) in by_source
            for reporter, flow in zip(reporters, flows, strict=True)
        ],
        pa.bool_(),
    )
