"""The rank that a silent ring waits for, where the ring passes several ranks of a server.

Bytes between ranks of one server are not seen, so a late rank may be at neither end of a hop. But
a ring is a chain: a hop sends its first chunk when both of its ends are there, and each other one
when the hop before has sent one. So a hop that is m ranks behind the late one sends m chunks, and
then is silent. Along the ring this grows by a chunk for each rank of a server:

* the hop that sends least leaves the server of the late rank, and what it has sent counts the ranks
  between the late one and the end of the server;
* if a hop has sent nothing, the late rank is the last one before it or the first one behind it: in
  the second case the next hop has sent one chunk less. Between two servers nothing tells which;

* if the hops into a server and out of it have sent nothing, all of its ranks are late.

A rank that pauses in the middle of a collective has sent some chunks before, so its server is known
only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from llmprism.methods.prism.context import Context, JobView
from llmprism.methods.prism.graph.slots import Silences
from llmprism.methods.prism.parameters import MOSTLY_SILENT
from llmprism.numerics.arrays import Bools, Codes, Floats, Ints
from llmprism.numerics.missing import nanmedian

TWO = 2  # servers, between which no third hop tells what the ranks of one add


@dataclass(frozen=True)
class Late:
    """Ranks that a ring waited for; arrays of equal length, and until when it was silent [ns]."""

    rank: Ints
    slot: Ints
    step: Ints
    until_ns: Floats


def hops_in_order(src: Ints, dst: Ints) -> Ints:
    """The hops of a ring, one after the other; empty if they are no single ring.

    >>> hops_in_order(np.array([4, 9, 7]), np.array([7, 4, 9]))
    array([0, 2, 1])
    """
    after = {a: hop for hop, a in enumerate(src.tolist())}
    order = [0]
    while len(order) < src.size:
        following = after.get(int(dst[order[-1]]), 0)
        if following in order:
            return np.empty(0, np.int64)
        order.append(following)
    closed = len(after) == src.size and dst[order[-1]] == src[0]
    return np.array(order) if closed else np.empty(0, np.int64)


@dataclass(frozen=True)
class Homes:
    """Where the ranks are that collectives of one kind lead through.

    Attributes
    ----------
    servers : of each rank of the job, shape (ranks,).
    in_nic_order : its ranks by server, in order of their NICs.
    src, dst : ranks at the ends of all hops of the kind.
    """

    servers: Codes
    in_nic_order: Ints
    src: Ints
    dst: Ints

    def beside(self, source: int, target: int) -> Ints:
        """Ranks of the server of ``source`` from whose NICs hops lead to that of ``target``.

        And those whose NICs are between them.
        """
        at, to = self.servers[source], self.servers[target]
        leaves = (self.servers[self.src] == at) & (self.servers[self.dst] == to)
        enters = self.servers[self.dst] == at
        inside = self.in_nic_order[self.servers[self.in_nic_order] == at]
        ends = np.flatnonzero(np.isin(inside, (*self.src[leaves], *self.dst[enters])))
        return inside[ends[0] : ends[-1] + 1]

    def without_hop(self, ranks: Ints) -> Ints:
        """Those of ``ranks`` that are at the end of no hop."""
        return np.setdiff1d(ranks, (*self.src, *self.dst))


def nic_order(context: Context, job: JobView) -> Ints:
    """The ranks of ``job`` by server, in order of their NICs."""
    endpoints, topology = job.phases.endpoints, context.topology
    nic = [topology.endpoints[end].nic or 0 for end in endpoints.tolist()]
    return np.lexsort((endpoints, nic, topology.servers[endpoints]))


def late_ranks(
    homes: Homes, ends: tuple[Ints, Ints], start: Floats, silences: Silences
) -> Late | None:
    """Who is late in each slot and step in which a ring is silent; None if nobody ever is.

    ``start`` and ``silences`` have shape (hops, slots, steps).
    """
    if not np.isfinite(silences.sent).any():
        return None
    order = hops_in_order(*(homes.servers[side] for side in ends))
    if not order.size:
        return None
    beside = [homes.beside(int(ends[0][hop]), int(ends[1][hop])) for hop in order.tolist()]
    hops, steps = order.size, start.shape[2]
    waits, before, until_ns = _waits(
        *(
            part[order].reshape(hops, -1)
            for part in (start, silences.since_ns, silences.until_ns, silences.sent)
        )
    )
    found = [
        (rank, at, until_ns[at])
        for at in np.flatnonzero(waits).tolist()
        for rank in _whom(before[:, at], beside)
    ]
    if not found:
        return None
    rank, at, until = (np.array(part) for part in zip(*found, strict=True))
    return Late(rank, at // steps, at % steps, until.astype(np.float64))


def _waits(
    start: Floats, since: Floats, until: Floats, sent: Floats
) -> tuple[Bools, Floats, Floats]:
    """Where all hops are silent together: what each had sent before, and until when.

    A hop that has sent nothing begins when the others go on.
    """
    with np.errstate(invalid="ignore"):
        rest = nanmedian((until - since).T, axis=1)
        resume = np.fmin.reduce(until, axis=0)
        begins_late = start > resume - (1 - MOSTLY_SILENT) * rest
        before = np.where(begins_late, 0.0, sent)
        until_ns = np.fmin(resume, np.fmin.reduce(np.where(begins_late, start, np.inf), axis=0))
        from_ns = np.fmax.reduce(np.where(begins_late, -np.inf, since), axis=0)
        waits = np.isfinite(before).all(axis=0) & (until_ns - from_ns > MOSTLY_SILENT * rest)
        waits &= begins_late.sum(axis=0) <= 2
    return waits, before, until_ns


def _whom(before: Floats, beside: Sequence[Ints]) -> list[int]:
    """The rank, or the ranks, that may be late, by what each hop has sent before."""
    hops, none = before.size, before == 0
    both = np.flatnonzero(none & np.roll(none, 1))
    if none.sum() == 2:
        return beside[both[0]].tolist() if both.size == 1 else []
    least = int(np.argmin(before))
    own, first, second = (float(before[(least + more) % hops]) for more in range(3))
    of_server, of_next = beside[least], beside[(least + 1) % hops]
    of_a_server = second - first if own == 0 else first - own
    if own == 0 and (hops == TWO or of_a_server <= 0):
        return [int(of_server[-1]), int(of_next[0])]
    share = first / of_a_server - 1 if of_a_server > 0 else 1.0
    behind = round(share * of_server.size)
    if behind < 0:
        return [int(of_next[0])]
    return [int(of_server[-1 - behind])] if behind < of_server.size else of_server.tolist()
