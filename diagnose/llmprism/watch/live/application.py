"""The web application: the page, its events, the details of a job, and metrics.

Only this machine may ask, unless there is a token. A browser gets it once as
``/?token=...`` and keeps it in a cookie; Prometheus sends it as a bearer token. Without a token,
requests must name this machine as their host: a page of another site, whose name was made to lead
here, names its own. ``/-/healthy`` and ``/-/ready`` say nothing about the cluster, so they are
answered to all, as a supervisor asks them.
"""

from __future__ import annotations

import asyncio
import hmac
import json
import time
from collections.abc import AsyncIterator, Sequence
from importlib.resources import files
from typing import Any
from urllib.parse import urlsplit

import pandas as pd
from sse_starlette import EventSourceResponse
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from llmprism.watch.listening import Listener
from llmprism.watch.live.snapshot import details, snapshot
from llmprism.watch.metrics import Metrics
from llmprism.watch.shown import Shown, shown_after
from llmprism.watch.sources import Taken
from llmprism.watch.state import State
from llmprism.watch.view import View
from prism_common.service.guard import Guard
from prism_common.service.serving import is_local

_LOOK_S = 0.25
_ALIVE_S = 900.0  # without a round: a diagnosis takes minutes at most
_OPEN = ("/-/healthy", "/healthz", "/-/ready")
_COOKIE = "llmprism_token"
_HEADERS = {
    "Content-Security-Policy": "default-src 'self'; img-src 'self' data:; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}
_FILES = {
    "/": ("llmprism.watch.live", "live.html", "text/html"),
    "/live.js": ("llmprism.watch.live", "live.js", "text/javascript"),
    "/live.css": ("llmprism.watch.live", "live.css", "text/css"),
    "/page.css": ("llmprism.page", "page.css", "text/css"),
}


class Live(Listener):
    """What the monitor saw last; ``version`` grows whenever that changes."""

    def __init__(self, guard: Guard | None = None) -> None:
        self.guard = guard or Guard()
        self.version = 0
        self.has_ended = False
        self.shown: Shown | None = None
        self.rounds, self._round_s = 0, time.monotonic()
        self._state, self._problem = State(), ""

    @property
    def is_alive(self) -> bool:
        """Whether the monitor has ended a round lately."""
        return time.monotonic() < self._round_s + _ALIVE_S

    def took(self, state: State, taken: Taken) -> None:
        """Take note of the records that came."""
        self._show(state)

    def diagnosed(self, state: State, view: View) -> None:
        """Take note of a window, whose figures are computed here, in the monitor's thread."""
        shown = shown_after(self.shown, view)
        if shown.views:
            self.shown = shown

    def followed(self, state: State, steps: pd.DataFrame) -> None:
        """Take note of the steps."""
        if self.shown is not None:
            self.shown = self.shown.with_steps(steps)

    def happened(self, state: State, events: Sequence[dict[str, Any]]) -> None:
        """Take note of the incidents."""
        self.rounds, self._round_s = self.rounds + 1, time.monotonic()
        self._show(state)

    def failed_to_store(self, text: str) -> None:
        """Take note that the disk does not take the state."""
        self._problem = text
        self.version += 1

    def end(self) -> None:
        """End all streams of events."""
        self.has_ended = True

    def content(self) -> str:
        """The snapshot as JSON."""
        return json.dumps(snapshot(self._state, self.shown, self._problem))

    def _show(self, state: State) -> None:
        if state is not self._state:
            self._state = state
            self.version += 1


def application(live: Live, metrics: Metrics, token: str) -> Starlette:
    """The application; without a ``token``, each request is answered."""

    async def events(_request: Request) -> Response:
        return EventSourceResponse(_changes(live), headers=_HEADERS)

    def job(request: Request) -> Response:
        shown = live.shown
        found = details(shown, request.path_params["name"]) if shown else None
        if found is None:
            return JSONResponse({"error": "no such job"}, 404, _HEADERS)
        return Response(json.dumps(found), media_type="application/json", headers=_HEADERS)

    def figures(_request: Request) -> Response:
        text = "text/plain; version=0.0.4"
        return Response(metrics.text(), media_type=text, headers=_HEADERS)

    def healthy(_request: Request) -> Response:
        failing = "".join(f"\nfails: {part}" for part in sorted(live.guard.present()))
        no = "no round has ended for 15 minutes"
        return _answer(live.is_alive, f"healthy{failing}", f"{no}{failing}")

    def ready(_request: Request) -> Response:
        return _answer(live.rounds > 0, "ready", "the first round has not ended")

    routes = [Route(path, _file) for path in _FILES]
    routes += [Route("/events", events), Route("/jobs/{name:path}", job)]
    routes += [Route("/metrics", figures)]
    routes += [Route("/-/healthy", healthy), Route("/healthz", healthy), Route("/-/ready", ready)]
    return Starlette(routes=routes, middleware=[Middleware(Gate, token=token)])


async def _changes(live: Live) -> AsyncIterator[dict[str, str]]:
    seen = -1
    while not live.has_ended:
        if live.version != seen:
            seen = live.version
            yield {"event": "snapshot", "data": live.content()}
        await asyncio.sleep(_LOOK_S)


def _answer(is_right: bool, yes: str, no: str) -> Response:
    """200 or 503, in words."""
    return PlainTextResponse(f"{yes if is_right else no}\n", 200 if is_right else 503, _HEADERS)


def _file(request: Request) -> Response:
    package, name, kind = _FILES[request.url.path]
    content = files(package).joinpath("templates", name).read_bytes()
    return Response(content, media_type=kind, headers=_HEADERS)


class Gate:
    """Answers who may ask: this machine by its own name, or who has the token if there is one."""

    def __init__(self, app: ASGIApp, token: str) -> None:
        self._app, self._token = app, token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or hand it on."""
        if scope["type"] == "http" and scope.get("path") not in _OPEN:
            refusal = self._refusal(Request(scope))
            if refusal is not None:
                await refusal(scope, receive, send)
                return
        await self._app(scope, receive, send)

    def _refusal(self, request: Request) -> Response | None:
        if not self._token:
            text = "421: ask for localhost; for other names, start the monitor with --token-file\n"
            own = is_local(_host_of(request))
            return None if own else PlainTextResponse(text, 421, _HEADERS)
        given = request.query_params.get("token", "")
        header = request.headers.get("authorization", "").removeprefix("Bearer ")
        if self._is_right(given):
            answer = RedirectResponse("/", 303)
            answer.set_cookie(_COOKIE, given, httponly=True, samesite="strict")
            return answer
        if self._is_right(header) or self._is_right(request.cookies.get(_COOKIE, "")):
            return None
        headers = {**_HEADERS, "WWW-Authenticate": "Bearer"}
        return PlainTextResponse("401: open this page as /?token=TOKEN\n", 401, headers)

    def _is_right(self, given: str) -> bool:
        return hmac.compare_digest(given.encode(), self._token.encode())


def _host_of(request: Request) -> str:
    """The host that a request names, without its port; empty if that is none."""
    try:
        return urlsplit(f"//{request.headers.get('host', '')}").hostname or ""
    except ValueError:
        return ""
