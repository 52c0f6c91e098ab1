"""Runs the web application beside the monitor, in a thread of its own."""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import uvicorn
from starlette.applications import Starlette

from prism_common.errors import Problem, UserError
from prism_common.service.connections import Connection
from prism_common.service.guard import Guard

LOCAL = "127.0.0.1"
_BACKLOG = 16  # connections that wait to be accepted
_LEAVE_S = 0.7  # for streams of events to end


def is_local(host: str) -> bool:
    """Whether a name or address is that of this machine alone.

    >>> is_local("localhost"), is_local("::1"), is_local("127.0.0.1.evil.example")
    (True, True, False)
    """
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


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
        token = file.read_text(encoding="utf-8", errors="replace").strip()
        if token:
            return token
        raise UserError(Problem("there is no token in it", str(file)))
    if is_local(host):
        return ""
    what = f"other machines can reach {host}, so the page needs a token"
    raise UserError(Problem(what, "--serve", "name a file with one: --token-file FILE"))


def bound(host: str, port: int) -> socket.socket:
    """A socket that listens; port 0 is any that is free.

    Raises
    ------
    UserError : it cannot.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
        listening.listen()
    except OSError as error:
        listening.close()
        reason = error.strerror or str(error)
        raise UserError(Problem(f"cannot serve on port {port}: {reason}", "--serve")) from error
    return listening


@contextmanager
def served(app: Starlette, host: str, port: int, guard: Guard | None = None) -> Iterator[str]:
    """Serve while the block runs; yield the URL. Port 0 is any that is free."""
    with bound(host, port) as listening:
        config = uvicorn.Config(
            app,
            http=Connection,
            ws="none",
            log_level="error",
            backlog=_BACKLOG,
            timeout_graceful_shutdown=1,
        )
        server = uvicorn.Server(config)

        def serve() -> None:
            server.run([listening])
            if not server.should_exit:
                raise RuntimeError("the page is served no more")

        thread = (guard or Guard()).thread("live page", serve)
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
