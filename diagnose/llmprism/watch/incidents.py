"""Incidents: one cause from its first step to its last, in all windows that show it.

Findings become incidents as :mod:`~llmprism.watch.matching` says. While an incident is not
announced yet, its culprit and cause are those of the latest window.

An incident is announced when it has persisted (:mod:`~llmprism.watch.policy`). If complete steps
alone do not show that, a window that ends a step later than the first one has to show it, too: the
end of a window shows a step from one side only. Findings of a job that has only just begun are not
used: one step of it can look like many. An incident is resolved when the job has trained for the
quiet period without it, or has ended.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

import pandas as pd

from llmprism.batches.chains import ends_of, period_of
from llmprism.diagnosis import Diagnosis
from llmprism.finding_fields import confidence_of, number, text
from llmprism.part_names import Parts
from llmprism.sentences import JobFacts, facts_of, finding_text, gpu_hours
from llmprism.watch import policy
from llmprism.watch.alerts import Alert, of_incident
from llmprism.watch.following import Followed
from llmprism.watch.matching import alert_name, matched, narrowest, place_of
from llmprism.watch.network import Network
from llmprism.watch.settings import SECOND_NS, Settings
from llmprism.watch.state import Incident, KnownJob, State
from llmprism.watch.window import Span

ENDED_NS = 3_600 * SECOND_NS
"""A job that has stopped, and has taken no steps for so long, has ended."""
_MATERIAL = 2.0  # times the cost that was announced
_SURER = 0.1  # of the confidence


def take_findings(
    followed: Followed,
    network: Network,
    state: State,
    span: Span,
    settings: Settings,
    is_last: bool,
    unseen: Collection[str] = (),
) -> Iterator[tuple[str, Alert]]:
    """Bring the incidents up to date; yield each event: ``opened``, ``updated`` or ``resolved``.

    Findings about jobs with addresses that are ``unseen`` are not used: their exporters are silent.
    """
    diagnosis, quiet_ns, parts = followed.diagnosis, settings.quiet_ns, network.parts
    facts = facts_of(diagnosis.jobs, diagnosis.steps, parts, diagnosis.layouts)
    ends = ends_of(diagnosis.steps)
    jobs = {one.name: one for one in state.jobs if unseen_free(one, unseen)}
    usable = _usable(diagnosis, span.end_ns - (0 if is_last else settings.young_ns))
    findings = narrowest([one for one in usable if one["job"] in jobs], network)
    for finding, known in matched(findings, parts, state, quiet_ns):
        job = facts.get(str(finding["job"]), JobFacts())
        incident = _new(finding, parts, job, span) if known is None else known
        if known is None:
            state.incidents.append(incident)
        else:
            _extend(incident, finding, parts, job)
        incident.sentence = _sentence(incident, finding, parts, job)
        is_seen = is_last or _is_whole(incident, jobs[incident.job], followed, ends, span)
        yield from _announced(incident, jobs[incident.job], is_seen, span)
    yield from resolved(diagnosis.steps, state, quiet_ns)
    yield from closed(state, span, settings)


def unseen_free(job: KnownJob, unseen: Collection[str]) -> bool:
    """Whether exporters that send record all traffic of a job."""
    return not any(address in unseen for address in job.addresses) if unseen else True


def _announced(
    incident: Incident, job: KnownJob, is_seen: bool, span: Span
) -> Iterator[tuple[str, Alert]]:
    """Open an incident that is worth it; tell what has changed of one that is open."""
    severity = policy.severity(incident)
    if incident.stage == "new":
        incident.withheld = policy.withheld(incident, job, span.end_ns)
        if is_seen and not incident.withheld:
            incident.labels = {**incident.labels, "severity": severity}
            incident.stage = "open"
            yield _event("opened", incident)
    elif incident.stage == "open":
        is_worse = policy.is_worse(severity, incident.labels["severity"])
        if is_worse:
            incident.labels = {**incident.labels, "severity": severity}
        if is_worse or _is_material(incident):
            yield _event("updated", incident)


def _is_whole(
    incident: Incident, job: KnownJob, followed: Followed, ends: Mapping[str, pd.Series], span: Span
) -> bool:
    """Whether its steps are complete, seen from both sides, or nothing has come for a step."""
    if policy.is_measured(incident, job, span.end_ns):
        return True
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


def forget(state: State, before_ns: int) -> None:
    """Forget incidents that no window can show any more; count those that were not reported."""
    kept = []
    for one in state.incidents:
        if one.stage == "open" or one.end_ns >= before_ns:
            kept.append(one)
        elif one.stage == "new":
            state.hiccups[one.job] = state.hiccups.get(one.job, 0) + 1
    state.incidents = kept


def _event(event: str, incident: Incident) -> tuple[str, Alert]:
    incident.announced = (incident.gpu_hours, incident.confidence)
    return event, of_incident(incident)


def _is_material(incident: Incident) -> bool:
    cost, confidence = incident.announced
    return (
        incident.gpu_hours >= _MATERIAL * max(cost, 1e-9)
        or incident.confidence >= confidence + _SURER
    )


def _new(finding: Mapping[str, Any], parts: Parts, job: JobFacts, span: Span) -> Incident:
    cost_ns = number(finding.get("cost")) or 0.0
    first, last = int(finding["first_step"]), int(finding["last_step"])
    return Incident(
        **_identity(finding, parts, job), job=str(finding["job"]), sentence="",
        start_ns=int(finding["start_ns"]), end_ns=int(finding["end_ns"]), seen_ns=span.end_ns,
        first_step=first, last_step=last, ranges=[(first, last)],
        gpu_hours=gpu_hours(cost_ns, max(job.gpus, 1)), cost_ns=cost_ns, gpus=max(job.gpus, 1),
        magnitude=number(finding.get("magnitude")) or 0.0, confidence=confidence_of(finding),
    )  # fmt: skip


def _identity(finding: Mapping[str, Any], parts: Parts, job: JobFacts) -> dict[str, Any]:
    """The key, place and labels of the incident of a finding."""
    labels = {
        "alertname": alert_name(finding),
        "severity": "info",
        "job": job.name or str(finding["job"]),
        "culprit_kind": text(finding.get("culprit_kind")),
        "culprit": text(finding.get("culprit")),
        "place": place_of(finding, parts),
    }
    key = f"{finding['job']}/{labels['place']}/{labels['alertname']}/{int(finding['start_ns'])}"
    cause = text(finding.get("cause"))
    return {"key": key, "place": labels["place"], "labels": labels, "cause": cause}


def _extend(incident: Incident, finding: Mapping[str, Any], parts: Parts, job: JobFacts) -> None:
    """Add to an incident what a further window shows of it; also its cause, before it is open."""
    if incident.stage == "new":
        for name, value in _identity(finding, parts, job).items():
            setattr(incident, name, value)
    start_ns, end_ns = int(finding["start_ns"]), int(finding["end_ns"])
    cost_ns = number(finding.get("cost")) or 0.0
    if start_ns <= incident.start_ns:
        incident.cost_ns = max(incident.cost_ns, cost_ns)
    elif end_ns > incident.end_ns:  # the window begins inside of it
        share = (end_ns - max(incident.end_ns, start_ns)) / max(end_ns - start_ns, 1)
        incident.cost_ns += cost_ns * share
    incident.gpus = max(incident.gpus, job.gpus)
    incident.gpu_hours = gpu_hours(incident.cost_ns, incident.gpus)
    incident.start_ns = min(incident.start_ns, start_ns)
    incident.end_ns = max(incident.end_ns, end_ns)
    first, last = int(finding["first_step"]), int(finding["last_step"])
    incident.ranges = _merged([*incident.ranges, (first, last)])
    incident.first_step, incident.last_step = incident.ranges[0][0], incident.ranges[-1][1]
    confidence = confidence_of(finding)
    if confidence >= incident.confidence or incident.stage == "new":
        incident.confidence = confidence
        incident.magnitude = number(finding.get("magnitude")) or 0.0


def _merged(ranges: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Stretches of steps in order, those joined that touch.

    >>> _merged([(7, 8), (1, 2), (3, 3)])
    [(1, 3), (7, 8)]
    """
    found: list[tuple[int, int]] = []
    for first, last in sorted(ranges):
        if found and first <= found[-1][1] + 1:
            found[-1] = found[-1][0], max(found[-1][1], last)
        else:
            found.append((first, last))
    return found


def _sentence(one: Incident, finding: Mapping[str, Any], parts: Parts, job: JobFacts) -> str:
    """The whole incident in words; the culprit and the cause are those that were announced."""
    whole = {**finding, "cost": one.cost_ns, "magnitude": one.magnitude}
    whole |= {"confidence": one.confidence, "cause": one.cause, "culprit": one.labels["culprit"]}
    whole |= {"culprit_kind": one.labels["culprit_kind"]}
    names = ("start_ns", "end_ns", "first_step", "last_step")
    whole |= {name: getattr(one, name) for name in names}
    return finding_text(whole, parts, job).short


def resolved(steps: pd.DataFrame, state: State, quiet_ns: int) -> Iterator[tuple[str, Alert]]:
    """Resolve incidents whose jobs have taken steps without them for the quiet period."""
    trained = steps.groupby("job")["end_ns"].max()
    for one in state.incidents:
        last_ns = trained.get(one.job)
        if one.stage == "open" and last_ns is not None and last_ns > one.end_ns + quiet_ns:
            one.stage = "resolved"
            yield _event("resolved", one)


def closed(state: State, span: Span, settings: Settings) -> Iterator[tuple[str, Alert]]:
    """Resolve incidents of jobs that have ended: another one trains on their servers, or they rest.

    A job that has stopped is silent as well, so it has ended only after ENDED_NS.
    """
    jobs = {one.name: one for one in state.jobs}
    for one in state.incidents:
        if one.stage != "open":
            continue
        job = jobs.get(one.job)
        rests_ns = ENDED_NS if one.cause in policy.STOPS else settings.window_ns
        last_ns = max(one.end_ns, job.seen_ns if job else 0)
        if job is None or _is_replaced(job, state.jobs) or span.end_ns > last_ns + rests_ns:
            one.stage = "resolved"
            yield _event("resolved", one)


def _is_replaced(job: KnownJob, jobs: Collection[KnownJob]) -> bool:
    """Whether a later job trains on a server of this one."""
    return any(
        one is not job and one.since_ns > job.seen_ns and not {*one.servers}.isdisjoint(job.servers)
        for one in jobs
    )
