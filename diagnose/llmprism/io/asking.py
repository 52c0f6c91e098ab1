"""Answers of servers, bounded in time and size; none that another server gives."""

from __future__ import annotations

import ssl
import time
from http.client import HTTPException
from typing import Any
from urllib.request import HTTPRedirectHandler, HTTPSHandler, Request, build_opener


def is_address(place: str) -> bool:
    """Whether a place is that of a server, and no file."""
    return place.startswith(("http://", "https://"))


class _Stays(HTTPRedirectHandler):
    """Refuses to go where an answer leads: a token is for one server."""

    def redirect_request(self, *given: Any) -> None:
        """Raise."""
        raise ValueError(f"it leads to {given[-1]}")


def answer_of(
    asked: Request, seconds: float, most_bytes: int, context: ssl.SSLContext | None = None
) -> bytes:
    """The body of an answer.

    Raises
    ------
    OSError, ValueError : there is none in this time, it is larger, leads elsewhere, or no HTTP.
    """
    ends_s, body = time.monotonic() + seconds, bytearray()
    try:
        opener = build_opener(_Stays(), HTTPSHandler(context=context))
        with opener.open(asked, timeout=seconds) as answer:
            while piece := answer.read1(1 << 16):
                body += piece
                if len(body) > most_bytes:
                    raise ValueError(f"longer than {most_bytes >> 20} MiB")
                if time.monotonic() > ends_s:
                    raise TimeoutError(f"not whole after {seconds:.0f} s")
    except HTTPException as error:
        raise ValueError(f"no HTTP: {error!r}") from error
    return bytes(body)
