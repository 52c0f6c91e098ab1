"""The first missing node: what a rank should have sent next, before anything else that is missing.

One measure serves all traffic: the share of its usual bytes that a lane has moved. In an unfinished
step each lane stopped at some share, and in each finished step it went beyond that share at some
time. If one lane always did so before another one, the other one may wait for it, and never the
other way round. The lanes that no other missing lane precedes are the first missing ones, and the
rank that stopped is at their ends. No order of passes has to be known.

A ring is a chain: a hop sends its first chunk when both of its ends are there, and each other chunk
when the hop before has sent one. So behind a missing rank the hops have sent 0, 1, 2, ... chunks.
Bytes between ranks of one server are not seen, so a hop between servers adds a chunk for each rank
of a server, and the first one tells how many ranks of its server are behind the missing one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from llmprism.io.topology import in_nic_order
from llmprism.methods.prism.context import Context, JobView
from llmprism.methods.prism.graph.collectives import collectives_of
from llmprism.methods.prism.graph.silent_rings import hops_in_order
from llmprism.methods.prism.parameters import EQUAL, FEWEST, HALF, QUARTER, SMALL, VIOLATIONS
from llmprism.methods.prism.stops.records import Curves, Records, records_of
from llmprism.methods.prism.stops.tails import Tail
from llmprism.numerics.arrays import Bools, Floats, Ints
from llmprism.numerics.graph import components_of_edges
from llmprism.numerics.missing import finite_median

SLACK = 1e-5  # of the bytes of a step: a chunk of one of 80 layers, in a ring of 64 ranks, has more
LEARNED = 24  # finished steps that a job's order is learned from, where it has more
NAMED = 8  # ranks at most


@dataclass(frozen=True)
class State:
    """How far the lanes of a job came in an unfinished step.

    Attributes
    ----------
    records : the table of the job.
    moved : share of its usual bytes that each lane has moved, shape (lanes,).
    slack : by how much that differs between finished steps, shape (lanes,).
    missing : which lanes lack a part of them; all hops of a ring if one does.
    passed_ns : when each lane moved more than that in finished steps, shape (lanes, steps).
    begun_ns : when the record began that holds its last byte, there.
    rings : the lanes of each ring, in order.
    """

    records: Records
    moved: Floats
    slack: Floats
    missing: Bools
    passed_ns: Floats
    begun_ns: Floats
    rings: list[Ints]

    @cached_property
    def first(self) -> Ints:
        """The missing lanes that no other missing lane precedes in nearly all finished steps."""
        lanes = np.flatnonzero(self.missing & np.isfinite(self.passed_ns).any(axis=1))
        due = self.passed_ns[lanes]
        precede = np.zeros(lanes.size, np.int64)
        for at, own in enumerate(due):
            both = np.isfinite(due) & np.isfinite(own)
            late = ((due >= own) & both).sum(axis=1)
            precede[at] = ((late <= VIOLATIONS * both.sum(axis=1)) & (both.sum(axis=1) > 1)).sum()
        found: Ints = lanes[precede == 0]
        return found

    @cached_property
    def broken(self) -> list[Ints]:
        """The rings of the first missing lanes."""
        return [ring for ring in self.rings if np.isin(ring, self.first).any()]

    @cached_property
    def ahead_ns(self) -> Floats:
        """For how long others went on when the first missing lane was due, in each finished step.

        Negative if it was due later than all that has been moved.
        """
        due = self.passed_ns[self.first].min(axis=0, initial=np.inf)
        went_on = self.begun_ns[self.moved > self.slack].max(axis=0, initial=-np.inf)
        known = np.isfinite(due) & np.isfinite(went_on)
        found: Floats = went_on[known] - due[known]
        return found

    @cached_property
    def longest_record_ns(self) -> int:
        """The longest record of the first missing lanes: one that goes on is not yet seen [ns]."""
        records = self.records
        own = np.isin(records.lane, self.first) & (records.step >= 0)
        return int((records.end_ns - records.start_ns)[own].max(initial=0))

    def differ(self, ring: Ints) -> bool:
        """Whether the hops of a ring moved different amounts."""
        return bool(np.ptp(self.moved[ring]) > 2 * self.slack[ring].max())

    def is_chain(self) -> bool:
        """Whether the first missing lanes are hops of rings, as behind a missing rank.

        Any hops of a ring of three look like that.
        """
        return bool(self.broken) and all(
            ring.size > FEWEST
            and self.differ(ring)
            and missing_from(self.moved[ring], (1, 2))[0][0] < QUARTER
            for ring in self.broken
        )


def learned_from(context: Context, job: JobView, tail: Tail) -> Ints:
    """Finished steps to learn from, at equal distances."""
    volume = records_of(context, job).volume.sum(axis=0)
    whole = volume > HALF * finite_median(volume[volume > 0])
    whole[tail.step : tail.step + 1] = False
    steps = np.flatnonzero(whole)
    chosen: Ints = steps[np.linspace(0, steps.size - 1, min(steps.size, LEARNED)).astype(np.int64)]
    return chosen


def state_of(context: Context, job: JobView, tail: Tail, learned: Ints) -> State:
    """How far each lane came in ``tail``, compared with the steps ``learned``."""
    records = records_of(context, job)
    usual = np.maximum(records.usual, 1.0)
    moved = np.bincount(records.lane[tail.at], records.size[tail.at], usual.size) / usual
    differs = np.abs(records.volume[:, learned] / usual[:, None] - 1)
    slack = np.clip(FEWEST * np.median(differs, axis=1), SLACK, SMALL)
    if tail.step > 0:  # what the finished step has too much of belongs to the unfinished one
        more = records.volume[:, tail.step - 1] / usual - 1
        moved += np.where(more > slack, more, 0.0)
    missing = (records.usual > 0) & (moved < 1 - np.maximum(EQUAL, slack))
    passed, begun = _in_finished_steps(records, learned, moved + slack, moved - slack)
    rings = [*_rings(context, job, records)]
    for ring in rings:
        lowest = ring[moved[ring] <= (moved + slack)[ring].min()]
        passed[ring] = passed[lowest].min(axis=0)
        missing[ring] = missing[ring].any()
    return State(records, moved, slack, missing, passed, begun, rings)


def _in_finished_steps(
    records: Records, learned: Ints, most: Floats, least: Floats
) -> tuple[Floats, Floats]:
    """When each lane moved more than a share, and when the record began that brought another."""
    number = np.full(records.steps + 1, -1)  # the last one is of records without a step
    number[learned] = np.arange(learned.size)
    at = np.flatnonzero(number[records.step] >= 0)
    lane, start, end = records.lane[at], records.start_ns[at], records.end_ns[at]
    cell = lane * learned.size + number[records.step[at]]
    share = records.size[at] / np.maximum(records.usual[lane], 1.0)
    cells = np.arange(most.size * learned.size).reshape(-1, learned.size)
    passed = Curves(cell, start, end, share).when_ns(cells, most[:, None], beyond=True)
    at_once = Curves(cell, start, start + 1, share)
    return passed, at_once.when_ns(cells, least[:, None], beyond=False)


def _rings(context: Context, job: JobView, records: Records) -> Iterator[Ints]:
    """The lanes of each ring that leads through every server once, in order."""
    servers, nodes = context.topology.servers, len(context.flows.addresses)
    lanes = np.flatnonzero(records.reduces)
    pair = records.src[lanes].astype(np.int64) * nodes + records.dst[lanes]
    seen: set[int] = set()
    for part in collectives_of(context, job):
        src, dst = (
            side[part.one.connections]
            for side in (context.connections.src, context.connections.dst)
        )
        every = lanes[np.isin(pair, src.astype(np.int64) * nodes + dst)]
        label = components_of_edges(records.src[every], records.dst[every])
        for group in np.unique(label).tolist():
            of = every[label == group]
            ring = of[hops_in_order(servers[records.src[of]], servers[records.dst[of]])]
            if ring.size and not seen & {*ring.tolist()}:
                seen |= {*ring.tolist()}
                yield ring


def suspects(context: Context, job: JobView, tail: Tail, state: State) -> list[int]:
    """Endpoints that may have stopped, likeliest first: they are at the first missing lanes.

    Empty if more than half of the job are as likely: it stopped as a whole, or its records did.
    """
    records, servers = state.records, context.topology.servers
    score = np.zeros(len(context.flows.addresses))
    for ring in state.broken:
        score += _missing_in(context, job, state, ring)
    single = state.first[~np.isin(state.first, np.concatenate([[], *state.broken]))]
    waits = np.isin(single, records.lane[tail.waiting])  # its sender began to send
    np.add.at(score, records.src[single], np.where(waits, 1.0 - SMALL, 1.0))
    np.add.at(score, records.dst[single], np.where(waits, 1.0, 1.0 - SMALL))
    of_server = np.bincount(servers, score)[servers]
    order = np.lexsort((-score, -of_server))
    likely = order[score[order] > HALF * score.max(initial=0.0)]
    most = max(2 if single.size else 0, job.phases.endpoints.size // 2)
    return likely[:NAMED].tolist() if likely.size <= most else []


def _missing_in(context: Context, job: JobView, state: State, ring: Ints) -> Floats:
    """How likely each endpoint is missing from a ring, in [0, 1]; all alike where none has sent."""
    score = np.zeros(len(context.flows.addresses))
    members, goals = state.records.src[ring], state.records.dst[ring]
    if not state.differ(ring):
        score[members] = 1.0
        return score
    ends, servers = job.phases.endpoints, context.topology.servers
    homes = [in_nic_order(context.topology, ends[servers[ends] == servers[end]]) for end in members]
    nics = max(own.size for own in homes)
    counts = tuple(count for count in range(1, nics + 1) if nics % count == 0)
    found = missing_from(state.moved[ring], counts)
    for differs, place, rank, ranks in found if found[0][0] < QUARTER else []:
        part = homes[place].size // ranks
        within = homes[place][rank * part : (rank + 1) * part]
        chosen = within if ranks > 1 else [members[place], goals[place - 1]]
        if differs <= found[0][0] + SMALL:
            score[chosen] = np.maximum(score[chosen], 1.0 - differs)
    return score


def missing_from(sent: Floats, ranks: tuple[int, ...]) -> list[tuple[float, int, int, int]]:
    """Absences that would make the hops of a ring send ``sent``, likeliest first.

    Each has the share of the bytes that it does not explain, the hop that leaves the server of the
    missing rank, the number of the rank there, and ranks of a server in the ring; ``ranks`` are the
    possible ones. All hops may have sent more by as much, in whole collectives before.

    >>> missing_from(np.array([3.0, 0.0, 0.0, 1.0, 2.0]), (1,))[0]
    (0.0, 2, 0, 1)
    """
    found, total = [], float(np.linalg.norm(sent - sent.min()))
    for rank, count in [(rank, number) for number in ranks for rank in range(number)]:
        shape = (count - 1 - rank) / count + np.arange(float(sent.size))
        shape[-1] *= rank > 0
        rest, later = _rest(sent, shape), _rest(sent - sent.min(), shape - shape.min())
        differs = np.minimum(rest, later + SLACK * total) / total
        found += [(float(one), place, rank, count) for place, one in enumerate(differs)]
    return sorted(found)


def _rest(sent: Floats, shape: Floats) -> Floats:
    """What no multiple of ``shape`` explains of ``sent``, for each first hop of ``shape``."""
    every = np.array([np.roll(shape, place) for place in range(shape.size)])
    unit = every @ sent / max(float(shape @ shape), SLACK)
    rest: Floats = np.linalg.norm(sent - unit[:, None] * every, axis=1)
    return rest
