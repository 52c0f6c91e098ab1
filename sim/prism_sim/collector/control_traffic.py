"""Control traffic between hosts: handshakes, requests and responses.

It has connections of its own. It is too small to slow anything down, so it never enters the
fabric: its rows are added to those that switches see, packet by packet, following the protocols.
Sizes are IP lengths over Ethernet with TCP timestamps, as Linux sends them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from prism_sim.collector.job_hosts import JobHosts
from prism_sim.collector.rows import INGRESS, ROW, Rows, nothing
from prism_sim.collector.scene import Scene, Stage

TCP_BYTES = 52
"""A packet without payload: 20 IP, 20 TCP, 12 timestamps (RFC 7323)."""
SYN_BYTES = 60
"""The first packet of each side: segment size, window scale and SACK beside timestamps."""
SEGMENT_BYTES = 1448
"""Payload of a full segment at an MTU of 1500."""
UDP_BYTES = 28
"""IP and UDP headers."""
ANSWER_NS = 80_000
"""Delay of a host's response: median from SYN to first payload in the real captures, 82 us."""

Numbers = NDArray[np.int64]


class Turn(NamedTuple):
    """The packets that one side sends without waiting for the other."""

    payload: int
    packets: int
    bytes: int


def segments(payload: int, bare: int = 0, opening: bool = False) -> Turn:
    """A turn over TCP: ``payload``, ``bare`` acknowledgements, and perhaps the opening SYN.

    >>> segments(8, bare=1, opening=True)  # SYN, ACK, and eight bytes
    Turn(payload=8, packets=3, bytes=172)
    """
    packets = -(-payload // SEGMENT_BYTES) + bare
    size = payload + packets * TCP_BYTES
    return Turn(payload, packets + opening, size + opening * SYN_BYTES)


def datagram(payload: int) -> Turn:
    """A turn over UDP."""
    return Turn(payload, 1, payload + UDP_BYTES)


def handshake(hello: int, reply: int) -> tuple[Turn, Turn]:
    """Both sides of a new TCP connection: one sends ``hello`` bytes, the other ``reply`` bytes."""
    request = segments(hello, bare=1 + (reply > 0), opening=True)
    return request, segments(reply, bare=int(hello > 0 and reply == 0), opening=True)


def exchange(
    scene: Scene, tuples: NDArray[np.int32], start_ns: Numbers, request: Turn, response: Turn
) -> Rows:
    """Rows of one request each on ``tuples`` at ``start_ns``, and of the responses."""
    there = _turn(scene, tuples, start_ns, request)
    later = start_ns + scene.tuples.column("latency_ns")[tuples]
    back = _turn(scene, scene.tuples.reverse(tuples), later + ANSWER_NS, response)
    return np.concatenate([there, back])


def _turn(scene: Scene, tuples: NDArray[np.int32], start_ns: Numbers, turn: Turn) -> Rows:
    """One row a tuple; several packets take a round trip."""
    known = scene.tuples
    rows = np.zeros(len(tuples), ROW)
    rows["tuple"] = tuples
    rows["start_ns"] = start_ns
    trip_ns = 2 * known.column("latency_ns")[tuples] + ANSWER_NS
    rows["end_ns"] = start_ns + (trip_ns if turn.packets > 1 else 0)
    rows["arrival_ns"] = rows["end_ns"]
    rows["payload"], rows["packets"], rows["bytes"] = turn
    for name in ("src", "dst"):
        rows[name] = known.column(name)[tuples]
    rows["path"] = known.path_at(tuples, rows["start_ns"])
    rows["exporter"] = known.column("leaf_in")[tuples]
    rows["point"] = INGRESS
    rows["id"] = scene.identity(rows)
    return rows


class Periodic:
    """Something that many do once a period, each at its own offset.

    Parameters
    ----------
    period_ns : the period.
    offsets : of each, as a part of the period.
    """

    def __init__(self, period_ns: float, offsets: NDArray[np.float64]) -> None:
        self._period_ns = period_ns
        self._offsets = offsets
        self._rounds = np.zeros(len(offsets), np.int64)  # so far, of each

    def until(self, now_ns: int) -> tuple[Numbers, Numbers]:
        """Return who is due before ``now_ns`` and was not returned yet, and when [ns]."""
        due = np.ceil(now_ns / self._period_ns - self._offsets).astype(np.int64)
        due = np.maximum(due, self._rounds)
        count = due - self._rounds
        of = np.repeat(np.arange(len(count)), count)
        number = np.arange(len(of)) - np.repeat(np.cumsum(count) - count - self._rounds, count)
        self._rounds = due
        when_ns = np.rint((number + self._offsets[of]) * self._period_ns).astype(np.int64)
        return of, when_ns


def when_due(scene: Scene, plan: Callable[[JobHosts], Rows]) -> Stage:
    """A stage that adds the control traffic that ``plan`` makes for a job, once it is due.

    Rows planned for later are held: at most one start of each job and restart.
    """
    planned, planned_hosts = nothing(), 0

    def add(rows: Rows) -> Rows:
        nonlocal planned, planned_hosts
        planned = np.concatenate(
            [planned, *(plan(hosts) for hosts in scene.job_hosts[planned_hosts:])]
        )
        planned_hosts = len(scene.job_hosts)
        due = planned["start_ns"] < scene.now_ns
        sent, planned = planned[due], planned[~due]
        sent["path"] = scene.tuples.path_at(sent["tuple"], sent["start_ns"])  # may have moved
        scene.totals.count_added(sent)
        return np.concatenate([rows, sent])

    return add
