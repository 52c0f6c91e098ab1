"""Alerts: one for each incident, and one for each reason why the monitor does not see.

The labels identify an alert, so they hold names and no quantities. Only the severity can rise; all
else that changes is in the annotations.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from llmprism.watch.logging import rfc3339
from llmprism.watch.state import Blindness, Incident, short_name

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
