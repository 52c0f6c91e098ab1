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
from dataclasses import dataclass
from itertools import zip_longest

import numpy as np

from llmprism.methods.prism.classes.kind_of import KindOf
from llmprism.methods.prism.context import Context, JobView
from llmprism.methods.prism.graph.collectives import collectives_of
from llmprism.methods.prism.parameters import FEWEST, QUARTER, SMALL
from llmprism.methods.prism.stops.absences import Missing, missing_from
from llmprism.methods.prism.stops.due import in_order_of_sending
from llmprism.methods.prism.stops.finished_rings import (
    BEGUN,
    Usual,
    are_broken,
    endpoints_in,
    usual_of,
)
from llmprism.methods.prism.stops.rings import rings_of
from llmprism.methods.prism.stops.tails import Stuck, Tail
from llmprism.numerics.arrays import Floats, Ints

RARE = 0.03  # of the moments: a cut there after 30 steps is 1 false finding in 1,000 steps
ENOUGH = 6  # steps that show how seldom hops of a whole collective look like this
NAMED = 8  # ranks at most


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
    if silent and alone and alone[0].differs < QUARTER:
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
    ends = {home: endpoints_in(context, job, int(home)) for home in homes.tolist()}
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
        if mean[home, count, rank] > mean[order[0]] + SMALL:
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
    near = [one for one in missing if one.differs <= missing[0].differs + SMALL]
    fitting = [one for one in near if one.fits(ring.whole, ring.members.size)]
    return fitting or missing


def _is_broken(sent: Floats, moved: float, usual: Usual) -> bool:
    """Whether a missing rank explains what the hops sent, and equal hops do not."""
    return bool(are_broken(sent[None, :], np.array([moved]), usual)[0])


def _rings(context: Context, job: JobView, tail: Tail, rows: Ints) -> Iterator[BrokenRing]:
    """The rings of the attempt before ``tail``, and what their hops sent in it.

    Those of later attempts if that one finished no step.
    """
    found: dict[tuple[int, ...], BrokenRing] = {}
    parts = [part for part in collectives_of(context, job) if part.one.traffic.row.size]
    begin_ns = [int(context.flows.start_ns[part.one.traffic.row].min()) for part in parts]
    for part, at_ns in zip(parts, begin_ns, strict=True):
        if at_ns >= tail.until_ns > min(begin_ns):
            continue  # connections of a later attempt
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
    usual = usual_of(context, job, part, places)
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
