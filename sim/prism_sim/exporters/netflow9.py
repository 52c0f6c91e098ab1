"""NetFlow v9 packets one after another (RFC 3954); times in ms of the exporter's uptime."""

from __future__ import annotations

import struct
from typing import IO

import pandas as pd

from prism_sim.exporters.base import Exporter, prepared
from prism_sim.exporters.templates import COMMON, Element, a_set, chunks, records, template

_ELEMENTS = {**COMMON, "end_ms": Element(21, ">u4"), "start_ms": Element(22, ">u4")}
_TEMPLATES = 0  # number of their flow set
_MS_NS, _SECOND_MS = 10**6, 1000


def _packet(uptime_ms: int, boot_ms: int, sequence: int, count: int, content: bytes) -> bytes:
    """A packet that is sent in the next full second, so that its two clocks agree."""
    now_s = -(-(boot_ms + uptime_ms) // _SECOND_MS)
    uptime_ms = now_s * _SECOND_MS - boot_ms
    return struct.pack(">HHIIII", 9, count, uptime_ms, now_s, sequence, 1) + content


class Netflow9(Exporter):
    """Packets with one template."""

    name = "netflow9"
    about = "packets of NetFlow v9; times in ms"
    suffix = ".nf9"

    def write(self, flows: pd.DataFrame, out: IO[bytes], sampling: int) -> None:
        if not len(flows):
            return
        flows = prepared(flows)
        boot_ms = int(flows["start_ns"].min() // _MS_NS) - _SECOND_MS
        since_ms = {name: flows[f"{name}_ns"] // _MS_NS - boot_ms for name in ("start", "end")}
        rows = flows.assign(start_ms=since_ms["start"], end_ms=since_ms["end"])
        ends_ms = since_ms["end"].to_numpy()
        out.write(_packet(int(ends_ms[0]), boot_ms, 0, 1, a_set(_TEMPLATES, template(_ELEMENTS))))
        for number, (first, last, content) in enumerate(chunks(records(rows, _ELEMENTS)), 1):
            out.write(_packet(int(ends_ms[last]), boot_ms, number, last - first + 1, content))
