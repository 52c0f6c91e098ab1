"""The format of a record inside the collector, and the table that it is written to."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

ROW = np.dtype(
    [
        ("start_ns", "i8"),  # of the simulation
        ("end_ns", "i8"),
        ("queued_ns", "i8"),  # when a host's socket got it; 0 for its start
        ("bytes", "i8"),  # as exported: payload until headers are counted
        ("payload", "i8"),
        ("packets", "i8"),  # 0 until headers are counted
        ("tuple", "i4"),  # number of the 5-tuple
        ("src", "i4"),  # number of the name that is exported
        ("dst", "i4"),
        ("path", "i4"),  # number of the path that is exported; NO_PATH for null
        ("exporter", "i4"),  # number of the leaf that observes it
        ("point", "i4"),  # INGRESS or EGRESS
        ("arrival_ns", "i8"),  # at the collector, which keeps records in this order
        ("id", "u8"),  # key of random draws about this record
    ]
)
"""One record (or part of one, before cutting) with all data that stages need."""

Rows = NDArray[np.void]

INGRESS, EGRESS = 0, 1
NO_PATH = -1
AMOUNTS = ("bytes", "payload", "packets")

NAME = pa.dictionary(pa.int32(), pa.string())
FLOWS = pa.schema(
    [
        ("start_ns", pa.int64()),
        ("end_ns", pa.int64()),
        ("src", NAME),
        ("dst", NAME),
        ("bytes", pa.int64()),
        ("src_port", pa.int32()),
        ("dst_port", pa.int32()),
        ("protocol", pa.int32()),
        ("path", NAME),
    ]
)
"""Arrow schema of ``flows.parquet`` as the simulator writes it, headers not counted."""

COUNTED = [("payload", pa.int64()), ("packets", pa.int64())]
"""Columns that come in addition where headers are counted."""


def nothing() -> Rows:
    """No rows."""
    return np.empty(0, ROW)
