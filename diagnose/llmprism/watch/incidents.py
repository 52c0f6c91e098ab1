"""Incidents: one cause from its first step to its last, in all windows that show it.

A finding continues an incident of the same job and the same place if their times overlap, or are
less than the quiet period apart: a fault that returns at once is one incident. That of the same
cause comes first; but a window may know the cause of an incident better than the one before, so
one of another cause follows, if no finding has its own. A finding that reaches the last step of
its window is announced when a window that ends a step later has it, too, because the end of a
window shows a step from one side only: it may still be taken, or be slow for another cause.
Findings of a job that has only just begun are not used: one step of it can look like many. An
incident is resolved when the job has trained for the quiet period without it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pandas as pd

from llmprism.batches.chains import ends_of, period_of
from llmprism.diagnosis import Diagnosis
from llmprism.finding_fields import number, text
from llmprism.part_names import Parts
from llmprism.sentences import JobFacts, facts_of, finding_text, gpu_hours
from llmprism.watch.alerts import Alert, of_incident
from llmprism.watch.following import Followed
from llmprism.watch.settings import Settings
from llmprism.watch.state import Incident, State
from llmprism.watch.window import Span

_GPUS_LOST = {"critical": 8.0, "warning": 1.0}
"""Severities by GPU-hours lost in an hour: those of a server, and those of a GPU."""
_MATERIAL = 2.0  # times the cost that was announced
_SURER = 0.1  # of the confidence


def take_findings(
    followed: Followed, parts: Parts, state: State, span: Span, settings: Settings, is_last: bool
) -> Iterator[tuple[str, Alert]]:
    """Bring the incidents up to date; yield each event: ``opened``, ``updated`` or ``resolved``."""
    diagnosis, quiet_ns = followed.diagnosis, settings.quiet_ns
    facts = facts_of(diagnosis.jobs, diagnosis.steps, parts)
    ends = ends_of(diagnosis.steps)
    findings = _usable(diagnosis, span.end_ns - (0 if is_last else settings.young_ns))
    for finding, known in _matched(findings, parts, state, quiet_ns):
        job = facts.get(str(finding["job"]), JobFacts())
        if known is None:
            incident = _new(finding, parts, job, span)
            state.incidents.append(incident)
        else:
            incident = known
            _extend(incident, finding, parts, job)
        if incident.stage == "new" and (is_last or _is_whole(incident, followed, ends, span)):
            incident.stage = "open"
            yield _event("opened", incident)
        elif incident.stage == "open" and _is_material(incident):
            yield _event("updated", incident)
    yield from resolved(diagnosis.steps.groupby("job")["end_ns"].max(), state, quiet_ns)


def _is_whole(
    incident: Incident, followed: Followed, ends: Mapping[str, pd.Series], span: Span
) -> bool:
    """Whether its steps are seen from both sides, or nothing has come for a step."""
    if incident.last_step < followed.last_step.get(incident.job, incident.last_step):
        return True
    own = ends.get(incident.job)
    period_ns = period_of(own, 0.0) if own is not None else 0.0
    return span.end_ns > incident.seen_ns + period_ns


def _usable(diagnosis: Diagnosis, until_ns: int) -> list[dict[str, Any]]:
    """The findings with times, about jobs that the records can show and that began by a time."""
    begins_ns = diagnosis.steps.groupby("job")["start_ns"].min()
    rows = [
        {str(key): value for key, value in row.items()}
        for row in diagnosis.findings.to_dict("records")
    ]
    return [
        row
        for row in rows
        if number(row.get("start_ns")) is not None
        and number(row.get("end_ns")) is not None
        and not diagnosis.verdict.doubted(str(row["job"]))
        and begins_ns.get(row["job"], 0) <= until_ns
    ]


def _matched(
    findings: list[dict[str, Any]], parts: Parts, state: State, quiet_ns: int
) -> list[tuple[dict[str, Any], Incident | None]]:
    """Each finding with the incident that it continues, if there is one."""
    found: dict[int, Incident] = {}
    for same_cause in (True, False):
        for row, finding in enumerate(findings):
            if row in found:
                continue
            incident = _known(finding, parts, state, quiet_ns, same_cause)
            if incident is not None and (same_cause or incident not in found.values()):
                found[row] = incident
    return [(finding, found.get(row)) for row, finding in enumerate(findings)]


def forget(state: State, before_ns: int) -> None:
    """Forget the incidents that no window can show any more."""
    state.incidents = [
        one for one in state.incidents if one.stage == "open" or one.end_ns >= before_ns
    ]


def _event(event: str, incident: Incident) -> tuple[str, Alert]:
    incident.announced = (incident.gpu_hours, incident.confidence)
    return event, of_incident(incident)


def _is_material(incident: Incident) -> bool:
    cost, confidence = incident.announced
    return (
        incident.gpu_hours >= _MATERIAL * max(cost, 1e-9)
        or incident.confidence >= confidence + _SURER
    )


def _known(
    finding: Mapping[str, Any], parts: Parts, state: State, quiet_ns: int, same_cause: bool
) -> Incident | None:
    """The incident that a finding continues, the latest of several."""
    place, job = place_of(finding, parts), str(finding["job"])
    start_ns, end_ns = int(finding["start_ns"]), int(finding["end_ns"])
    same = [
        one
        for one in state.incidents
        if (one.place, one.job) == (place, job)
        and start_ns <= one.end_ns + quiet_ns
        and end_ns >= one.start_ns - quiet_ns
        and (one.stage != "resolved" or start_ns <= one.end_ns)
        and (not same_cause or one.labels["alertname"] == alert_name(finding))
    ]
    return max(same, key=lambda one: one.end_ns, default=None)


def place_of(finding: Mapping[str, Any], parts: Parts) -> str:
    """The server of a culprit that is an address or a server; else the culprit."""
    return parts.server(text(finding.get("culprit")))


def _new(finding: Mapping[str, Any], parts: Parts, job: JobFacts, span: Span) -> Incident:
    return Incident(
        **_identity(finding, parts, job),
        job=str(finding["job"]),
        start_ns=int(finding["start_ns"]),
        end_ns=int(finding["end_ns"]),
        first_step=int(finding["first_step"]),
        last_step=int(finding["last_step"]),
        gpu_hours=gpu_hours(number(finding.get("cost")) or 0.0, max(job.gpus, 1)),
        magnitude=number(finding.get("magnitude")) or 0.0,
        confidence=number(finding.get("confidence")) or 0.0,
        sentence=finding_text(finding, parts, job).short,
        seen_ns=span.end_ns,
    )


def _identity(finding: Mapping[str, Any], parts: Parts, job: JobFacts) -> dict[str, Any]:
    """The key, place and labels of the incident of a finding."""
    cost_ns = number(finding.get("cost")) or 0.0
    lasted_ns = max(int(finding["end_ns"]) - int(finding["start_ns"]), 1)
    lost = cost_ns / lasted_ns * max(job.gpus, 1)
    severity = next((name for name, least in _GPUS_LOST.items() if lost >= least), "info")
    labels = {
        "alertname": alert_name(finding),
        "severity": severity,
        "job": job.name or str(finding["job"]),
        "culprit_kind": text(finding.get("culprit_kind")),
        "culprit": text(finding.get("culprit")),
        "place": place_of(finding, parts),
    }
    key = f"{finding['job']}/{labels['place']}/{labels['alertname']}/{int(finding['start_ns'])}"
    return {"key": key, "place": labels["place"], "labels": labels}


def _extend(incident: Incident, finding: Mapping[str, Any], parts: Parts, job: JobFacts) -> None:
    """Add to an incident what a further window shows of it; also its cause, before it is open."""
    if incident.stage == "new":
        for name, value in _identity(finding, parts, job).items():
            setattr(incident, name, value)
    start_ns, end_ns = int(finding["start_ns"]), int(finding["end_ns"])
    hours = gpu_hours(number(finding.get("cost")) or 0.0, max(job.gpus, 1))
    if start_ns <= incident.start_ns:
        incident.gpu_hours = max(incident.gpu_hours, hours)
    elif end_ns > incident.end_ns:  # the window begins inside of it
        share = (end_ns - max(incident.end_ns, start_ns)) / max(end_ns - start_ns, 1)
        incident.gpu_hours += hours * share
    incident.start_ns = min(incident.start_ns, start_ns)
    incident.end_ns = max(incident.end_ns, end_ns)
    incident.first_step = min(incident.first_step, int(finding["first_step"]))
    incident.last_step = max(incident.last_step, int(finding["last_step"]))
    confidence = number(finding.get("confidence")) or 0.0
    if confidence >= incident.confidence or incident.stage == "new":
        incident.confidence = confidence
        incident.magnitude = number(finding.get("magnitude")) or 0.0
        incident.sentence = finding_text(finding, parts, job).short


def resolved(trained: pd.Series, state: State, quiet_ns: int) -> Iterator[tuple[str, Alert]]:
    """Resolve incidents whose jobs have trained without them for the quiet period.

    ``trained`` is the end of the last step of each job [ns].
    """
    for one in state.incidents:
        last_ns = trained.get(one.job)
        if one.stage == "open" and last_ns is not None and last_ns > one.end_ns + quiet_ns:
            one.stage = "resolved"
            yield _event("resolved", one)


def alert_name(finding: Mapping[str, Any]) -> str:
    """The name of the cause of a finding as that of an alert.

    >>> alert_name({"cause": "slow_gpu"})
    'SlowGpu'
    """
    cause = text(finding.get("cause")) or "unknown"
    return "".join(word.capitalize() for word in cause.split("_"))
