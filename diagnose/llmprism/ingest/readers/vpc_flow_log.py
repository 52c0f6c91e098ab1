"""Flow logs of AWS VPC: a line a flow and network interface, separated by spaces.

Files in S3 name their fields in the first line. Lines from CloudWatch do not: then they have the
fields of the default format. Each interface logs what it sends and receives, so a flow between two
of them is logged twice: an interface is an observation point, which is no switch.

A line covers up to ten minutes, and times are whole seconds: enough for jobs and volumes, never for
steps. Counts are of IP packets, not sampled. A line of a rejected flow is set aside.

Reference: AWS, VPC user guide, flow log records.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

from llmprism.ingest.columns import choose, unused
from llmprism.ingest.notes import Notes
from llmprism.ingest.options import Options
from llmprism.ingest.readers import register
from llmprism.ingest.readers.csv import SPACES, header, text_tables
from llmprism.ingest.records import SCHEMA
from llmprism.ingest.sources import Source
from llmprism.ingest.tables import convert

_DEFAULT = [
    "version",
    "account-id",
    "interface-id",
    "srcaddr",
    "dstaddr",
    "srcport",
    "dstport",
    "protocol",
    "packets",
    "bytes",
    "start",
    "end",
    "action",
    "log-status",
]
_LINE = re.compile(
    rb"\d \S+ eni-\S+ \S+ \S+ \S+ \S+ \S+ \S+ \S+ \d+ \d+ \S+ (OK|NODATA|SKIPDATA)\r?\n"
)
_INTERFACE = "interface-id"
REJECTED = "flow that AWS rejected"


def _recognises(head: bytes, _name: str) -> bool:
    words = head.split(b"\n", 1)[0].split()
    return {b"srcaddr", b"dstaddr", b"start"} <= set(words) or bool(_LINE.match(head))


@register("vpc_flow_log", "flow logs of AWS VPC", _recognises)
def read(source: Source, options: Options, notes: Notes) -> Iterator[pa.Table]:
    """Yield the records of a flow log."""
    has_header = not _LINE.match(source.head)
    names = header(source, SPACES)[0] if has_header else _DEFAULT
    by_interface = {"observer": _INTERFACE} if _INTERFACE in names else {}
    mapping = {**by_interface, **options.mapping}
    chosen = choose(names, mapping, options.time_unit, str(source))
    notes.remark(unused(names, {**chosen, "action": "action"}))
    notes.remark(f"{source}: AWS logs up to ten minutes of a flow in a line, in whole seconds")
    for table in text_tables(source, names, SPACES, notes, has_header=has_header):
        if "action" in names:
            rejected = pc.fill_null(pc.equal(table["action"], "REJECT"), False)
            notes.drop(REJECTED, pc.sum(rejected).as_py() or 0)
            table = table.filter(pc.invert(rejected))
        batch = convert(table, chosen, options, has_wall_clock=True)
        unknown = pa.array(["?"] * batch.num_rows, pa.string())
        yield batch.set_column(SCHEMA.get_field_index("path"), SCHEMA.field("path"), unknown)
