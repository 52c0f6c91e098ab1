"""Trains: the form in which an observer gets the traffic on the wire.

All traffic that a switch could observe is a *train*: bursts of equal size on one route, at equal
distances. A single flow is a train of one burst, a collective is a train on each of its hops (one
burst per chunk), and a small control message is a burst that takes no time. If the length or the
distance of its bursts changes, a message continues in another train, which *follows* the last one.

Every sender of bytes passes trains to the network's :class:`Observer`. In a simulation this is the
collector of flow records, but the cluster does not know that.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

TRAIN = np.dtype(
    [
        ("start_ns", "f8"),  # begin of the first burst
        ("burst_ns", "f8"),  # duration of one burst; at most the period
        ("period_ns", "f8"),  # from the begin of one burst to that of the next
        ("bursts", "i8"),
        ("burst_bytes", "i8"),
        ("route", "i4"),  # number of the route; HIDDEN if no switch observes it
        ("reverse", "?"),  # from the route's destination back to its source
        ("follows", "?"),  # whether it continues the message of the train before it
        ("queued_ns", "f8"),  # when a host's socket got the message; 0 for its start
        ("path", "i4"),  # number of its path among those of the route, from 1; 0 without a choice
    ]
)
"""Bursts of one message on one route, equally long and equally far apart."""

Trains = NDArray[np.void]
"""Rows of dtype TRAIN."""


class Observer(Protocol):
    """Gets all traffic on the wire."""

    def observe(self, trains: Trains) -> None:
        """Get ``trains``, in any order; they have ended, or end soon."""

    def job_restarts(self, job: str, start_ns: int, processes_since_ns: int) -> None:
        """Get the restart of ``job`` at ``start_ns``.

        Its new processes start at ``processes_since_ns`` and open new connections.
        """


def flows(records: NDArray[np.void]) -> Trains:
    """One train per record of a single flow (dtype ``core.RECORD``)."""
    trains = np.zeros(len(records), TRAIN)
    trains["start_ns"] = records["start_ns"]
    trains["burst_ns"] = trains["period_ns"] = records["end_ns"] - records["start_ns"]
    trains["bursts"] = 1
    trains["burst_bytes"] = records["bytes"]
    trains["route"], trains["path"] = records["route"], records["path"]
    return trains


def messages(
    route: int, times_ns: Sequence[float], size_bytes: int, reverse: bool = False
) -> Trains:
    """One train per small message of ``size_bytes`` on ``route``, or against its direction."""
    trains = np.zeros(len(times_ns), TRAIN)
    trains["start_ns"] = times_ns
    trains["bursts"] = 1
    trains["burst_bytes"] = size_bytes
    trains["route"], trains["reverse"] = route, reverse
    return trains
