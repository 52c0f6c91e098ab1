"""One answer of several kinds of evidence: flows, collectives, counters and logs.

Each kind is diagnosed by itself, and gives findings. Findings of two kinds speak of one cause if
they are about the same job (most servers of the smaller one), at the same time, and both about a
stop or both about slow steps. Kinds come in the order above; a finding takes from each later kind
the one whose time is most like its own.

A finding with confidence c says that its culprit is the cause with probability c. The rest is
shared evenly by the m - 1 other parts that it names, and by all that it does not name. So over the
n places of the job (its servers, and the network as one more),

    p(culprit) = c,    p(named) = (1 - c) / m,    p(another place) = (1 - c) / m / (n - m)

and a finding that names nobody has 1 / n everywhere. Kinds err in different ways, so probabilities
are multiplied, and the sum over all places is one again. A kind that sees the job and finds nothing
either misses the cause, as it does with a share of causes that was measured, or there is none: the
odds of the finding are multiplied by that share. A kind that cannot see the job changes nothing.

Logs are the tables that ``llmlog LOGS --out FOLDER`` writes. They state no window, so a failure
belongs to the stop of the job that has its node. What flows find while a job saves or evaluates, as
its logs say, is explained by that (``llmprism.logged``).
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pandas as pd

from llmprism.diagnosis import Diagnosis
from llmprism.finding_fields import confidence_of, evidence_of, names_in, number, text
from llmprism.io.tables import DIAGNOSIS
from llmprism.io.topology import Topology
from llmprism.job_names import servers_of
from llmprism.logged import Course, Pause, read
from llmprism.model import UNKNOWN
from prism_common.quantities import percent

FLOWS, COLLECTIVES, COUNTERS, LOGS = "flows", "collectives", "counters", "logs"
KINDS = (FLOWS, COLLECTIVES, COUNTERS, LOGS)
CAUSES = (COUNTERS, COLLECTIVES, FLOWS)
"""Kinds in the order in which they know a cause: an error that is counted is no guess."""
SAME_JOB = 0.5
"""Share of the servers of the smaller of two jobs that both have, if they are one."""
AS_LIKELY = 1 / 3
"""Of the probability of the likeliest place, from which another one is named beside it."""
MISSES: Mapping[str, float] = {FLOWS: 0.1, COLLECTIVES: 0.6, COUNTERS: 1.0}
"""Share of the causes that another kind names which each kind misses; see evidence.md."""
LEAST = 0.3
"""Of the confidence of what flows do not find: what is less likely is no finding."""
STOPPED = frozenset({"stopped", "hang", "pause"})


@dataclass(frozen=True)
class Statement:
    """What one kind of evidence finds.

    Attributes
    ----------
    kind : one of ``KINDS``.
    servers : of its job.
    start_ns, end_ns : when; infinite if that is unknown.
    stops : whether the job stopped; else its steps are slow.
    places : servers or parts of the network that it names, each with its probability.
    names : the part that is meant at each place.
    row : of the table ``findings``; of a log, only its cause.
    """

    kind: str
    servers: frozenset[str]
    start_ns: float
    end_ns: float
    stops: bool
    places: Mapping[str, float]
    names: Mapping[str, str]
    row: Mapping[str, Any]

    def agrees(self, other: Statement) -> float:
        """Share of the time of both in which both speak of one job; 0 if they do not."""
        if self.stops != other.stops or not _is_one_job(self.servers, other.servers):
            return 0.0
        if math.isinf(other.start_ns):
            return 1.0
        both_ns = min(self.end_ns, other.end_ns) - max(self.start_ns, other.start_ns)
        either_ns = max(self.end_ns, other.end_ns) - min(self.start_ns, other.start_ns)
        return max(both_ns / max(either_ns, 1.0), 0.0)

    def probability(self, place: str, count: int) -> float:
        """Of a place, among ``count``."""
        if not self.places:
            return 1 / count
        rest = 1.0 - sum(self.places.values())
        return self.places.get(place, rest / max(count - len(self.places), 1))


def together(
    first: Diagnosis,
    others: Mapping[str, Diagnosis],
    topology: Topology,
    logs: Iterable[Path] = (),
    courses: Sequence[Course] = (),
) -> Diagnosis:
    """The diagnosis of flows, with the findings of all kinds in one list, the surest first.

    The evidence of each finding has ``seen_by``: what each kind says of it, and ``marks``: when.
    Rows of jobs that only another kind shows are added to the table ``jobs``.

    Parameters
    ----------
    others : diagnoses by kind.
    logs : folders with the tables of llmlog.
    courses : what jobs did, as their logs say.

    Raises
    ------
    UserError : a folder of logs has no table of failures.
    """
    every = {FLOWS: first, **others}
    server_of = {end.address: end.server for end in topology.endpoints}
    statements = [
        one for kind in KINDS if kind in every for one in _statements(kind, every[kind], server_of)
    ]
    of_logs = [one for folder in logs for one in _of_logs(folder, topology)]
    seen = {kind: _jobs(each, server_of) for kind, each in every.items()}
    kinds = [*every, *([LOGS] if of_logs or courses else [])]
    rows: list[dict[str, Any]] = []
    jobs = [first.jobs]
    course_of = dict(_courses(first, courses, server_of))
    for group in _groups([*statements, *of_logs]):
        own = group[0]
        if own.kind == LOGS:
            continue  # no telemetry of its job shows anything: llmlog has the answer
        silent = {kind for kind in every if _sees(kind, own, seen[kind], every[kind].steps)}
        silent -= {one.kind for one in group}
        row = _joined(group, silent)
        if own.kind != FLOWS:
            if row["confidence"] < LEAST:
                continue  # flows have the job, and find nothing then
            name = _same_job(own.servers, seen[FLOWS]) or ""
            if not name:
                table, name = every[own.kind].jobs, f"{own.kind} {row['job']}"
                jobs.append(table[table["job"] == row["job"]].assign(job=name))
            row |= {"job": name, **_steps_at(first.steps, name, row)}
        place = _place(row["culprit"], server_of)
        says = dict.fromkeys(kinds, "cannot see it") | dict.fromkeys(silent, "find nothing here")
        says |= {one.kind: _says(one, place) for one in group}
        marks = [mark for one in group if (mark := _mark(one))]
        evidence = {**evidence_of(row), "seen_by": says, "marks": marks}
        if own.kind == FLOWS and (course := course_of.get(row["job"])):
            pause = course.pause_in(row, first.steps[first.steps["job"] == row["job"]])
            row |= _explained(row["job"], pause, evidence) if pause else {}
        rows.append({**row, "evidence": json.dumps(evidence)})
    table = pd.DataFrame(rows, columns=[*DIAGNOSIS["findings"].names])
    table = table.sort_values("confidence", ascending=False, kind="stable", ignore_index=True)
    found = table.assign(finding=range(len(table))) if rows else first.findings
    every_job = pd.concat(jobs, ignore_index=True).drop_duplicates()
    verdict = first.verdict
    for name, course in course_of.items():
        verdict = verdict.with_pauses(name, course.paused(first.steps[first.steps["job"] == name]))
    return replace(first, findings=found, jobs=every_job, verdict=verdict)


def of_several_jobs(found: Diagnosis, topology: Topology) -> Diagnosis:
    """Findings of several jobs about one part at one time as the surest, with ``further_jobs``."""
    server_of = {end.address: end.server for end in topology.endpoints}
    kept: list[dict[Any, Any]] = []
    for row in found.findings.to_dict("records"):
        stops, place = row["symptom"] in STOPPED, _place(text(row["culprit"]), server_of)
        same = next((
            one for one in kept
            if one["job"] != row["job"] and (one["symptom"] in STOPPED) == stops
            and _place(text(one["culprit"]), server_of) == place
            and one["start_ns"] < row["end_ns"] and row["start_ns"] < one["end_ns"]
        ), None)  # fmt: skip
        if same is None or text(row["culprit_kind"]) == "job":
            kept.append(row)
            continue
        evidence = evidence_of(same)
        spans = evidence.setdefault("further_jobs", {})
        spans[str(row["job"])] = [int(row[name]) for name in ("first_step", "last_step")]
        same["evidence"] = json.dumps(evidence)
    table = pd.DataFrame(kept, columns=found.findings.columns)
    return replace(found, findings=table.assign(finding=range(len(table)))) if kept else found


def _steps_at(steps: pd.DataFrame, job: str, row: Mapping[str, Any]) -> dict[str, int]:
    """The first and last step of a job in the time of a finding; -1 if there is none."""
    during = (steps["start_ns"] < row["end_ns"]) & (steps["end_ns"] > row["start_ns"])
    inside = steps.loc[during & (steps["job"] == job), "step"]
    first, last = (-1, -1) if inside.empty else (int(inside.min()), int(inside.max()))
    return {"first_step": first, "last_step": last}


def _mark(one: Statement) -> tuple[str, int, int] | None:
    """When a kind sees something [ns]; None if that is unknown."""
    at_ns = number(one.row.get("at_ns"))
    start, end = (at_ns, at_ns) if one.kind == LOGS else (one.start_ns, one.end_ns)
    if start is None or end is None or math.isinf(end - start):
        return None
    return one.kind, int(start), int(end)


def _explained(job: str, pause: Pause, evidence: dict[str, Any]) -> dict[str, str]:
    """What a finding says that a pause of its job explains; ``evidence`` is changed to say so."""
    evidence["seen_by"][LOGS] = f"name the reason: {pause.what} after iteration {pause.number}"
    evidence["marks"].append((LOGS, pause.start_ns, pause.end_ns))
    for name in ("one_of", "or_causes"):
        evidence.pop(name, None)
    return {"level": "job", "culprit_kind": "job", "culprit": job, "cause": pause.what}


def differences(first: Diagnosis, courses: Sequence[Course], topology: Topology) -> Iterator[str]:
    """Where iterations in logs and the steps of records differ, in words."""
    server_of = {end.address: end.server for end in topology.endpoints}
    for job, course in _courses(first, courses, server_of):
        yield from course.differs(job, first.steps[first.steps["job"] == job])


def _courses(
    first: Diagnosis, courses: Sequence[Course], server_of: Mapping[str, str]
) -> Iterator[tuple[str, Course]]:
    """Each course, with the name of its job."""
    jobs = _jobs(first, server_of)
    for one in courses:
        if name := _same_job(one.servers, jobs):
            yield name, one


def _jobs(one: Diagnosis, server_of: Mapping[str, str]) -> dict[str, frozenset[str]]:
    """The servers of each job, by its name."""
    return {
        str(job): frozenset(server_of.get(name, name.rpartition("/")[0]) for name in own)
        for job, own in one.jobs["address"].astype(str).groupby(one.jobs["job"].astype(str))
    }


def _statements(kind: str, one: Diagnosis, server_of: Mapping[str, str]) -> Iterator[Statement]:
    """The findings of one kind."""
    jobs = _jobs(one, server_of)
    for each in one.findings.to_dict("records"):
        row = {str(key): value for key, value in each.items()}
        job, culprit = str(row["job"]), text(row["culprit"])
        names: dict[str, str] = {}
        if text(row["culprit_kind"]) != "job" and culprit != job:
            for name in (culprit, *names_in(evidence_of(row).get("one_of"))):
                names.setdefault(_place(name, server_of), name)
        start_ns, end_ns = number(row["start_ns"]), number(row["end_ns"])
        yield Statement(
            kind,
            jobs.get(job, frozenset()),
            -math.inf if start_ns is None else start_ns,
            math.inf if end_ns is None else end_ns,
            text(row["symptom"]) in STOPPED,
            _shares(list(names), confidence_of(row)),
            names,
            row,
        )


def _of_logs(folder: Path, topology: Topology) -> Iterator[Statement]:
    """The failures that logs state."""
    for row in read(folder, "failures"):
        named = [*names_in(json.loads(row["nodes"] or "[]"))]
        servers = servers_of(topology, named)
        nodes = list(dict.fromkeys(servers.get(node, node) for node in named))
        if nodes:
            yield Statement(
                LOGS, frozenset(nodes), -math.inf, math.inf, row["stage"] != "slow",
                _shares(nodes, row["confidence"]), {node: node for node in nodes}, row,
            )  # fmt: skip


def _place(name: str, server_of: Mapping[str, str]) -> str:
    """The server of a NIC or of the link to it; another part of the network as it is.

    >>> [_place(name, {"a": "s1"}) for name in ("a>out", "a|leaf0", "leaf0|spine1", "s2")]
    ['s1', 's1', 'leaf0|spine1', 's2']
    """
    ends = name.partition(">")[0].split("|")
    return next((server_of[end] for end in ends if end in server_of), "|".join(ends))


def _shares(places: Sequence[str], confidence: float) -> dict[str, float]:
    """The probability of each place that a finding names, its culprit first.

    >>> _shares(["s1", "s2"], 0.5)
    {'s1': 0.5, 's2': 0.25}
    """
    rest = (1 - confidence) / max(len(places), 1)
    return {place: rest if at else confidence for at, place in enumerate(places)}


def _groups(every: Sequence[Statement]) -> Iterator[list[Statement]]:
    """What speaks of one cause: at most one statement of each kind, those of flows first."""
    used: set[int] = set()
    for own in every:
        if id(own) in used:
            continue
        group = [own]
        for kind in KINDS[KINDS.index(own.kind) + 1 :]:
            others = [one for one in every if one.kind == kind and own.agrees(one) > 0]
            group += sorted(others, key=lambda one: -own.agrees(one))[:1]
        used |= {id(one) for one in group}
        yield group


def _joined(group: Sequence[Statement], silent: Iterable[str]) -> dict[str, Any]:
    """The finding of a group, less likely by each kind that sees its job and is silent."""
    row = _named(group, len(group[0].servers) + 1)
    missed = math.prod(MISSES[kind] for kind in silent)
    return {**row, "confidence": _less_likely(row["confidence"], missed)}


def _named(group: Sequence[Statement], count: int) -> dict[str, Any]:
    """The finding of a group: job, window and cost of its first, the culprit of all together."""
    row = dict(group[0].row)
    places = [*dict.fromkeys(place for one in group for place in one.places)]
    if len(group) == 1 or not places:
        return row
    count = max(count, len(places) + 1)
    likely = {p: math.prod(one.probability(p, count) for one in group) for p in places}
    other = math.prod(one.probability("", count) for one in group) * (count - len(places))
    whole = sum(likely.values()) + other
    order = sorted(places, key=lambda place: -likely[place])
    best = order[0]
    naming = [one for one in group if best in one.places]
    surest = max(naming, key=lambda one: one.places[best])
    if surest.kind != LOGS and surest.row["culprit"] == surest.names[best]:
        row |= {name: surest.row[name] for name in ("level", "symptom", "cause", "culprit_kind")}
    elif best not in group[0].places:
        row["culprit_kind"] = "server"
    row["culprit"] = surest.names[best]
    known = (
        one.row["cause"] for kind in CAUSES for one in naming
        if one.kind == kind and next(iter(one.places)) == best and one.row["cause"] != UNKNOWN
    )  # fmt: skip
    row["cause"] = next(known, row["cause"])
    row["confidence"] = likely[best] / whole
    alike = [place for place in order if likely[place] >= AS_LIKELY * likely[best]]
    evidence = evidence_of(row)
    evidence["one_of"] = [
        next(one.names[place] for one in group if place in one.names) for place in alike
    ]
    stated = [one.row["cause"] for one in naming if one.kind == LOGS and one.row["cause"]]
    evidence["or_causes"] = [*stated, *names_in(evidence.get("or_causes"))]
    return {**row, "evidence": json.dumps(evidence)}


def _less_likely(probability: float, factor: float) -> float:
    """A probability whose odds are multiplied.

    >>> _less_likely(0.5, 0.25)
    0.2
    """
    return probability * factor / (probability * factor + 1 - probability)


def _says(own: Statement, culprit: str) -> str:
    """What a statement says of a finding whose culprit is at a place, in words."""
    if not own.places:
        return "show that the job is slow, and name no part"
    place, sure = next(iter(own.places.items()))
    name = "it" if place == culprit else own.names[place]
    return f"name {name} (sure: {percent(sure, 0)})"


def _sees(
    kind: str, one: Statement, jobs: Mapping[str, frozenset[str]], steps: pd.DataFrame
) -> bool:
    """Whether a kind shows the job of a statement, and has steps of it in its time, if it has any.

    Libraries write no collective that hangs.
    """
    job = _same_job(one.servers, jobs)
    if job is None or (one.stops and kind == COLLECTIVES):
        return False
    own = steps[steps["job"] == job]
    begin_ns, end_ns = own["start_ns"].min(), own["end_ns"].max()
    return own.empty or bool(begin_ns < one.end_ns and end_ns > one.start_ns)


def _same_job(servers: frozenset[str], jobs: Mapping[str, frozenset[str]]) -> str | None:
    """The name of the job that has most of the servers."""
    best = max(jobs, key=lambda name: len(jobs[name] & servers), default=None)
    return best if best is not None and _is_one_job(jobs[best], servers) else None


def _is_one_job(servers: frozenset[str], others: frozenset[str]) -> bool:
    shared = len(servers & others)
    return 0 < shared >= SAME_JOB * min(len(servers), len(others))
