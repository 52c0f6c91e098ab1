"""What sflowtool prints: a tag and its value on each line, as it does without an option.

A datagram begins with its time in whole seconds (``unixSecondsUTC``) and its agent, a sample with
its number. Each sampled packet is a record, multiplied by the rate of its source. So times are
coarse: enough for jobs and volumes, never for steps; ``llmprism ingest`` reads captures of the
datagrams themselves as well. Lines of ``sflowtool -l`` have no times, and are refused.

Reference: README of sflowtool.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from llmprism.ingest.bounds import LONGEST_TEXT
from llmprism.ingest.options import Options
from llmprism.ingest.readers import register
from llmprism.ingest.records import text_tables
from llmprism.ingest.sources import Source
from llmprism.ingest.tables import convert
from llmprism.io.notes import Notes
from prism_common.errors import Problem, UserError

_LINES = re.compile(rb"(?:FLOW|CNTR),[0-9A-Fa-f.:]+,")
_TAGS = re.compile(rb"(?:startDatagram[ =-]*\s+)?(?:\S+ \S*\s+){0,3}unixSecondsUTC \d+")
_NAMES = {
    "start": "unixSecondsUTC", "observer": "agent", "sampling_rate": "meanSkipCount",
    "src": "srcIP srcIP6", "dst": "dstIP dstIP6", "protocol": "IPProtocol IP6NextHeader",
    "src_port": "TCPSrcPort UDPSrcPort", "dst_port": "TCPDstPort UDPDstPort",
    "bytes": "ip.tot_len", "frame": "sampledPacketSize", "stripped": "strippedBytes",
}  # fmt: skip
_WANTED = {tag: name for name, tags in _NAMES.items() for tag in tags.split()}
_OF_DATAGRAM = ("start", "observer")
_COLUMNS = ("start", "observer", "src", "dst", "src_port", "dst_port", "protocol", "bytes")
_ALL = (*_COLUMNS, "sampling_rate", "packets")
_CHOSEN = {"start_ns": "start", "sampling": "sampling_rate", "packets": "packets"}
_CHOSEN |= {name: name for name in _COLUMNS[1:]}
_ETHERNET = 14  # bytes of the header before that of IP
CAPTURE = "capture the datagrams and ingest those: tcpdump -w sflow.pcap udp port 6343"


def _recognises(head: bytes, _name: str) -> bool:
    return bool(_LINES.match(head) or _TAGS.match(head))


@register("sflowtool", "what sflowtool prints", _recognises)
def read(source: Source, options: Options, notes: Notes) -> Iterator[pa.Table]:
    """Yield the sampled packets.

    Raises
    ------
    UserError : these are lines without times.
    """
    if _LINES.match(source.head):
        what = "lines of sflowtool -l have no times"
        raise UserError(Problem(what, str(source), CAPTURE))
    samples = (one for one in _samples(source, notes) if "src" in one and "dst" in one)
    sized = (one | {"bytes": one.get("bytes") or _size(one), "packets": "1"} for one in samples)
    for table in text_tables(([one.get(name) for name in _ALL] for one in sized), _ALL):
        yield convert(table, _CHOSEN, options, has_wall_clock=True)


def _samples(source: Source, notes: Notes) -> Iterator[dict[str, Any]]:
    """The tags of each flow sample, with those of its datagram."""
    datagram: dict[str, Any] = {}
    sample: dict[str, Any] = {}
    for line in source.lines(notes):
        tag, _, value = line.strip().partition(" ")
        if tag in ("startSample", "sampleSequenceNo", "unixSecondsUTC", "endDatagram"):
            yield {**datagram, **sample}
            sample = {}
        name = _WANTED.get(tag)
        if name in _OF_DATAGRAM:
            datagram[name] = value[:LONGEST_TEXT]
        elif name is not None:
            sample.setdefault(name, value[:LONGEST_TEXT])
    yield {**datagram, **sample}


def _size(sample: dict[str, Any]) -> str | None:
    """Bytes of the IP packet: the frame without its header, and what the agent took off."""
    frame, stripped = (str(sample.get(key, "0")) for key in ("frame", "stripped"))
    if not (frame.isdecimal() and stripped.isdecimal() and len(frame + stripped) < 20):
        return None
    return str(max(int(frame) - int(stripped) - _ETHERNET, 0))
