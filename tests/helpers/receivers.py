"""A stand-in for Alertmanager, or for its webhook: it keeps what is posted to it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from prism_common.service.serving import served


@dataclass
class Posted:
    """What came, post by post; ``status`` is the answer, and what is not taken is not kept."""

    url: str = ""
    status: int = 200
    posts: list[tuple[str, Any]] = field(default_factory=list)

    @property
    def alerts(self) -> list[dict[str, Any]]:
        """The alerts of all posts that were taken."""
        return [alert for _, content in self.posts for alert in content]


@contextmanager
def receiver() -> Iterator[Posted]:
    """Listen on loopback while the block runs."""
    posted = Posted()

    async def take(request: Request) -> Response:
        if posted.status == 200:
            posted.posts.append((request.url.path, await request.json()))
        return Response(status_code=posted.status)

    app = Starlette(routes=[Route("/{path:path}", take, methods=["POST"])])
    with served(app, "127.0.0.1", 0) as url:
        posted.url = url.rstrip("/")
        yield posted
