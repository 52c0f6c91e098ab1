"""The first missing node: what a rank should have sent next, before anything else that is missing.

One measure serves all traffic: the share of its usual bytes that a lane has moved. In an unfinished
step each lane stopped at some share, and in each finished step it went beyond that share at some
time. If one lane always did so before another one, the other one may wait for it, and never the
other way round. The lanes that no other missing lane precedes are the first missing ones, and the
rank that stopped is at their ends. No order of passes has to be known.
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
from llmprism.methods.prism.parameters import (
    EQUAL,
    FEWEST,
    HALF,
    NEARLY,
    QUARTER,
    SMALL,
    VIOLATIONS,
)
from llmprism.methods.prism.stops.absences import SLACK, likely_absences, missing_from
from llmprism.methods.prism.stops.records import Curves, Records, records_of
from llmprism.methods.prism.stops.tails import Tail
from llmprism.numerics.arrays import Bools, Floats, Ints, before_in_groups
from llmprism.numerics.graph import components_of_edges
from llmprism.numerics.missing import finite_median

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
    homes : the servers of each ring.
    learned : the finished steps.
    """

    records: Records
    moved: Floats
    slack: Floats
    missing: Bools
    passed_ns: Floats
    begun_ns: Floats
    rings: list[Ints]
    homes: list[frozenset[int]]
    learned: Ints

    @cached_property
    def went_on(self) -> Bools:
        """Whether each end of a missing lane moved what is always later, shape (lanes, 2).

        Its own ring does not count: what the others of a ring move does not need the missing rank.
        Nor do rings of which a server has several: any of its ranks may send by this end. Nor do
        messages that it gets: receives are posted ahead.
        """
        own, size = self.records, self.moved.size
        ring, gets = -1 - np.arange(size), np.zeros(size, np.bool_)
        for number, lanes in enumerate(self.rings):
            ring[lanes] = number
            gets[lanes] = self.homes.count(self.homes[number]) == 1
        sends, any_moved = (ring < 0) | gets, self.moved > self.slack
        next_step = self.moved > 1 + np.maximum(EQUAL, self.slack)
        found: Bools = np.zeros((size, 2), np.bool_)
        for lane in np.flatnonzero(self.missing).tolist():
            later = _are_later(self.begun_ns, self.passed_ns[lane]) | next_step
            later &= any_moved & (ring != ring[lane])
            for side, end in enumerate((own.src[lane], own.dst[lane])):
                there = (sends & (own.src == end)) | (gets & (own.dst == end))
                found[lane, side] = (later & there).any()
        return found

    @cached_property
    def first(self) -> Ints:
        """The missing lanes that no other missing lane precedes in nearly all finished steps.

        Where all ends of a lane, or of a ring, went on, records are missing and no bytes.
        """
        lost: Bools = np.all(self.went_on, axis=1)
        for ring in self.rings:
            lost[ring] = lost[ring].all()
        lanes = np.flatnonzero(self.missing & ~lost & np.isfinite(self.passed_ns).any(axis=1))
        due = self.passed_ns[lanes]
        precede = np.zeros(lanes.size, np.int64)
        for at, own in enumerate(due):
            precede[at] = _are_later(own, due).sum()
        found: Ints = lanes[precede == 0]
        return found

    @cached_property
    def broken(self) -> list[Ints]:
        """The rings of the first missing lanes."""
        return [ring for ring in self.rings if np.isin(ring, self.first).any()]

    def others_went_on(self) -> bool:
        """Whether another ring went on that leads through the servers of a broken one."""
        every = [*zip(self.homes, self.rings, strict=True)]
        lacking = [(home, ring) for home, ring in every if np.isin(ring, self.first).any()]
        return any(
            home == beside
            and self.moved[ring].min() > (self.moved + self.slack)[own].max()
            and not self.differ(ring)
            for home, own in lacking
            for beside, ring in every
        )

    @cached_property
    def ahead_ns(self) -> Floats:
        """For how long others went on when the first missing lane was due, in each finished step.

        Negative if it was due later than all that has been moved.
        """
        due = self.passed_ns[self.first].min(axis=0, initial=np.inf)
        begun = self.begun_ns[self.moved > self.slack]
        went_on = np.where(np.isfinite(begun), begun, -np.inf).max(axis=0, initial=-np.inf)
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

    def levels(self, ring: Ints) -> Floats:
        """What the hops have moved where nearly all end a record: a collective ends there."""
        records, width = self.records, float(self.slack[ring].max())
        at = np.flatnonzero(np.isin(records.lane, ring) & np.isin(records.step, self.learned))
        cell = records.lane[at] * records.steps + records.step[at]
        order = np.argsort(cell, kind="stable")
        at, cell = at[order], cell[order]
        sent = before_in_groups(cell, records.size[at]) + records.size[at]
        near = np.round(sent / records.usual[records.lane[at]] / width).astype(np.int64)
        both = np.concatenate([np.column_stack((cell, near + beside)) for beside in (-1, 0, 1)])
        value, cells = np.unique(np.unique(both, axis=0)[:, 1], return_counts=True)
        common = value[cells > NEARLY * np.unique(cell).size]
        runs = np.split(common, 1 + np.flatnonzero(np.diff(common) > 1))
        return np.array([own.mean() * width for own in runs if own.size])

    def is_chain(self) -> bool:
        """Whether the first missing lanes are hops of rings, as behind a missing rank.

        Any hops of a ring of three look like that.
        """
        return bool(self.broken) and all(
            ring.size > FEWEST
            and self.differ(ring)
            and missing_from(self.moved[ring], (1, 2))[0].differs < QUARTER
            for ring in self.broken
        )


def _are_later(later_ns: Floats, than_ns: Floats) -> Bools:
    """Whether each row of ``later_ns`` is later in nearly all steps; the last axis is steps."""
    both = np.isfinite(later_ns) & np.isfinite(than_ns)
    steps = both.sum(axis=-1)
    late: Bools = (steps > 1) & (((later_ns <= than_ns) & both).sum(axis=-1) <= VIOLATIONS * steps)
    return late


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
    homes = [frozenset(context.topology.servers[records.src[ring]].tolist()) for ring in rings]
    return State(records, moved, slack, missing, passed, begun, rings, homes, learned)


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
    share = np.where(waits[:, None], (1.0 - SMALL, 1.0), (1.0, 1.0 - SMALL))
    share[state.went_on[single]] = 0.0
    for side, ends in enumerate((records.src, records.dst)):
        np.add.at(score, ends[single], share[:, side])
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
        there = state.went_on[ring, 0]
        score[members] = 1.0 if there.all() else ~there
        return score
    ends, servers = job.phases.endpoints, context.topology.servers
    homes = [in_nic_order(context.topology, ends[servers[ends] == servers[end]]) for end in members]
    nics = max(own.size for own in homes)
    counts = tuple(count for count in range(1, nics + 1) if nics % count == 0)
    slack = float(state.slack[ring].max())
    for one in likely_absences(state.moved[ring], slack, state.levels(ring), counts):
        part = homes[one.place].size // one.ranks
        within = homes[one.place][one.rank * part : (one.rank + 1) * part]
        chosen = within if one.ranks > 1 else [members[one.place], goals[one.place - 1]]
        score[chosen] = np.maximum(score[chosen], 1.0 - one.differs)
    return score
