"""What the hops of a ring send in finished steps: the measure for a collective that never ended.

A missing rank leaves a pattern: of the hops after it, the first one sends one chunk, the next one
two, and so on. A finished step may look like that for a while as well, as its hops begin at
different times and rest within records. For how long it does says how seldom a cut of the records
looks like a missing rank.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from llmprism.io.topology import in_nic_order
from llmprism.methods.prism.classes.kind_of import KindOf
from llmprism.methods.prism.context import Context, JobView
from llmprism.methods.prism.parameters import EQUAL, QUARTER
from llmprism.methods.prism.stops.absences import unequal, unexplained
from llmprism.numerics.arrays import Bools, Codes, Floats, Ints, order_in_groups

FEW = (1, 2)  # ranks of a server in a ring, where they may share its NIC
BEGUN = 1e-3  # of the bytes of a step: less is no chunk
APART = 3.0  # times the usual difference between hops: more is no lost record


@dataclass(frozen=True)
class Usual:
    """Of a ring in finished steps.

    Attributes
    ----------
    after : bytes of each hop when a collective of a step ends, so far as records show.
    apart : difference between the hop that sent most and the one that sent least, in bytes.
    ranks : possible numbers of ranks of a server in the ring.
    waits_ns : how long each step looked unfinished: until the last hop began, or until records of
        more than the first chunks ended. In one more step, as long as a hop may wait in a record.
    """

    after: list[float]
    apart: float
    ranks: tuple[int, ...]
    waits_ns: Floats


def usual_of(context: Context, job: JobView, part: KindOf, places: Ints) -> Usual:
    """What the hops at ``places`` of a class do in finished steps."""
    moves = _moves_of(context, job, part, places)
    finished = ~np.isnan(moves.begun_ns).any(axis=0)
    apart = np.ptp(moves.volume[:, finished], axis=0) if finished.any() else np.zeros(1)
    late_ns = np.ptp(moves.begun_ns[:, finished], axis=0) if finished.any() else np.zeros(1)
    ranks = _rank_counts(context, job, context.connections.src[part.one.connections[places]])
    usual = Usual(moves.after, float(np.median(apart)), ranks, late_ns)
    first = moves.first[:, finished]
    shown_ns = np.fmin.reduce(moves.second_ns[:, finished], axis=0)
    shown_ns = shown_ns - np.fmin.reduce(moves.begun_ns[:, finished], axis=0)
    alike = are_broken(first.T, first.max(axis=0), usual)
    waits_ns = np.maximum(late_ns, np.where(alike, np.nan_to_num(shown_ns), 0.0))
    return replace(usual, waits_ns=np.append(waits_ns, moves.hidden_ns))  # so may one not yet seen


class _Moves(NamedTuple):
    """What the hops of a ring send in each step; arrays have shape (hops, steps), NaN for nothing.

    Attributes
    ----------
    begun_ns, second_ns : begin of the first record, and end of the second one [ns].
    first, volume : bytes of the first record, and of all of them.
    after : bytes of each hop when a collective of a step ends, so far as records show.
    hidden_ns : for how long hops may have waited within one record, at most.
    """

    begun_ns: Floats
    second_ns: Floats
    first: Floats
    volume: Floats
    after: list[float]
    hidden_ns: float


def _moves_of(context: Context, job: JobView, part: KindOf, places: Ints) -> _Moves:
    flows, origin_ns = context.flows, job.ranks.origin_ns
    known, cell = part.cells(context.connections, job.count)
    inside = np.isin(cell // job.count, places)
    row, cell = part.one.traffic.row[known[inside]], cell[inside]
    order = order_in_groups(cell, flows.start_ns[row])
    row, cell = row[order], cell[order]
    size = flows.bytes[row].astype(np.float64)
    first = np.flatnonzero(np.concatenate(([True], np.diff(cell) != 0)))
    count = np.diff(np.append(first, cell.size))
    hop, step = np.searchsorted(np.sort(places), cell[first] // job.count), cell[first] % job.count
    begun, second, sent, volume = np.full((4, places.size, job.count), np.nan)
    begun[hop, step] = flows.start_ns[row[first]] - origin_ns
    sent[hop, step] = size[first]
    volume[hop, step] = np.add.reduceat(size, first)
    several = count > 1
    second[hop[several], step[several]] = flows.end_ns[row[first[several] + 1]] - origin_ns
    after = [_after(size, first[hop == one], count[hop == one]) for one in np.unique(hop)]
    hidden_ns = _hidden_ns(flows.lengths_ns(row), size)
    return _Moves(begun, second, sent, volume, _after_all(after), hidden_ns)


def are_broken(sent: Floats, moved: Floats, usual: Usual) -> Bools:
    """Whether a missing rank explains each row of ``sent``, and equal hops do not.

    A hop that sent as much as in a whole step finished the collective, so no rank was missing.
    ``sent`` has shape (rows, hops), ``moved`` shape (rows,).
    """
    if not usual.after:
        return np.zeros(len(sent), np.bool_)
    whole = usual.after[-1]
    share = np.minimum(1.0, moved / whole)  # what sampling adds grows with the root
    apart = np.ptp(sent, axis=1) > np.maximum(APART * usual.apart * share**0.5, BEGUN * whole)
    found: Bools = apart & (sent.max(axis=1) <= (1 - BEGUN) * whole)
    own = sent[found]
    differs = unexplained(own, sorted({*usual.ranks, *FEW}))
    found[found] = differs < np.minimum(QUARTER, unequal(own) / 2)
    return found


def _rank_counts(context: Context, job: JobView, members: Codes) -> tuple[int, ...]:
    """Possible numbers of ranks of a server in the ring of ``members``: they share its NICs."""
    servers = context.topology.servers[members].tolist()
    nics = max(len(endpoints_in(context, job, home)) for home in servers)
    return tuple(count for count in range(1, nics + 1) if nics % count == 0)


def endpoints_in(context: Context, job: JobView, server: int) -> list[int]:
    """Endpoints of ``job`` in ``server``, in the order of their NICs."""
    ends = job.phases.endpoints
    own = ends[context.topology.servers[ends] == server]
    ordered: list[int] = in_nic_order(context.topology, own).tolist()
    return ordered


def _after(size: Floats, first: Ints, count: Ints) -> Floats:
    """Bytes of a hop after each record of a usual step; steps begin at ``first`` in ``size``."""
    records = int(np.bincount(count).argmax())
    tables = size[first[count == records][:, None] + np.arange(records)]
    after: Floats = np.cumsum(np.median(tables, axis=0))
    return after


def _after_all(by_hop: list[Floats]) -> list[float]:
    """Of the bytes after each record of the hops those that all have: there a collective ends.

    A record also ends where its hop waits for others, which each does after other bytes.
    """
    first, *others = by_hop
    common = np.ones(first.size, np.bool_)
    for own in others:
        common &= (np.abs(own - first[:, None]) <= EQUAL * first[-1]).any(axis=1)
    return first[common].tolist() or [float(first[-1])]


def _hidden_ns(lengths_ns: Ints, size: Floats) -> float:
    """For how long hops may have waited within one record, at most.

    A record that holds more bytes lasts longer without any waiting: by as much as they take at the
    best pace of any.
    """
    pace = lengths_ns / np.maximum(size, 1.0)
    best = float(pace[lengths_ns > 0].min(initial=np.inf))
    moving_ns = size * best if np.isfinite(best) else 0.0
    return float((lengths_ns - moving_ns).max(initial=0.0))
