"""Steps of a job: which are whole, what kind of traffic each class is, and when ranks move it.

All parts of a job are put on one count of steps, over all its attempts. The first and the last
step of the records may be cut off, and so may the last one of an attempt that failed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import NamedTuple

import numpy as np

from llmprism.io.flows import FlowTable
from llmprism.methods.prism.classes.kind_of import KindOf
from llmprism.methods.prism.jobs.attempts import Job
from llmprism.methods.prism.kinds.kinds import kinds_of
from llmprism.methods.prism.parameters import EQUAL, FEWEST, SMALL
from llmprism.methods.prism.phases.gradients_last import with_gradients_last
from llmprism.methods.prism.phases.moments import (
    MISSING,
    Moments,
    Moved,
    moments_of,
    period_of,
    repaired,
)
from llmprism.methods.prism.phases.own_steps import with_own_steps
from llmprism.methods.prism.records.connections import Connections
from llmprism.methods.prism.steps.stepping import Part
from llmprism.numerics.arrays import Bools, Codes, Floats, Ints
from llmprism.numerics.graph import components
from prism_common.threads import in_threads

LOST = 1.5  # of the most that is missing in another step: with less, records may have been lost
GATHERED = tuple(1 / k for k in (2, 3, 4, 5, 7, 9, 11, 13, 15, 17))
"""Of the bytes of a step: what gathers of parameters have, 1/(1 + k) or 1/(1 + 2k).

Gradients have as many bytes or twice as many, and are reduced k times in a step: once, or, if they
are sharded (ZeRO-2), in each micro-batch. With more of them, a share shows little.
"""
ALIKE = 0.005  # of a step: steps differ by less where no record was lost
LITTLE = 0.03  # lacks of a step that was ended, there: a capture may miss its last packets


class Hidden(NamedTuple):
    """Groups of which servers hide a part: all members, and how many rings a server has."""

    size: int
    rings: int


@dataclass(frozen=True)
class Phases:
    """A job with its steps on one count, over all its epochs.

    Attributes
    ----------
    endpoints : endpoint codes of the job, sorted.
    count : number of steps.
    first_of_epoch : number of the first step of each epoch.
    classes : all classes with their kinds; steps counted over all epochs.
    quality : of the division into steps, in [0, 1].
    moments : by kind (dp, pp); other kinds have none.
    dp_group : number of the data-parallel group of each endpoint, -1 if it has none.
    gathers : of parameters, if they are part of the next step; otherwise None
        (:mod:`~llmprism.methods.prism.timeline.gathers`).
    hidden : by kind, groups that leave a server by another NIC than they enter it
        (:mod:`~llmprism.methods.prism.timeline.hidden_hops`).
    """

    endpoints: Codes
    count: int
    first_of_epoch: Ints
    classes: tuple[KindOf, ...]
    quality: float
    moments: dict[str, Moments]
    dp_group: Ints
    gathers: Moments | None = None
    hidden: Mapping[str, Hidden] = field(default_factory=dict)


def find_phases(
    flows: FlowTable, connections: Connections, job: Job, sizes: Mapping[str, int]
) -> Phases:
    """Put all parts of ``job`` on one count of steps, with the kind of each class.

    ``sizes``: places along each axis of the layout that is given.
    """
    classes, firsts, count = _on_one_count(flows, connections, job, sizes)
    group = joined(connections, classes, "dp", job.endpoints, len(flows.addresses))
    group_of = np.zeros(len(flows.addresses), np.int64)
    group_of[job.endpoints] = np.maximum(group, 0)
    ends = np.append(firsts[1:], count) - 1
    finished = _finished(connections, classes, group_of, count, ends)
    classes = _without_next(classes, ends)
    kept = _whole(classes, count, ends, finished)
    shift = np.cumsum(kept, dtype=np.int32) - 1
    classes = [_renumbered(one, kept, shift) for one in classes]
    count = int(kept.sum())
    moments = {
        kind: moments_of(flows, moved(classes, kind), job.endpoints, count, kind == "dp")
        for kind in ("dp", "pp")
    }
    for attempt in np.flatnonzero(kept[ends] & ~finished.all(axis=0) & (count >= FEWEST)).tolist():
        never = (group >= 0) & ~finished[group, attempt]
        moments["dp"].end_ns[never, shift[ends[attempt]]] = MISSING
    period = period_of(moments)
    moments["dp"] = repaired(moments["dp"], group, period)
    quality = float(np.mean([part.stepping.quality for epoch in job.epochs for part in epoch]))
    firsts = np.maximum(shift[np.minimum(firsts, shift.size - 1)], 0).astype(np.int64)
    return Phases(job.endpoints, count, firsts, tuple(classes), quality, moments, group)


def _on_one_count(
    flows: FlowTable, connections: Connections, job: Job, sizes: Mapping[str, int]
) -> tuple[list[KindOf], Ints, int]:
    """Classes with steps counted over all epochs, first step of each epoch, and number of steps."""
    classes: list[KindOf] = []
    firsts, count = [], 0
    for epoch in job.epochs:
        firsts.append(count)
        for kinds in in_threads(partial(_kinds, flows, connections, count, sizes), epoch):
            classes += kinds
        count += max(part.stepping.count for part in epoch)
    first = max(part.stepping.count for part in job.epochs[0])
    classes = [with_own_steps(connections, one, count, np.array(firsts)) for one in classes]
    return with_gradients_last(flows, classes, job.endpoints, first), np.array(firsts), count


def _kinds(
    flows: FlowTable, connections: Connections, before: int, sizes: Mapping[str, int], part: Part
) -> list[KindOf]:
    return [
        replace(one, step=np.where(one.step >= 0, one.step + before, -1))
        for one in kinds_of(connections, part, len(flows.addresses), sizes)
    ]


def _whole(classes: Sequence[KindOf], count: int, ends: Ints, finished: Bools) -> Bools:
    """Which steps are whole: the first and the last may be cut off by the window.

    The last step of an attempt, one of ``ends``, counts if some group ``finished`` it. A class is
    judged in its own attempt only.
    """
    kept = np.ones(count, np.bool_)
    if count < FEWEST:
        return kept
    lacking, judged = np.zeros(count), np.zeros(count)
    attempt = np.searchsorted(ends, np.arange(count))
    for one in classes:
        volume = np.bincount(one.step[one.step >= 0], one.traffic.size[one.step >= 0], count)
        own = np.isin(attempt, attempt[volume > 0])
        if own.any():
            lacking += own & (volume < 0.5 * np.median(volume[own]))
        judged += own
    most = lacking > 0.5 * judged
    kept[ends] = finished.any(axis=0)
    kept[[0, -1]] &= ~most[[0, -1]]
    return kept


def _finished(
    connections: Connections, classes: Sequence[KindOf], groups: Ints, count: int, ends: Ints
) -> Bools:
    """Which groups finished the last step of each attempt, shape (groups, attempts).

    A group did not if it has less data-parallel traffic than in other steps. It may lack the
    gathers of parameters, if the next step would have begun with them; then each attempt ends so.
    ``groups`` has the group of every endpoint code.
    """
    volume = group_volumes(connections, classes, groups, count)
    usual = np.median(volume, axis=1, keepdims=True)
    others = usual - np.delete(volume, ends, axis=1)
    lost = LOST * others.max(axis=1, initial=0.0, keepdims=True)
    lacks = usual - volume[:, ends]
    alike = lost <= ALIKE * usual
    finished: Bools = lacks <= np.maximum(np.where(alike, LITTLE, SMALL) * usual, lost)
    for share in GATHERED:
        ungathered = np.abs(lacks - share * usual) <= np.where(alike, ALIKE, EQUAL) * usual
        finished |= ungathered & ungathered[:, -1:]
    finished &= (volume[:, ends] > 0) | (usual == 0)
    return finished


def group_volumes(
    connections: Connections, classes: Sequence[KindOf], groups: Ints, count: int
) -> Floats:
    """Bytes of data-parallel traffic of each group and step, shape (groups, count).

    ``groups`` has the group of every endpoint code.
    """
    volume = np.zeros((int(groups.max(initial=0)) + 1, count))
    for one in classes:
        if one.kind == "dp":
            known, cell = one.cells(connections, count)
            owner = groups[connections.src[one.connections]][cell // count]
            np.add.at(volume, (owner, cell % count), one.traffic.size[known])
    return volume


def _without_next(classes: Sequence[KindOf], ends: Ints) -> list[KindOf]:
    """``classes`` without what moves after the gradients of the ``ends``, the last steps.

    It belongs to a step that never came to its gradients.
    """
    found = list(classes)
    for last in ends.tolist():
        dp_end = max(
            (int(one.traffic.end_ns[one.step == last].max(initial=MISSING))
             for one in found if one.kind == "dp"), default=MISSING,
        )  # fmt: skip
        for i, one in enumerate(found):
            beyond = (one.step == last) & (one.traffic.start_ns > dp_end)
            if one.kind == "pp" and dp_end != MISSING and beyond.any():
                found[i] = replace(one, step=np.where(beyond, -1, one.step))
    return found


def _renumbered(one: KindOf, kept: Bools, shift: Codes) -> KindOf:
    known = (one.step >= 0) & kept[np.maximum(one.step, 0)]
    step = np.where(known, shift[np.maximum(one.step, 0)], -1)
    return replace(one, step=step)


def moved(classes: Sequence[KindOf], kind: str) -> list[Moved]:
    """Traffic of all ``classes`` of a kind, with the step of each record."""
    return [(one.traffic, one.step) for one in classes if one.kind == kind]


def joined(
    connections: Connections, classes: Sequence[KindOf], kind: str, endpoints: Codes, nodes: int
) -> Ints:
    """Number what connections of ``kind`` join, by first record; -1 where there are none."""
    own = [one.connections for one in classes if one.kind == kind]
    group = np.full(endpoints.size, -1)
    if not own:
        return group
    chosen = np.concatenate(own)
    pairs = np.unique(np.column_stack((connections.src[chosen], connections.dst[chosen])), axis=0)
    label = components(pairs[:, 0], pairs[:, 1], nodes)
    used = np.isin(endpoints, np.unique(pairs))
    group[used] = label[endpoints[used]]
    return by_first_record(group, first_records(connections, chosen, nodes)[endpoints])


def first_records(connections: Connections, chosen: Ints, nodes: int) -> Ints:
    """First start [ns] of what each endpoint sends on the ``chosen`` connections, by code.

    The largest integer where it sends nothing.
    """
    first = np.full(nodes, np.iinfo(np.int64).max)
    np.minimum.at(first, connections.src[chosen], connections.first_ns[chosen])
    return first


def by_first_record(group: Ints, first_ns: Ints) -> Ints:
    """Number groups in the order in which their members begin to send, -1 stays.

    Of two groups that begin together, the one whose other members begin earlier comes first,
    so that numbers do not depend on how endpoints are named.
    """
    keys = {
        one: sorted(first_ns[group == one].tolist())
        for one in np.unique(group[group >= 0]).tolist()
    }
    number = {one: i for i, one in enumerate(sorted(keys, key=lambda one: keys[one]))}
    return np.array([number.get(one, -1) for one in group.tolist()], np.int64)
