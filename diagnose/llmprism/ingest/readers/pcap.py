"""pcap and pcapng: packets become flow records.

The observation point is the mirroring switch of ERSPAN, or the interface where a capture has
several, or else the file.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from llmprism.ingest.captures import frames, is_capture
from llmprism.ingest.datagrams import count_datagrams
from llmprism.ingest.flow_cache import FlowCache, address_text
from llmprism.ingest.notes import Notes
from llmprism.ingest.options import Options
from llmprism.ingest.packets import Packets
from llmprism.ingest.readers import netflow, register, sflow
from llmprism.ingest.sources import Source


def _recognises(head: bytes, _name: str) -> bool:
    return is_capture(head)


@register("pcap", "pcap and pcapng, mirrored packets (ERSPAN) included", _recognises)
def read(source: Source, options: Options, notes: Notes) -> Iterator[pa.Table]:
    """Yield the flow records of a capture."""
    cache, packets = FlowCache(options, notes), Packets()
    for protocol, name in ((netflow.PROTOCOL, "netflow"), (sflow.PROTOCOL, "sflow")):
        if count_datagrams(source.head, protocol).datagrams:
            notes.remark(
                f"{source}: some packets are datagrams of exporters; --format {name} reads those"
            )
    for frame in frames(source, notes):
        packet = packets.decode(frame.link_type, frame.content, frame.length)
        if isinstance(packet, str):
            notes.drop(packet)
            continue
        point = address_text(packet.switch) if packet.switch else frame.interface
        cache.add(packet, frame.time_ns, point, options.sampling)
        yield from cache.batches()
    yield from cache.rest()
