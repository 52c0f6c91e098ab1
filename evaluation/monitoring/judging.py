"""Which alerts of a stream are right: incidents beside the faults of the truth.

An incident is right if its job has a fault while it lasts, and false otherwise. A restart that the
scenario has without a fault stops a job all the same, so the first incident that says so is
neither. A fault is *due* if it stops its job or lengthens its steps by MATTERS, and if it was
watched for a while; one that is not due can be neither missed nor late.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq

from evaluation.exam.truth import MATTERS
from evaluation.monitoring.process import stored
from llmprism.watch.policy import STOPS
from prism_sim.faults import KINDS
from prism_sim.run_folder import Run

_STOPPED = 5.0  # usual steps: a job that takes none for so long has stopped
_SEEN = 10.0  # usual steps of a fault before what was watched ended
_LATE = 5.0  # usual steps: a delay that is named
_EDGE = 2.0  # usual steps by which the times of an incident and a fault may differ
_SEVERITIES = ("info", "warning", "critical")


@dataclass
class Judged:
    """What a monitor made of a stream.

    Attributes
    ----------
    false : false incidents, by severity.
    watched_s : time of the records that were watched [s].
    faults, missed : faults that are due, and those of them without an incident.
    delays : from the end of the first slow step to the alert, in usual steps of the job.
    wrong_first : faults whose first incident names another place.
    named : faults whose first incident was compared with the true place.
    notes : what was false, missed, late or wrong, in words.
    versions : of the code that watched it.
    """

    job_steps: int = 0
    watched_s: float = 0.0
    false: dict[str, int] = field(default_factory=lambda: dict.fromkeys(_SEVERITIES, 0))
    faults: int = 0
    missed: int = 0
    delays: list[float] = field(default_factory=list)
    wrong_first: int = 0
    named: int = 0
    blind: int = 0
    hiccups: int = 0
    failures: int = 0
    notes: list[str] = field(default_factory=list)
    versions: list[str] = field(default_factory=list)

    @property
    def delay(self) -> float | None:
        """The median of the delays."""
        return median(self.delays) if self.delays else None


@dataclass(frozen=True)
class Incident:
    """One incident, by its events; times in [ns]."""

    cause: str
    severity: str
    job: str
    place: str
    start_ns: int
    end_ns: int
    reported_ns: int
    is_stop: bool


@dataclass(frozen=True)
class Fault:
    """One fault, or a restart, which has no place; times in [ns]."""

    name: str
    job: str
    place: str
    start_ns: int
    end_ns: int
    is_fault: bool = True
    is_due: bool = True


class Truth:
    """Steps and faults of all jobs of a run, until a time.

    Attributes
    ----------
    steps : end of each step by job and step [ns].
    usual_ns : the usual step of each job [ns].
    faults : faults, and restarts without one.
    """

    def __init__(self, run: Run, until_ns: int) -> None:
        every = run.truth("steps").groupby(["job", "step"])["end_ns"].max().sort_index()
        self.steps = every[every <= until_ns]
        self.usual_ns = {
            str(job): float(own.diff().median()) for job, own in self.steps.groupby(level=0)
        }
        self.faults = [
            *_faults(run, self.steps, self.usual_ns), *_restarts(every, self.usual_ns, run)
        ]  # fmt: skip

    def reports(
        self, incidents: Iterable[Incident]
    ) -> tuple[dict[Fault, list[Incident]], list[Incident]]:
        """The incidents about each fault, and those about none."""
        reported: dict[Fault, list[Incident]] = {one: [] for one in self.faults}
        false = []
        for one in incidents:
            hits = [fault for fault in self.faults if _is_about(one, fault, self.usual_ns)]
            used = [fault for fault in hits if not fault.is_fault and reported[fault]]
            for fault in hits:
                reported[fault].append(one)
            if len(used) == len(hits):
                false.append(one)
        return reported, false


def judge(run: Run, state: Path) -> Judged:
    """Compare what a monitor has reported with the truth."""
    content = stored(state)
    truth = Truth(run, content["cursor_ns"])
    found = Judged(job_steps=len(truth.steps), hiccups=sum(content["hiccups"].values()))
    found.watched_s = (content["cursor_ns"] - int(truth.steps.min())) / 1e9
    found.failures = sum(content["failures"].values())
    incidents, found.blind = incidents_of(run, state)
    reported, false = truth.reports(incidents)
    for one in false:
        found.false[one.severity] += 1
        found.notes.append(f"false: {one.cause} {one.place} in {one.job} ({one.severity})")
    for fault, own in reported.items():
        if fault.is_fault and fault.is_due:
            _count(found, fault, own, truth.steps, truth.usual_ns[fault.job])
    return found


def _count(
    found: Judged, fault: Fault, reported: list[Incident], steps: pd.Series, usual_ns: float
) -> None:
    """Count a fault with the incidents about it."""
    found.faults += 1
    if not reported:
        found.missed += 1
        found.notes.append(f"missed: {fault.name} {fault.place} in {fault.job}")
        return
    first = min(reported, key=lambda one: one.reported_ns)
    shown_ns = fault.start_ns + usual_ns
    if not first.is_stop:
        shown_ns = _first_slow_ns(steps[fault.job], fault.start_ns, usual_ns)
    delay = (first.reported_ns - shown_ns) / usual_ns
    found.delays.append(delay)
    if delay > _LATE:
        found.notes.append(f"late: {fault.name} {fault.place} in {fault.job}, {delay:.1f} steps")
    found.named += 1
    if first.place != fault.place:
        found.wrong_first += 1
        found.notes.append(
            f"wrong first: {first.cause} {first.place} for {fault.name} {fault.place}"
        )


def _first_slow_ns(ends: pd.Series, start_ns: int, usual_ns: float) -> float:
    """When the first step ends, from the start of a fault on, that is longer by MATTERS [ns]."""
    later = ends > start_ns
    slow = later & (ends.diff() >= (1 + MATTERS) * usual_ns)
    return float(ends[slow if slow.any() else later].iloc[0])


def _is_about(one: Incident, fault: Fault, usual_ns: Mapping[str, float]) -> bool:
    edge_ns = _EDGE * usual_ns.get(fault.job, 0.0)
    overlaps = one.start_ns <= fault.end_ns + edge_ns and one.end_ns >= fault.start_ns - edge_ns
    return one.job == fault.job and overlaps and (fault.is_fault or one.is_stop)


def true_jobs(run: Run, servers: Mapping[str, Collection[str]]) -> dict[str, str]:
    """The true job of each job that was found, by the servers that they share."""
    ranks = run.truth("ranks")
    found = {}
    for name, shared in servers.items():
        own = ranks[ranks["server"].astype(str).isin(shared)]["job"].astype(str)
        found[name] = str(own.mode().iloc[0]) if len(own) else ""
    return found


def incidents_of(run: Run, state: Path) -> tuple[list[Incident], int]:
    """The incidents that were reported, and the number of alerts that the monitor is blind."""
    names = true_jobs(run, {one["name"]: one["servers"] for one in stored(state)["jobs"]})
    folder = state / "history" / "findings"
    if not folder.exists():
        return [], 0
    rows = pq.read_table(folder).to_pandas().drop_duplicates().sort_values("number")
    own = rows[rows["incident"].notna() & (rows["incident"] != "")]
    opened = rows[rows["event"] == "opened"]
    blind = int((opened["job"].fillna("") == "").sum())
    found = []
    for _, events in own.groupby("incident", sort=False):
        first, last = events.iloc[0], events.iloc[-1]
        severity = max(events["severity"], key=_SEVERITIES.index)
        ends = [_ns(one) for one in events["endsAt"].dropna()]
        cause = str(last["alertname"])
        found.append(
            Incident(
                cause=cause,
                severity=str(severity),
                job=names.get(str(first["job"]), str(first["job"])),
                place=str(first["place"]),
                start_ns=min(_ns(one) for one in events["startsAt"]),
                end_ns=max([*ends, int(events["time_ns"].min())]),
                reported_ns=int(events["time_ns"].min()),
                is_stop=is_stop(cause),
            )
        )
    return found, blind


def is_stop(cause: str) -> bool:
    """Whether an alert of this name says that a job has stopped."""
    return cause.lower() in {one.replace("_", "") for one in STOPS}


def _ns(text: Any) -> int:
    return int(pd.Timestamp(text).value)


def _faults(run: Run, steps: pd.Series, usual_ns: Mapping[str, float]) -> list[Fault]:
    """The faults that have begun; those are due that matter and were watched for a while."""
    servers = {
        end["address"]: end["server"]
        for end in json.loads(run.topology.read_text(encoding="utf-8"))["endpoints"]
    }
    found, last_ns = [], int(steps.max())
    for row in run.truth("faults").to_dict("records"):
        job, start_ns, end_ns = str(row["job"]), int(row["start_ns"]), int(row["end_ns"])
        if job not in usual_ns or start_ns > last_ns:
            continue
        is_seen = start_ns + _SEEN * usual_ns[job] <= last_ns
        length_ns = steps[job].diff()
        inside = length_ns[(steps[job] > start_ns) & (steps[job] <= end_ns)]
        is_slow = len(inside) and float(inside.mean()) >= (1 + MATTERS) * usual_ns[job]
        is_due = is_seen and bool(KINDS[str(row["kind"])].stops_jobs or is_slow)
        culprit = str(row["culprit"])
        place = servers.get(culprit, culprit)
        found.append(Fault(str(row["kind"]), job, place, start_ns, end_ns, is_due=is_due))
    return found


def _restarts(steps: pd.Series, usual_ns: Mapping[str, float], run: Run) -> list[Fault]:
    """The times in which jobs took no steps although no fault says so."""
    stops = [
        (str(one["job"]), int(one["start_ns"])) for one in run.truth("faults").to_dict("records")
    ]
    found = []
    for job, own in steps.groupby(level=0):
        ends = own.droplevel(0).sort_values()
        for step in ends.index[ends.diff() > _STOPPED * usual_ns.get(str(job), np.inf)]:
            before_ns, after_ns = int(ends.shift()[step]), int(ends[step])
            if not any(name == job and before_ns <= at <= after_ns for name, at in stops):
                found.append(Fault("restart", str(job), "", before_ns, after_ns, is_fault=False))
    return found
