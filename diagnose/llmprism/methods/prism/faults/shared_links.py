"""Transfers that are slow because other traffic takes its share of a link. No part is slow then.

Records show what else a link carries while a transfer crosses it. A link that is shared carries as
much as ever: what the transfer lacks, the other traffic has. A link that is slow carries less,
however many share it. So what transfers lack in a stretch of slow steps is compared with what
others moved over the same links at the same time. The hops of a ring go at the pace of the slowest
one, and so for each of them the most crowded link of the ring counts, if it carries about as much
meanwhile as it ever does: others also cross links that have room.

Where a path is unknown, only its NICs are.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from llmprism.methods.prism.faults.context import Context, JobView
from llmprism.methods.prism.faults.measures.hops import ARROW, DOWN, UP, parts_of
from llmprism.methods.prism.faults.measures.rates import CLEARLY, Rates, rates_of
from llmprism.methods.prism.faults.suspects.suspects import Suspect
from llmprism.numerics.arrays import Bools, Codes, Floats, Ints

MOSTLY = 0.75  # of what transfers lack: a link at half its speed that two share explains a third
HIGHEST = 0.95  # quantile of the rates of a link, by bytes: it may carry as much
FAST = 0.75  # quantile of the speeds of a connection outside of the stretch: it may compete there


def shares_links(context: Context, one: Suspect) -> bool:
    """Whether other traffic on the same links has most of what slow transfers lack."""
    if one.symptom != "slow_transfers" or not one.evidence.get("suspects"):
        return False
    job, rates = one.job, rates_of(context, one.job)
    begin_ns, end_ns = int(job.start_ns[one.first]), int(job.end_ns[one.last])
    others = _Traffic(context, _rows_of_others(context, job, begin_ns, end_ns))
    if not others.rows.size:
        return False
    part = one.evidence["suspects"][0]["name"]
    own = np.concatenate([each.one.connections for each in job.phases.classes])
    lack, taken = 0.0, 0.0
    for row, connection in enumerate(own.tolist()):
        if one.culprit_kind == "job" or part in rates.crosses[row]:
            rows = context.connections.by.rows(connection)
            chosen, missing = _lacking(context, rows, (begin_ns, end_ns))
            links = {name for name in _crossed_together(rates, row) if _is_link(name)}
            lack += float(missing.sum())
            taken += float(np.minimum(_taken(context, others, links, chosen), missing).sum())
    return taken >= MOSTLY * lack > 0


def are_full(context: Context, one: Suspect) -> bool:
    """Whether links are full while messages cross the culprit that are slow in all steps.

    As often as the messages take as long as those of their peers, a link carries as much as they.
    """
    if one.symptom != "slow_transfers":
        return False
    rates, every = rates_of(context, one.job), _every(context)
    part = one.evidence["suspects"][0]["name"]
    own = np.concatenate([each.one.connections for each in one.job.phases.classes])
    carried = []
    for row, connection in enumerate(own.tolist()):
        if rates.kind[row] == "pp" and part in rates.crosses[row]:
            rows = context.connections.by.rows(connection)
            size = context.flows.bytes[rows].astype(np.float64)
            moved = [every.moved(link, rows) for link in rates.crosses[row] if _is_link(link)]
            carried.append(np.max(moved, axis=0) / size)
    return bool(carried) and bool(
        np.median(np.concatenate(carried)) >= MOSTLY * one.evidence["ratio_to_peers"]
    )


def _taken(context: Context, others: _Traffic, links: Iterable[str], rows: Codes | Ints) -> Floats:
    """Bytes of ``others`` on the fullest of ``links`` while each of ``rows`` is sent."""
    most, every = np.zeros(rows.size), _every(context)
    for link in links:
        moved = others.moved(link, rows)
        if moved.any():
            full = every.moved(link, rows) >= MOSTLY * every.most(link, rows)
            most = np.maximum(most, np.where(full, moved, 0.0))
    return most


def _crossed_together(rates: Rates, row: int) -> frozenset[str]:
    """What a connection crosses, and the others of its collective, at whose pace it goes."""
    group = rates.group[row]
    together = [row] if group < 0 else np.flatnonzero(rates.group == group).tolist()
    return frozenset().union(*(rates.crosses[one] for one in together))


def _rows_of_others(context: Context, job: JobView, begin_ns: int, end_ns: int) -> Ints:
    """Records of traffic that is none of a job's, from one time to another."""
    flows = context.flows
    own = np.zeros(len(context.connections), np.bool_)
    for part in job.phases.classes:
        own[part.one.connections] = True
    within = (flows.start_ns < end_ns) & (flows.end_ns > begin_ns)
    return np.flatnonzero(within & ~own[context.connections.of_row])


def _lacking(
    context: Context, rows: Codes | Ints, window: tuple[int, int]
) -> tuple[Codes | Ints, Floats]:
    """The slow records of a connection within a time, and the bytes that each of them lacks."""
    flows = context.flows
    lasted = np.maximum(flows.lengths_ns(rows), 1)
    size = flows.bytes[rows].astype(np.float64)
    inside = (flows.start_ns[rows] < window[1]) & (flows.end_ns[rows] > window[0])
    speeds = (size / lasted)[inside if inside.all() else ~inside]
    healthy = float(np.quantile(speeds, FAST)) if speeds.size else 0.0
    slow = inside & (healthy * lasted > CLEARLY * size)
    return rows[slow], (healthy * lasted - size)[slow]


def _is_link(part: str) -> bool:
    """Whether a part of the network is one direction of one link."""
    return ARROW in part and not part.endswith((UP, DOWN))


def _every(context: Context) -> _Traffic:
    """All traffic of the recording."""
    if _every not in context.measured:
        context.measured[_every] = _Traffic(context, np.arange(len(context.flows)))
    found: _Traffic = context.measured[_every]
    return found


class _Traffic:
    """What some records move over each link, as a function of time."""

    def __init__(self, context: Context, rows: Ints) -> None:
        self.context, self.rows = context, rows
        self.origin_ns = int(context.flows.start_ns.min())
        self._until: dict[str, tuple[Floats, Floats]] = {}
        self._fastest: dict[str, float] = {}

    def moved(self, link: str, rows: Codes | Ints) -> Floats:
        """Bytes on ``link`` while each of ``rows`` is sent."""
        flows = self.context.flows
        start, end = flows.start_ns[rows] - self.origin_ns, flows.end_ns[rows] - self.origin_ns
        at, until = self._of(link)
        if not at.size:
            return np.zeros(rows.size)
        moved: Floats = np.interp(end, at, until) - np.interp(start, at, until)
        return moved

    def most(self, link: str, rows: Codes | Ints) -> Floats:
        """Bytes that ``link`` could carry while each of ``rows`` is sent, at its highest rate.

        What it carried at that rate, or a higher one, is a twentieth of all that it carried.
        """
        if link not in self._fastest:
            at, until = self._of(link)
            moved, lasted = np.diff(until), np.maximum(np.diff(at), 1.0)
            order = np.argsort(moved / lasted)
            share = np.cumsum(moved[order]) >= HIGHEST * moved.sum()
            rate = (moved / lasted)[order][share] if moved.size else np.zeros(1)
            self._fastest[link] = float(rate[0]) if rate.size else 0.0
        lasted_ns = np.maximum(self.context.flows.lengths_ns(rows), 1)
        return self._fastest[link] * lasted_ns.astype(np.float64)

    def _of(self, link: str) -> tuple[Floats, Floats]:
        """Times, and the bytes that others have moved over a link until each of them."""
        if link not in self._until:
            flows, rows = self.context.flows, self.rows[self._crosses(link)]
            start = (flows.start_ns[rows] - self.origin_ns).astype(np.float64)
            lasted = np.maximum(flows.lengths_ns(rows), 1)
            rate = flows.bytes[rows] / lasted
            at = np.concatenate((start, start + lasted))
            order = np.argsort(at, kind="stable")
            speed = np.cumsum(np.concatenate((rate, -rate))[order])
            at = at[order]
            until = np.concatenate((np.zeros(min(at.size, 1)), np.cumsum(speed[:-1] * np.diff(at))))
            self._until[link] = at, until
        return self._until[link]

    def _crosses(self, link: str) -> Bools:
        """Which of the rows cross a link, or are sent or received by a NIC."""
        flows = self.context.flows
        end, _, way = link.partition(ARROW)
        if end in self.context.topology.codes:
            ends = flows.src if way == "out" else flows.dst
            found: Bools = ends[self.rows] == self.context.topology.codes[end]
            return found
        codes = [code for code, path in enumerate(flows.paths) if link in parts_of(path)]
        return np.isin(flows.path[self.rows], codes)
