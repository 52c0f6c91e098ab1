"""JSON of any exporter: keys by usual names, or as ``--map`` names them.

nProbe, pmacct, Suricata (``eve.json``), Kentik, ipfixcol2, Filebeat and others write one object a
flow. A key within an object is named by its path: ``--map start=flow.start``. Flows with counts of
both directions become two records (``bytes_back``). What an exporter says of sampling is used only
if it is mapped (``sampling``), since some scale their counts and others do not.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import pyarrow as pa

from llmprism.ingest.columns import choose, unused
from llmprism.ingest.json_lines import first_keys, text_tables
from llmprism.ingest.notes import Notes
from llmprism.ingest.options import Options
from llmprism.ingest.readers import register
from llmprism.ingest.sources import Source
from llmprism.ingest.tables import convert_both

_SAMPLING = re.compile(r"sampl(e|ing)", re.IGNORECASE)


def _recognises(head: bytes, _name: str) -> bool:
    return bool(first_keys(head))


@register("json", "JSON of any exporter; --map names keys, a.b in objects", _recognises)
def read(source: Source, options: Options, notes: Notes) -> Iterator[pa.Table]:
    """Yield the records of a file of JSON."""
    keys = first_keys(source.head)
    where = f"{source} (JSON of no exporter that is known)"
    chosen = choose(keys, options.mapping, options.time_unit, where)
    notes.remark(unused(keys, chosen))
    rates = [key for key in keys if _SAMPLING.search(key)]
    if rates and "sampling" not in chosen:
        notes.remark(
            f"{source}: {rates[0]!r} may be a rate of sampling; counts are as written "
            f"(--map sampling={rates[0]} multiplies them)"
        )
    used = sorted(set(chosen.values()))
    for table in text_tables(source, used, notes):
        yield from convert_both(table, chosen, options)
