"""How fast bytes move between two endpoints: time on the wire for equal bytes, step by step.

The time that a burst lasts, over the bytes it holds, is its *pace*. That of a connection in a
step is the median over its bytes. A collective may begin, and then wait for a rank that is
late; so there it is the lower quartile: a NIC that is slow is slow in all bursts.

A pace shows the network only where bytes fill the time. Where a healthy burst is much longer than
its bytes take at the best pace of its NIC, it mostly waits (several messages in one record, say),
and it is not judged. Neither is a step in which records of the connection are missing.

The hops of a ring go at the pace of the slowest one. Its own wire is never silent; those of the
others are, in between. So of hops that are slow alike, those whose wire is *busy* for longest are
the slow ones. Where the exporter bridges such short silences, nothing shows which hop it is.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from llmprism.io.clock import clock_tick_ns
from llmprism.methods.prism.classes.kind_of import KindOf
from llmprism.methods.prism.faults.context import Context, JobView, measured_once
from llmprism.methods.prism.faults.measures.bursts import (
    Bursts,
    bursts_of,
    whole_bursts,
    with_answers,
)
from llmprism.methods.prism.faults.measures.collectives import ring_numbers
from llmprism.methods.prism.faults.measures.hops import crossed
from llmprism.methods.prism.faults.measures.last_ends import Ends, ends_of
from llmprism.methods.prism.faults.measures.series import Judged, healthy, judged
from llmprism.numerics.arrays import Bools, Floats, Ints, weighted_quantile
from llmprism.numerics.graph import components_of_edges
from llmprism.numerics.missing import TO_SIGMA, nanmedian

MESSAGES, COLLECTIVES = 0.5, 0.25  # share of a step's bytes that move faster than its pace
CLEARLY = 1.5  # messages that take less than half longer hardly delay what waits for them
LEAST = 0.1  # a pace that is worse by less does not show a fault
WAITS = 4.0  # times the best pace of the NIC: the burst mostly waits
MISSING = 0.02  # of the usual bytes of a step, or more where they vary
ROUNDING = 0.41  # deviation of the difference of two rounded times, in ticks: 1 / sqrt(6)


@dataclass(frozen=True)
class Rates:
    """Connections of one job, by class of traffic, with their paces.

    Attributes
    ----------
    kind : of each connection.
    group : connections of one collective group have one number; -1 for pipelines.
    conversation : both directions of one 5-tuple have one number.
    crosses : the parts of the network that each crosses.
    pace : over the healthy one, and which steps are out.
    busy : time with bytes on the wire over the healthy one, shape (connections, steps).
    lost : that time beyond the healthy one, as a share of a step, shape (connections, steps).
    finest : deviation of ``lost`` that a coarse clock makes, shape (connections,).
    ends : when the connections of collectives end; None if that is not known.
    coarse : deviation of ``pace`` that a coarse clock makes, shape (connections,).
    """

    kind: list[str]
    group: Ints
    conversation: Ints
    crosses: list[frozenset[str]]
    pace: Judged
    busy: Floats
    lost: Floats
    finest: Floats
    ends: Ends | None = None
    coarse: Floats | float = 0.0


def slow_messages_at(context: Context, job: JobView) -> Bools:
    """Whether messages of a pipeline at each endpoint are slow, shape (endpoints, steps).

    Or at another NIC of its server and stage: ranks that work in lockstep wait for each other's
    messages. Collectives do not count: they also look slow while they wait for a late rank.
    """
    rates = rates_of(context, job)
    names = [context.topology.addresses[end] for end in job.phases.endpoints.tolist()]
    slow = np.zeros((len(names), job.count), np.bool_)
    for row, name in enumerate(names):
        crossing = enumerate(zip(rates.kind, rates.crosses, strict=True))
        own = [i for i, (kind, parts) in crossing if kind == "pp" and name in parts]
        if own:
            clear = rates.pace.out[own] & (rates.pace.ratio[own] >= CLEARLY)
            slow[row] = clear.any(axis=0)
    servers = context.topology.servers[job.phases.endpoints]
    both = np.stack((servers, job.pipelines.stage), axis=1)
    place = np.unique(both, axis=0, return_inverse=True)[1].ravel()
    beside = np.zeros((int(place.max(initial=-1)) + 1, job.count), np.bool_)
    np.logical_or.at(beside, place, slow)
    found: Bools = beside[place]
    return found


@measured_once
def rates_of(context: Context, job: JobView) -> Rates:
    """Measure every connection of ``job``, one entry for each class of traffic on it."""
    kinds: list[str] = []
    crosses: list[frozenset[str]] = []
    groups, paces, busy, lengths, records = [], [], [], [], []
    for number, part in enumerate(job.phases.classes):
        own = part.one.connections
        bursts = whole_bursts(job, bursts_of(context, job, part))
        bursts = with_answers(context, job, part, bursts)
        whole = _whole(job, part, bursts)
        paces.append(np.where(whole, _pace(job, part, bursts), np.nan))
        busy.append(np.where(whole, busy_ns(context, job, part), np.nan))
        lengths.append(_lengths(part, bursts))
        records.append(_records(context, job, part))
        kinds += [part.kind] * own.size
        crosses += [crossed(context, one) for one in own.tolist()]
        groups.append(_groups(context, job, number))
    if not paces:
        none = np.empty((0, job.count))
        numbers = none[:, 0].astype(int)
        return Rates([], numbers, numbers, [], judged(none, LEAST), none, none, none[:, 0])
    pace = _on_the_wire(context, job, np.vstack(paces))
    rounding = ROUNDING * clock_tick_ns(context.flows.start_ns, context.flows.end_ns)
    finest = rounding / np.maximum(np.concatenate(lengths), 1.0)
    wire = np.vstack(busy)
    period_ns = max(job.period_ns, 1.0)
    return Rates(
        kinds, np.concatenate(groups), _conversations(context, job), crosses,
        judged(pace, LEAST, finest),
        wire / healthy(wire)[:, None],
        (wire - healthy(wire)[:, None]) / period_ns,
        rounding * np.sqrt(np.concatenate(records)) / period_ns,
        ends_of(context, job, rounding),
        finest,
    )  # fmt: skip


def _pace(job: JobView, part: KindOf, bursts: Bursts) -> Floats:
    """Time on the wire over bytes of the typical burst, of each connection and step [ns/byte]."""
    cell = bursts.place * job.count + bursts.step
    share = MESSAGES if part.kind == "pp" else COLLECTIVES
    lasted = (bursts.end_ns - bursts.start_ns).astype(np.float64)
    pace = lasted / np.maximum(bursts.size, 1)
    moved = bursts.size * (pace > 0)
    found = weighted_quantile(cell, pace, moved.astype(np.float64), share)
    values = np.full(part.one.connections.size * job.count, np.nan)
    values[found[0]] = found[1]
    return values.reshape(-1, job.count)


def _lengths(part: KindOf, bursts: Bursts) -> Floats:
    """Typical length of a burst of each connection [ns]."""
    lasted = (bursts.end_ns - bursts.start_ns).astype(np.float64)
    places = np.arange(1, part.one.connections.size)
    own = np.split(lasted, np.searchsorted(bursts.place, places))
    return np.array([float(np.median(one)) if one.size else 1.0 for one in own])


def busy_ns(context: Context, job: JobView, part: KindOf) -> Floats:
    """Time that records of each connection last, summed over each step [ns]."""
    known, cell = part.cells(context.connections, job.count)
    lasted = context.flows.lengths_ns(part.one.traffic.row[known])
    total = np.bincount(cell, lasted, part.one.connections.size * job.count)
    busy: Floats = np.where(total > 0, total, np.nan).reshape(-1, job.count)
    return busy


def _records(context: Context, job: JobView, part: KindOf) -> Floats:
    """Records of each connection in a step, mean."""
    _, cell = part.cells(context.connections, job.count)
    count = np.bincount(cell // job.count, minlength=part.one.connections.size)
    records: Floats = count / max(job.count, 1)
    return records


def _whole(job: JobView, part: KindOf, bursts: Bursts) -> Bools:
    """In which steps each connection has its usual bytes, shape (connections, steps)."""
    cells = part.one.connections.size * job.count
    cell = bursts.place * job.count + bursts.step
    volume = np.bincount(cell, bursts.size, cells).reshape(-1, job.count)
    usual = np.median(volume, axis=1, keepdims=True)
    spread = 3 * TO_SIGMA * np.median(np.abs(volume - usual), axis=1, keepdims=True)
    whole: Bools = volume >= usual - np.maximum(MISSING * usual, spread)
    return whole & (volume > 0)


def _on_the_wire(context: Context, job: JobView, pace: Floats) -> Floats:
    """``pace`` where it shows the network: not far above the best pace of either NIC."""
    own = np.concatenate([part.one.connections for part in job.phases.classes])
    usual = nanmedian(pace, axis=1)
    best = np.full(len(context.flows.addresses), np.inf)
    for ends in (context.connections.src[own], context.connections.dst[own]):
        np.minimum.at(best, ends, np.where(np.isnan(usual), np.inf, usual))
    limit = np.maximum(best[context.connections.src[own]], best[context.connections.dst[own]])
    with np.errstate(invalid="ignore"):
        waits = healthy(pace) > WAITS * limit
    return np.where(waits[:, None], np.nan, pace)


def _conversations(context: Context, job: JobView) -> Ints:
    """Number the connections so that one and the one that answers it are alike, by class."""
    numbers = []
    for number, part in enumerate(job.phases.classes):
        own = part.one.connections
        back = np.array([context.answers.get(one, one) for one in own.tolist()], np.int64)
        numbers.append(np.minimum(own, back) * len(job.phases.classes) + number)
    every: Ints = np.concatenate(numbers)
    return every


def _groups(context: Context, job: JobView, number: int) -> Ints:
    """Number the collective groups of the connections of a class: what they join."""
    part = job.phases.classes[number]
    own = part.one.connections
    if part.kind == "pp":
        return np.full(own.size, -1)
    if part.kind == "dp":
        return ring_numbers(context, job)[own]
    label = components_of_edges(context.connections.src[own], context.connections.dst[own])
    return label.astype(np.int64) + (number + 1) * len(context.connections)
