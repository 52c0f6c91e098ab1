"""Transfers that are slow because other traffic takes its share of a link. No part is slow then.

Records show what else a link carries while a transfer crosses it. A link that is shared carries as
much as ever: what the transfer lacks, the other traffic has. A link that is slow carries less,
however many share it. So what transfers lack in a stretch of slow steps is compared with what
others moved over the same links at the same time. The hops of a ring go at the pace of the slowest
one, and so for each of them the most crowded link of the ring counts.

Where a path is unknown, only its NICs are.
"""

from __future__ import annotations

import numpy as np

from llmprism.methods.prism.faults.context import Context, JobView
from llmprism.methods.prism.faults.measures.hops import ARROW, DOWN, UP, parts_of
from llmprism.methods.prism.faults.measures.rates import CLEARLY, Rates, rates_of
from llmprism.methods.prism.faults.suspects.suspects import Suspect
from llmprism.numerics.arrays import Bools, Codes, Floats, Ints

MOSTLY = 0.75  # of what transfers lack: a link at half its speed that two share explains a third
FAST = 0.75  # quantile of the speeds of a connection outside of the stretch: it may compete there


def shares_links(context: Context, one: Suspect) -> bool:
    """Whether other traffic on the same links has most of what slow transfers lack."""
    if one.symptom != "slow_transfers" or not one.evidence.get("suspects"):
        return False
    job, rates = one.job, rates_of(context, one.job)
    begin_ns, end_ns = int(job.start_ns[one.first]), int(job.end_ns[one.last])
    others = _Others(context, _rows_of_others(context, job, begin_ns, end_ns), begin_ns)
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
            taken += float(np.minimum(others.moved(links, chosen), missing).sum())
    return taken >= MOSTLY * lack > 0


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


class _Others:
    """What other traffic moves over each link, as a function of time."""

    def __init__(self, context: Context, rows: Ints, origin_ns: int) -> None:
        self.context, self.rows, self.origin_ns = context, rows, origin_ns
        self._until: dict[str, tuple[Floats, Floats]] = {}

    def moved(self, links: set[str], rows: Codes | Ints) -> Floats:
        """Bytes of others on the most crowded of ``links`` while each of ``rows`` is sent."""
        flows = self.context.flows
        start, end = flows.start_ns[rows] - self.origin_ns, flows.end_ns[rows] - self.origin_ns
        most = np.zeros(rows.size)
        for link in links:
            at, until = self._of(link)
            if at.size:
                most = np.maximum(most, np.interp(end, at, until) - np.interp(start, at, until))
        return most

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
