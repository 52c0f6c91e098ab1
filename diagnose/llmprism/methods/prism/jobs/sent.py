"""What connections have sent by the end of each of their records, in classes of equal volume."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from llmprism.io.flows import FlowTable
from llmprism.methods.prism.parameters import EQUAL
from llmprism.methods.prism.records.connections import Connections, carry_within
from llmprism.numerics.arrays import Codes, Floats, Ints, quantile_by_weight

BUSY = 0.01  # share of the busiest connection's bytes from which a connection is looked at
SHOWN = 32  # connections of a class that are looked at


@dataclass(frozen=True)
class Sent:
    """What one connection has sent at the end of each of its records.

    Attributes
    ----------
    lasts_ns : length of each record [ns].
    end_ns : last packet of each record [ns].
    rest_ns : silence after each record but the last [ns].
    bytes : sent until the end of each record.
    """

    lasts_ns: Ints
    end_ns: Ints
    rest_ns: Ints
    bytes: Floats


def sent_by_classes(
    flows: FlowTable, connections: Connections, endpoints: Codes
) -> list[list[Sent]]:
    """What connections between ``endpoints`` send, in classes of equal volume, smallest first.

    Some connections of each class are enough, as all of them move the same.
    """
    own = np.flatnonzero(carry_within(connections, endpoints))
    total = connections.total_bytes[own]
    own = own[total >= BUSY * total.max(initial=0)]
    own = own[np.argsort(connections.total_bytes[own], kind="stable")]
    total = connections.total_bytes[own].astype(np.float64)
    classes: list[list[int]] = []
    least = 0.0
    for connection, volume in zip(own.tolist(), total.tolist(), strict=True):
        if not classes or volume > (1 + EQUAL) * least:
            classes.append([])
            least = volume
        classes[-1].append(connection)
    some = [one[:: -(-len(one) // SHOWN)] for one in classes]
    return [[_sent(flows, connections, connection) for connection in one] for one in some]


def _sent(flows: FlowTable, connections: Connections, connection: int) -> Sent:
    """What one ``connection`` has sent by the end of each of its records of data."""
    rows = connections.by.rows(connection)
    rows = rows[~connections.small[rows]]
    start, end = flows.start_ns[rows], flows.end_ns[rows]
    sent = np.cumsum(connections.size[rows], dtype=np.float64)
    return Sent(end - start, end, start[1:] - end[:-1], sent)


def typical_ns_of(classes: list[list[Sent]]) -> float:
    """Length of the record in which the median byte travels [ns]."""
    every = [sent for one in classes for sent in one]
    lasts = np.concatenate([sent.lasts_ns for sent in every]).astype(np.float64)
    size = np.concatenate([np.diff(sent.bytes, prepend=0.0) for sent in every])
    return quantile_by_weight(lasts, size, 0.5)
