"""The tables of a diagnosis."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from llmprism.io.topology import Topology
from llmprism.methods.prism.front.jobs import Part
from llmprism.methods.prism.front.layouts.layout import Layout
from llmprism.methods.prism.front.observe.lanes import Lane, Observation
from llmprism.methods.prism.front.parameters import CONTROL_SHARE, UNSURE
from llmprism.methods.prism.front.timeline import Timeline
from llmprism.model import CANNOT_TELL
from llmprism.numerics.arrays import Array, Ints
from prism_common.kinds import DP, OTHER, UNKNOWN


@dataclass(frozen=True)
class DiagnosedJob:
    """All that is known of one job; without steps, layout and timeline are None.

    ``unknown`` says why its steps cannot be told.
    """

    part: Part
    unknown: str | None = None
    layout: Layout | None = None
    timeline: Timeline | None = None


def tables_of(
    topology: Topology, seen: Observation, jobs: list[DiagnosedJob]
) -> dict[str, pd.DataFrame]:
    """All tables but spans and findings."""
    names = np.array(topology.addresses, dtype=object)
    frames: dict[str, list[pd.DataFrame]] = {}
    for i, job in enumerate(jobs):
        for name, frame in _of_job(job, names, seen.origin_ns).items():
            frames.setdefault(name, []).append(frame.assign(job=f"job-{i}"))
    tables = {name: pd.concat(parts, ignore_index=True) for name, parts in frames.items()}
    return tables | {"pairs": _pairs(seen, jobs, names)}


def _of_job(job: DiagnosedJob, names: Array, origin: int) -> dict[str, pd.DataFrame]:
    tables = {"jobs": pd.DataFrame({"address": names[job.part.endpoints]})}
    if job.layout is None or job.timeline is None:
        return tables | {"layouts": _unknown_layout(job)}
    assert job.part.borders is not None
    tables["groups"] = _groups(job.layout, names)
    tables["steps"] = _steps(job, job.timeline, names, origin)
    lay = job.layout
    row = {axis: getattr(lay, axis) for axis in ("dp", "pp", "tp", "ep", "cp")}
    if lay.confidence < UNSURE:
        row |= {"dp": CANNOT_TELL, "tp": CANNOT_TELL}
    row |= {"micro_batches": -1, "schedule": UNKNOWN, "sharding": UNKNOWN}
    row |= {"period_ns": int(job.part.borders.period_ns)}
    row |= {"confidence": lay.confidence, "evidence": "{}"}
    tables["layouts"] = pd.DataFrame([row])
    return tables


def _unknown_layout(job: DiagnosedJob) -> pd.DataFrame:
    row: dict[str, Any] = dict.fromkeys(
        ("dp", "pp", "tp", "ep", "cp", "micro_batches"), CANNOT_TELL
    )
    row |= {"schedule": UNKNOWN, "sharding": UNKNOWN, "period_ns": CANNOT_TELL}
    evidence = json.dumps({"unknown": job.unknown})
    return pd.DataFrame([row | {"confidence": 0.0, "evidence": evidence}])


def _groups(layout: Layout, names: Array) -> pd.DataFrame:
    rows: list[tuple[str, int, Any, int | None]] = [
        ("dp", number, names[end], None)
        for number, members in enumerate(layout.groups)
        for end in members
    ]
    rows += [
        ("pp", number, names[end], stage if chain.certain else None)
        for number, chain in enumerate(layout.chains)
        for stage, end in enumerate(chain.ends)
    ]
    frame = pd.DataFrame(rows, columns=["kind", "group", "address", "position"])
    return frame.astype({"position": "Int64"})


def _steps(job: DiagnosedJob, timeline: Timeline, names: Array, origin: int) -> pd.DataFrame:
    ends, count = timeline.end.shape
    known = ~np.isnan(timeline.dp_end).ravel()

    def whole(values: Array) -> Ints:
        rounded: Ints = np.rint(np.nan_to_num(values)).astype(np.int64).ravel()
        return rounded + origin

    frame = pd.DataFrame(
        {
            "address": np.repeat(names[job.part.endpoints], count),
            "step": np.tile(np.arange(count), ends),
            "start_ns": whole(timeline.start),
            "end_ns": whole(timeline.end),
            "dp_end_ns": pd.Series(whole(timeline.dp_end)).astype("Int64").where(known),
            "confidence": 0.9,
        }
    )
    shown = ~np.isnan(timeline.end).ravel() & ~np.isnan(timeline.start).ravel()
    frame = frame[shown & (frame["end_ns"] > frame["start_ns"])]
    return frame.assign(step=frame.groupby("address").cumcount()).reset_index(drop=True)


def _opens(lane: Lane, first_border: float) -> bool:
    """Whether nearly all of a lane is before the first border of its job [ns]."""
    before = lane.sent[np.searchsorted(lane.start, first_border)]
    return bool(before >= (1 - CONTROL_SHARE) * lane.bytes)


def _pairs(seen: Observation, jobs: list[DiagnosedJob], names: Array) -> pd.DataFrame:
    """Kinds of all directed pairs.

    An answer has the kind of what it answers. What members of a group exchange before their first
    step has ended, such as initial parameters, has the kind of the group.
    """
    job_of = np.full(len(names), -1)
    group_of = np.full(len(names), -1)
    opening_ns = np.zeros(len(names))
    kind_of: dict[tuple[int, int], str] = {}
    for i, job in enumerate(jobs):
        job_of[job.part.endpoints] = i
        kinds = job.layout.kinds if job.layout else [UNKNOWN] * len(job.part.lanes)
        for lane, kind in zip(job.part.lanes, kinds, strict=True):
            kind_of[seen.lanes[lane].src, seen.lanes[lane].dst] = kind
        if job.layout and job.part.borders:
            opening_ns[job.part.endpoints] = job.part.borders.low[0] + seen.origin_ns
            for number, members in enumerate(job.layout.groups):
                group_of[members] = number + i * len(names)
    found = seen.connections
    within = (group_of[found.src] == group_of[found.dst]) & (group_of[found.src] >= 0)
    early = {(c.src, c.dst) for c in seen.lanes if _opens(c, opening_ns[c.src] - seen.origin_ns)}
    pairs = zip(found.src.tolist(), found.dst.tolist(), strict=True)
    opens = within & found.trains & np.array([pair in early for pair in pairs])
    rows = set()
    ends = zip(found.src.tolist(), found.dst.tolist(), strict=True)
    for (a, b), trains, answers, opening in zip(
        ends, found.trains, found.answers, opens, strict=True
    ):
        shown = kind_of.get((a, b)) if trains else kind_of.get((b, a)) if answers else None
        shown = DP if shown in (None, OTHER) and opening else shown
        same = job_of[a] == job_of[b] and job_of[a] >= 0
        rows.add((f"job-{job_of[a]}" if same else "", names[a], names[b], shown or OTHER))
    frame = pd.DataFrame(sorted(rows), columns=["job", "src", "dst", "kind"])
    return frame.assign(kind_unrefined=frame["kind"], confidence=0.9)
