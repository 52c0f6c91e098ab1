"""Which rank of a ring never joined a collective that the others began.

A hop of a ring sends its first chunk as soon as both of its ends have joined, and each other chunk
when the hop before has sent one. So nothing reaches the rank that never joins, or leaves it. The
hop after that sends one chunk, the next one two, and so on round the ring.

Where a server has several ranks of the ring, only the hops between servers are seen. What the hop
that leaves its server sent shows how many ranks follow the missing one there. A NIC that is
silent looks like a server that neither receives nor sends. But then only the ring through this
NIC is broken; those through the other NICs of the server finish.

A hop that lacks nothing sends as much as all others, so a cut of the records looks different.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import zip_longest

import numpy as np

from llmprism.io.topology import in_nic_order
from llmprism.methods.prism.classes.kind_of import KindOf
from llmprism.methods.prism.faults.context import Context, JobView
from llmprism.methods.prism.faults.measures.collectives import collectives_of
from llmprism.methods.prism.faults.rings.rings import FEWEST, rings_of
from llmprism.methods.prism.faults.stops.absences import Missing, missing_from, unequal, unexplained
from llmprism.methods.prism.faults.stops.due import in_order_of_sending
from llmprism.methods.prism.faults.stops.tails import Stuck, Tail
from llmprism.numerics.arrays import Bools, Codes, Floats, Ints, order_in_groups

FEW = (1, 2)  # ranks of a server in a ring, where they may share its NIC
FIT = 0.3  # of the bytes: what a sampled chunk differs from its size, and a cut record
AT_ONCE = 0.01  # of the bytes of a step: what samples and headers add
BEGUN = 1e-3  # of the bytes of a step: less is no chunk
APART = 3.0  # times the usual difference between hops: more is no lost record
RARE = 0.03  # of the moments: a cut there after 30 steps is 1 false finding in 1,000 steps
ENOUGH = 6  # steps that show how seldom hops of a whole collective look like this
NAMED = 8  # ranks at most
ALIKE = 0.05  # difference of the fits that decides nothing


@dataclass(frozen=True)
class BrokenRing:
    """A ring whose hops sent different amounts after the last whole collective.

    Attributes
    ----------
    members : codes of the addresses in order; hop i leads from member i to the next.
    sent : bytes of each hop since the last collective that all hops finished.
    known : whether records show where that collective ended; else ``sent`` is what hops sent more
        than the one that sent least.
    moved : bytes of the hop that moved least, in the whole tail.
    begun_ns : first record of the unfinished collective.
    usual : of finished steps.
    whole : bytes of each hop in the unfinished collective, if it were finished; 0 if not known.
    """

    members: Ints
    sent: Floats
    known: bool
    moved: float
    begun_ns: int
    usual: Usual
    whole: float = 0.0


def stuck_in_ring(context: Context, job: JobView, tail: Tail) -> Stuck | None:
    """The endpoint that never joined a collective, or whose NIC is silent."""
    every = [*_rings(context, job, tail, tail.rows.get("dp", np.empty(0, np.int64)))]
    broken = [one for one in every if _is_broken(one.sent, one.moved + one.sent.max(), one.usual)]
    if not broken:
        return None
    first = min(broken, key=lambda one: one.begun_ns)
    beside = _by_servers(context, every)[_servers_of(context, first)]
    others = _by_servers(context, broken)
    own = others.pop(_servers_of(context, first))
    missing = [end for rings in (own, *others.values()) for end in _ranked(context, job, rings)]
    found = in_order_of_sending(context, job, tail, missing)
    finished = any(one.moved > first.moved + first.sent.max() / 2 for one in beside)
    silent = finished and len(own) == 1  # only the ring through one of its NICs is broken
    alone = missing_from(first.sent, [])
    if silent and alone and alone[0].differs < FIT:
        at = int(first.members[alone[0].place])
        found = [at, *(end for end in found if end != at)]
    if not found:
        return None  # a ring of two servers does not show which of them is missing
    later_ns = np.maximum(first.usual.waits_ns - (tail.until_ns - first.begun_ns), 0.0)
    rare = later_ns.size > ENOUGH and float(later_ns.mean()) < RARE * job.period_ns
    return Stuck(
        found[0], first.begun_ns, "never joined a collective", tuple(found[1:NAMED]),
        "stopped_nic" if silent else "hang", rare,
    )  # fmt: skip


def _by_servers(context: Context, rings: list[BrokenRing]) -> dict[bytes, list[BrokenRing]]:
    """``rings``, those through the same servers together.

    Who is missing from others than the first broken one waits for that, or stopped before it.
    """
    found: dict[bytes, list[BrokenRing]] = {}
    for one in rings:
        found.setdefault(_servers_of(context, one), []).append(one)
    return found


def _servers_of(context: Context, ring: BrokenRing) -> bytes:
    """The servers that a ring leads through, comparable."""
    return np.unique(context.topology.servers[ring.members]).tobytes()


def _ranked(context: Context, job: JobView, broken: list[BrokenRing]) -> list[int]:
    """Addresses that may be missing from rings through the same servers, likeliest first."""
    servers = context.topology.servers
    homes = np.unique(servers[broken[0].members])
    ends = {home: _in_order(context, job, int(home)) for home in homes.tolist()}
    counts = broken[0].usual.ranks
    differs: dict[tuple[int, int, int | None], list[float]] = {}
    for ring in broken:
        for one in _of_whole(ring, missing_from(ring.sent, counts)):
            key = (int(servers[ring.members[one.place]]), one.ranks, one.rank)
            differs.setdefault(key, []).append(one.differs)
    mean = {key: float(np.mean(own)) for key, own in differs.items() if len(own) == len(broken)}
    order = sorted(mean, key=lambda key: mean[key])
    groups = []
    for home, count, rank in order:
        if mean[home, count, rank] > mean[order[0]] + ALIKE:
            break
        part = len(ends[home]) // count
        own = ends[home] if rank is None else ends[home][rank * part : (rank + 1) * part]
        if not all(ring.known for ring in broken):
            own = [*dict.fromkeys([*own, *ends[home]])]
        groups.append(own)
    in_turn = [end for row in zip_longest(*groups) for end in row if end is not None]
    return [*dict.fromkeys(in_turn)]


def _of_whole(ring: BrokenRing, missing: list[Missing]) -> list[Missing]:
    """Of those that explain what hops sent, the ones that fit a whole collective, if any does."""
    near = [one for one in missing if one.differs <= missing[0].differs + ALIKE]
    fitting = [one for one in near if one.fits(ring.whole, ring.members.size)]
    return fitting or missing


def _in_order(context: Context, job: JobView, server: int) -> list[int]:
    """Endpoints of ``job`` in ``server``, in the order of their NICs."""
    ends = job.phases.endpoints
    own = ends[context.topology.servers[ends] == server]
    ordered: list[int] = in_nic_order(context.topology, own).tolist()
    return ordered


def _rank_counts(context: Context, job: JobView, members: Codes) -> tuple[int, ...]:
    """Possible numbers of ranks of a server in the ring of ``members``: they share its NICs."""
    servers = context.topology.servers[members].tolist()
    nics = max(len(_in_order(context, job, home)) for home in servers)
    return tuple(count for count in range(1, nics + 1) if nics % count == 0)


def _is_broken(sent: Floats, moved: float, usual: Usual) -> bool:
    """Whether a missing rank explains what the hops sent, and equal hops do not."""
    return bool(_are_broken(sent[None, :], np.array([moved]), usual)[0])


def _are_broken(sent: Floats, moved: Floats, usual: Usual) -> Bools:
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
    found[found] = differs < np.minimum(FIT, unequal(own) / 2)
    return found


def _rings(context: Context, job: JobView, tail: Tail, rows: Ints) -> Iterator[BrokenRing]:
    """The rings of the attempt before ``tail``, and what their hops sent in it."""
    found: dict[tuple[int, ...], BrokenRing] = {}
    for part in collectives_of(context, job):
        if not part.one.traffic.row.size:
            continue
        if int(context.flows.start_ns[part.one.traffic.row].min()) >= tail.begin_ns:
            continue
        for ring in rings_of(context, part, FEWEST - 1):
            members = context.connections.src[part.one.connections[ring.places]]
            found[tuple(members.tolist())] = _measured(context, job, tail, rows, part, ring.places)
    yield from found.values()


def _measured(
    context: Context, job: JobView, tail: Tail, rows: Ints, part: KindOf, places: Ints
) -> BrokenRing:
    """What the hops at ``places`` of a class sent in ``rows``."""
    flows, own = context.flows, part.one.connections[places]
    src, dst = context.connections.src[own], context.connections.dst[own]
    usual = _usual(context, job, part, places)
    sums, starts = [], []
    for a, b in zip(src.tolist(), dst.tolist(), strict=True):
        hop = rows[(flows.src[rows] == a) & (flows.dst[rows] == b)]
        hop = hop[np.argsort(flows.start_ns[hop], kind="stable")]
        sums.append(np.cumsum(flows.bytes[hop], dtype=np.float64))
        starts.append(flows.start_ns[hop])
    moved = np.array([own[-1] if own.size else 0.0 for own in sums])
    least = moved.min()
    whole = max((at for at in usual.after if at <= least * (1 + BEGUN)), default=0.0)
    most = float(moved.max())
    known = _is_broken(moved - whole, most, usual) or not _is_broken(moved - least, most, usual)
    whole = whole if known else float(least)
    first = [s[c > whole * (1 + BEGUN)][:1] for s, c in zip(starts, sums, strict=True)]
    begun = np.concatenate(first)
    begun_ns = int(begun.min()) if begun.size else tail.end_ns
    members = src.astype(np.int64)
    after = min((at for at in usual.after if at > whole * (1 + BEGUN)), default=whole)
    return BrokenRing(
        members,
        moved - whole,
        known,
        float(least),
        begun_ns,
        usual,
        after - whole if known else 0.0,
    )


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


def _usual(context: Context, job: JobView, part: KindOf, places: Ints) -> Usual:
    """What the hops at ``places`` of a class do in finished steps."""
    known, cell = part.cells(context.connections, job.count)
    inside = np.isin(cell // job.count, places)
    row, cell = part.one.traffic.row[known[inside]], cell[inside]
    order = order_in_groups(cell, context.flows.start_ns[row])
    row, cell = row[order], cell[order]
    size = context.flows.bytes[row].astype(np.float64)
    first = np.flatnonzero(np.concatenate(([True], np.diff(cell) != 0)))
    count = np.diff(np.append(first, cell.size))
    hop = np.searchsorted(np.sort(places), cell[first] // job.count)
    begun, volume = np.full((2, places.size, job.count), np.nan)
    begun[hop, cell[first] % job.count] = context.flows.start_ns[row[first]] - job.ranks.origin_ns
    volume[hop, cell[first] % job.count] = np.add.reduceat(size, first)
    finished = ~np.isnan(begun).any(axis=0)
    after = _after_all(
        [_after(size, first[hop == one], count[hop == one]) for one in np.unique(hop)]
    )
    apart = np.ptp(volume[:, finished], axis=0) if finished.any() else np.zeros(1)
    late_ns = np.ptp(begun[:, finished], axis=0) if finished.any() else np.zeros(1)
    ranks = _rank_counts(context, job, context.connections.src[part.one.connections[places]])
    usual = Usual(after, float(np.median(apart)), ranks, late_ns)
    more = np.minimum(first + 1, cell.size - 1)
    sent, ended = np.full((2, *begun.shape), np.nan)
    sent[hop, cell[first] % job.count] = size[first]
    own = (more > first) & (cell[more] == cell[first])
    ended[hop[own], cell[first[own]] % job.count] = (
        context.flows.end_ns[row[more[own]]] - job.ranks.origin_ns
    )
    shown_ns = np.fmin.reduce(ended, axis=0) - np.fmin.reduce(begun, axis=0)
    steps = np.flatnonzero(finished)
    alike = _are_broken(sent[:, steps].T, sent[:, steps].max(axis=0), usual)
    waits_ns = np.maximum(late_ns, np.where(alike, np.nan_to_num(shown_ns[steps]), 0.0))
    hidden_ns = _hidden_ns(context.flows.lengths_ns(row), size)  # so may one not yet seen
    return replace(usual, waits_ns=np.append(waits_ns, hidden_ns))


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
    ends = [
        at
        for at in first.tolist()
        if all((np.abs(own - at) <= AT_ONCE * first[-1]).any() for own in others)
    ]
    return ends or [float(first[-1])]


def _hidden_ns(lengths_ns: Ints, size: Floats) -> float:
    """For how long hops may have waited within one record, at most.

    A record that holds more bytes lasts longer without any waiting: by as much as they take at the
    best pace of any.
    """
    pace = lengths_ns / np.maximum(size, 1.0)
    best = float(pace[lengths_ns > 0].min(initial=np.inf))
    moving_ns = size * best if np.isfinite(best) else 0.0
    return float((lengths_ns - moving_ns).max(initial=0.0))
