"""Runs the web application beside the monitor, in a thread of its own.

Connections cannot take the monitor's descriptors: there are few, and each asks for something soon.
Before a request is whole, nobody knows whether its sender may ask. So a connection has a few
seconds for each request. If there are too many, the one that has been without a request for longest
is ended; if all are answered, the oldest stream: its page asks again.
"""

from __future__ import annotations

import asyncio
import resource
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import cast

import uvicorn
from starlette.applications import Starlette
from uvicorn.protocols.http.h11_impl import H11Protocol

from llmprism.io.sources import read_text
from llmprism.watch.live.application import is_local
from prism_common.errors import Problem, UserError

LOCAL = "127.0.0.1"
_BACKLOG = 16  # connections that wait to be accepted
_LEAVE_S = 0.7  # for streams of events to end


def address_of(text: str) -> tuple[str, int]:
    """Host and port of ``HOST:PORT``, ``:PORT`` or ``PORT``; the host is this machine by default.

    >>> address_of("8080"), address_of("[::1]:0")
    (('127.0.0.1', 8080), ('::1', 0))
    """
    host, _, port = text.rpartition(":")
    if not port.isdecimal() or int(port) > 65_535:
        raise UserError(Problem(f"{text!r} is no address", "--serve", "write HOST:PORT or PORT"))
    return host.strip("[]") or LOCAL, int(port)


def token_for(host: str, file: Path | None) -> str:
    """The token that requests need; empty if only this machine can ask.

    Raises
    ------
    UserError : other machines could ask, and there is no token.
    """
    if file is not None:
        token = read_text(file, 1 << 20).strip()
        if token:
            return token
        raise UserError(Problem("there is no token in it", str(file)))
    if is_local(host):
        return ""
    what = f"other machines can reach {host}, so the page needs a token"
    raise UserError(Problem(what, "--serve", "name a file with one: --token-file FILE"))


@contextmanager
def served(app: Starlette, host: str, port: int) -> Iterator[str]:
    """Serve while the block runs; yield the URL. Port 0 is any that is free."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    with listening:
        try:
            listening.bind((host, port))
            listening.listen()
        except OSError as error:
            reason = error.strerror or str(error)
            raise UserError(Problem(f"cannot serve on port {port}: {reason}", "--serve")) from error
        config = uvicorn.Config(
            app,
            http=Connection,
            ws="none",
            log_level="error",
            backlog=_BACKLOG,
            timeout_graceful_shutdown=1,
        )
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, args=([listening],), daemon=True)
        thread.start()
        shown = f"[{host}]" if ":" in host else host
        try:
            yield f"http://{shown}:{listening.getsockname()[1]}/"
        finally:
            server.should_exit = True
            thread.join(_LEAVE_S)
            _end_connections(server)
            thread.join(3)


def _end_connections(server: uvicorn.Server) -> None:
    """End the connections of clients that do not read what they asked for."""
    for one in [*server.server_state.connections]:
        if isinstance(one, Connection):
            one.loop.call_soon_threadsafe(one.transport.abort)


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
            oldest = sorted(live, key=lambda one: (one is self, not one.is_idle, one.idle_since_s))
            oldest[0].transport.abort()

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
