"""How full are the links of a transfer while it lasts?

A healthy transfer fills one of the links on its path, alone or with all others that cross this link
at the same time. So the *use* of a transfer is the largest share of the capacity of a link on its
path that all traffic together takes while the transfer lasts. It is near one for a healthy link
that several jobs share, and low where something is slower than its capacity says. Two things also
make it low: silences within a record, and a partner of a ring that is slow itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain

import numpy as np

from llmprism.methods.prism.context import Context, JobView, measured_once
from llmprism.methods.prism.links import ARROW, DOWN, UP, parts_of
from llmprism.methods.prism.parameters import NEARLY
from llmprism.numerics.arrays import Bools, Floats, Ints, grouped, weighted_quantile

BITS = 8.0  # of a byte
MOST = 2_000_000  # records that are measured


@dataclass(frozen=True)
class LinkUse:
    """Use of links by the connections of a job; NaN where records show none.

    Attributes
    ----------
    place : row of each connection of the recording in the others, -1 for those of other jobs.
    best : use that nine tenths of the bytes of a step do not exceed, shape (connections, steps).
        Silences that a record holds differ, so some records show the use without them.
    others : share of the fullest link that other traffic takes, mean by bytes, of the same shape.
    busy_ns : time with a record, of the same shape.
    """

    place: Ints
    best: Floats
    others: Floats
    busy_ns: Floats


@measured_once
def link_use_of(context: Context, job: JobView) -> LinkUse:
    """Measure the connections of ``job``."""
    place = np.full(len(context.connections), -1)
    own = np.unique(np.concatenate([part.one.connections for part in job.phases.classes]))
    place[own] = np.arange(own.size)
    (use, others), flows = _uses(context), context.flows
    best, (busy, shared, sent) = (
        np.full(own.size * job.count, np.nan),
        np.zeros((3, own.size * job.count)),
    )
    for part in job.phases.classes:
        known, cell = part.cells(context.connections, job.count)
        row = part.one.traffic.row[known]
        at = place[context.connections.of_row[row]] * job.count + cell % job.count
        busy += np.bincount(at, flows.lengths_ns(row), busy.size)
        shown = np.isfinite(use[row])
        size = flows.bytes[row[shown]].astype(np.float64)
        some, value = weighted_quantile(at[shown], use[row[shown]], size, NEARLY)
        best[some] = np.fmax(best[some], value)
        shared += np.bincount(at[shown], size * others[row[shown]], busy.size)
        sent += np.bincount(at[shown], size, busy.size)
    shared = np.where(sent > 0, shared / np.maximum(sent, 1.0), np.nan)
    shape = (own.size, job.count)
    return LinkUse(place, *(one.reshape(shape) for one in (best, shared, busy)))


def _uses(context: Context) -> tuple[Floats, Floats]:
    """Use of each record, and what of that is of others; NaN where unknown, shape (records,)."""
    if _uses not in context.measured:
        context.measured[_uses] = _measured(context)
    found: tuple[Floats, Floats] = context.measured[_uses]
    return found


def _measured(context: Context) -> tuple[Floats, Floats]:
    flows = context.flows
    lasting = np.maximum(flows.lengths_ns(np.arange(len(flows))), 0).astype(np.float64)
    rows, link, capacity = _crossings(context, (lasting > 0) & _looked_at(context))
    use, others = np.full((2, len(flows)), np.nan)
    origin = int(flows.start_ns.min()) if len(flows) else 0
    by = grouped(link, capacity.size)
    for one in np.unique(link).tolist():
        own = rows[by.rows(one)]
        begin = (flows.start_ns[own] - origin).astype(np.float64)
        end, rate = begin + lasting[own], flows.bytes[own] / lasting[own]
        moment = np.concatenate((begin, end))
        order = np.argsort(moment, kind="stable")
        at, slope = moment[order], np.cumsum(np.concatenate((rate, -rate))[order])
        sent = np.concatenate(([0.0], np.cumsum(slope[:-1] * np.diff(at))))
        moved = np.interp(end, at, sent) - np.interp(begin, at, sent)
        here = moved / lasting[own] / capacity[one]
        fuller = ~(here <= use[own])
        use[own[fuller]] = here[fuller]
        others[own[fuller]] = (here - rate / capacity[one])[fuller]
    return use, others


def _looked_at(context: Context) -> Bools:
    """Records that are measured: all, or those of a part of the steps, spread over all time."""
    flows = context.flows
    every = -(-len(flows) // MOST)
    longest_ns = max([1.0, *(2 * job.period_ns for job in context.jobs)])
    place = (flows.start_ns - flows.start_ns.min(initial=0)) // int(longest_ns)
    found: Bools = place % max(every, 1) == 0
    return found


def _crossings(context: Context, shown: Bools) -> tuple[Ints, Ints, Floats]:
    """Records and the directed links that they cross, and the capacity of each [bytes/ns]."""
    flows, topology = context.flows, context.topology
    ports = np.array([max(len(one), 1) for one in topology.leaves], np.float64)
    nics = ports * topology.nic_gbps
    cables: dict[frozenset[str], float] = {}
    for cable in topology.links:
        both = frozenset((cable.a, cable.b))
        cables[both] = cables.get(both, 0.0) + (np.nan if cable.gbps is None else cable.gbps)
    hops = [[one for one in parts_of(path) if _is_directed_link(one)] for path in flows.paths]
    names = {name: 2 * nics.size + at for at, name in enumerate(dict.fromkeys(chain(*hops)))}
    between = [cables.get(frozenset(name.split(ARROW)), np.nan) for name in names]
    capacity = np.concatenate((nics, nics, between)) / BITS
    count = np.array([*map(len, hops), 0])
    flat = np.array([names[one] for one in chain(*hops)], np.int64)
    row = np.flatnonzero(shown)
    held = count[flows.path[row]]  # an unknown path, -1, is the last one
    first = np.concatenate(([0], np.cumsum(count)[:-1]))[flows.path[row]]
    within = np.arange(held.sum()) - np.repeat(np.cumsum(held) - held, held)
    rows = np.concatenate((row, row, np.repeat(row, held)))
    links = (flows.src[row], nics.size + flows.dst[row], flat[np.repeat(first, held) + within])
    link = np.concatenate(links).astype(np.int64)
    known = np.isfinite(capacity[link])
    return rows[known], link[known], capacity


def _is_directed_link(part: str) -> bool:
    return ARROW in part and not part.endswith((UP, DOWN))
