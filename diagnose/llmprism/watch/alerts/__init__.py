"""Alerts: one for each incident, and one for each reason why the monitor does not see.

The labels identify an alert, so they hold names and no quantities. Only the severity can rise; all
else that changes is in the annotations.

All events are lines of a file, which turns over: one of TURN_BYTES becomes ``alerts.jsonl.1``, in
place of the one of before. An event is in the state before it is written there. After a crash, the
number of the last line shows which events are missing; a line that was cut off is removed.
"""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from llmprism.watch.logging import rfc3339
from llmprism.watch.state import Blindness, Incident, short_name
from llmprism.watch.state_folder import compact

_NS, _MS = 1_000_000_000, 1_000


@dataclass(frozen=True)
class Alert:
    """One alert; ``end_ns`` is None while it is open, ``id`` is empty without an incident. [ns]."""

    labels: dict[str, str]
    annotations: dict[str, str]
    start_ns: int
    end_ns: int | None = None
    figures: dict[str, Any] = field(default_factory=dict)

    @property
    def id(self) -> str:
        """The name of its incident in addresses; empty without one."""
        key = self.figures.get("incident")
        return short_name(key) if key else ""

    @property
    def identity(self) -> tuple[tuple[str, str], ...]:
        """What tells it from all others: its labels."""
        return tuple(sorted(self.labels.items()))

    @staticmethod
    def of_event(event: Mapping[str, Any]) -> Alert:
        """The alert of an event."""
        ends = event["endsAt"]
        figures = {"incident": event["incident"]} if "incident" in event else {}
        start_ns, end_ns = _time_ns(event["startsAt"]), ends and _time_ns(ends)
        return Alert(event["labels"], event["annotations"], start_ns, end_ns, figures)

    def as_event(self, event: str, number: int) -> dict[str, Any]:
        """The line of an event: opened, updated or resolved."""
        return {
            "event": event,
            "number": number,
            "labels": self.labels,
            "annotations": self.annotations,
            "startsAt": rfc3339(self.start_ns),
            "endsAt": None if self.end_ns is None else rfc3339(self.end_ns),
            **self.figures,
        }


def of_incident(incident: Incident) -> Alert:
    """The alert of an incident."""
    figures: dict[str, Any] = {
        "first_step": incident.first_step,
        "last_step": incident.last_step,
        "gpu_hours": round(incident.gpu_hours, 6),
        "magnitude": round(incident.magnitude, 4),
        "confidence": round(incident.confidence, 4),
    }
    annotations = {"summary": incident.sentence}
    annotations |= {name: f"{value:g}" for name, value in figures.items()}
    end_ns = incident.end_ns if incident.stage == "resolved" else None
    figures["incident"] = incident.key
    return Alert(incident.labels, annotations, incident.start_ns, end_ns, figures)


def of_blindness(name: str, blind: Blindness, end_ns: int | None = None) -> Alert:
    """The alert of a reason why the monitor does not see."""
    labels = {"alertname": name.partition("/")[0], "severity": blind.severity, **blind.labels}
    return Alert(labels, {"summary": blind.text}, blind.start_ns, end_ns)


def _time_ns(text: str) -> int:
    return round(datetime.fromisoformat(text).timestamp() * _MS) * (_NS // _MS)


TURN_BYTES, _TAIL_BYTES = 1 << 26, 1 << 16


class AlertLines:
    """Appends events to a file."""

    def __init__(self, path: Path, turn_bytes: int = TURN_BYTES) -> None:
        self.path, self._turn_bytes = path, turn_bytes
        self._before = path.with_name(f"{path.name}.1")
        self.written = _last_number(path) or _last_number(self._before)

    def write(self, events: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
        """Append the events that are not in the file yet, and return them."""
        fresh = [event for event in events if event["number"] > self.written]
        if fresh:
            self._append("".join(f"{compact(event)}\n" for event in fresh).encode())
            self.written = fresh[-1]["number"]
        return fresh

    def _append(self, content: bytes) -> None:
        """Append all of ``content``, or nothing."""
        if self.path.exists() and self.path.stat().st_size >= self._turn_bytes:
            self.path.replace(self._before)
        with self.path.open("ab", buffering=0) as file:
            size = file.tell()
            try:
                if file.write(content) < len(content):
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self.path))
                os.fsync(file.fileno())
            except OSError:
                file.truncate(size)
                raise


def _last_number(path: Path) -> int:
    """Number of the last event of a file, whose last line is removed if it was cut off."""
    if not path.exists():
        return 0
    with path.open("rb+") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - _TAIL_BYTES))
        tail = file.read()
        whole = tail[: tail.rfind(b"\n") + 1]
        file.truncate(size - len(tail) + len(whole))
    lines = whole.splitlines()
    return int(json.loads(lines[-1])["number"]) if lines else 0
