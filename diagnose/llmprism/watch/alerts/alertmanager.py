"""Alerts to Prometheus' Alertmanager, through its API (``POST /api/v2/alerts``).

Alertmanager resolves an alert that is not sent again in time. So each open alert is sent again
every minute, and says that it ends in five: a monitor that dies does not leave it open. A resolved
alert is sent until Alertmanager has taken it. To send an alert twice does no harm, because its
labels identify it.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from typing import Any
from urllib import request
from urllib.error import URLError
from urllib.parse import urlsplit

import pandas as pd

from llmprism.watch.alerts import Alert, of_blindness, of_incident, rfc3339
from llmprism.watch.sources import Taken
from llmprism.watch.state import State
from llmprism.watch.view import View
from prism_common.errors import Problem, UserError

AGAIN_S, LASTS_S = 60.0, 300.0
_RETRY_S = 5.0
_TIMEOUT_S = 2.0
_NS = 1_000_000_000
_FIELDS = ("labels", "annotations", "startsAt", "endsAt")


class Alertmanager:
    """Sends what is open, and what was resolved.

    Attributes
    ----------
    sent, failed : numbers of posts.
    problem : why the last one failed; empty if it did not.
    """

    def __init__(self, url: str, page_url: str = "") -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.netloc:
            how = "write it as http://alertmanager:9093"
            raise UserError(Problem(f"{url!r} is no address", "--alertmanager", how))
        self._url = url.rstrip("/") + "/api/v2/alerts"
        self._page_url = page_url
        self._resolved: list[dict[str, Any]] | None = None  # None: not known since the start
        self._next_s = 0.0
        self.sent = self.failed = 0
        self.problem = ""

    def took(self, state: State, taken: Taken) -> None:
        """Send nothing."""

    def diagnosed(self, state: State, view: View) -> None:
        """Send nothing: events follow."""

    def followed(self, state: State, steps: pd.DataFrame) -> None:
        """Post nothing: events follow."""

    def happened(self, state: State, events: Sequence[dict[str, Any]]) -> None:
        """Send what has changed, or all that is open once a minute."""
        if self._resolved is None:
            ended = [of_incident(one) for one in state.incidents if one.stage == "resolved"]
            self._resolved = [_wire(alert) for alert in ended]
        self._resolved += [
            {name: event[name] for name in _FIELDS}
            for event in events
            if event["event"] == "resolved"
        ]
        if events:
            self._next_s = 0.0
        if time.monotonic() >= self._next_s:
            self._send(state)

    def failed_to_store(self, text: str) -> None:
        """Send nothing: what is open is sent again in any case."""

    def _send(self, state: State) -> None:
        ends = rfc3339(time.time_ns() + round(LASTS_S * _NS))
        opened = [of_incident(one) for one in state.incidents if one.stage == "open"]
        opened += [of_blindness(name, blind) for name, blind in state.blind.items()]
        alerts = [{**_wire(alert), "endsAt": ends} for alert in opened]
        body = [*(self._resolved or []), *alerts]
        for alert in body:
            alert["generatorURL"] = self._page_url
        if body and not self._post(body):
            self._next_s = time.monotonic() + _RETRY_S
            return
        self._resolved = []
        self._next_s = time.monotonic() + AGAIN_S

    def _post(self, body: list[dict[str, Any]]) -> bool:
        """Send; return whether Alertmanager took it."""
        content = json.dumps(body).encode()
        headers = {"Content-Type": "application/json"}
        try:
            with request.urlopen(request.Request(self._url, content, headers), timeout=_TIMEOUT_S):
                self.sent += 1
                self.problem = ""
                return True
        except (URLError, OSError, ValueError) as error:
            self.failed += 1
            self.problem = f"{self._url}: {getattr(error, 'reason', error)}"
            return False


def _wire(alert: Alert) -> dict[str, Any]:
    event = alert.as_event("", 0)
    return {name: event[name] for name in _FIELDS}
