"""JSON lines of Akvorado: its outlet's flows, or ``SELECT ... FORMAT JSONEachRow``.

The outlet (``/api/v0/outlet/flows``) writes some keys, also the counts and the ports, in an
inner object ``OtherColumns``, and only if Akvorado was built for debugging. Otherwise that is
null, and a flow has no size. The rows of ClickHouse have all keys.

A flow has one time, ``TimeReceived`` in whole seconds, so a record is an instant there: enough
for jobs and volumes, never for steps. ``Bytes`` and ``Packets`` are what the exporter counted;
they are multiplied by ``SamplingRate`` here.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from llmprism.ingest.columns import choose
from llmprism.ingest.json_lines import first_object, text_tables
from llmprism.ingest.notes import Notes
from llmprism.ingest.options import Options
from llmprism.ingest.readers import register
from llmprism.ingest.sources import Source
from llmprism.ingest.tables import convert

_INNER = "OtherColumns"
_MAPPING = {"start": "TimeReceived", "src": "SrcAddr", "dst": "DstAddr", "bytes": "Bytes"}
_MAPPING |= {"packets": "Packets", "src_port": "SrcPort", "dst_port": "DstPort"}
_MAPPING |= {"protocol": "Proto", "sampling": "SamplingRate", "observer": "ExporterAddress"}


def _recognises(head: bytes, _name: str) -> bool:
    return {"TimeReceived", "SrcAddr", "DstAddr", "ExporterAddress"} <= first_object(head).keys()


@register("akvorado", "JSON lines of Akvorado", _recognises)
def read(source: Source, options: Options, notes: Notes) -> Iterator[pa.Table]:
    """Yield the records of an Akvorado export."""
    mapping = {**_MAPPING, **options.mapping}
    keys = sorted(set(mapping.values()))
    chosen = choose(keys, mapping, options.time_unit, str(source))
    notes.remark(f"{source}: Akvorado keeps one time a flow, in whole seconds")
    for table in text_tables(source, keys, notes, _INNER):
        yield convert(table, chosen, options)
