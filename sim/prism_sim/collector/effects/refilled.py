"""First-in-first-out queues of NICs, which sockets refill as they drain.

A host gives a message to a socket as a whole. The socket passes at most a limit on to the NIC's
queue, and more only as that drains. A small packet of another socket therefore waits for at most
the limit, not for the whole message, and packets that come while the queue is full leave as evenly
as they come. Only a queue that grows lets them leave together.

Messages of a host are sent one after the other in the order in which sockets got them, at the
rate of its NIC. The wait of a packet at a time is

    sum over connections of min(limit, bytes given to its socket and not yet sent) / rate.

Reference: TCP small queues (``tcp_small_queue_check`` in Linux's ``net/ipv4/tcp_output.c``).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from prism_sim.collector.rows import Rows, nothing
from prism_sim.collector.scene import Scene

LONGEST_NS = 1_000_000_000
"""A message given to a socket earlier than this before its first byte is taken to come then."""

Times = NDArray[np.int64]
Bytes = NDArray[np.float64]


class Refilled:
    """The queues of all hosts, batch after batch.

    It keeps messages that are not yet sent, and small packets to which such messages may still
    come: messages are reported in the order of their first byte, not of their arrival at a socket.

    Parameters
    ----------
    scene : the time that rows have reached; rows must be in order of their start.
    limit_bytes : of each connection, in the queue of its host's NIC.
    """

    def __init__(self, scene: Scene, limit_bytes: int) -> None:
        self._scene = scene
        self._limit_bytes = limit_bytes
        self._layout = scene.tuples.router.layout
        self._data = nothing()
        self._small = nothing()
        self._free_ns: dict[int, float] = {}
        scene.holders.append(self)

    def __len__(self) -> int:
        return len(self._data) + len(self._small)

    def waited(self, small: Rows, data: Rows) -> Rows:
        """Return small packets, of this batch or before, that have passed their host's queue."""
        known_ns = self._scene.now_ns - LONGEST_NS
        small = np.concatenate([self._small, small])
        data = np.concatenate([self._data, data])
        later = (small["end_ns"] >= known_ns) & (not self._scene.is_over)
        small, self._small = small[~later], small[later]
        unsent = []
        for host in np.unique(data["src"]).tolist():
            own = data[data["src"] == host]
            own = own[np.argsort(_given(own), kind="stable")]
            rate = self._layout.capacity[self._layout.nic_out(host)]
            queue = Queue(own, self._free_ns.get(host, 0.0), rate, self._limit_bytes)
            _delay(small, np.flatnonzero(small["src"] == host), queue)
            sent = queue.sent_ns < known_ns
            if sent.any():
                self._free_ns[host] = float(queue.sent_ns[sent][-1])
            unsent.append(own[~sent])
        self._data = np.concatenate([nothing(), *unsent])
        return small


def _delay(small: Rows, of_host: Times, queue: Queue) -> None:
    """Let the packets ``of_host`` wait in its queue."""
    late_ns = queue.waits(small["end_ns"][of_host])
    for name in ("start_ns", "end_ns", "arrival_ns"):
        small[name][of_host] += late_ns


def _given(messages: Rows) -> Times:
    """Return when each of ``messages`` was given to its socket."""
    known = messages["queued_ns"] > 0
    given = np.where(known, messages["queued_ns"], messages["start_ns"])
    earliest = messages["start_ns"] - LONGEST_NS
    return np.clip(given, earliest, messages["start_ns"])


class Queue:
    """The queue of one host, with all messages that it sends in a time.

    Parameters
    ----------
    messages : in the order in which sockets got them.
    free_ns : when the messages before them were sent.
    rate : of the NIC [bytes/ns].
    limit_bytes : of each connection in the NIC's queue.

    Attributes
    ----------
    sent_ns : when the last byte of each message is sent.
    """

    def __init__(self, messages: Rows, free_ns: float, rate: float, limit_bytes: int) -> None:
        self._given_ns = _given(messages)
        self._connection = messages["tuple"].tolist()
        self._size = messages["payload"].tolist()
        self._rate = rate
        self._limit_bytes = limit_bytes
        lasts_ns = messages["payload"] / rate
        before_ns = np.cumsum(lasts_ns) - lasts_ns
        ready_ns = np.maximum(self._given_ns, free_ns)
        self.sent_ns: Bytes = np.maximum.accumulate(ready_ns - before_ns) + before_ns + lasts_ns

    def waits(self, at_ns: Times) -> Times:
        """Return how long packets wait that come at ``at_ns``; none overtakes an earlier one."""
        first = np.searchsorted(self.sent_ns, at_ns, side="right")
        stop = np.searchsorted(self._given_ns, at_ns, side="right")
        queued = np.zeros(len(at_ns))
        for packet in np.flatnonzero(first < stop).tolist():
            queued[packet] = self._queued(first[packet], stop[packet], int(at_ns[packet]))
        return np.rint(queued / self._rate).astype(np.int64)

    def _queued(self, first: int, stop: int, at_ns: int) -> float:
        """Return the bytes in the queue while messages ``first`` to ``stop`` - 1 are unsent."""
        unsent: dict[int, float] = {}
        for i in range(first, stop):
            left = min(self._size[i], (self.sent_ns[i] - at_ns) * self._rate)
            connection = self._connection[i]
            unsent[connection] = unsent.get(connection, 0.0) + left
        return sum(min(left, self._limit_bytes) for left in unsent.values())
