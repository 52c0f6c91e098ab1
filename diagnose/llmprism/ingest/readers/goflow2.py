"""JSON lines of goflow2: NetFlow, IPFIX and sFlow as its collector prints them.

The keys are those of its ``FlowMessage`` (docs/protocols.md there). ``bytes`` and ``packets``
are what the exporter counted, not scaled: they are multiplied by ``sampling_rate`` here. Older
versions wrote start and end in ms or seconds under other keys.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pyarrow as pa

from llmprism.ingest.json_lines import first_object, text_tables
from llmprism.ingest.notes import Notes
from llmprism.ingest.options import Options
from llmprism.ingest.readers import register
from llmprism.ingest.sampling import scaled
from llmprism.ingest.sources import Source
from llmprism.ingest.tables import choose, convert

_START = ("time_flow_start_ns", "time_flow_start_ms", "time_flow_start")
_END = ("time_flow_end_ns", "time_flow_end_ms", "time_flow_end")
_MAPPING = {"src": "src_addr", "dst": "dst_addr", "bytes": "bytes", "packets": "packets"}
_MAPPING |= {"src_port": "src_port", "dst_port": "dst_port", "protocol": "proto"}
_MAPPING |= {"sampling": "sampling_rate", "observer": "sampler_address"}


def _recognises(head: bytes, _name: str) -> bool:
    content = first_object(head)
    return "src_addr" in content and any(key in content for key in _START)


@register("goflow2", "JSON lines of goflow2", _recognises)
def read(source: Source, options: Options, notes: Notes) -> Iterator[pa.Table]:
    """Yield the records of a goflow2 log."""
    present = first_object(source.head)
    place = next((i for i, key in enumerate(_START) if key in present), 0)
    mapping = {**_MAPPING, "start": _START[place], "end": _END[place], **options.mapping}
    asked = replace(options, mapping=mapping)
    keys = sorted(set(mapping.values()))
    chosen = choose(keys, asked, str(source))
    for table in text_tables(source, keys, notes):
        yield scaled(convert(table, chosen, asked))
