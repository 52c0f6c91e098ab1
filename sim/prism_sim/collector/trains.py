"""Cutting trains into records at silences.

On the wire a message is one train of bursts or several (:mod:`prism_sim.cluster.wire`): one burst
for a point-to-point message, one per chunk for a ring. Within a message, a record ends where the
wire is silent for longer than the idle gap.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from prism_common.compiled import compiled
from prism_sim.cluster.wire import Trains

RECORD = np.dtype(
    [
        ("start_ns", "i8"),  # of the simulation
        ("end_ns", "i8"),
        ("queued_ns", "i8"),  # when a host's socket got it; 0 for its start
        ("bytes", "i8"),
        ("route", "i4"),
        ("path", "i4"),  # of those of the route, from 1; 0 without a choice
        ("reverse", "?"),
    ]
)
"""A part of a message that no silence interrupts."""


def cut(trains: Trains, gap_ns: float) -> NDArray[np.void]:
    """Records (dtype RECORD) of ``trains``, ended by silence of more than ``gap_ns``.

    A train without such a silence is one record, any other is one record per burst. A train
    that follows another extends that one's last record, if it starts soon enough after it.
    """
    whole = trains["period_ns"] - trains["burst_ns"] <= gap_ns
    records = np.zeros(int(np.where(whole, 1, trains["bursts"]).sum()), RECORD)
    return records[: _cut(trains, whole, gap_ns, records)]


@compiled
def _cut(trains: Trains, whole: NDArray[np.bool_], gap_ns: float, records: NDArray[np.void]) -> int:
    """Fill ``records``; returns how many there are."""
    n, silent_since_ns = 0, 0.0
    for i in range(len(trains)):
        train = trains[i]
        held = train["bursts"] if whole[i] else 1
        for first in range(0, train["bursts"], held):
            start_ns = train["start_ns"] + first * train["period_ns"]
            end_ns = start_ns + (held - 1) * train["period_ns"] + train["burst_ns"]
            goes_on = train["follows"] and first == 0 and start_ns - silent_since_ns <= gap_ns
            if not goes_on:
                records[n]["start_ns"] = np.rint(start_ns)
                records[n]["queued_ns"] = np.rint(train["queued_ns"])
                records[n]["route"] = train["route"]
                records[n]["path"] = train["path"]
                records[n]["reverse"] = train["reverse"]
                n += 1
            records[n - 1]["end_ns"] = np.rint(end_ns)
            records[n - 1]["bytes"] += held * train["burst_bytes"]
            silent_since_ns = end_ns
    return n
