"""Messages by agreement: data fly when sender and receiver are both ready.

With RDMA and receives posted ahead, a message flies as soon as its data exist. A socket library
without room to put it waits: the sender says that it is ready, the receiver says that it is,
and whoever is second sets the message going. What each says is a small message of its own, and
it stands in line: two ranks have one connection, on which the receiver's word comes behind
what the receiver itself has begun to send before. So of two messages that cross, the second
one flies when the first one is through.

Reference: ``gloo/transport/tcp/pair.cc`` (notifications that a send, or a receive, is ready).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import simpy

from prism_sim.cluster.network import Network
from prism_sim.cluster.wire import messages

Key = tuple[int, ...]


class Offer(NamedTuple):
    """A message whose sender is ready.

    Attributes
    ----------
    sender, receiver : numbers of the workers.
    routes : where it will travel.
    start : sends it; returns the event of its arrival.
    since_ns : when it was offered.
    """

    sender: int
    receiver: int
    routes: tuple[int, ...]
    start: Callable[[], simpy.Event]
    since_ns: int


class Meetings:
    """Where the senders and receivers of a job find each other.

    Parameters
    ----------
    network : whose observer sees what they say.
    control_bytes : of what each says.
    """

    def __init__(self, network: Network, control_bytes: int) -> None:
        self._env = network.env
        self._observer = network.observer
        self.control_bytes = control_bytes
        self._posted: dict[Key, int] = {}
        self._offered: dict[Key, Offer] = {}
        self._under_way: dict[tuple[int, int], tuple[int, simpy.Event]] = {}

    def post(self, key: Key) -> None:
        """The receiver of message ``key`` is ready from now on."""
        if key in self._offered:
            self._meet(self._offered.pop(key), self._env.now)
        else:
            self._posted[key] = self._env.now

    def offer(
        self,
        key: Key,
        sender: int,
        receiver: int,
        routes: tuple[int, ...],
        start: Callable[[], simpy.Event],
    ) -> None:
        """The sender of message ``key`` is ready from now on."""
        offer = Offer(sender, receiver, routes, start, self._env.now)
        if key in self._posted:
            self._meet(offer, self._posted.pop(key))
        else:
            self._offered[key] = offer

    def _meet(self, offer: Offer, posted_ns: int) -> None:
        """Have the message fly, now or when the receiver's word has come through."""
        self._say(offer.routes, offer.since_ns)
        begun_ns, ahead = self._under_way.get((offer.receiver, offer.sender), (0, None))
        if ahead is None or ahead.callbacks is None or begun_ns > posted_ns:
            self._say(offer.routes, posted_ns, back=True)
            self._fly(offer)
            return

        def through(_: simpy.Event) -> None:
            self._say(offer.routes, self._env.now, back=True)
            self._fly(offer)

        ahead.callbacks.append(through)

    def _fly(self, offer: Offer) -> None:
        self._under_way[offer.sender, offer.receiver] = (self._env.now, offer.start())

    def _say(self, routes: tuple[int, ...], at_ns: int, back: bool = False) -> None:
        for route in routes:
            self._observer.observe(messages(route, [at_ns], self.control_bytes, back))
