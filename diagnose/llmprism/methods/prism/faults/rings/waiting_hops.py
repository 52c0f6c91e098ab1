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
all wait for. Ranks in the middle of a server delay no hop by more than others, and are not seen.
"""

from __future__ import annotations

import numpy as np

from llmprism.io.topology import in_nic_order
from llmprism.methods.prism.faults.context import Context, JobView, measured_once
from llmprism.methods.prism.faults.measures.collectives import collectives_of
from llmprism.methods.prism.faults.measures.rates import rates_of
from llmprism.methods.prism.faults.measures.series import healthy
from llmprism.methods.prism.faults.rings.rings import Ring, rings_of
from llmprism.numerics.arrays import Bools, Floats, Ints
from llmprism.numerics.missing import nanmedian

WAITS = 0.6  # of what the longest hop waits: hops that are longer by less do not wait
FEWEST_WAIT = 2  # such hops: a single one is slow itself


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
    for servers, lost in _lost_by_hops(context, job):
        _add(context, job, late, servers, np.minimum(lost, longer_ns))
    return late


def _lost_by_hops(context: Context, job: JobView) -> list[tuple[Ints, Floats]]:
    """The servers of each ring, and what its hops are longer on the wire [ns], (hops, steps).

    The middle of the rings that lead through the same servers, one for each of their NICs.
    """
    lost_ns = _lost_of_connections_ns(context, job)
    home = context.topology.servers[job.phases.endpoints]
    found: dict[tuple[int, ...], list[Floats]] = {}
    for part in collectives_of(context, job):
        for ring in rings_of(context, part):
            if np.isin(home, ring.servers).sum() == ring.servers.size:
                continue  # one NIC each: both of its hops may be slow as well
            servers, order = _from_the_first(ring)
            own = lost_ns[part.one.connections[ring.places[order]]]
            found.setdefault(tuple(servers.tolist()), []).append(own)
    return [(np.array(one), nanmedian(np.stack(own), axis=0)) for one, own in found.items()]


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


def _add(context: Context, job: JobView, late: Floats, servers: Ints, lost: Floats) -> None:
    """Put down what a ring waits in each step at the endpoints that it waits for."""
    ends = job.phases.endpoints
    home = context.topology.servers[ends]
    late[np.isin(home, servers)] = np.fmax(late[np.isin(home, servers)], 0.0)
    whole, alone, waited_ns = _waits(lost)
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


def _waits(lost: Floats) -> tuple[Bools, Bools, Floats]:
    """Which server, or which hop alone, the other hops of a ring wait for in each step.

    And for how long; hop i leads from server i, shape (hops, steps).
    """
    with np.errstate(invalid="ignore"):
        longest = lost.max(axis=0)  # NaN where a hop is unknown
        short = lost < WAITS * longest
    shown = (longest > 0) & ((~short).sum(axis=0) >= FEWEST_WAIT)
    both = short & np.roll(short, 1, axis=0)  # what a server sends and what it receives
    number = short.sum(axis=0)
    whole = both & shown & (number == 2) & (both.sum(axis=0) == 1)
    return whole, short & shown & (number == 1), np.nan_to_num(longest)
