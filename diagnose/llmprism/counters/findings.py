"""Findings: what counters show to be slow or missing, each with its figures.

Counters show *that* a job is slow in every case, and *who* makes it slow only where one port
differs from its peers: in a ring, all ports wait for the slowest. So most findings name the job.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from llmprism.counters.cleaning import PortSeries
from llmprism.counters.curves import Curves
from llmprism.counters.peers import (
    DEVIATIONS,
    Members,
    burst_shares,
    longer_bursts,
    unlike_the_others,
)
from llmprism.counters.rhythm import SILENT, active_part, profile
from llmprism.counters.steps import JobSteps
from llmprism.io.tables import DIAGNOSIS
from llmprism.io.topology import Topology
from llmprism.numerics.arrays import Bools, Floats, Ints
from llmprism.numerics.missing import TO_SIGMA
from prism_common.kinds import UNKNOWN

STOPPED_STEPS = 4.0
"""Steps of silence at the end that are a stop; a save or an evaluation takes one or two."""
BEGUN = 0.1
"""Of the bytes of a step, from which it has begun."""
EVEN_STEPS = 0.4
"""Evenness of steps from which the bytes of the last one mean anything."""
STOPPED_REFRESHES = 20.0
"""The same where the length of a step is unknown, in refreshes."""
LOST_REFRESHES = 2.0
"""That slow steps cost together: each edge of a run may be wrong by one."""
LONGER = 0.03
"""Of a usual step, by which steps of a finding are longer at least."""
STANDS_OUT = 8.0
"""Deviations of a mean of steps from the usual one."""
FEWEST_STEPS = 8
"""Of a job, to tell which are slow."""
SHORTEST_RUN = 2
"""Slow steps that follow each other: a single one may be the error of an edge."""
LEVELS_APART = 0.5
"""Of the smallest deviation of a run: steps within it belong to the run, whatever their noise."""
EVENT_TIMES = 10.0
"""Times what peers count, for errors, discards or pause frames to stand out."""
FAULTY_EVENTS: Mapping[str, tuple[str, int]] = {
    **dict.fromkeys(("in_errors", "out_errors", "in_discards"), ("lossy_link", 10)),
    **dict.fromkeys(("pause_frames", "ecn_marks"), (UNKNOWN, 10)),
    "out_discards": ("incast_burst", 10), "link_downs": ("flapping_nic", 2),
}  # fmt: skip
"""What is counted, the cause that it shows, and how many show it at least."""


@dataclass(frozen=True)
class CounterFinding:
    """One finding; times in ns, steps -1 if unknown."""

    symptom: str
    cause: str
    culprit_kind: str
    culprit: str
    start_ns: int
    end_ns: int
    confidence: float
    level: str = "port"
    first_step: int = -1
    last_step: int = -1
    magnitude: float = 0.0
    cost: float = 0.0
    evidence: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class JobView:
    """What the findings of a job are made from.

    Attributes
    ----------
    name : of the job.
    members : its NICs.
    period_ns : length of a step, 0 if unknown.
    steps : single steps; None if they cannot be given.
    """

    name: str
    members: Members
    period_ns: int
    steps: JobSteps | None


def of_job(view: JobView, curves: Curves) -> Iterator[CounterFinding]:
    """What a job's own curves show."""
    rate = profile(curves, view.members.rows)
    yield from _stopped(view, curves, rate)
    yield from _paused(view, curves, rate)
    if view.steps is not None:
        yield from _slower(view, view.steps, curves)
        yield from _longer_bursts(view, view.steps, curves)


def _stopped(view: JobView, curves: Curves, rate: Floats) -> Iterator[CounterFinding]:
    """A job that stops within a step, and moves nothing until the end of the recording.

    After a whole step, it may have ended as planned: that is no finding.
    """
    last = active_part(rate)[1]
    silent_ns = (rate.size - last) * curves.bin_ns
    least = STOPPED_STEPS * view.period_ns or STOPPED_REFRESHES * curves.resolution_ns
    steps = view.steps
    if silent_ns < least or steps is None or steps.durations_ns.size < FEWEST_STEPS:
        return
    if steps.rest < BEGUN or steps.evenness < EVEN_STEPS:
        return
    end, count = curves.start_ns + curves.span_ns, steps.durations_ns.size
    yield CounterFinding(
        "hang", "hang", "job", view.name, end - silent_ns, end, 0.8, "job", count, count, 1.0,
        float(silent_ns), {"silent_ns": silent_ns, "share_of_last_step": steps.rest},
    )  # fmt: skip


def _paused(view: JobView, curves: Curves, rate: Floats) -> Iterator[CounterFinding]:
    """Times within the training of a job without any traffic, much longer than between bursts."""
    first, last = active_part(rate)
    busy = first + np.flatnonzero(rate[first:last] >= SILENT * rate.mean())
    gaps_ns = np.diff(busy) * curves.bin_ns
    least = STOPPED_STEPS * view.period_ns or STOPPED_REFRESHES * curves.resolution_ns
    for place in np.flatnonzero(gaps_ns >= least):
        start = curves.start_ns + int(busy[place] + 1) * curves.bin_ns
        end = start + int(gaps_ns[place]) - curves.bin_ns
        step = view.steps.step_at(start) if view.steps is not None else -1
        yield CounterFinding(
            "pause", UNKNOWN, "job", view.name, start, end, 0.7, "job", step, step, 1.0,
            float(end - start), {"silent_ns": end - start},
        )  # fmt: skip


def _slower(view: JobView, steps: JobSteps, curves: Curves) -> Iterator[CounterFinding]:
    """Runs of steps that are longer than usual."""
    took = steps.durations_ns.astype(np.float64)
    if took.size < FEWEST_STEPS:
        return
    usual, noise = float(np.median(took)), _noise(took)
    for first, last in slow_runs(took, usual, noise):
        part = took[first : last + 1]
        longer = float(part.mean()) - usual
        if longer * part.size < LOST_REFRESHES * curves.resolution_ns:
            continue
        sure = longer * np.sqrt(part.size) / max(noise, 1e-9)
        yield CounterFinding(
            "slow_steps", UNKNOWN, "job", view.name,
            int(steps.edges_ns[first]), int(steps.edges_ns[last + 1]),
            float(np.clip(1 - STANDS_OUT / 2 / sure, 0.5, 0.95)), "step", first, last,
            1 - usual / float(part.mean()), longer * part.size,
            {"step_share": longer / usual, "normal_step_ns": usual,
             "slow_step_ns": float(part.mean()), "step_deviations": sure},
        )  # fmt: skip


def _noise(took: Floats) -> float:
    """The usual deviation of a step: from its neighbours, so that a change of level adds none."""
    return float(TO_SIGMA * np.median(np.abs(np.diff(took))) / np.sqrt(2))


def slow_runs(took: Floats, usual: float, noise: float) -> list[tuple[int, int]]:
    """First and last step of each run that is longer by more than noise explains.

    The run with the largest excess over its length in deviations comes first; then the rest of
    both sides is searched (the segments of a cumulated sum).
    """
    floor = max(LONGER * usual, LEVELS_APART * noise)
    gain = np.minimum(took - usual, DEVIATIONS * max(noise, floor)) - floor
    sums = np.concatenate([[0.0], np.cumsum(gain)])
    lowest = np.minimum.accumulate(sums)
    last = int((sums - lowest).argmax()) - 1
    if last < 0:
        return []
    first = int(sums[: last + 1].argmin())
    large = np.flatnonzero(gain[first : last + 1] >= gain[first : last + 1].mean() / 4)
    first, last = first + int(large[0]), first + int(large[-1])
    size = last - first + 1
    excess = float(took[first : last + 1].mean()) - usual
    enough = excess * np.sqrt(size) >= STANDS_OUT * noise and excess >= LONGER * usual
    if not enough or size < SHORTEST_RUN:
        return []
    before = slow_runs(took[:first], usual, noise) if first else []
    after = slow_runs(took[last + 1 :], usual, noise)
    return [*before, (first, last), *((a + last + 1, b + last + 1) for a, b in after)]


def _longer_bursts(view: JobView, steps: JobSteps, curves: Curves) -> Iterator[CounterFinding]:
    """NICs whose bursts take longer than those of their role."""
    share = burst_shares(curves, view.members.rows, steps)
    blurred = 2 * curves.resolution_ns / max(view.period_ns, 1)
    ratio, out = longer_bursts(share, view.members.role)
    for place in np.flatnonzero(out & (share > blurred)):
        yield CounterFinding(
            "long_bursts", "slow_nic", "address", curves.ports[view.members.rows[place]],
            int(steps.edges_ns[0]), int(steps.edges_ns[-1]), 0.6, "port", 0,
            steps.durations_ns.size - 1, 1 - 1 / float(ratio[place]), 0.0,
            {"ratio_to_peers": float(ratio[place]), "busy_share": float(share[place])},
        )  # fmt: skip


def of_ports(
    curves: Curves, topology: Topology, codes: Ints, busy: Bools, in_job: Bools
) -> Iterator[CounterFinding]:
    """Ports that do not do what the same NIC of the other servers does."""
    nics = np.array([-1 if end.nic is None else end.nic for end in topology.endpoints], np.int64)
    servers = topology.servers[codes].astype(np.int64)
    idle, extra = unlike_the_others(busy, in_job, servers, nics[codes])
    for symptom, cause, ports in (
        ("idle_port", "stopped_nic", idle),
        ("port_of_another_nic", UNKNOWN, extra),
    ):
        for port in ports:
            end = topology.endpoints[codes[port]]
            yield CounterFinding(
                symptom, cause, "address", end.address, curves.start_ns,
                curves.start_ns + curves.span_ns, 0.6, magnitude=1.0,
                evidence={
                    "server": end.server,
                    "nic": end.nic,
                    "moved_bytes": float(curves.moved[port].sum(dtype=np.float64)),
                },
            )  # fmt: skip


def of_events(
    view: JobView, series: Sequence[PortSeries], codes: Ints, topology: Topology
) -> Iterator[CounterFinding]:
    """NICs of a job that count more errors, discards, marks or pause frames than their peers."""
    rows = view.members.rows
    for name, (cause, fewest) in FAULTY_EVENTS.items():
        counted = np.array([series[row].events.get(name, 0) for row in rows], np.float64)
        least = max(fewest, EVENT_TIMES * float(np.median(counted)))
        for place in np.flatnonzero(counted >= least):
            port = series[rows[place]]
            yield CounterFinding(
                name, cause, "address", topology.endpoints[codes[rows[place]]].address,
                int(port.time_ns[0]), int(port.time_ns[-1]), 0.6,
                evidence={
                    name: float(counted[place]), "median_of_peers": float(np.median(counted))
                },
            )  # fmt: skip


def table_of(found: Iterable[tuple[str, CounterFinding]]) -> pd.DataFrame:
    """The table ``findings`` of pairs of a job and a finding, the surest first."""
    ordered = sorted(found, key=lambda pair: (-pair[1].confidence, pair[1].start_ns))
    rows = [
        {
            **asdict(finding), "finding": number, "job": job,
            "evidence": json.dumps(dict(finding.evidence), sort_keys=True),
        }
        for number, (job, finding) in enumerate(ordered)
    ]  # fmt: skip
    schema = DIAGNOSIS["findings"]
    empty: pd.DataFrame = schema.empty_table().to_pandas()
    return pd.DataFrame(rows)[schema.names] if rows else empty
