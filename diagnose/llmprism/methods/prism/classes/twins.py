"""Twins: components that move the same bytes at the same moments.

NVLink may join the ranks of a job out of sight. Then the rings of the job are components of their
own, and each is divided into steps alone. With tensor parallelism the ranks of a server send the
same messages at the same moments. So components that belong together are found even if one of them
is divided into wrong steps.

Two components are *twins* if they share a server, move the same volume in similar numbers of
records (an exporter cuts the same messages into more of them where they pause), and if the messages
of one begin when those of the other do. This is a comparison: the distances to the nearest
message are small beside the same distances after a shift in time.
"""

from __future__ import annotations

import numpy as np

from llmprism.methods.prism.classes.classes import Component
from llmprism.methods.prism.parameters import SMALL
from llmprism.methods.prism.records.connections import Connections
from llmprism.numerics.arrays import Codes, Ints

ALIKE, RECORDS = 0.1, 0.5  # differences in volume and number of records of twins, as a share
SHIFTS = (0.31, 0.5, 0.69)  # of the median time between bursts
TELLING = 16  # bursts that tell anything


def are_twins(connections: Connections, one: Component, other: Component, servers: Codes) -> bool:
    """Whether two components are twins."""
    shared = np.intersect1d(servers[one.endpoints], servers[other.endpoints])
    if shared.size == 0 or len(one.classes) != len(other.classes):
        return False
    for ours, theirs in zip(one.classes, other.classes, strict=True):
        records = len(ours.traffic), len(theirs.traffic)
        for (a, b), most in (((ours.bytes, theirs.bytes), ALIKE), (records, RECORDS)):
            if abs(a - b) > most * max(a, b):
                return False
    starts = [_starts(connections, part, servers, shared) for part in (one, other)]
    return min(begun.size for begun in starts) >= TELLING and _at_once(starts[0], starts[1])


def _starts(connections: Connections, one: Component, servers: Codes, shared: Codes) -> Ints:
    """Starts [ns] of what one endpoint on a ``shared`` server sends in the largest class."""
    traffic, src = one.classes[0].traffic, connections.src
    senders = src[connections.of_row[traffic.row]]
    near = senders[np.isin(servers[senders], shared)]
    return traffic.start_ns[senders == near[0]] if near.size else np.empty(0, np.int64)


def _at_once(ours: Ints, theirs: Ints) -> bool:
    """Whether ``ours`` lie much closer to ``theirs`` than they do after any shift in time."""
    gap_ns = float(np.median(np.diff(ours)))
    away = _to_nearest(ours, theirs)
    shifted = [_to_nearest(ours + round(share * gap_ns), theirs) for share in SHIFTS]
    return away <= SMALL * min(shifted)


def _to_nearest(ours: Ints, theirs: Ints) -> float:
    """Median distance of ``ours`` to the nearest of ``theirs`` [ns]."""
    after = np.searchsorted(theirs, ours).clip(1, theirs.size - 1)
    away = np.minimum(np.abs(ours - theirs[after - 1]), np.abs(theirs[after] - ours))
    return float(np.median(away))
