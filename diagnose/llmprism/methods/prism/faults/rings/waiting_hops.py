"""Which server is late where collectives and work alternate: all other hops of its ring wait.

Where parameters are gathered layer by layer, a rank loses time between the collectives of a step,
and its ring waits for it many times. A hop begins when both of its ends are there. So the hops of
other ranks begin in time and wait with bytes under way: they are longer on the wire. A hop of the
late rank begins late and ends with the others: it is on the wire for as long as ever.

* If both hops of a server do so, the whole server is late.
* If one hop does, it leads from the last rank of its server or to the first rank of the next one,
  as in :mod:`~.rings`. Flows do not tell which.

Two hops that wait at least show that it is waiting: a single one that is longer on the wire is
slow itself. So may be both hops of a NIC; where servers have several, most of their rings show what
all wait for. Two hops across a slow leaf send all the time, and the others wait for what they
bring: these rest more often then, and are cut into more records. Ranks in the middle of a server
delay no hop by more than others, and are not seen.
"""

from __future__ import annotations

import numpy as np

from llmprism.io.topology import in_nic_order
from llmprism.methods.prism.classes.kind_of import KindOf
from llmprism.methods.prism.faults.context import Context, JobView, measured_once
from llmprism.methods.prism.faults.measures.collectives import collectives_of
from llmprism.methods.prism.faults.measures.rates import rates_of
from llmprism.methods.prism.faults.measures.series import healthy
from llmprism.methods.prism.faults.rings.rings import Ring, rings_of
from llmprism.numerics.arrays import Bools, Floats, Ints
from llmprism.numerics.missing import nanmedian

WAITS = 0.6  # of what the longest hop waits: hops that are longer by less do not wait
FEWEST_WAIT = 2  # such hops: a single one is slow itself
OFTENER = 1.5  # times as many records as the hops that are longer: they rest, those do not


@measured_once
def late_at_hops_ns(context: Context, job: JobView) -> Floats:
    """By how much each endpoint makes its rings wait [ns], (endpoints, steps); NaN: no ring.

    All endpoints of a server that is late as a whole, or the two of a single hop. None is later
    than its job's step is longer: ranks that come early wait as well.
    """
    late = np.full((job.phases.endpoints.size, job.count), np.nan)
    if job.pipelines.length > 1:
        return late
    longer_ns = job.duration_ns - healthy(job.duration_ns[None, :])[0]
    longer_ns = np.maximum(np.nan_to_num(longer_ns), 0.0)
    for servers, lost, records in _lost_by_hops(context, job):
        _add(context, job, late, servers, np.minimum(lost, longer_ns), records)
    return late


def _lost_by_hops(context: Context, job: JobView) -> list[tuple[Ints, Floats, Floats]]:
    """The servers of each ring, what its hops are longer on the wire [ns], and their records.

    Both of shape (hops, steps); records as a multiple of the usual number. The middle of the rings
    that lead through the same servers, one for each of their NICs.
    """
    lost_ns = _lost_of_connections_ns(context, job)
    home = context.topology.servers[job.phases.endpoints]
    found: dict[tuple[int, ...], list[tuple[Floats, Floats]]] = {}
    for part in collectives_of(context, job):
        records = _records(context, job, part)
        for ring in rings_of(context, part):
            if np.isin(home, ring.servers).sum() == ring.servers.size:
                continue  # one NIC each: both of its hops may be slow as well
            servers, order = _from_the_first(ring)
            places = ring.places[order]
            own = lost_ns[part.one.connections[places]], records[places]
            found.setdefault(tuple(servers.tolist()), []).append(own)
    middle = [
        [nanmedian(np.stack(each), axis=0) for each in zip(*own, strict=True)]
        for own in found.values()
    ]
    return [
        (np.array(servers), lost, number)
        for servers, (lost, number) in zip(found, middle, strict=True)
    ]


def _records(context: Context, job: JobView, part: KindOf) -> Floats:
    """Records of each connection of a class in each step, as a multiple of its usual number."""
    cell = part.cells(context.connections, job.count)[1]
    number = np.bincount(cell, minlength=part.one.connections.size * job.count)
    by_step = number.reshape(-1, job.count).astype(np.float64)
    relative: Floats = by_step / np.maximum(np.median(by_step, axis=1, keepdims=True), 1.0)
    return relative


def _from_the_first(ring: Ring) -> tuple[Ints, Ints]:
    """The servers of a ring from the lowest on, and their places in it."""
    order = np.roll(np.arange(ring.servers.size), -int(np.argmin(ring.servers)))
    return ring.servers[order], order


def _lost_of_connections_ns(context: Context, job: JobView) -> Floats:
    """What each connection is longer on the wire than in healthy steps [ns]."""
    rates = rates_of(context, job)
    own = np.concatenate([part.one.connections for part in job.phases.classes])
    lost = np.zeros((len(context.connections), job.count))
    np.add.at(lost, own, rates.lost * job.period_ns)
    return lost


def _add(
    context: Context, job: JobView, late: Floats, servers: Ints, lost: Floats, records: Floats
) -> None:
    """Put down what a ring waits in each step at the endpoints that it waits for."""
    ends = job.phases.endpoints
    home = context.topology.servers[ends]
    late[np.isin(home, servers)] = np.fmax(late[np.isin(home, servers)], 0.0)
    whole, alone, waited_ns = _waits(lost, records)
    for place, server in enumerate(servers.tolist()):
        rows = np.flatnonzero(home == server)
        rows = np.searchsorted(ends, in_nic_order(context.topology, ends[rows]))
        for chosen, steps in (
            (rows, whole[place]),
            (rows[-1:], alone[place]),
            (rows[:1], alone[place - 1]),
        ):
            at = np.ix_(chosen, np.flatnonzero(steps))
            late[at] = np.fmax(late[at], waited_ns[steps])


def _waits(lost: Floats, records: Floats) -> tuple[Bools, Bools, Floats]:
    """Which server, or which hop alone, the other hops of a ring wait for in each step.

    And for how long; hop i leads from server i, shape (hops, steps). A hop that rests more often
    than those that are longer waits itself: for them, which are slow and send all the time.
    """
    with np.errstate(invalid="ignore"):
        longest = lost.max(axis=0)  # NaN where a hop is unknown
        short = lost < WAITS * longest
        of_longer = nanmedian(np.where(short, np.nan, records), axis=0)
        short &= ~(records > OFTENER * of_longer)
    shown = (longest > 0) & ((~short).sum(axis=0) >= FEWEST_WAIT)
    both = short & np.roll(short, 1, axis=0)  # what a server sends and what it receives
    number = short.sum(axis=0)
    whole = both & shown & (number == 2) & (both.sum(axis=0) == 1)
    return whole, short & shown & (number == 1), np.nan_to_num(longest)
