"""The table of pairs: the kind of what each two endpoints send each other, and why.

What belongs to a class of a job has the kind of the class. What a job exchanges once, before its
first step has ended, has the kind of the group in which it does. Answers have the kind of the data
that they acknowledge. All else is ``other``: services, control messages, and other programs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from llmprism.io.topology import Topology
from llmprism.methods.prism.jobs.repetition import answered
from llmprism.methods.prism.jobs.stepless import Stepless
from llmprism.methods.prism.kinds.unseen import answers_of_unseen
from llmprism.methods.prism.layout.layout import Layout
from llmprism.methods.prism.parameters import HALF, QUARTER, SURE
from llmprism.methods.prism.phases.moments import MISSING
from llmprism.methods.prism.phases.phases import Phases, joined
from llmprism.methods.prism.pipelines.pipelines import Pipelines
from llmprism.methods.prism.records.connections import LIGHT_BYTES, LIGHTER, Connections
from llmprism.methods.prism.records.shapes import CONFIDENCE
from llmprism.methods.prism.tables.without_steps import kinds_of
from llmprism.methods.prism.timeline.timeline import Ranks
from llmprism.numerics.arrays import Bools, Codes, Floats, Ints

OTHER = 0.97  # confidence that what belongs to no class is no training traffic
LEAST = 1e-4  # of the bytes of data: one acknowledgement of 48 bytes for 120 packets
_ROW = ["src", "dst", "kind"]

Kinds = tuple[NDArray[Any], Floats]
"""Kind and confidence of each connection."""


@dataclass(frozen=True)
class DiagnosedJob:
    """All that is known of one job; ``dp_group`` includes the joins that NVLink hides.

    ``steps_sure`` is the confidence of its steps.
    """

    name: str
    phases: Phases
    pipelines: Pipelines
    ranks: Ranks
    layout: Layout
    dp_group: Ints
    steps_sure: float = 1.0


DiagnosedJobs = Sequence[DiagnosedJob]


def members(found: DiagnosedJobs, stepless: Mapping[str, Stepless]) -> list[tuple[str, Codes]]:
    """Name and endpoint codes of every job, those with a timeline first."""
    with_steps = [(one.name, one.phases.endpoints) for one in found]
    return [*with_steps, *((name, one.endpoints) for name, one in stepless.items())]


def pairs_of(
    topology: Topology,
    found: DiagnosedJobs,
    stepless: Mapping[str, Stepless],
    connections: Connections,
    names: Any,
) -> pd.DataFrame:
    """The table ``pairs`` of all jobs, those with a timeline and the ``stepless`` ones."""
    job_of = np.full(len(names), -1)
    for i, (_, ends) in enumerate(members(found, stepless)):
        job_of[ends] = i
    kind, sure = _of_classes(found, connections)
    _without_steps(connections, job_of, len(found), stepless, (kind, sure))
    _once(found, connections, kind, len(names))
    _doubted(found, connections, job_of, (kind, sure))
    table = pd.DataFrame(
        {"src": connections.src, "dst": connections.dst, "kind": kind, "confidence": sure}
    )
    shown = _with_answers(connections, table)
    answers = answers_of_unseen(topology, connections, shown)
    every = pd.concat([shown, answers]).sort_values("confidence", ascending=False)
    every = every.drop_duplicates(_ROW)
    own, other = job_of[every["src"].to_numpy()], job_of[every["dst"].to_numpy()]
    labels = np.array([name for name, _ in members(found, stepless)] + [""], dtype=object)
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


def _of_classes(found: DiagnosedJobs, connections: Connections) -> Kinds:
    """Kinds of the connections that belong to a class of a job; the others are ``other``."""
    kind = np.array(["other"] * len(connections), dtype=object)
    sure = np.full(len(connections), OTHER)
    for one in found:
        for part in one.phases.classes:
            kind[part.connections] = part.kind
            sure[part.connections] = part.confidence
    return kind, sure


def _without_steps(
    connections: Connections,
    job_of: Ints,
    with_steps: int,
    stepless: Mapping[str, Stepless],
    kinds: Kinds,
) -> None:
    """Set the ``kinds`` in jobs without a timeline: those that are known, or ``unknown``."""
    kind, sure = kinds
    hidden = job_of[connections.src] == job_of[connections.dst]
    hidden &= job_of[connections.src] >= with_steps
    hidden &= connections.carries | connections.answer
    kind[hidden], sure[hidden] = "unknown", 0.0
    for job in stepless.values():
        for at, name in kinds_of(connections, job, hidden):
            kind[at], sure[at] = name, OTHER if name == "other" else CONFIDENCE


def _once(found: DiagnosedJobs, connections: Connections, kind: NDArray[Any], nodes: int) -> None:
    """Set the ``kind`` of what members of a group exchange once, such as initial parameters."""
    groups = {name: np.full(nodes, -1) for name in ("dp", "tp")}
    for i, one in enumerate(found):
        tp = joined(connections, one.phases.classes, "tp", one.phases.endpoints, nodes)
        for name, group in (("dp", one.phases.dp_group), ("tp", tp)):
            groups[name][one.phases.endpoints] = np.where(group >= 0, group + i * nodes, -1)
    opening = connections.carries & _before_training(connections, found)
    for name, group in groups.items():
        home, goal = group[connections.src], group[connections.dst]
        kind[opening & (kind == "other") & (home >= 0) & (home == goal)] = name


def _doubted(found: DiagnosedJobs, connections: Connections, job_of: Ints, kinds: Kinds) -> None:
    """Set the ``kinds`` of what does not repeat to ``unknown``, in jobs whose steps are unsure.

    It may be training traffic whose records are longer than a step, or samples. Services between
    members of a job are minor, and what comes from others is not answered by as many bytes.
    """
    kind, sure = kinds
    unsure = np.array([one.phases.quality < SURE for one in found] + [False])
    if not unsure.any():
        return
    home, goal = (np.where(job_of[ends] < len(found), job_of[ends], -1)
                  for ends in (connections.src, connections.dst))  # fmt: skip
    inside = (home == goal) & unsure[home]
    touches = unsure[home] | unsure[goal]
    every = np.arange(len(connections))
    touches[touches] = answered(connections, every[touches], every[touches])
    doubted = (inside | touches) & connections.carries & ~connections.minor & (kind == "other")
    for one in found:
        for part in one.phases.classes:
            doubted[part.connections] = False
    kind[doubted], sure[doubted] = "unknown", 0.0


def _with_answers(connections: Connections, table: pd.DataFrame) -> pd.DataFrame:
    """Rows of ``table``, with the kinds of acknowledged data for the connections that answer it."""
    carried = table[table["kind"] != "other"]
    back = carried.rename(columns={"src": "dst", "dst": "src"})
    answering = connections.answer & (table["kind"].to_numpy() == "other")
    answering &= answering.any() and _acknowledged(connections, table, answering)
    answers = table[answering][["src", "dst"]].merge(back, on=["src", "dst"], how="left")
    answers = answers.fillna({"kind": "other", "confidence": OTHER}).drop_duplicates(_ROW)
    beside = [_beside(connections, table), _services(connections, table, answering)]
    rows: pd.DataFrame = pd.concat([table[~answering], answers, *beside])
    return rows


def _before_training(connections: Connections, found: DiagnosedJobs) -> Bools:
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


def _beside(connections: Connections, table: pd.DataFrame) -> pd.DataFrame:
    """Rows of kind ``other`` for connections on which small records pass beside the data.

    Handshakes and control messages of a library use the connection of the data. They are shorter
    than a page: a larger record holds data, such as a bucket of few gradients, or the first of many
    messages.
    """
    size = connections.size * LIGHTER < connections.typical_bytes[connections.of_row]
    size &= connections.size < LIGHT_BYTES
    mixed = np.unique(connections.of_row[size])
    rows = table.iloc[mixed]
    data = ~rows["kind"].isin(["other", "unknown"])
    return rows[data].assign(kind="other", confidence=SURE)


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
    that send each other data has few. Those of TCP have the ports of the data, exchanged.
    """
    answers = table[answering].assign(records=connections.records[answering])
    data = table[table["kind"] != "other"]
    records = pd.Series(connections.records[data.index], index=data.index)
    most = records.groupby([data["src"], data["dst"]]).max()
    forth = most.reindex(pd.MultiIndex.from_frame(answers[["src", "dst"]])).to_numpy()
    back = most.reindex(pd.MultiIndex.from_frame(answers[["dst", "src"]])).to_numpy()
    few = answers["records"].to_numpy() < QUARTER * back
    known = pd.MultiIndex.from_frame(answers[~few & np.isfinite(back)][["src", "dst"]])
    covered = pd.MultiIndex.from_frame(answers[["src", "dst"]]).isin(known)
    few &= np.isfinite(forth) | covered
    few |= _of_other_ports(connections, answers, data)
    rows = pd.DataFrame(answers[few][["src", "dst"]])
    return rows.assign(kind="other", confidence=SURE)


def _of_other_ports(connections: Connections, answers: pd.DataFrame, data: pd.DataFrame) -> Bools:
    """Which ``answers`` have not the ports of any ``data``, if others of the same pair have."""
    own: Bools = np.isin(answers.index, connections.reply[data.index])
    known = pd.MultiIndex.from_frame(answers[own][["src", "dst"]])
    return pd.MultiIndex.from_frame(answers[["src", "dst"]]).isin(known) & ~own
