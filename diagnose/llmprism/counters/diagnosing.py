"""The diagnosis of counters: from readings to the same tables as from flow records.

Pairs, groups and spans stay empty, and sizes of layouts are -1: counters do not show them. The
tables ``jobs`` and ``steps`` have what a NIC moves in a step, its role, and its kinship.

A step shows if it lasts two refreshes, a single step if it lasts six. Below, the answer is
"unknown", with the interval that would show it.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from llmprism.counters import findings
from llmprism.counters.cleaning import UNSURE_WRAPS, PortSeries, cleaned, refresh_ns, summed
from llmprism.counters.curves import Curves, curves_of
from llmprism.counters.findings import CounterFinding, JobView
from llmprism.counters.hypotheses import Placed, decided
from llmprism.counters.jobs import PortJobs, find_jobs
from llmprism.counters.naming import placed
from llmprism.counters.peers import members_of
from llmprism.counters.readings import Form, Readings
from llmprism.counters.rhythm import SHORTEST, Rhythm, rhythm_of
from llmprism.counters.steps import SAMPLES, can_show_steps, steps_of
from llmprism.diagnosis import Diagnosis, conform
from llmprism.io.flows import Intake
from llmprism.io.topology import Topology
from llmprism.model import CANNOT_TELL, UNKNOWN
from llmprism.numerics.arrays import Floats, Ints
from llmprism.persistent_deviations import Scope
from llmprism.verdict import Reason, RecordsVerdict
from prism_common.quantities import duration

METHOD = "counters"
NO_CURVES = Curves(
    [], 0, 1, np.zeros((0, 2, 0), np.float32), np.zeros((0, 0), bool), 0, np.zeros(0, complex)
)
NO_JOBS = PortJobs(np.zeros(0, np.int32), np.zeros(0, bool), np.zeros(0))
ONLY_REMARKS = (
    "holes", "readings out of order", "wraps at 32 bits", "wraps at 64 bits", "resets",
    "values of other counters",
)  # fmt: skip
"""What is counted and used all the same: these readings are not set aside."""

FINEST_NS = 100_000_000
"""Interval that an operator can ask of most switches: 0.1 s."""
NO_ONE_TO_NAME = (
    "which GPU, link or server makes a job slow, where all ports of the job wait for it"
    " (flow records of single messages show it)"
)


@dataclass(frozen=True)
class CounterDiagnosis:
    """A diagnosis, and what it was made from.

    Attributes
    ----------
    diagnosis : tables and verdict.
    curves, codes : the ports, and the endpoint of each, shape (ports,).
    jobs : of the ports.
    rhythms : of each job.
    servers : of the topology, by kind: ``in jobs``, ``without a job``, ``idle``.
    remarks : how the counters were read, and what was counted and used all the same.
    """

    diagnosis: Diagnosis
    curves: Curves
    codes: Ints
    jobs: PortJobs
    rhythms: Sequence[Rhythm]
    servers: Mapping[str, Sequence[str]]
    remarks: Sequence[str] = ()


def diagnose(
    readings: Readings, topology: Topology, addresses: Mapping[str, str] | None = None
) -> CounterDiagnosis:
    """Diagnose the readings of all ports.

    Parameters
    ----------
    addresses : of ports that are not called by the address of their NIC.

    Raises
    ------
    UserError : no port is in the topology, or what counters count is not clear.
    """
    known, unknown = placed(readings.ports, topology, addresses or {})
    counts = readings.set_aside + Counter()
    limits = link_bps(topology)
    given = [Placed(code, float(limits[code]), port) for code, port in known]
    form, taken, reading = decided(given, readings.form)
    ports, of_port = _cleaned(taken, form, counts)
    resolution_ns = refresh_ns(ports)
    remarks = [*reading, *(f"{counts[why]:,} {why}" for why in ONLY_REMARKS if counts[why])]
    series, codes = _by_nic(ports, of_port)
    curves, jobs = NO_CURVES, NO_JOBS
    if series and resolution_ns:
        curves = curves_of(series, resolution_ns)
        servers = topology.servers[codes].astype(np.int64)
        jobs = find_jobs(curves, servers, link_bps(topology)[codes])
    codes = codes[: len(curves.ports)]
    views, rhythms = _views(curves, jobs)
    reasons = [*_about_all(len(series), int(jobs.busy.sum()), jobs.count, counts)]
    for view, rhythm in zip(views, rhythms, strict=True):
        reasons += _about_job(view.name, rhythm, resolution_ns)
    found = [
        (view.name, finding)
        for view in views
        for finding in _findings(view, curves, jobs, series, codes, topology)
    ]
    intake = _intake(readings, unknown, counts)
    figures = {"resolution_ns": resolution_ns, "ports": len(series), **_plain(counts)}
    judged = _verdict(reasons, views, rhythms, figures, series)
    tables = {
        "jobs": _jobs_table(views, jobs, codes, topology),
        "layouts": _layouts_table(views, rhythms, jobs),
        "steps": _steps_table(views, codes, topology),
        "findings": findings.table_of(found),
    }
    plain, spans = conform(METHOD, tables)
    diagnosis = Diagnosis(
        METHOD, **plain, spans_in_parts=spans, intake=intake, verdict=judged, left_out=()
    )
    return CounterDiagnosis(
        diagnosis, curves, codes, jobs, rhythms, _servers(jobs, codes, topology), remarks
    )


def link_bps(topology: Topology) -> Floats:
    """Rate of the links of each endpoint to its leaves [bit/s], NaN if unknown."""
    bps: dict[tuple[int, str], float] = {}
    for link in topology.links:
        for name, leaf in ((link.a, link.b), (link.b, link.a)):
            code = topology.codes.get(name)
            if code is not None and link.gbps is not None:
                bps[code, leaf] = link.gbps * 1e9
    rates = np.zeros(len(topology.endpoints))
    for (code, _), rate in bps.items():
        rates[code] += rate
    usual = topology.nic_gbps * 1e9
    return np.where(rates == 0, usual, rates)


def _cleaned(
    taken: Sequence[Placed], form: Form, counts: Counter[str]
) -> tuple[list[PortSeries], Ints]:
    """The series of all usable ports, and the code of each."""
    series, codes = [], []
    for one in taken:
        clean = cleaned(one.port, form, one.limit_bps, counts)
        if clean is not None:
            series.append(clean)
            codes.append(one.code)
    return series, np.array(codes, np.int64)


def _by_nic(ports: Sequence[PortSeries], codes: Ints) -> tuple[list[PortSeries], Ints]:
    """One series for each NIC: the sum of those of its ports; and the code of each."""
    own: dict[int, list[PortSeries]] = {}
    for code, port in zip(codes.tolist(), ports, strict=True):
        own.setdefault(code, []).append(port)
    return [*map(summed, own.values())], np.array([*own], np.int64)


def _views(curves: Curves, jobs: PortJobs) -> tuple[list[JobView], list[Rhythm]]:
    """Steps and members of every job."""
    views, rhythms = [], []
    for job in range(jobs.count):
        rows = jobs.members(job)
        rhythm = rhythm_of(curves, rows)
        steps = steps_of(curves, rows, rhythm) if can_show_steps(curves, rhythm) else None
        members = members_of(curves, rows, rhythm.period_ns)
        views.append(JobView(f"job-{job}", members, rhythm.period_ns, steps))
        rhythms.append(rhythm)
    return views, rhythms


def _findings(
    view: JobView, curves: Curves, jobs: PortJobs, series: Sequence[PortSeries], codes: Ints,
    topology: Topology,
) -> list[CounterFinding]:  # fmt: skip
    in_job = np.zeros(len(curves.ports), bool)
    in_job[view.members.rows] = True
    return [
        *findings.of_job(view, curves),
        *findings.of_ports(curves, topology, codes, jobs.busy, in_job),
        *findings.of_events(view, series, codes, topology),
    ]


def _jobs_table(
    views: Sequence[JobView], jobs: PortJobs, codes: Ints, topology: Topology
) -> pd.DataFrame:
    rows = [
        {
            "job": view.name,
            "address": topology.endpoints[codes[row]].address,
            "server": topology.endpoints[codes[row]].server,
            "role": int(role),
            "in_bytes": float(sent),
            "out_bytes": float(received),
            "kinship": float(jobs.kinship[row]),
        }
        for view in views
        for row, role, sent, received in zip(
            view.members.rows, view.members.role, view.members.in_bytes, view.members.out_bytes,
            strict=True,
        )
    ]  # fmt: skip
    return pd.DataFrame(rows, columns=["job", "address", "server", "role", "in_bytes", "out_bytes",
                                       "kinship"])  # fmt: skip


def _layouts_table(
    views: Sequence[JobView], rhythms: Sequence[Rhythm], jobs: PortJobs
) -> pd.DataFrame:
    rows = [
        {
            "job": view.name,
            **dict.fromkeys(("dp", "pp", "tp", "ep", "cp", "micro_batches"), CANNOT_TELL),
            "schedule": UNKNOWN,
            "sharding": UNKNOWN,
            "period_ns": rhythm.period_ns or CANNOT_TELL,
            "confidence": rhythm.confidence,
            "evidence": json.dumps(
                {
                    "kinship": float(np.nanmean(jobs.kinship[view.members.rows])),
                    "strength": rhythm.strength,
                    "evenness": view.steps.evenness if view.steps else None,
                    "reason": rhythm.reason,
                }
            ),
        }
        for view, rhythm in zip(views, rhythms, strict=True)
    ]
    names = ["job", "dp", "pp", "tp", "ep", "cp", "micro_batches", "schedule", "sharding",
             "period_ns", "confidence", "evidence"]  # fmt: skip
    return pd.DataFrame(rows, columns=names)


def _steps_table(views: Sequence[JobView], codes: Ints, topology: Topology) -> pd.DataFrame:
    """The steps of each NIC: those of its job, since all of its ranks wait for each other."""
    parts = []
    for view in views:
        if view.steps is None:
            continue
        edges = view.steps.edges_ns
        each = pd.DataFrame({"step": np.arange(edges.size - 1), "start_ns": edges[:-1],
                             "end_ns": edges[1:], "dp_end_ns": edges[1:]})  # fmt: skip
        names = [topology.endpoints[codes[row]].address for row in view.members.rows]
        every = pd.DataFrame({"address": names}).merge(each, how="cross")
        parts.append(every.assign(job=view.name, confidence=min(1.0, 2 * view.steps.evenness)))
    names = ["job", "address", "step", "start_ns", "end_ns", "dp_end_ns", "confidence"]
    return pd.concat(parts)[names].reset_index(drop=True) if parts else pd.DataFrame(columns=names)


def _servers(jobs: PortJobs, codes: Ints, topology: Topology) -> dict[str, list[str]]:
    """Servers in jobs, with traffic but no job, and without traffic."""
    names = np.array([topology.endpoints[code].server for code in codes], object)
    working = set(names[jobs.job >= 0])
    busy = set(names[jobs.busy]) - working
    return {
        "in jobs": sorted(working),
        "without a job": sorted(busy),
        "idle": sorted(set(names) - working - busy),
    }


def _intake(readings: Readings, unknown: Counter[str], counts: Counter[str]) -> Intake:
    aside = {
        reason: count
        for reason, count in counts.items()
        if count and reason not in ONLY_REMARKS and reason != UNSURE_WRAPS
    }
    if unknown:
        aside["ports that the topology does not have"] = unknown.total()
    rows = readings.rows
    return Intake(rows, max(0, rows - sum(aside.values())), aside, dict(unknown.most_common(3)),
                  len(unknown))  # fmt: skip


def _plain(counts: Counter[str]) -> dict[str, int]:
    return {name: int(count) for name, count in counts.items() if count}


def _verdict(
    reasons: Sequence[Reason], views: Sequence[JobView], rhythms: Sequence[Rhythm],
    figures: Mapping[str, object], series: Sequence[PortSeries],
) -> RecordsVerdict:  # fmt: skip
    """Whether any job can be diagnosed; a job with a known step is."""
    can_tell = any(rhythm.period_ns for rhythm in rhythms)
    events = series[0].events if series else {}
    scopes = [_scope_of(view.name, view.steps is not None, events) for view in views]
    return RecordsVerdict(can_tell, tuple(reasons), dict(figures)).with_scopes(scopes)


def _about_all(ports: int, busy: int, jobs: int, counts: Mapping[str, int]) -> Iterator[Reason]:
    """Why no job can be diagnosed at all."""
    if not ports:
        hint = "; read the 64-bit counters (ifHCInOctets)" if counts.get(UNSURE_WRAPS) else ""
        yield Reason("no_records", None, f"no port has usable readings{hint}")
    elif not busy:
        yield Reason("no_jobs", None, f"none of the {ports:,} ports has the traffic of a job")
    elif not jobs:
        text = f"the {busy:,} busy ports have no rhythm in common; a longer recording may show one"
        yield Reason("no_jobs", None, text)


def _about_job(job: str, rhythm: Rhythm, resolution_ns: int) -> Iterator[Reason]:
    """Why the steps of one job are unknown."""
    refresh = duration(resolution_ns)
    if not rhythm.period_ns:
        shortest = duration(SHORTEST * resolution_ns)
        finer = min(FINEST_NS, resolution_ns // 10)
        text = (
            f"{rhythm.reason} (counters are new every {refresh}), so its steps are unknown: they"
            f" may be shorter than {shortest}; counters that are new every {duration(finer)} would"
            f" show steps from {duration(SHORTEST * finer)} on"
        )
        yield Reason("coarse_interval", job, text)
    elif rhythm.period_ns < SAMPLES * resolution_ns:
        text = (
            f"a step takes {duration(rhythm.period_ns)} on average, and single steps are unknown:"
            f" counters are new every {refresh}; every {duration(rhythm.period_ns / SAMPLES)} would"
            " show them"
        )
        yield Reason("coarse_interval", job, text)


def _scope_of(job: str, has_steps: bool, events: Mapping[str, Any]) -> Scope:
    """What was compared in a job, and what was not."""
    compared = ["each NIC with the same NIC of the other servers"]
    if has_steps:
        compared.append("the bursts of each NIC with those of NICs that move as much")
    if events:
        compared.append(f"{', '.join(name.replace('_', ' ') for name in events)} of the NICs")
    return Scope(job, tuple(compared), (NO_ONE_TO_NAME,))
