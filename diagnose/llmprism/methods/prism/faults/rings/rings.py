"""Which rank of a ring is late, where several ranks of a server are in the ring.

Bytes between ranks of one server are not seen. So a late rank delays one visible hop only, or
none, and the ends of that hop are in two servers. But a ring is a chain: a hop sends its first
chunk as soon as both of its ends are there, and each other chunk when the hop before has sent one.
So a hop that is d ranks behind the late one sends d chunks, and then pauses. What the hops
sent before the pause grows along the ring, from the late rank on:

* the hop that sent nothing leads from the last rank of a server or to the first rank of the next;
* what the next hop sent tells how far the late rank is from the end of its server.

The unit is what one server adds: a chunk for each of its ranks. Between two servers no third hop
tells it: the late rank is at either end of the hop that sent nothing, or :mod:`~.chunks` tells.

Ranks lose their time before the first collective of a step, if that is where the ring is silent
for longest in healthy steps. If it is not, collectives and work alternate: nothing is concluded.

A rank may also pause in the middle of a collective, as all its process does. Then the hops have
sent more than that, and the gap goes on around the ring: the server is known, not the rank. So it
is where a rank loses time between the collectives of a step, as with parameters that are gathered
layer by layer: the ring rests for longest in the middle of the step.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from llmprism.io.topology import in_nic_order
from llmprism.methods.prism.classes.kind_of import KindOf
from llmprism.methods.prism.faults.context import Context, JobView, measured_once
from llmprism.methods.prism.faults.measures.bursts import SHORT, bursts_of
from llmprism.methods.prism.faults.measures.collectives import collectives_of
from llmprism.methods.prism.faults.measures.series import DEVIATIONS, healthy
from llmprism.methods.prism.faults.rings.chunks import all_but_first
from llmprism.methods.prism.faults.rings.ring_bursts import Hops, hops_of, silence_of
from llmprism.methods.prism.faults.rings.ring_rests import grows, sent_until_longest_rest
from llmprism.numerics.arrays import Bools, Floats, Ints
from llmprism.numerics.missing import nanmedian

OF_ONE = 2  # visible hops of one server: no others begin late because of it
TWO = 2  # servers, between which no third hop shows what one of them adds
FEWEST = 3  # servers of a ring, of which two hops show what one adds; steps that wait for others
LATE = 0.5  # of the delay: a hop that begins by so much later than most did not begin in time
WHOLE = (0.75, 0.95)  # quantiles of the bytes of a step between which nothing lacks
WHOLE_TO_SIGMA = 0.97  # difference of these of a normal distribution, in deviations
EXACT = 1e-3  # of the bytes of a step: differences that count as none
TOGETHER = 0.9  # of the steps
MOSTLY = 0.5  # of the rest of a ring: what explains it before the first collective
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
    share : how far along the order of the server's ranks the late one is, in (0, 1]; NaN where it
        paused in the middle of a collective, which does not show it.
    or_first_of : the server whose first rank it may be instead, -1 for none.
    """

    waited_ns: Floats
    delay_ns: Floats
    server: Ints
    whole: Bools
    share: Floats
    or_first_of: Ints


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


def _late_in(ring: Ring, of_class: Hops, nics: int, silent_ns: Floats) -> Late:
    """Who is late at the first collective of each step; a server has so many ``nics``.

    ``silent_ns`` is how much longer the hops are silent within a step than in healthy ones.
    """
    pause = _pause(of_class.of(ring.places))
    before, hops, steps = pause.before, len(pause.before), np.arange(pause.before.shape[1])
    none = before == 0
    both = none & np.roll(none, -1, axis=0)  # a server that neither receives nor sends
    whole = (none.sum(axis=0) == 2) & (both.sum(axis=0) == 1)
    least = np.argmin(np.nan_to_num(before, nan=np.inf), axis=0)
    at = np.where(whole, np.argmax(both, axis=0) + 1, least) % hops
    own, first, second = (before[(at + more) % hops, steps] for more in range(3))
    with np.errstate(invalid="ignore", divide="ignore"):
        share = np.where(pause.hidden, 1 - own / (first - own), 1.0)
        inside = pause.hidden & ~(share >= 0.5 / nics)  # of a collective: more was sent
        first_of_next = inside & (first - own < (1 - 0.5 / nics) * (second - first))
        more = first / (second - first) > 1 - 0.5 / nics
        first_of_next |= (none.sum(axis=0) == 1) & ~more & (hops > TWO)
    share = np.clip(np.where(first_of_next, 1 / nics, share), 0.0, 1.0)
    at = np.where(first_of_next, (at + 1) % hops, at)
    shown = whole | (none.sum(axis=0) == 1) | (pause.hidden & np.isfinite(share))
    known = np.where(inside, hops > TWO, shown)
    waited = np.where(inside, np.fmax(pause.delay_ns, silent_ns), pause.delay_ns)
    delay = np.where(known | ~(waited > 0), waited, np.nan)
    either = (none.sum(axis=0) == 1) & (hops == TWO)
    after = ring.servers[(at + 1) % hops]
    of_next, which = all_but_first(np.where(either, first, np.nan), of_class.of(ring.places), nics)
    return Late(
        waited, delay, np.where(of_next, after, ring.servers[at]), whole,
        np.where(inside, np.nan, np.where(of_next, 1 / nics, share)),
        np.where(either & ~which, after, -1),
    )  # fmt: skip


def _with_later(late: Late, ring: Ring, sent: Floats, nics: int, silent_ns: Floats) -> Late:
    """``late``, and who makes the ring rest for longest where that is later in the step.

    ``sent`` is what its hops sent until then; NaN in steps in which they rest for no longer.
    """
    hops, steps = len(sent), np.arange(sent.shape[1])
    least = np.argmin(np.nan_to_num(sent, nan=np.inf), axis=0)
    own, first, second = (sent[(least + more) % hops, steps] for more in range(3))
    with np.errstate(invalid="ignore"):
        later = grows(sent) & np.isfinite(own)
        of_next = first - own < (1 - 0.5 / nics) * (second - first)
    server = ring.servers[(least + of_next) % hops]
    return Late(
        np.where(later, silent_ns, late.waited_ns), np.where(later, silent_ns, late.delay_ns),
        np.where(later, server, late.server), late.whole & ~later,
        np.where(later, np.nan, late.share), np.where(later, -1, late.or_first_of),
    )  # fmt: skip


@dataclass(frozen=True)
class _Pause:
    """What each hop sent before the ring waited, NaN where it did not pause, (hops, steps).

    ``hidden`` is whether the late rank has no visible hop: then all hops sent something.
    """

    before: Floats
    hidden: Bools
    delay_ns: Floats


def _pause(hops: Hops) -> _Pause:
    """How the hops of a ring wait at the first collective of each step."""
    begin, end, again, sent = hops.begin_ns, hops.end_ns, hops.again_ns, hops.sent
    with np.errstate(invalid="ignore"):
        latest = np.max(begin, axis=0)
        in_time = np.sort(begin, axis=0)[max(len(begin) - 1 - OF_ONE, 0)]
        most = np.fmin(nanmedian(begin, axis=0), in_time)
        resumed = np.min(again, axis=0)
        apart = (sent.max(axis=0) > DIFFERENT * sent.min(axis=0)) | grows(sent)
        hidden = (end <= resumed).all(axis=0) & (resumed > latest) & apart
        moment = np.where(hidden, resumed, latest)
        delay = moment - np.where(hidden, latest, most)
        late = ~hidden & (begin > most + LATE * delay) & (delay > 0)
        before = np.where((end <= moment) & (again > 0), sent, np.nan)
        before = np.where(late, _left_out(hops.total), before)
        hidden |= late.any(axis=0) & (before > 0).all(axis=0)
    return _Pause(before, hidden, delay)


def _left_out(total: Floats) -> Floats:
    """Bytes that each hop lacks in a step: what it sends first may be too little for data.

    Where telemetry samples, bytes vary from step to step, and that is no lack. Steps in which
    nothing lacks show by how much: those with most bytes.
    """
    less = total.max(axis=0) - total
    low, high = np.quantile(total, WHOLE, axis=1)
    varies = float(np.median(high - low)) / WHOLE_TO_SIGMA
    return np.where(less > np.maximum(EXACT * total, DEVIATIONS * varies), less, 0.0)


@measured_once
def _found_in(context: Context, job: JobView) -> list[tuple[Ring, Late]]:
    """Who is late in each ring of a job without a pipeline; not of those that do not show it."""
    every: list[tuple[Ring, Late]] = []
    servers = context.topology.servers[job.phases.endpoints]
    if job.pipelines.length > 1:
        return every  # other stages are in the servers of a ring
    for part in collectives_of(context, job):
        rings = rings_of(context, part, TWO)
        if not rings:
            continue
        bursts = bursts_of(context, job, part)
        hops = hops_of(job, bursts)
        for ring in rings:
            nics = int(np.isin(servers, ring.servers).sum()) // ring.servers.size
            silence = silence_of(job, ring.places, bursts)
            if nics > 1 and silence.works_first:
                found = _late_in(ring, hops, nics, silence.longer_ns)
                rests = silence.longer_ns > SHORT * job.period_ns
                rests &= ~(found.waited_ns > MOSTLY * silence.longer_ns)
                at = np.flatnonzero(rests)
                sent = sent_until_longest_rest(job, ring.places, bursts, at)
                found = _with_later(found, ring, sent, nics, silence.longer_ns)
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
            own = (found.server == server) | (found.or_first_of == server)
            own &= np.isfinite(found.delay_ns)
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
        rows = np.searchsorted(ends, in_nic_order(context.topology, ends[rows]))
        own = (found.server == server) & (found.delay_ns > 0)
        share = np.nan_to_num(found.share)
        which = np.clip(np.rint(share * rows.size).astype(np.int64) - 1, 0, rows.size - 1)
        together = found.whole | np.isnan(found.share)
        instead = (found.or_first_of == server) & (found.delay_ns > 0)
        for number, row in enumerate(rows.tolist()):
            late_itself = own & (together | (which == number))
            at = np.flatnonzero(late_itself | (instead & (number == 0)))
            late[row, at] = np.fmax(late[row, at], found.delay_ns[at])
