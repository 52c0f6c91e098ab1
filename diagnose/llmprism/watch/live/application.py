"""The web application: the page, its events, the details of a job, and metrics.

A page shows plain values: one snapshot of all, and the details of one job.

Only this machine may ask, unless there is a token. A browser gets it once as
``/?token=...`` and keeps it in a cookie; Prometheus sends it as a bearer token. Without a token,
requests must name this machine as their host: a page of another site, whose name was made to lead
here, names its own. ``/-/healthy`` and ``/-/ready`` say nothing about the cluster, so they are
answered to all, as a supervisor asks them.
"""

from __future__ import annotations

import asyncio
import hmac
import ipaddress
import json
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import asdict
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

from llmprism.page.cards import cards_of
from llmprism.page.close_up import close_ups
from llmprism.page.delays import delay_map
from llmprism.part_names import condensed
from llmprism.watch.listening import Listener
from llmprism.watch.logging import rfc3339
from llmprism.watch.metrics import Metrics
from llmprism.watch.sources import Taken
from llmprism.watch.state import Exporter, Incident, State
from llmprism.watch.view import JobFigures, Shown, View, shown_after

_STEPS = 60  # lengths of steps that are drawn
_INCIDENTS = 50
_STAGES = ("open", "new", "resolved")
_LOOK_S = 0.25
_ALIVE_S = 900.0  # without a round: a diagnosis takes minutes at most
_OPEN = ("/-/healthy", "/-/ready")
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

    def __init__(self) -> None:
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
        return _answer(live.is_alive, "healthy", "no round has ended for 15 minutes")

    def ready(_request: Request) -> Response:
        return _answer(live.rounds > 0, "ready", "the first round has not ended")

    routes = [Route(path, _file) for path in _FILES]
    routes += [Route("/events", events), Route("/jobs/{name:path}", job)]
    routes += [Route("/metrics", figures)]
    routes += [Route("/-/healthy", healthy), Route("/-/ready", ready)]
    guard = Middleware(Guard, token=token) if token else Middleware(OwnHosts)
    return Starlette(routes=routes, middleware=[guard])


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


class OwnHosts:
    """Answers 421 to each request that names another host than this machine."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or hand it on."""
        is_open = scope.get("path") in _OPEN
        if scope["type"] != "http" or is_open or is_local(_host_of(Request(scope))):
            await self._app(scope, receive, send)
            return
        text = "421: ask for localhost; for other names, start the monitor with --token-file\n"
        await PlainTextResponse(text, 421, _HEADERS)(scope, receive, send)


def _host_of(request: Request) -> str:
    """The host that a request names, without its port; empty if that is none."""
    try:
        return urlsplit(f"//{request.headers.get('host', '')}").hostname or ""
    except ValueError:
        return ""


def is_local(host: str) -> bool:
    """Whether a name or address is that of this machine alone.

    >>> is_local("localhost"), is_local("::1"), is_local("127.0.0.1.evil.example")
    (True, True, False)
    """
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class Guard:
    """Answers 401 to each request without the token."""

    def __init__(self, app: ASGIApp, token: str) -> None:
        self._app, self._token = app, token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or hand it on."""
        if scope["type"] != "http" or scope.get("path") in _OPEN:
            await self._app(scope, receive, send)
            return
        request = Request(scope)
        given = request.query_params.get("token", "")
        header = request.headers.get("authorization", "").removeprefix("Bearer ")
        if self._is_right(given):
            answer: Response = RedirectResponse("/", 303)
            answer.set_cookie(_COOKIE, given, httponly=True, samesite="strict")
            await answer(scope, receive, send)
        elif self._is_right(header) or self._is_right(request.cookies.get(_COOKIE, "")):
            await self._app(scope, receive, send)
        else:
            headers = {**_HEADERS, "WWW-Authenticate": "Bearer"}
            text = "401: open this page as /?token=TOKEN\n"
            await PlainTextResponse(text, 401, headers)(scope, receive, send)

    def _is_right(self, given: str) -> bool:
        return hmac.compare_digest(given.encode(), self._token.encode())


def snapshot(state: State, shown: Shown | None, problem: str) -> dict[str, Any]:
    """The state of the monitor, its incidents and its jobs."""
    blind = [{"name": name, "text": one.text} for name, one in state.blind.items()]
    if problem:
        blind.append({"name": "StateNotWritten", "text": problem})
    return {
        "watermark": _time(state.watermark_ns),
        "cursor": _time(state.cursor_ns),
        "blind": blind,
        "fates": state.fates,
        "exporters": [_exporter(name, one) for name, one in sorted(state.exporters.items())],
        "hiccups": state.hiccups,
        "incidents": [_incident(one) for one in _shown(state.incidents)],
        "jobs": [_job(one) for one in shown.jobs] if shown else [],
        "took_s": shown.latest.took_s if shown else None,
    }


def details(shown: Shown, job: str) -> dict[str, Any] | None:
    """The delays of a job's servers by step, and its timeline; None if no window has the job."""
    if job not in shown.views:
        return None
    tables = shown.views[job].tables
    cards = [card for card in cards_of(tables) if card.job == job]
    timelines = close_ups(tables, [job], cards[:1])
    return {
        "job": job,
        "delays": delay_map(tables, job, cards),
        "timeline": timelines[0] if timelines else None,
    }


def _shown(incidents: Sequence[Incident]) -> list[Incident]:
    """The latest incidents: those that are open first."""
    ordered = sorted(incidents, key=lambda one: (_STAGES.index(one.stage), -one.start_ns))
    return [one for one in ordered if one.stage != "new"][:_INCIDENTS]


def _incident(one: Incident) -> dict[str, Any]:
    return {
        "id": one.id,
        "stage": one.stage,
        "severity": one.labels["severity"],
        "job": one.job,
        "place": one.place,
        "text": one.sentence,
        "since": rfc3339(one.start_ns),
        "steps": [one.first_step, one.last_step],
        "gpu_hours": one.gpu_hours,
    }


def _exporter(name: str, one: Exporter) -> dict[str, Any]:
    return {
        "name": name,
        "offset_ms": one.offset_ns / 1e6,
        "seen": rfc3339(one.seen_ns),
        "rate": one.rate_per_s,
        "lost": one.lost,
    }


def _job(one: JobFigures) -> dict[str, Any]:
    lengths = [[step, length / 1e6] for step, length in one.lengths_ns.items()]
    shown = {**asdict(one), "servers": condensed(one.servers), "server_count": len(one.servers)}
    del shown["lengths_ns"], shown["step_ns"]
    step_ms = None if one.step_ns is None else one.step_ns / 1e6
    return {**shown, "step_ms": step_ms, "lengths_ms": lengths[-_STEPS:]}


def _time(time_ns: int | None) -> str | None:
    return None if time_ns is None else rfc3339(time_ns)
