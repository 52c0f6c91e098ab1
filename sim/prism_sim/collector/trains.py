"""Messages on the wire: trains of bursts, and where silence ends a record.

The trainer's library posts *messages*; on the wire a message is a train of bursts: one
burst for a point-to-point message, one a chunk for a ring. Within a message, a record ends where
the wire is silent for longer than the idle gap.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from prism_sim.cluster.wire import Trains

RECORD = np.dtype(
    [
        ("start_ns", "i8"),  # of the simulation
        ("end_ns", "i8"),
        ("bytes", "i8"),
        ("route", "i4"),
        ("reverse", "?"),
    ]
)
"""A part of a train that no silence interrupts."""


def cut(trains: Trains, gap_ns: float) -> list[NDArray[np.void]]:
    """Records (dtype RECORD) of ``trains``, ended by silence of more than ``gap_ns``.

    A train that never rests for so long is one record, any other is one record a burst. What was
    sent early belongs to the first record, if it ended no longer than that before it.
    """
    early = trains["early_bursts"] > 0
    joined = early & (trains["start_ns"] - trains["early_end_ns"] <= gap_ns)
    alone = trains[early & ~joined]
    before = np.empty(len(alone), RECORD)
    before["start_ns"] = np.rint(alone["early_start_ns"])
    before["end_ns"] = np.rint(alone["early_end_ns"])
    before["bytes"] = alone["early_bursts"] * alone["burst_bytes"]
    before["route"], before["reverse"] = alone["route"], alone["reverse"]
    return [before, _regular(trains, joined, gap_ns)]


def _regular(trains: Trains, joined: NDArray[np.bool_], gap_ns: float) -> NDArray[np.void]:
    """Records of the regular bursts; those of ``joined`` trains begin with what was early."""
    whole = trains["period_ns"] - trains["burst_ns"] <= gap_ns
    count = np.where(whole, 1, trains["bursts"])
    of = np.repeat(np.arange(len(count)), count)
    train = trains[of]
    number = np.arange(len(of)) - np.repeat(np.cumsum(count) - count, count)
    begin = train["start_ns"] + number * train["period_ns"]
    held = np.where(whole[of], train["bursts"], 1)
    first = joined[of] & (number == 0)
    rows = np.empty(len(of), RECORD)
    rows["start_ns"] = np.rint(np.where(first, train["early_start_ns"], begin))
    rows["end_ns"] = np.rint(begin + (held - 1) * train["period_ns"] + train["burst_ns"])
    rows["bytes"] = (held + first * train["early_bursts"]) * train["burst_bytes"]
    rows["route"], rows["reverse"] = train["route"], train["reverse"]
    return rows
