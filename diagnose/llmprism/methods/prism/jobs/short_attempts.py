"""Attempts of a job that are too short to show steps by themselves.

What repeats shows steps, and an attempt of one or two steps repeats nothing. Another attempt of the
job shows how many bytes every pair of endpoints moves in a step. The records of a short attempt are
counted by that: all pairs must have moved the bytes of as many steps. What some have moved beyond
that belongs to a step that a failure interrupted. Its messages have the sizes of the other attempt.
Another job on the same endpoints has others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from llmprism.io.flows import FlowTable
from llmprism.methods.prism.classes.classes import Component, find_components
from llmprism.methods.prism.jobs.attempts import Job, begin_of, end_of
from llmprism.methods.prism.parameters import EQUAL, HALF, NEARLY, SMALL
from llmprism.methods.prism.records.connections import Connections
from llmprism.methods.prism.segment.stepping import Part, Stepping
from llmprism.numerics.arrays import Bools, Codes, Floats, Ints, order_in_groups


def with_short_attempts(
    flows: FlowTable, connections: Connections, jobs: Sequence[Job]
) -> list[Job]:
    """``jobs`` with such attempts, before, between and after those that show steps.

    What was taken for a job, or for an attempt of one, may be a short attempt of a larger job, of
    which layers or micro-batches looked like steps.
    """
    free = connections.carries.copy()
    for job in jobs:
        free[_connections_of(job.epochs)] = False
    found: list[Job] = []
    pending = sorted(
        jobs, key=lambda job: -connections.total_bytes[_connections_of(job.epochs)].sum()
    )
    while pending:
        job = _with_attempts(flows, connections, pending.pop(0), free)
        for other in list(pending):
            own = _connections_of(other.epochs)
            if np.isin(other.endpoints, job.endpoints).all():
                use = free.copy()
                use[own] = True
                longer = _with_attempts(flows, connections, job, use)
                if np.isin(own, _connections_of(longer.epochs)).all():
                    pending = [one for one in pending if one is not other]
                    job = longer
        found.append(job)
    return found


def _connections_of(epochs: Sequence[Sequence[Part]]) -> Ints:
    """Numbers of all connections of the attempts of a job."""
    parts = [part for epoch in epochs for part in epoch]
    return np.concatenate([one.connections for part in parts for one in part.component.classes])


def _with_attempts(flows: FlowTable, connections: Connections, job: Job, free: Bools) -> Job:
    """``job`` with attempts on the ``free`` connections."""
    epochs: list[tuple[Part, ...]] = []
    low = np.iinfo(np.int64).min
    for epoch in job.epochs:
        extent = (low, begin_of(epoch))
        epochs += [*_attempts(flows, connections, epoch, free, extent), epoch]
        low = end_of(epoch)
    extent = (low, np.iinfo(np.int64).max)
    epochs += _attempts(flows, connections, job.epochs[-1], free, extent)
    return Job(job.endpoints, tuple(epochs))


def _attempts(
    flows: FlowTable,
    connections: Connections,
    other: Sequence[Part],
    free: Bools,
    extent: tuple[int, int],
) -> list[tuple[Part, ...]]:
    """The attempts that ``free`` connections make within a time, without those of no steps."""
    chosen = np.flatnonzero(free)
    inside = connections.first_ns[chosen] >= extent[0]
    inside &= connections.last_ns[chosen] <= extent[1]
    own = _connections_of([other])
    inside &= np.isin(_numbers(connections, chosen), _numbers(connections, own))
    use = np.zeros(free.size, np.bool_)
    use[chosen[inside]] = True
    components = find_components(flows, connections, use) if use.any() else []
    steps = _Steps.of(other, connections)
    return [
        attempt
        for own in _one_after_the_other(components)
        for attempt in steps.divide(own, connections)
    ]


def _one_after_the_other(components: Sequence[Component]) -> list[list[Component]]:
    """``components`` apart where all of the earlier ones have ended before any later one begins."""
    found: list[list[Component]] = []
    until = np.iinfo(np.int64).min
    for one in sorted(components, key=lambda one: int(_starts(one).min())):
        if not found or int(_starts(one).min()) > until:
            found.append([])
        found[-1].append(one)
        until = max(until, *(int(own.traffic.end_ns.max()) for own in one.classes))
    return found


@dataclass(frozen=True)
class _Steps:
    """What steps of an attempt move: pairs of endpoints (numbers), and the bytes of each.

    ``sizes`` [bytes] has those of all messages, sorted.
    """

    pairs: Ints
    usual: Floats
    sizes: Ints
    quality: float

    @classmethod
    def of(cls, parts: Sequence[Part], connections: Connections) -> _Steps:
        """The steps of ``parts``: median bytes."""
        count = max(part.stepping.count for part in parts)
        classes = [one for part in parts for one in part.component.classes]
        steps = [step for part in parts for step in part.stepping.step_of]
        lines = [_numbers(connections, one.connections) for one in classes]
        every = np.unique(np.concatenate(lines))
        volume = np.zeros((every.size, count))
        for one, step, line in zip(classes, steps, lines, strict=True):
            at = np.searchsorted(every, line)
            np.add.at(volume, at, one.volumes(connections, step, count))
        usual = np.median(volume, axis=1)
        sizes = np.unique(np.concatenate([one.traffic.size for one in classes]))
        return cls(every[usual > 0], usual[usual > 0], sizes, parts[0].stepping.quality)

    def divide(
        self, components: Sequence[Component], connections: Connections
    ) -> list[tuple[Part, ...]]:
        """``components`` with these steps, an attempt; none if they have other ones."""
        lines = [_pair_of(one, connections) for one in components]
        number = np.concatenate(lines)
        index = np.minimum(np.searchsorted(self.pairs, number), self.pairs.size - 1)
        size = np.concatenate([_sizes(one) for one in components])
        steps = np.bincount(index, size, self.pairs.size) / self.usual
        count = self._count(steps) if (self.pairs[index] == number).all() else 0
        if count < 1 or not self._repeats(size, steps):
            return []
        start_ns = np.concatenate([_starts(one) for one in components])
        step = _steps(index, start_ns, size, self.usual)
        step[step >= count] = -1
        cuts = np.cumsum([line.size for line in lines])[:-1]
        own = zip(components, np.split(step, cuts), strict=True)
        return [tuple(Part(one, _stepping(one, at, count, self.quality)) for one, at in own)]

    def _count(self, steps: Floats) -> int:
        """Number of whole steps, if pairs have moved ``steps`` times their bytes; 0 if none."""
        present = steps > 0
        if not present.any():
            return 0
        count = int(np.median(steps[present]) + SMALL)
        apart = steps[present].min() < count - HALF or steps.max() > count + 1 + SMALL
        enough = self.usual[present].sum() >= NEARLY * self.usual.sum()
        return count if enough and not apart else 0

    def _repeats(self, size: Ints, steps: Floats) -> bool:
        """Whether messages have sizes that were seen, or most pairs have moved whole steps."""
        at = np.clip(np.searchsorted(self.sizes, size), 1, self.sizes.size - 1)
        away = np.minimum(np.abs(self.sizes[at] - size), np.abs(self.sizes[at - 1] - size))
        if size[away <= EQUAL * size].sum() >= NEARLY * size.sum():
            return True
        whole = np.abs(steps - np.rint(steps)) <= SMALL
        return bool(self.usual[whole & (steps > 0)].sum() >= HALF * self.usual.sum())


def _numbers(connections: Connections, chosen: Ints | Codes) -> Ints:
    """A number for the two endpoints of each connection."""
    nodes = 1 + max(int(connections.src.max()), int(connections.dst.max()))
    return connections.src[chosen].astype(np.int64) * nodes + connections.dst[chosen]


def _pair_of(component: Component, connections: Connections) -> Ints:
    """The pair of endpoints of each record, class by class."""
    rows = [one.traffic.row for one in component.classes]
    return _numbers(connections, connections.of_row[np.concatenate(rows)])


def _sizes(component: Component) -> Ints:
    return np.concatenate([one.traffic.size for one in component.classes])


def _starts(component: Component) -> Ints:
    return np.concatenate([one.traffic.start_ns for one in component.classes])


def _steps(index: Ints, start_ns: Ints, size: Ints, usual: Floats) -> Codes:
    """Step of each record: how many whole steps its pair has moved before its middle."""
    order = order_in_groups(index, start_ns)
    own, sizes = index[order], size[order].astype(np.float64)
    moved = np.cumsum(sizes)
    opens = np.searchsorted(own, np.arange(usual.size))
    before = np.append(0.0, moved)[opens][own]
    step = np.empty(index.size, np.int32)
    step[order] = np.floor((moved - sizes / 2 - before) / usual[own])
    return step


def _stepping(component: Component, step: Codes, count: int, quality: float) -> Stepping:
    """The steps of a component; its largest class is the reference."""
    classes = component.classes
    cuts = np.cumsum([len(one.traffic) for one in classes])[:-1]
    step_of = tuple(np.split(step, cuts))
    largest = max(range(len(classes)), key=lambda i: classes[i].bytes)
    ends = np.concatenate([one.traffic.end_ns for one in classes])
    start_ns, end_ns = np.full(count, np.iinfo(np.int64).max), np.zeros(count, np.int64)
    known = step >= 0
    np.minimum.at(start_ns, step[known], _starts(component)[known])
    np.maximum.at(end_ns, step[known], ends[known])
    return Stepping(count, quality, largest, step_of, start_ns, end_ns)
