"""Alerts: one for each incident, and one for each reason why the monitor does not see.

The labels identify an alert and never change, so they hold names and no quantities. All that
changes is in the annotations.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from llmprism.watch.state import Blindness, Incident

_NS = 1_000_000_000


@dataclass(frozen=True)
class Alert:
    """One alert; ``end_ns`` is None while it is open. Times in [ns]."""

    labels: dict[str, str]
    annotations: dict[str, str]
    start_ns: int
    end_ns: int | None = None
    figures: dict[str, Any] = field(default_factory=dict)

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
    labels = {"alertname": name, "severity": "critical"}
    return Alert(labels, {"summary": blind.text}, blind.start_ns, end_ns)


def rfc3339(time_ns: int) -> str:
    """A time in UTC, to the millisecond.

    >>> rfc3339(1_500_000_000)
    '1970-01-01T00:00:01.500Z'
    """
    moment = datetime.fromtimestamp(time_ns // _NS, UTC)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{time_ns % _NS // 1_000_000:03d}Z"
