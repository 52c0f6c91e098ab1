"""Which rank of a ring is late, where several ranks of a server are in the ring.

Bytes between ranks of one server are not seen. So a late rank delays one visible hop only, or
none, and the ends of that hop are in two servers. But a ring is a chain: a hop sends its first
chunk as soon as both of its ends are there, and each other chunk when the hop before has sent one.
So a hop that is d ranks behind the late one sends d chunks, and then pauses. What the hops
sent before the pause grows along the ring, from the late rank on:

* the hop that sent nothing leads from the last rank of a server or to the first rank of the next;
* what the next hop sent tells how far the late rank is from the end of its server.

The unit is what one server adds: a chunk for each of its ranks.

Ranks lose their time before the first collective of a step, if that is where the ring is silent
for longest. If it is not, collectives and work alternate, and nothing is concluded.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from llmprism.methods.prism.faults.bursts import Bursts, bursts_of
from llmprism.methods.prism.faults.collectives import collectives_of
from llmprism.methods.prism.faults.context import Context, JobView, measured_once
from llmprism.methods.prism.faults.series import healthy
from llmprism.methods.prism.phases import KindOf
from llmprism.numerics.arrays import Bools, Floats, Ints
from llmprism.numerics.missing import nanmedian

FEWEST = 3  # servers of a ring, of which two hops show what one adds; steps that wait for others
LATE = 0.5  # of the delay: a hop that begins by so much later than most did not begin in time
SILENT = 2.0  # times all other silences of a step: the one before its first collective
EXACT = 1e-3  # of the bytes of a step: differences that count as none
TOGETHER = 0.9  # of the steps
KNOWN = 0.5  # of the steps: a ring that shows so few late ranks shows none
DIFFERENT = 1.1  # times the bytes: hops that pause alike wait for no rank, but for work


@dataclass(frozen=True)
class Ring:
    """Hops of one ring, in order: the place of each in its class, and the servers they leave."""

    places: Ints
    servers: Ints


@dataclass(frozen=True)
class Late:
    """Who is late in a ring, in each step; arrays of equal length.

    Attributes
    ----------
    waited_ns : how long the ring waited.
    delay_ns : the same, NaN where it is not known for whom.
    server : the server of the late rank.
    whole : whether all ranks of the server are late, so far as is seen.
    share : how far along the order of the server's ranks the late one is, in (0, 1].
    """

    waited_ns: Floats
    delay_ns: Floats
    server: Ints
    whole: Bools
    share: Floats


def rings_of(context: Context, part: KindOf, fewest: int = FEWEST) -> list[Ring]:
    """The closed rings of a class of connections that lead through each server once.

    They have ``fewest`` servers or more.
    """
    own, servers = part.one.connections, context.topology.servers
    src, dst = context.connections.src[own], context.connections.dst[own]
    place: dict[int, int] = {}
    after: dict[int, int] = {}
    for number, (a, b) in enumerate(zip(src.tolist(), dst.tolist(), strict=True)):
        if after.setdefault(a, b) != b:
            return []  # no simple ring
        place.setdefault(a, number)
    found, seen = [], set[int]()
    for first in after:
        members = [first]
        while first not in seen and (one := after.get(members[-1], first)) not in members:
            members.append(one)
        closed = after.get(members[-1]) == first and not seen & {*members}
        seen |= {*members}
        homes = servers[members]
        if closed and len(members) >= fewest and np.unique(homes).size == len(members):
            found.append(
                Ring(np.array([place[one] for one in members], np.int64), homes.astype(np.int64))
            )
    return found


@dataclass(frozen=True)
class _Hops:
    """The first burst of each hop of a class in each step, shape (hops, steps); NaN for none.

    Attributes
    ----------
    begin_ns, end_ns, again_ns : of the burst, and the begin of the next one.
    sent, total : bytes of the burst, and of the step.
    """

    begin_ns: Floats
    end_ns: Floats
    again_ns: Floats
    sent: Floats
    total: Floats

    def of(self, ring: Ring) -> _Hops:
        """The hops of one ring, in its order."""
        return _Hops(*(values[ring.places] for values in vars(self).values()))


def _late_in(ring: Ring, hops_of_class: _Hops, nics: int) -> Late:
    """Who is late at the first collective of each step; a server has so many ``nics``."""
    pause = _pause(hops_of_class.of(ring))
    before, hops, steps = pause.before, len(pause.before), np.arange(pause.before.shape[1])
    none = before == 0
    both = none & np.roll(none, -1, axis=0)  # a server that neither receives nor sends
    whole = (none.sum(axis=0) == 2) & (both.sum(axis=0) == 1)
    least = np.argmin(np.nan_to_num(before, nan=np.inf), axis=0)
    at = np.where(whole, np.argmax(both, axis=0) + 1, least) % hops
    own, first, second = (before[(at + more) % hops, steps] for more in range(3))
    with np.errstate(invalid="ignore", divide="ignore"):
        share = np.where(pause.hidden, 1 - own / (first - own), 1.0)
        first_of_next = (none.sum(axis=0) == 1) & ~(first / (second - first) > 1 - 0.5 / nics)
    share = np.clip(np.where(first_of_next, 1 / nics, share), 0.0, 1.0)
    at = np.where(first_of_next, (at + 1) % hops, at)
    known = (whole | (none.sum(axis=0) == 1) | pause.hidden) & np.isfinite(share)
    delay = np.where(known | ~(pause.delay_ns > 0), pause.delay_ns, np.nan)
    return Late(pause.delay_ns, delay, ring.servers[at], whole, share)


@dataclass(frozen=True)
class _Pause:
    """What each hop sent before the ring waited, NaN where it did not pause, (hops, steps).

    ``hidden`` is whether the late rank has no visible hop: then all hops sent something.
    """

    before: Floats
    hidden: Bools
    delay_ns: Floats


def _pause(hops: _Hops) -> _Pause:
    """How the hops of a ring wait at the first collective of each step."""
    begin, end, again, sent = hops.begin_ns, hops.end_ns, hops.again_ns, hops.sent
    with np.errstate(invalid="ignore"):
        latest, most = np.max(begin, axis=0), nanmedian(begin, axis=0)
        resumed = np.min(again, axis=0)
        apart = sent.max(axis=0) > DIFFERENT * sent.min(axis=0)
        hidden = (end <= resumed).all(axis=0) & (resumed > latest) & apart
        moment = np.where(hidden, resumed, latest)
        delay = moment - np.where(hidden, latest, most)
        late = ~hidden & (begin > most + LATE * delay) & (delay > 0)
        before = np.where((end <= moment) & (again > 0), sent, np.nan)
        before = np.where(late, _left_out(hops.total), before)
        hidden |= late.any(axis=0) & (before > 0).all(axis=0)
    return _Pause(before, hidden, delay)


def _left_out(total: Floats) -> Floats:
    """Bytes that each hop lacks in a step: what it sends first may be too little for data."""
    less = total.max(axis=0) - total
    return np.where(less > EXACT * total, less, 0.0)


def _works_first(ring: Ring, bursts: Bursts) -> bool:
    """Whether the hops of a ring are silent before the first collective of a step for longest."""
    own = np.isin(bursts.place, ring.places)
    place, step = bursts.place[own], bursts.step[own]
    silent = bursts.start_ns[own][1:] - bursts.end_ns[own][:-1]
    same, within = np.diff(place) == 0, np.diff(step) == 0
    before, inside = silent[same & ~within], silent[same & within]
    steps = max(1, int((same & ~within).sum()))
    return bool(before.size and np.median(before) > SILENT * inside.sum() / steps)


def _hops_of(job: JobView, bursts: Bursts) -> _Hops:
    """The first bursts of all hops of a class."""
    cell = bursts.place * job.count + bursts.step
    hops = int(bursts.place.max()) + 1 if cell.size else 0
    first = np.flatnonzero(np.concatenate(([True], np.diff(cell) != 0))) if cell.size else cell
    start, end = (one - float(job.ranks.origin_ns) for one in (bursts.start_ns, bursts.end_ns))
    following = np.minimum(first + 1, cell.size - 1)
    again = np.where(cell[following] == cell[first], start[following], np.nan)
    again = np.where(following > first, again, np.nan)
    found = []
    for values in (start[first], end[first], again, bursts.size[first].astype(np.float64)):
        table = np.full(hops * job.count, np.nan)
        table[cell[first]] = values
        found.append(table.reshape(hops, job.count))
    total = np.bincount(cell, bursts.size, hops * job.count).astype(np.float64)
    return _Hops(found[0], found[1], found[2], found[3], total.reshape(hops, job.count))


@measured_once
def _found_in(context: Context, job: JobView) -> list[tuple[Ring, Late]]:
    """Who is late in each ring of a job without a pipeline; not of those that do not show it."""
    every: list[tuple[Ring, Late]] = []
    servers = context.topology.servers[job.phases.endpoints]
    if job.pipelines.length > 1:
        return every  # other stages are in the servers of a ring
    for part in collectives_of(context, job):
        rings = rings_of(context, part)
        if not rings:
            continue
        bursts = bursts_of(context, job, part)
        hops = _hops_of(job, bursts)
        for ring in rings:
            nics = int(np.isin(servers, ring.servers).sum()) // ring.servers.size
            if nics > 1 and _works_first(ring, bursts):
                found = _late_in(ring, hops, nics)
                if np.isfinite(found.delay_ns).mean() > KNOWN and not _in_lock_step(found):
                    every.append((ring, found))
    return every


@measured_once
def late_in_rings_ns(context: Context, job: JobView) -> Floats:
    """By how much each endpoint makes its rings wait [ns], (endpoints, steps); NaN: no ring."""
    late = np.full((job.phases.endpoints.size, job.count), np.nan)
    for ring, found in _found_in(context, job):
        _add(context, job, late, found, ring)
    return late


def _in_lock_step(found: Late) -> bool:
    """Whether servers are late as a whole, because each has one member of the ring."""
    late = found.delay_ns > 0
    return bool(late.any() and found.whole[late].mean() > TOGETHER)


def usual_delay_ns(context: Context, job: JobView) -> Floats:
    """By how much each endpoint's arrival at its rings varies [ns]; 0: no ring.

    A ring waits for the last of its ranks, who is later than the middle one by a known number of
    deviations. What it waits for the endpoint's own server does not count, unless it is seldom
    another one; then it is what it waits in quiet steps.
    """
    usual = np.zeros(job.phases.endpoints.size)
    servers = context.topology.servers[job.phases.endpoints]
    for ring, found in _found_in(context, job):
        quiet = float(np.nan_to_num(healthy(found.delay_ns[None, :])[0]))
        last = _last_of(int(np.isin(servers, ring.servers).sum()))
        for server in np.unique(ring.servers).tolist():
            own = (found.server == server) & np.isfinite(found.delay_ns)
            others = found.waited_ns[~own & np.isfinite(found.waited_ns)]
            waits = float(np.median(others)) if others.size >= FEWEST else quiet
            rows = servers == server
            usual[rows] = np.maximum(usual[rows], waits / last)
    return usual


def _last_of(ranks: int) -> float:
    """Deviations by which the last of several normal values exceeds their middle (Blom, 1958)."""
    from scipy.special import ndtri

    return float(ndtri((ranks - 0.375) / (ranks + 0.25)))


def _add(context: Context, job: JobView, late: Floats, found: Late, ring: Ring) -> None:
    """Put down the delay of each step at the endpoints that cause it."""
    ends = job.phases.endpoints
    servers = context.topology.servers[ends]
    inside = np.flatnonzero(np.isin(servers, ring.servers))
    late[inside] = np.fmax(late[inside], 0.0)
    for server in np.unique(ring.servers).tolist():
        rows = inside[servers[inside] == server]
        numbers = [context.topology.endpoints[end].nic or 0 for end in ends[rows].tolist()]
        rows = rows[np.argsort(numbers, kind="stable")]
        own = (found.server == server) & (found.delay_ns > 0)
        which = np.clip(np.rint(found.share * rows.size).astype(np.int64) - 1, 0, rows.size - 1)
        for number, row in enumerate(rows.tolist()):
            at = np.flatnonzero(own & (found.whole | (which == number)))
            late[row, at] = np.fmax(late[row, at], found.delay_ns[at])
