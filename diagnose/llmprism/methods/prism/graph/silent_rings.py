"""The rank that a silent ring waits for, where the ring passes several ranks of a server.

Bytes between ranks of one server are not seen, so a late rank may be at neither end of a hop. But
a ring is a chain: a hop sends its first chunk when both of its ends are there, and each other one
when the hop before has sent one. So a hop that is m ranks behind the late one sends m chunks, and
then is silent. Along the ring this grows by a chunk for each rank of a server:

* the hop that sends least leaves the server of the late rank, and what it has sent counts the ranks
  between the late one and the end of the server;
* if a hop has sent nothing, the late rank is the last one before it or the first one behind it: in
  the second case the next hop has sent one chunk less. Between two servers nothing tells which;
* if the hops into a server and out of it have sent the same, all of its ranks are late.

A rank that pauses in the middle of a collective has sent some chunks before, so its server is known
only. A ring of which some hops go on waits for a rank only if it is late to every collective: the
hops at its side begin later than the others by about as long as they rest each time. Hops that rest
for a slow one begin with it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from llmprism.io.topology import Topology, in_nic_order
from llmprism.methods.prism.context import JobView
from llmprism.methods.prism.graph.slots import Silences
from llmprism.methods.prism.parameters import EXACT, MOSTLY_SILENT
from llmprism.numerics.arrays import Bools, Codes, Floats, Ints
from llmprism.numerics.missing import nanmedian

TWO = 2  # hops of one server; and servers, between which no third hop tells what ranks add
NONE = np.empty(0, np.int64)


@dataclass(frozen=True)
class Late:
    """Ranks that others waited for.

    Attributes
    ----------
    rank, slot, step, until_ns : who, where, and until when [ns]; arrays of equal length.
    joins : when both ends of each hop have joined [ns], shape (hops, slots, steps).
    """

    rank: Ints
    slot: Ints
    step: Ints
    until_ns: Floats
    joins: Floats


def hops_in_order(src: Codes, dst: Codes) -> Ints:
    """The hops of a ring, one after the other; empty if they are no single ring.

    >>> hops_in_order(np.array([4, 9, 7]), np.array([7, 4, 9]))
    array([0, 2, 1])
    """
    after = {a: hop for hop, a in enumerate(src.tolist())}
    order, seen = [0], {0}
    while len(order) < src.size:
        following = after.get(int(dst[order[-1]]), 0)
        if following in seen:
            return NONE
        order.append(following)
        seen.add(following)
    closed = len(after) == src.size and dst[order[-1]] == src[0]
    return np.array(order) if closed else NONE


@dataclass(frozen=True)
class Homes:
    """Where the ranks of a job are.

    Attributes
    ----------
    servers : of each rank, shape (ranks,).
    groups : data-parallel group of each rank, -1 for none.
    in_nic_order : the ranks, those of each server in order of their NICs.
    """

    servers: Codes
    groups: Ints
    in_nic_order: Ints

    @cached_property
    def first(self) -> Ints:
        """The first rank beside each rank, shape (ranks,)."""
        return np.array([own[0] for own in self._members])[self._number]

    @cached_property
    def last(self) -> Ints:
        """The last rank beside each rank, shape (ranks,)."""
        return np.array([own[-1] for own in self._members])[self._number]

    def beside(self, rank: int) -> Ints:
        """Ranks of the same server and group, in order of their NICs."""
        return self._members[int(self._number[rank])]

    @cached_property
    def _number(self) -> Ints:
        """Ranks of one server and group have one number; who is in no group has its own."""
        alone = np.where(self.groups < 0, np.arange(self.groups.size), -1)
        where = np.column_stack((self.servers, self.groups, alone))
        return np.unique(where, axis=0, return_inverse=True)[1].ravel()

    @cached_property
    def _members(self) -> list[Ints]:
        """Ranks of each number, in order of their NICs."""
        order = self.in_nic_order[np.argsort(self._number[self.in_nic_order], kind="stable")]
        return np.split(order, np.flatnonzero(np.diff(self._number[order])) + 1)


def homes_of(topology: Topology, job: JobView, rank: Ints) -> Homes:
    """Where the ranks of ``job`` are; ``rank`` is that of each endpoint."""
    own = job.phases.endpoints
    return Homes(topology.servers[own], job.groups, rank[in_nic_order(topology, own)])


def late_ranks(
    homes: Homes, ends: tuple[Ints, Ints], start: Floats, silences: Silences | None
) -> Late:
    """Who joins a collective when all others have, in each slot and step.

    ``start`` and ``silences`` have shape (hops, slots, steps); without silences, and where no ring
    is silent, it is who is at the ends of a hop that begins last.
    """
    joins, behind = start, (NONE, NONE, np.empty(0))
    if silences is not None and np.isfinite(silences.sent).any():
        order = hops_in_order(homes.servers[ends[0]], homes.servers[ends[1]])
        later = (start - start.min(axis=0)).max(axis=1, keepdims=True)  # in any slot of the step
        is_late = later > MOSTLY_SILENT * (silences.until_ns - silences.since_ns)
        joins = np.where(is_late, start + silences.rest_ns, start)
        behind = _behind_silences(homes, ends[0][order], order, start, silences)
    rank, at, until = behind
    last_rank, last_at, last_until = _at_last_hop(homes, ends, joins.reshape(len(start), -1))
    other = ~np.isin(last_at, at)
    slot, step = np.divmod(np.concatenate((at, last_at[other])), start.shape[2])
    ranks = np.concatenate((rank, last_rank[other]))
    return Late(ranks, slot, step, np.concatenate((until, last_until[other])), joins)


def earliest(ends: tuple[Ints, Ints], times: Floats) -> tuple[Ints, Floats]:
    """The ranks at the ends of hops, and the earliest time of each one's hops; inf for none.

    ``times`` have shape (hops, ...), those of the ranks (ranks, ...).
    """
    members, at = np.unique(np.concatenate(ends), return_inverse=True)
    first = np.full((members.size, *times.shape[1:]), np.inf)
    for side in np.split(at, 2):
        np.minimum.at(first, side, np.nan_to_num(times, nan=np.inf))
    return members, first


def _at_last_hop(homes: Homes, ends: tuple[Ints, Ints], start: Floats) -> tuple[Ints, Ints, Floats]:
    """The ranks between which a hop begins when others of both of its ends have begun."""
    whole = np.flatnonzero(np.isfinite(start).all(axis=0))
    _, begin = earliest(ends, start[:, whole])
    last = start[:, whole].argmax(axis=0)
    latest = start[last, whole]
    alone = begin.max(axis=0, initial=-np.inf) < latest
    hop, place, until_ns = last[alone], whole[alone], latest[alone]
    ranks = np.concatenate((homes.last[ends[0][hop]], homes.first[ends[1][hop]]))
    return ranks, np.concatenate((place, place)), np.concatenate((until_ns, until_ns))


def _behind_silences(
    homes: Homes, sends: Ints, order: Ints, start: Floats, silences: Silences
) -> tuple[Ints, Ints, Floats]:
    """The ranks that a silent ring waits for: rank, slot and step, and when it goes on.

    ``sends`` has the rank that each hop leaves, in the ``order`` of the ring; none if it is none.
    """
    found: list[tuple[int, int, float]] = []
    if order.size:
        beside = [homes.beside(rank) for rank in sends.tolist()]
        parts = (start, silences.since_ns, silences.until_ns, silences.sent, silences.rest_ns)
        waits, before, until_ns = _waits(*(part[order].reshape(order.size, -1) for part in parts))
        for at in np.flatnonzero(waits).tolist():
            found += [(rank, at, float(until_ns[at])) for rank in _whom(before[:, at], beside)]
    ranks, places, ends_ns = np.array(found, np.float64).reshape(-1, 3).T
    return ranks.astype(np.int64), places.astype(np.int64), ends_ns


def _waits(
    start: Floats, since: Floats, until: Floats, sent: Floats, rest: Floats
) -> tuple[Bools, Floats, Floats]:
    """Where all hops are silent together: what each had sent before, and until when.

    A hop that has sent nothing begins when the others go on. The collective begins in effect when
    all silences of its ring are over that all hops have in common.
    """
    with np.errstate(invalid="ignore"):
        longest = nanmedian((until - since).T, axis=1)
        resume = np.fmin.reduce(until, axis=0)
        begins_late = start > resume - (1 - MOSTLY_SILENT) * longest
        before = np.where(begins_late, 0.0, sent)
        goes_on = np.fmin(resume, np.fmin.reduce(np.where(begins_late, start, np.inf), axis=0))
        stops = np.fmax.reduce(np.where(begins_late, -np.inf, since), axis=0)
        waits = np.isfinite(before).all(axis=0) & (goes_on - stops > MOSTLY_SILENT * longest)
        waits &= begins_late.sum(axis=0) <= TWO
    until_ns: Floats = (start + rest).min(axis=0)
    return waits, before, until_ns


def _whom(before: Floats, beside: Sequence[Ints]) -> list[int]:
    """The rank, or the ranks, that may be late, by what each hop has sent before."""
    hops, at, ordered = before.size, int(np.argmin(before)), np.sort(before)
    if hops > TWO and ordered[1] - ordered[0] < 0.5 / beside[at].size * (ordered[2] - ordered[1]):
        least = before <= ordered[1]
        both = np.flatnonzero(least & np.roll(least, 1))
        return beside[both[0]].tolist() if both.size == 1 else []
    own, first, second = (float(before[(at + more) % hops]) for more in range(3))
    of_server, of_next = beside[at], beside[(at + 1) % hops]
    of_a_server = second - first if own == 0 else first - own
    if own == 0 and (hops == TWO or of_a_server <= 0):
        return [int(of_server[-1]), int(of_next[0])]
    if of_a_server <= EXACT * first:
        return []  # all of it is sent: the ring waits for the next work, and for no rank
    behind = round((first / of_a_server - 1) * of_server.size)
    if behind < 0:
        return [int(of_next[0])]
    return [int(of_server[-1 - behind])] if behind < of_server.size else of_server.tolist()
