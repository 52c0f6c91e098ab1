"""IPFIX messages one after another, as a file of RFC 5655, with times in nanoseconds (RFC 7011)."""

from __future__ import annotations

import struct
from typing import IO

import numpy as np
import pandas as pd

from prism_sim.exporters.base import Exporter, prepared
from prism_sim.exporters.templates import COMMON, Element, a_set, chunks, records, template

_ELEMENTS = {**COMMON, "start_ntp": Element(156, ">u8"), "end_ntp": Element(157, ">u8")}
_TEMPLATES = 2  # number of their set
_NTP_EPOCH_S = 2_208_988_800  # of 1970, since 1900
_SECOND_NS = 10**9


def _ntp(times_ns: pd.Series) -> pd.Series:
    """Seconds since 1900 in the upper half, and a binary fraction, rounded up, in the lower one."""
    seconds, rest = np.divmod(times_ns.to_numpy(np.uint64), np.uint64(_SECOND_NS))
    fraction = -(-(rest.astype(object) << 32) // _SECOND_NS)
    whole = (seconds + np.uint64(_NTP_EPOCH_S)) << np.uint64(32)
    return pd.Series(whole + fraction.astype(np.uint64), times_ns.index)


def _message(time_s: int, sequence: int, content: bytes) -> bytes:
    return struct.pack(">HHIII", 10, 16 + len(content), time_s, sequence, 1) + content


class Ipfix(Exporter):
    """Messages with one template."""

    name = "ipfix"
    about = "messages of IPFIX; times in ns"
    suffix = ".ipfix"

    def write(self, flows: pd.DataFrame, out: IO[bytes], sampling: int) -> None:
        if not len(flows):
            return
        flows = prepared(flows)
        rows = flows.assign(start_ntp=_ntp(flows["start_ns"]), end_ntp=_ntp(flows["end_ns"]))
        ends_s = (flows["end_ns"] // _SECOND_NS).to_numpy()
        out.write(_message(int(ends_s[0]), 0, a_set(_TEMPLATES, template(_ELEMENTS))))
        for first, last, content in chunks(records(rows, _ELEMENTS)):
            out.write(_message(int(ends_s[last]), first, content))
