"""Messages by agreement: data fly when sender and receiver are both ready.

With RDMA and receives posted ahead, a message flies as soon as its data exist. A socket library
without room to put it waits: the sender says that it is ready, the receiver says that it is,
and whoever is second sets the message going. What each says is a small message of its own.

Reference: ``gloo/transport/tcp/pair.cc`` (notifications that a send, or a receive, is ready).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from prism_sim.cluster.network import Network

Key = tuple[int, ...]


class Meetings:
    """Where the senders and receivers of a job find each other.

    Parameters
    ----------
    network : whose collector sees what they say.
    control_bytes : of what each says.
    """

    def __init__(self, network: Network, control_bytes: int) -> None:
        self._env = network.env
        self._collector = network.collector
        self.control_bytes = control_bytes
        self._posted: dict[Key, int] = {}
        self._offered: dict[Key, tuple[Sequence[int], int, Callable[[], None]]] = {}

    def post(self, key: Key) -> None:
        """The receiver of message ``key`` is ready from now on."""
        if key in self._offered:
            routes, offered_ns, start = self._offered.pop(key)
            self._meet(routes, offered_ns, self._env.now, start)
        else:
            self._posted[key] = self._env.now

    def offer(self, key: Key, routes: Sequence[int], start: Callable[[], None]) -> None:
        """The sender of message ``key`` is; ``start`` sends it, on ``routes``."""
        if key in self._posted:
            self._meet(routes, self._env.now, self._posted.pop(key), start)
        else:
            self._offered[key] = (routes, self._env.now, start)

    def _meet(
        self, routes: Sequence[int], offered_ns: int, posted_ns: int, start: Callable[[], None]
    ) -> None:
        for route in routes:
            self._collector.control(route, [offered_ns], self.control_bytes)
            self._collector.control(route, [posted_ns], self.control_bytes, back=True)
        start()
