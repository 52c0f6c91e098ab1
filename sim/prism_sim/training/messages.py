"""Messages between pipeline stages: their path, their order, and their spans in the truth."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

import simpy

from prism_sim.cluster.fabric import Fabric, Over

MESSAGE_SPANS = (("send_act", "recv_act"), ("send_grad", "recv_grad"))
"""Kinds of the spans of a message at its sender and its receiver, forward and backward."""


@dataclass(frozen=True)
class MessagePath:
    """The path of a message to another stage: one flow per rank.

    Attributes
    ----------
    bundle : number of the bundle of flows in the fabric.
    latency_ns : latency of the longest path.
    routes : numbers of the flows' routes.
    """

    bundle: int
    latency_ns: int
    routes: tuple[int, ...] = ()


@dataclass(eq=False)
class SendQueue:
    """Messages of one path, sent one after the other.

    A reliable connection moves its messages in the order in which it got them: TCP is a stream of
    bytes (RFC 9293), and a queue pair of RDMA processes the requests of its send queue in order
    (InfiniBand Architecture Specification, volume 1). So messages of one connection do not share
    its rate.
    """

    fabric: Fabric
    path: MessagePath
    _waiting: deque[tuple[int, simpy.Event, Over | None]] = field(default_factory=deque)
    _sending: bool = False

    def send(self, size_bytes: int, arrival: simpy.Event, over: Over | None = None) -> None:
        """Send after all earlier messages; ``over`` gets start and end of the transfer."""
        self._waiting.append((size_bytes, arrival, over))
        if not self._sending:
            self._start()

    def abandon(self) -> None:
        """Send nothing that still waits: its process is gone."""
        self._waiting.clear()

    def _start(self) -> None:
        self._sending = bool(self._waiting)
        if not self._waiting:
            return
        size_bytes, arrival, over = self._waiting.popleft()

        def sent(start_ns: int, end_ns: int) -> int:
            delay_ns = over(start_ns, end_ns) if over is not None else 0
            self._start()
            return delay_ns

        self.fabric.transfer(self.path.bundle, size_bytes, self.path.latency_ns, arrival, sent)
