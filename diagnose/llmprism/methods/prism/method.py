"""``method="prism"``: what repeats is a step, what circulates is a job.

The stages, each in its own module: connections and which of them carry data; classes of
connections that behave alike; cycles, which divide the traffic of a class into equal parts;
stepping, which part of a cycle is a training step; jobs, whose components take their steps
together; kinds of traffic; phases, pipelines and the timeline of every rank; faults, which
explain slow steps.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from llmprism.io.flows import FlowTable
from llmprism.io.frames import as_categories
from llmprism.io.topology import Topology
from llmprism.methods import register
from llmprism.methods.prism.connections import SMALL, Connections, find_connections
from llmprism.methods.prism.faults import Context, JobView, find_findings
from llmprism.methods.prism.gathers import with_late_gathers
from llmprism.methods.prism.jobs import Job, find_jobs
from llmprism.methods.prism.layout import UNKNOWN, Layout, find_layout
from llmprism.methods.prism.mirror import mirrored
from llmprism.methods.prism.moments import MISSING
from llmprism.methods.prism.partial_steps import partial_steps
from llmprism.methods.prism.phases import Phases, find_phases, joined
from llmprism.methods.prism.pipelines import Pipelines, find_pipelines
from llmprism.methods.prism.replicas import find_replicas, whole_groups
from llmprism.methods.prism.resolution import refusal
from llmprism.methods.prism.shapes import CONFIDENCE, kinds_by_volume
from llmprism.methods.prism.spans import KINDS, Marked, find_spans, marked
from llmprism.methods.prism.stepless import Stepless, find_stepless, joined_by_servers, layout_row
from llmprism.methods.prism.timeline import Ranks, find_timeline
from llmprism.model import Progress
from llmprism.numerics.arrays import Bools, Codes, Ints
from llmprism.numerics.memory import give_back

OTHER = 0.97  # confidence that what belongs to no class is no training traffic
FEW = 0.2  # of the records of the data that a connection would acknowledge
LEAST = 1e-4  # of the bytes of data: one acknowledgement of 48 bytes for 120 packets
HALF = 0.5  # of the bytes of data, and of the records of a connection
_ROW = ["src", "dst", "kind"]
BESIDE = 0.9  # confidence that small records beside data are traffic of their own


@dataclass(frozen=True)
class Found:
    """All that is known of one job; ``dp_group`` includes the joins that NVLink hides."""

    name: str
    phases: Phases
    pipelines: Pipelines
    ranks: Ranks
    layout: Layout
    dp_group: Ints


@register("prism")
def prism(flows: FlowTable, topology: Topology, progress: Progress) -> Mapping[str, pd.DataFrame]:
    """Diagnose ``flows``; see :class:`~llmprism.methods.base.Method`."""
    tables, jobs = _diagnosed(flows, topology, progress)
    give_back()
    return tables | ({"spans": _spans(jobs, flows)} if jobs else {})


def _diagnosed(
    flows: FlowTable, topology: Topology, progress: Progress
) -> tuple[dict[str, pd.DataFrame], list[Marked]]:
    """All tables but the spans, and what those are made of."""
    progress(0.0, "finding connections")
    connections = find_connections(flows)
    progress(0.2, "finding jobs and their steps")
    jobs: list[Job | Stepless] = []
    partial: list[Stepless] = []
    for job in find_jobs(flows, topology, connections):
        refused = refusal(flows, connections, job)
        if refused is None and (hint := partial_steps(connections, job, len(flows.addresses))):
            partial.append(Stepless(job.endpoints, hint))
        else:
            jobs.append(Stepless(job.endpoints, refused) if refused else job)
        del job
    taken = np.concatenate([np.empty(0, np.int32), *(one.endpoints for one in [*jobs, *partial])])
    others = find_stepless(connections, topology, taken, alone=not jobs and not partial)
    jobs += joined_by_servers([*partial, *others], topology)
    give_back()
    found: list[Found] = []
    stepless: dict[str, Stepless] = {}
    for i in range(len(jobs)):
        one = jobs.pop(0)  # its classes are half of all memory; only those of the phases stay
        if isinstance(one, Stepless):
            stepless[f"job-{i}"] = one
            continue
        progress(0.5 + 0.4 * i / (i + 1 + len(jobs)), "reconstructing timelines")
        found.append(_look_into(flows, topology, connections, one, f"job-{i}"))
        del one
        give_back()
    progress(0.9, "looking for causes of slow steps")
    views = [JobView(one.name, one.phases, one.pipelines, one.ranks) for one in found]
    findings = find_findings(Context(flows, topology, connections, views))
    progress(0.95, "filling tables")
    tables = _tables(topology, found, stepless, connections)
    jobs_marked = [marked(one.name, one.phases, one.ranks, len(flows)) for one in found]
    return tables | {"findings": findings}, jobs_marked


def _tables(
    topology: Topology,
    found: list[Found],
    stepless: Mapping[str, Stepless],
    connections: Connections,
) -> dict[str, pd.DataFrame]:
    """The tables ``jobs``, ``groups``, ``steps``, ``layouts`` and ``pairs``."""
    names = np.array(topology.addresses, dtype=object)
    tables = {
        "jobs": [
            *(
                _jobs(one.name, one.phases.endpoints, names, one.pipelines.micro_batches)
                for one in found
            ),
            *(_jobs(name, one.endpoints, names, UNKNOWN) for name, one in stepless.items()),
        ],
        "groups": [_groups(one, names) for one in found],
        "steps": [_steps(one, names) for one in found],
        "layouts": [
            *(_layout(one) for one in found),
            *(layout_row(name, one) for name, one in stepless.items()),
        ],
    }
    pairs = _pairs(topology, found, stepless, connections, names)
    return {name: _joined(own) for name, own in tables.items() if own} | {"pairs": pairs}


def _joined(tables: list[pd.DataFrame]) -> pd.DataFrame:
    return tables[0] if len(tables) == 1 else pd.concat(tables, ignore_index=True)


def _look_into(
    flows: FlowTable, topology: Topology, connections: Connections, job: Job, name: str
) -> Found:
    """Work out kinds, pipelines, timeline and layout of one job."""
    phases = find_phases(flows, connections, job)
    pipelines = find_pipelines(flows, connections, phases)
    phases = with_late_gathers(flows, connections, phases, pipelines)
    ranks = find_timeline(phases, pipelines)
    replicas = find_replicas(topology, phases, pipelines)
    layout = find_layout(topology, connections, phases, pipelines, replicas)
    groups = whole_groups(topology, phases, replicas)
    return Found(name, phases, pipelines, ranks, layout, groups)


def _jobs(name: str, endpoints: Codes, names: Any, micro_batches: int) -> pd.DataFrame:
    frame = pd.DataFrame({"job": name, "address": names[endpoints]})
    return frame.assign(micro_batches=micro_batches)


def _pairs(
    topology: Topology,
    found: list[Found],
    stepless: Mapping[str, Stepless],
    connections: Connections,
    names: Any,
) -> pd.DataFrame:
    job_of = np.full(len(names), -1)
    groups = {name: np.full(len(names), -1) for name in ("dp", "tp")}
    kind = np.array(["other"] * len(connections), dtype=object)
    sure = np.full(len(connections), OTHER)
    for i, (_, ends) in enumerate(_members(found, stepless)):
        job_of[ends] = i
    for i, one in enumerate(found):
        tp = joined(connections, one.phases.classes, "tp", one.phases.endpoints, len(names))
        for name, group in (("dp", one.phases.dp_group), ("tp", tp)):
            groups[name][one.phases.endpoints] = np.where(group >= 0, group + i * len(names), -1)
        for part in one.phases.classes:
            kind[part.one.connections] = part.kind
            sure[part.one.connections] = part.confidence
    opening = connections.carries & _before_training(connections, found)
    same = job_of[connections.src] == job_of[connections.dst]
    hidden = same & (job_of[connections.src] >= len(found))
    hidden &= connections.carries | connections.answer
    kind[hidden], sure[hidden] = "unknown", 0.0
    for job in stepless.values():
        shown = kinds_by_volume(connections, job.endpoints)
        for at, name in _shown(connections, shown, hidden):
            kind[at], sure[at] = name, OTHER if name == "other" else CONFIDENCE
    for name, group in groups.items():
        home, goal = group[connections.src], group[connections.dst]
        once = opening & (kind == "other") & (home >= 0) & (home == goal)
        kind[once] = name  # what the members of a group exchange once, such as initial parameters
    table = pd.DataFrame(
        {"src": connections.src, "dst": connections.dst, "kind": kind, "confidence": sure}
    )
    carried = table[table["kind"] != "other"]
    back = carried.rename(columns={"src": "dst", "dst": "src"})
    answering = connections.answer & (kind == "other")
    answering &= answering.any() and _acknowledged(connections, table, answering)
    answers = table[answering][["src", "dst"]].merge(back, on=["src", "dst"], how="left")
    answers = answers.fillna({"kind": "other", "confidence": OTHER}).drop_duplicates(_ROW)
    rest = table[~answering]
    beside = pd.concat([_beside(connections, table), _services(connections, table, answering)])
    shown = pd.concat([rest, answers, beside])
    hidden_pairs = mirrored(topology, [one.phases.endpoints for one in found], shown)
    every = pd.concat([shown, hidden_pairs]).sort_values("confidence", ascending=False)
    every = every.drop_duplicates(_ROW)
    own, other = job_of[every["src"].to_numpy()], job_of[every["dst"].to_numpy()]
    labels = np.array([name for name, _ in _members(found, stepless)] + [""], dtype=object)
    return pd.DataFrame(
        {
            "job": labels[np.where(own == other, own, -1)],
            "src": names[every["src"].to_numpy()],
            "dst": names[every["dst"].to_numpy()],
            "kind": every["kind"].to_numpy(),
            "kind_unrefined": every["kind"].to_numpy(),
            "confidence": every["confidence"].to_numpy(),
        }
    )


def _before_training(connections: Connections, found: list[Found]) -> Bools:
    """Connections that a job opens before an attempt's first step has ended.

    A library opens all its connections then; what begins later between ranks is not its own.
    """
    before = np.zeros(len(connections), np.bool_)
    for one in found:
        own = np.isin(connections.src, one.phases.endpoints)
        end_ns = one.phases.moments["dp"].end_ns.max(axis=0, initial=MISSING)
        for first in one.phases.first_of_epoch.tolist():
            opens = end_ns[first - 1] if first else MISSING
            begins = connections.first_ns
            before |= own & (begins > opens) & (begins <= end_ns[first])
    return before


def _shown(
    connections: Connections, kinds: Mapping[tuple[int, int], str], hidden: Bools
) -> Iterator[tuple[int, str]]:
    """Connections in ``hidden`` whose kind is known by their pair; those that only answer it."""
    for at in np.flatnonzero(hidden).tolist():
        pair = int(connections.src[at]), int(connections.dst[at])
        if pair in kinds:
            yield at, kinds[pair]
        elif connections.answer[at] and pair[::-1] in kinds:
            yield at, "other"


def _members(found: list[Found], stepless: Mapping[str, Stepless]) -> list[tuple[str, Codes]]:
    """Name and endpoint codes of every job, those with a timeline first."""
    with_steps = [(one.name, one.phases.endpoints) for one in found]
    return [*with_steps, *((name, one.endpoints) for name, one in stepless.items())]


def _beside(connections: Connections, table: pd.DataFrame) -> pd.DataFrame:
    """Rows of kind ``other`` for connections on which small records pass beside the data.

    Handshakes and control messages of a library use the connection of the data.
    """
    size = connections.size * SMALL < connections.typical_bytes[connections.of_row]
    mixed = np.unique(connections.of_row[size])
    rows = table.iloc[mixed]
    data = ~rows["kind"].isin(["other", "unknown"])
    return rows[data].assign(kind="other", confidence=BESIDE)


def _acknowledged(connections: Connections, table: pd.DataFrame, answering: Bools) -> bool:
    """Whether the ``answering`` connections acknowledge data at all, in these records.

    Acknowledgements are a matter of the transport, so most data have them or none has. They have
    about as many records as the data, or a share of their volume; services and small reductions
    have less. Data that pass both ways may be acknowledged by each other.
    """
    totals = {"volume": connections.total_bytes, "records": connections.records}
    answers = table[answering].assign(**{name: own[answering] for name, own in totals.items()})
    data = table[table["kind"] != "other"]
    ways, back = (pd.MultiIndex.from_frame(data[way]) for way in (["src", "dst"], ["dst", "src"]))
    own = answers.groupby(["dst", "src"])[list(totals)].agg({"volume": "sum", "records": "max"})
    volume, records = own.reindex(ways).to_numpy().T
    judged = ~back.isin(ways) | np.isfinite(volume)
    size = connections.total_bytes[data.index]
    found = (volume >= LEAST * size) | (records >= HALF * connections.records[data.index])
    return bool(judged.any() and size[judged & found].sum() >= HALF * size[judged].sum())


def _services(connections: Connections, table: pd.DataFrame, answering: Bools) -> pd.DataFrame:
    """Rows of kind ``other`` for connections between partners that do not answer their data.

    Acknowledgements have about as many records as the data; a service between two partners
    that send each other data has few.
    """
    answers = table[answering].assign(records=connections.records[answering])
    data = table[table["kind"] != "other"]
    records = pd.Series(connections.records[data.index], index=data.index)
    most = records.groupby([data["src"], data["dst"]]).max()
    forth = most.reindex(pd.MultiIndex.from_frame(answers[["src", "dst"]])).to_numpy()
    back = most.reindex(pd.MultiIndex.from_frame(answers[["dst", "src"]])).to_numpy()
    few = answers["records"].to_numpy() < FEW * back
    known = pd.MultiIndex.from_frame(answers[~few & np.isfinite(back)][["src", "dst"]])
    covered = pd.MultiIndex.from_frame(answers[["src", "dst"]]).isin(known)
    few &= np.isfinite(forth) | covered
    rows = pd.DataFrame(answers[few][["src", "dst"]])
    return rows.assign(kind="other", confidence=BESIDE)


def _groups(one: Found, names: Any) -> pd.DataFrame:
    ends = names[one.phases.endpoints]
    frames = []
    for kind, number, position in (
        ("dp", one.dp_group, np.full(ends.size, -1)),
        ("pp", one.pipelines.number, one.pipelines.stage),
    ):
        frame = pd.DataFrame({"group": number, "address": ends, "position": position})
        frame = frame[frame["group"] >= 0].assign(job=one.name, kind=kind)
        frames.append(frame.sort_values(["group", "position", "address"]))
    both = pd.concat(frames, ignore_index=True)
    return both.assign(position=both["position"].astype("Int64").mask(both["position"] < 0))


def _steps(one: Found, names: Any) -> pd.DataFrame:
    ranks = one.ranks
    ends, count = ranks.end.shape
    whole = {
        name: np.rint(np.nan_to_num(values)).astype(np.int64).ravel() + ranks.origin_ns
        for name, values in (("start_ns", ranks.start), ("end_ns", ranks.end))
    }
    dp_end = np.rint(np.nan_to_num(ranks.dp_end)).ravel().astype(np.int64) + ranks.origin_ns
    known = ~np.isnan(ranks.dp_end).ravel()
    frame = pd.DataFrame(
        {
            "job": one.name,
            "address": np.repeat(names[one.phases.endpoints], count),
            "step": np.tile(np.arange(count), ends),
            **whole,
            "dp_end_ns": pd.Series(dp_end).astype("Int64").where(known),
            "confidence": one.phases.quality,
        }
    )
    return frame[_ended(one).ravel()].reset_index(drop=True)


def _ended(one: Found) -> Bools:
    """Which steps each endpoint ended, (endpoints, steps): an attempt may stop in its last."""
    firsts = one.phases.first_of_epoch
    last = np.append(firsts[1:], one.phases.count) - 1
    missing = np.isnan(one.ranks.dp_end)
    ended = np.ones_like(missing)
    ended[:, last] = ~missing[:, last] | missing.all(axis=1, keepdims=True)
    return ended


def _spans(found: Sequence[Marked], flows: FlowTable) -> pd.DataFrame:
    """Spans of all jobs, names as categories: there are more spans than records."""
    own = [find_spans(flows, one) for one in found]
    sizes = [spans["step"].size for spans in own]
    columns = {name: _in_one([spans.pop(name) for spans in own]) for name in list(own[0])}
    jobs = np.repeat(np.arange(len(found), dtype=np.int16), sizes)
    return pd.DataFrame(
        {
            "job": as_categories([one.name for one in found], jobs),
            "address": as_categories(flows.addresses, columns.pop("endpoint")),
            "step": columns["step"],
            "kind": as_categories(KINDS, columns.pop("kind")),
            "start_ns": columns["start_ns"],
            "end_ns": columns["end_ns"],
        },
        copy=False,
    )


def _in_one(arrays: list[NDArray[Any]]) -> NDArray[Any]:
    return arrays[0] if len(arrays) == 1 else np.concatenate(arrays)


def _layout(one: Found) -> pd.DataFrame:
    layout = one.layout
    row = {
        **{name: getattr(layout, name) for name in ("dp", "pp", "tp", "ep", "cp")},
        "micro_batches": layout.micro_batches,
        "schedule": layout.schedule,
        "sharding": layout.sharding,
        "period_ns": layout.period_ns,
        "confidence": layout.confidence,
        "evidence": json.dumps(layout.evidence, sort_keys=True),
    }
    return pd.DataFrame([{"job": one.name, **row}])
