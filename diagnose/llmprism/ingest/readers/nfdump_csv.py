"""``nfdump -o csv``: NetFlow records as nfdump 1.6 and 1.7 print them.

``ts`` and ``te`` are text in the time zone of the machine that ran nfdump (run it with
``TZ=UTC``), in whole seconds in many versions; ``td`` is the duration in seconds, to the ms.
The summary that nfdump prints after the records is left out. nfdump has scaled sampled counts
already.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

from llmprism.ingest.notes import Notes
from llmprism.ingest.options import Options
from llmprism.ingest.readers import register
from llmprism.ingest.readers.csv import header, text_tables
from llmprism.ingest.sources import Source
from llmprism.ingest.tables import choose, convert

_STARTS = (b"ts,te,td,sa,da,sp,dp,pr,", b"ts,te,td,pr,")
_MAPPING = {"start": "ts", "src": "sa", "dst": "da", "bytes": "ibyt", "src_port": "sp"}
_MAPPING |= {"dst_port": "dp", "packets": "ipkt", "protocol": "pr", "observer": "ra"}


def _recognises(head: bytes, _name: str) -> bool:
    return head.startswith(_STARTS)


@register("nfdump_csv", "nfdump -o csv (run it with TZ=UTC)", _recognises)
def read(source: Source, options: Options, notes: Notes) -> Iterator[pa.Table]:
    """Yield the records that nfdump printed."""
    names, delimiter = header(source)
    known = {ours: theirs for ours, theirs in _MAPPING.items() if theirs in names}
    asked = Options(mapping={**known, **options.mapping}, time_unit=options.time_unit)
    chosen = choose(names, asked, str(source))
    has_length = "td" in names
    if has_length:
        chosen.pop("end_ns", None)  # it has no ms where the duration has
        chosen["duration"] = "td"
    whole_seconds = True
    for table in text_tables(source, names, delimiter, notes, "Summary"):
        lines = table.num_rows
        table = table.filter(_is_record(table[names[0]]))
        notes.drop("line that does not begin with a time", lines - table.num_rows)
        whole_seconds &= not pc.any(pc.match_substring(table["ts"], ".")).as_py()
        yield convert(table, chosen, asked)
    if whole_seconds:
        notes.remark(
            f"{source}: nfdump printed times in whole seconds; read its nfcapd file instead, "
            "which has milliseconds"
        )


def _is_record(first: pa.ChunkedArray) -> pa.ChunkedArray:
    """Mark the lines that start with a digit; the summary's first line does not."""
    return pc.fill_null(pc.match_substring_regex(first, r"^\d{4}-"), False)
