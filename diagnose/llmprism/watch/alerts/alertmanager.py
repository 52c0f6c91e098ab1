"""Alerts to Prometheus' Alertmanager, through its API (``POST /api/v2/alerts``).

Alertmanager resolves an alert that is not sent again in time. So each open alert is sent again
every minute, and says that it ends in five: a monitor that dies does not leave it open. A resolved
alert is sent until Alertmanager has taken it. Alertmanager notifies nobody of an alert that is
over before its group waits no more (``group_wait``, 30 s as a rule), so each alert is sent as open
for LEAST_OPEN_S at least, also if it opened and resolved at once. To send an alert twice does no
harm, because its labels identify it.

A thread posts, so an Alertmanager that answers late delays nothing else.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import quote, urlsplit
from urllib.request import Request

from llmprism.io.asking import answer_of
from llmprism.watch.alerts import Alert, of_blindness, of_incident
from llmprism.watch.listening import Listener
from llmprism.watch.logging import LOGGER, reason_of, rfc3339
from llmprism.watch.state import Blindness, State
from prism_common.errors import Problem, UserError

AGAIN_S, LASTS_S, LEAST_OPEN_S = 60.0, 300.0, 90.0
_RETRY_S = 5.0
_TIMEOUT_S, _LARGEST_BYTES = 5.0, 1 << 20  # of an answer
_AWAY_S = 15.0  # without a post that was taken: then alerts are not sent
_NS = 1_000_000_000


@dataclass(frozen=True)
class Addresses:
    """Where people find more, and what tells several monitors apart.

    Attributes
    ----------
    page_url : of the live page, as others reach it; empty without one.
    runbook_url : of the text about an alert, to which its name is appended; empty without one.
    labels : added to those of each alert.
    """

    page_url: str = ""
    runbook_url: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)

    def wire(self, alert: Alert, ends_at: str) -> dict[str, Any]:
        """An alert as the API takes it."""
        labels, annotations = {**self.labels, **alert.labels}, dict(alert.annotations)
        if self.runbook_url:
            annotations["runbook_url"] = self.runbook_url + quote(alert.labels["alertname"])
        page = self.page_url.rstrip("/")
        path = f"/?incident={alert.id}" if alert.id else "/"
        return {
            "labels": labels,
            "annotations": annotations,
            "startsAt": rfc3339(alert.start_ns),
            "endsAt": ends_at,
            "generatorURL": page + path if page else "",
        }


@dataclass
class _Sent:
    """An alert on its way; ``taken_s`` is when it was taken, as open [s]."""

    alert: Alert
    taken_s: float | None = None
    is_over: bool = False


def place_for(url: str) -> str:
    """Where to post alerts to; an error of the user if the URL is no address."""
    with suppress(ValueError):  # a port that is no number, or half of an IPv6 address
        parts = urlsplit(url)
        if parts.scheme in ("http", "https") and parts.hostname and parts.port != 0:
            return url.rstrip("/") + "/api/v2/alerts"
    how = "write it as http://alertmanager:9093"
    raise UserError(Problem(f"{url!r} is no address", "--alertmanager", how))


class Alertmanager(Listener):
    """Sends what is open, and what was resolved.

    Attributes
    ----------
    sent, failed : numbers of posts.
    """

    def __init__(
        self, url: str, addresses: Addresses | None = None, least_open_s: float = LEAST_OPEN_S
    ) -> None:
        self._url = place_for(url)
        self.addresses = addresses or Addresses()
        self._least_open_s = least_open_s
        self._alerts: dict[tuple[tuple[str, str], ...], _Sent] = {}
        self._is_known = False  # whether what was resolved before the start is sent
        self._not_written: Alert | None = None
        self._next_s = self._failing_s = 0.0
        self._has_news, self._is_closed = threading.Condition(), False
        self.sent = self.failed = 0
        self.problem = ""
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def happened(self, state: State, events: Sequence[dict[str, Any]]) -> None:
        """Take over what is open, and what was resolved."""
        opened = [of_incident(one) for one in state.incidents if one.stage == "open"]
        opened += [of_blindness(name, blind) for name, blind in state.blind.items()]
        opened += [self._not_written] if self._not_written else []
        ended = [Alert.of_event(one) for one in events if one["event"] == "resolved"]
        with self._has_news:
            if not self._is_known:
                self._is_known = True
                resolved = [of_incident(one) for one in state.incidents if one.stage == "resolved"]
                self._alerts |= {one.identity: _Sent(one, 0.0, True) for one in resolved}
            self._update(opened, ended)
            if events:
                self._next_s = 0.0
            self._has_news.notify()

    def failed_to_store(self, text: str) -> None:
        """Send that the disk does not take the state: no event can say so."""
        before, self._not_written = self._not_written, None
        if text:
            start_ns = before.start_ns if before else time.time_ns()
            self._not_written = of_blindness("StateNotWritten", Blindness(text, start_ns))
        with self._has_news:
            if self._not_written:
                self._update([self._not_written], [])
            elif before:
                self._update([], [replace(before, end_ns=time.time_ns())])
            self._next_s = 0.0 if bool(before) != bool(text) else self._next_s
            self._has_news.notify()

    def close(self) -> None:
        """Send what was not sent yet, once, and end."""
        with self._has_news:
            self._is_closed = True
            self._has_news.notify()
        self._thread.join(3 * _TIMEOUT_S)

    def _update(self, opened: Sequence[Alert], ended: Sequence[Alert]) -> None:
        """Take over alerts; one of an incident that became worse goes on under other labels."""
        present = {one.id: one.identity for one in opened if one.id}
        for identity, known in self._alerts.items():
            if present.get(known.alert.id, identity) != identity and not known.is_over:
                known.alert, known.is_over = replace(known.alert, end_ns=time.time_ns()), True
        for alert in opened:
            known = self._alerts.setdefault(alert.identity, _Sent(alert))
            known.alert, known.is_over = alert, False
        for alert in ended:
            known = self._alerts.setdefault(alert.identity, _Sent(alert))
            known.alert, known.is_over = alert, True

    def _run(self) -> None:
        while True:
            with self._has_news:
                while not self._is_closed and time.monotonic() < self._next_s:
                    self._has_news.wait(max(self._next_s - time.monotonic(), 0.01))
                is_last, now_s = self._is_closed, time.monotonic()
                body, taken = self._body(now_s)
                self._next_s = now_s + AGAIN_S
                if not body and not is_last:
                    self._has_news.wait(1.0)
                    self._next_s = 0.0
            if body:
                self._after(self._post(body), taken, now_s)
            if is_last:
                return

    def _body(self, now_s: float) -> tuple[list[dict[str, Any]], list[_Sent]]:
        """What to send now, and the alerts that it has."""
        now_ns = time.time_ns()
        later_ns = now_ns + round(LASTS_S * _NS)
        taken = [*self._alerts.values()]
        ends = [
            (one.alert.end_ns or now_ns) if self._has_ended(one, now_s) else later_ns
            for one in taken
        ]
        pairs = zip(taken, ends, strict=True)
        return [self.addresses.wire(one.alert, rfc3339(end)) for one, end in pairs], taken

    def _has_ended(self, one: _Sent, now_s: float) -> bool:
        """Whether an alert that is over has been open for long enough to be noticed."""
        return one.is_over and one.taken_s is not None and now_s >= one.taken_s + self._least_open_s

    def _after(self, was_taken: bool, sent: list[_Sent], now_s: float) -> None:
        with self._has_news:
            if not was_taken:
                self._next_s = min(self._next_s, now_s + _RETRY_S)
                return
            for one in sent:
                if self._has_ended(one, now_s):
                    self._alerts.pop(one.alert.identity, None)
                elif one.taken_s is None:
                    one.taken_s = now_s
            due = [one.taken_s + self._least_open_s for one in self._alerts.values()
                   if one.is_over and one.taken_s is not None]  # fmt: skip
            self._next_s = min([self._next_s, *due])

    def _post(self, body: list[dict[str, Any]]) -> bool:
        """Send; return whether Alertmanager took it."""
        headers = {"Content-Type": "application/json"}
        asked = Request(self._url, json.dumps(body).encode(), headers)
        try:
            answer_of(asked, _TIMEOUT_S, _LARGEST_BYTES)
            self.sent += 1
            self.problem, self._failing_s = "", 0.0
            return True
        except Exception as error:  # an answer may be anything, also no HTTP
            self.failed += 1
            text = f"{self._url}: {reason_of(error)}"
            if not self._failing_s:
                self._failing_s = time.monotonic()
                LOGGER.warning("a post to Alertmanager failed, and is tried again: %s", text)
            if time.monotonic() >= self._failing_s + _AWAY_S:
                self.problem = f"Alertmanager takes no alerts: {text}"
            return False
