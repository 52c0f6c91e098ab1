"""Rendezvous of sender and receiver: a message starts when both are ready.

With RDMA and posted receives, a message starts as soon as its data exist. A socket
library without buffers waits: the sender sends a request to send, the receiver a
notification that its receive is posted, and the later of the two starts the transfer. Both are
small control messages on the connection between the two ranks. There, the receiver's
notification queues behind the data that the receiver itself is already sending. So of two
messages in opposite directions, the second one starts when the first one has arrived.

Reference: ``gloo/transport/tcp/pair.cc`` (notifications that a send, or a receive, is ready).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import simpy

from prism_sim.cluster.network import Network
from prism_sim.cluster.wire import messages

Key = tuple[int, ...]


class Request(NamedTuple):
    """A request to send a message; its sender is ready.

    Attributes
    ----------
    sender, receiver : numbers of the workers.
    routes : routes of the message.
    start : sends it; returns the event of its arrival.
    since_ns : time when its sender was ready.
    """

    sender: int
    receiver: int
    routes: tuple[int, ...]
    start: Callable[[], simpy.Event]
    since_ns: int


class Rendezvous:
    """Matches the requests to send and the posted receives of a job.

    Parameters
    ----------
    network : its observer receives the control messages.
    control_bytes : size of a control message.
    """

    def __init__(self, network: Network, control_bytes: int) -> None:
        self._env = network.env
        self._observer = network.observer
        self.control_bytes = control_bytes
        self._posted: dict[Key, int] = {}
        self._requests: dict[Key, Request] = {}
        self._in_flight: dict[tuple[int, int], tuple[int, simpy.Event]] = {}

    def post_receive(self, key: Key) -> None:
        """Record that the receiver of message ``key`` is ready."""
        if key in self._requests:
            self._match(self._requests.pop(key), self._env.now)
        else:
            self._posted[key] = self._env.now

    def request_send(
        self,
        key: Key,
        sender: int,
        receiver: int,
        routes: tuple[int, ...],
        start: Callable[[], simpy.Event],
    ) -> None:
        """Record that the sender of message ``key`` is ready."""
        request = Request(sender, receiver, routes, start, self._env.now)
        if key in self._posted:
            self._match(request, self._posted.pop(key))
        else:
            self._requests[key] = request

    def abandon(self) -> None:
        """Write the requests to send that no receiver has answered."""
        for request in self._requests.values():
            self._notify(request.routes, request.since_ns)
        self._requests.clear()

    def _match(self, request: Request, posted_ns: int) -> None:
        """Start the message, now or when the receiver's notification has arrived."""
        self._notify(request.routes, request.since_ns)
        begun_ns, ahead = self._in_flight.get((request.receiver, request.sender), (0, None))
        if ahead is None or ahead.callbacks is None or begun_ns > posted_ns:
            self._notify(request.routes, posted_ns, back=True)
            self._start(request)
            return

        def arrived(_: simpy.Event) -> None:
            self._notify(request.routes, self._env.now, back=True)
            self._start(request)

        ahead.callbacks.append(arrived)

    def _start(self, request: Request) -> None:
        self._in_flight[request.sender, request.receiver] = (self._env.now, request.start())

    def _notify(self, routes: tuple[int, ...], at_ns: int, back: bool = False) -> None:
        for route in routes:
            self._observer.observe(messages(route, [at_ns], self.control_bytes, back))
