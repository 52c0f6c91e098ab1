"""Connections that cannot take the monitor's descriptors: few, and each asks for something soon.

Before a request is whole, nobody knows whether who sends it may ask. So a connection has a few
seconds for each request. If there are too many connections, the one that has been without a request
for longest is ended.
"""

from __future__ import annotations

import asyncio
import resource
from typing import cast

from uvicorn.protocols.http.h11_impl import H11Protocol

REQUEST_S = 10.0
"""Time for a request to be whole [s]."""
_MOST = 64
_SHARE = 4  # of the descriptors that the process may have, one in so many


def most_connections() -> int:
    """How many connections there may be at once: the monitor needs descriptors as well."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return _MOST if soft == resource.RLIM_INFINITY else max(1, min(_MOST, soft // _SHARE))


class Connection(H11Protocol):
    """One connection of a client."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Accept the connection, and end another one if there are too many."""
        super().connection_made(cast(asyncio.Transport, transport))
        self._idle_since_s = self.loop.time()
        self._timer = self.loop.call_later(REQUEST_S, self._look)
        live = [
            one
            for one in self.connections
            if isinstance(one, Connection) and not one.transport.is_closing()
        ]
        if len(live) > most_connections():
            idle = [one for one in live if one.is_idle]
            min(idle, key=lambda one: one.idle_since_s, default=self).transport.abort()

    @property
    def is_idle(self) -> bool:
        """Whether no request is being answered."""
        return self.cycle is None or self.cycle.response_complete

    @property
    def idle_since_s(self) -> float:
        """When the connection, or its last answer, was complete; time of the loop [s]."""
        return self._idle_since_s

    def on_response_complete(self) -> None:
        """Begin to wait for the next request."""
        super().on_response_complete()
        self._idle_since_s = self.loop.time()

    def connection_lost(self, exc: Exception | None) -> None:
        """End."""
        self._timer.cancel()
        super().connection_lost(exc)

    def _look(self) -> None:
        """End a connection that has waited for a request for too long."""
        left_s = REQUEST_S
        if self.is_idle:
            left_s = self._idle_since_s + REQUEST_S - self.loop.time()
        if left_s <= 0:
            self.transport.abort()
        else:
            self._timer = self.loop.call_later(left_s, self._look)
