"""Which connections of a collective end last? Those are slow, and the others wait for them.

The rings of a collective go in rounds: no hop sends its next chunk before it has received the
chunk of the hop before it. So all hops take as long as the slowest one. If the exporter bridges the
silences between chunks, records show all hops alike, whichever is slow. But nobody waits after the
last round, so a slow hop ends it later than the others do.

Rings with the same hops between servers are compared: a collective has one ring for each NIC of a
server, and its next part begins when all of them are done. Hops need not end together in a healthy
job, so an end counts by how much later it is than in other steps. A hop that only waits for a slow
one has lost what that one lost, less the time by which it ends earlier. A hop that lost clearly
more is slow itself. So is one that lost clearly less: its record shows the silences.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from llmprism.methods.prism.faults.context import Context, JobView
from llmprism.methods.prism.faults.measures.collectives import ring_numbers
from llmprism.numerics.arrays import Bools, Codes, Floats, Ints
from llmprism.numerics.missing import nanmedian, row_deviations

SURELY = 3.0  # deviations of a mean
ROUNDS = 1e-3  # of the time lost in a step: a step has no more rounds than a thousand
WITH_MOST = 0.25  # of the longest delay: a hop that ends so little after most others waits
TYPICAL = 0.75  # quantile of what ends differ by chance: a single noisy one hides no other
LESS = 0.2  # of what the last one lost: what waits for it lost as much less as it began later
MORE = 0.05  # ... and not more, or no more than chance makes
ENOUGH = 5  # steps of which the middle ones show more than all


@dataclass(frozen=True)
class Ends:
    """When connections end their steps, in the order of the classes of their job.

    Attributes
    ----------
    family : connections of rings with the same hops between servers have one number; -1 for
        pipelines.
    ring : and those of one ring.
    later : how much later than its family each ends, as a share of a step, (connections, steps).
    rounding : deviation of ``later`` that a coarse clock makes.
    """

    family: Ints
    ring: Ints
    later: Floats
    rounding: float

    def own_share(self, lost: Floats, first: int, last: int) -> Floats:
        """Share of what each connection lost that it lost itself, and not by waiting for another.

        0 for those that end when most of their family do, though others end later than usual.
        ``lost`` is what each connection lost in each step, as a share of a step. What waits for
        another lost as much as that one until its own end.
        """
        inside = np.zeros(self.later.shape[1], np.bool_)
        inside[first : last + 1] = True
        later, chance = self._in(inside)
        more, doubt = _compared(lost, inside)
        found = np.ones(self.family.size)
        known = np.isfinite(later) & np.isfinite(more)
        for together in (self.family, self.ring):
            for one in np.unique(together[together >= 0]).tolist():
                own = np.flatnonzero((together == one) & known)
                if own.size:
                    shares = _own_shares(later[own], more[own], (chance[own], doubt[own]))
                    found[own] = np.minimum(found[own], shares)
        return found

    def _in(self, inside: Bools) -> tuple[Floats, Floats]:
        """How much later than usual each ends in a stretch, and what may be chance."""
        usual = nanmedian(self.later[:, ~inside], axis=1)
        spread = row_deviations(self.later[:, ~inside])
        later, varies, count = _middle(self.later[:, inside] - usual[:, None])
        noise = np.hypot(np.fmax(spread, varies), self.rounding)
        return later, SURELY * noise / np.sqrt(np.maximum(count, 1))


def _compared(lost: Floats, inside: Bools) -> tuple[Floats, Floats]:
    """What each connection lost in some steps beyond what it lost in others, and its doubt."""
    usual = nanmedian(lost[:, ~inside], axis=1)
    spread = row_deviations(lost[:, ~inside])
    count = np.isfinite(lost[:, inside]).sum(axis=1)
    doubt = np.nan_to_num(SURELY * spread / np.sqrt(np.maximum(count, 1)))
    return nanmedian(lost[:, inside], axis=1) - usual, doubt


def _own_shares(later: Floats, lost: Floats, by_chance: tuple[Floats, Floats]) -> Floats:
    """Of one family: 1 for what ends last, 0 for what ends with most; 1 if nothing ends later.

    ``by_chance`` is what ends, and what was lost, may differ by chance.
    """
    chance, doubt = by_chance
    ahead = later.max() - later
    longest, worst = float(ahead.max()), int(np.argmax(later))
    most = float(lost[ahead <= longest / 2].max())
    least = 2 * max(float(chance[worst]), float(np.quantile(chance, TYPICAL)))
    if most <= 0 or longest <= max(ROUNDS * most, least):
        return np.ones(later.size)
    usual = float(np.median(ahead[ahead > longest / 2]))
    height = np.where(ahead > chance, 1 - ahead / usual, 1.0)
    less = most - ahead - lost
    more = np.maximum(MORE * most, np.hypot(doubt, doubt[worst]))
    alike = (less < LESS * most) & (less > -more)
    shares: Floats = np.where(alike, np.where(height < WITH_MOST, 0.0, height), 1.0)
    return shares


def ends_of(context: Context, job: JobView, rounding_ns: float) -> Ends:
    """Measure the last end of each connection of ``job`` in each step."""
    ends = []
    for part in job.phases.classes:
        known, cell = part.cells(context.connections, job.count)
        end_ns = context.flows.end_ns[part.one.traffic.row[known]] - job.ranks.origin_ns
        latest = np.full(part.one.connections.size * job.count, -np.inf)
        np.maximum.at(latest, cell, end_ns.astype(np.float64))
        ends.append(np.where(np.isinf(latest), np.nan, latest).reshape(-1, job.count))
    found, family = np.vstack(ends), _families(context, job)
    for one in np.unique(family).tolist():
        found[family == one] -= nanmedian(found[family == one], axis=0)
    period_ns = max(job.period_ns, 1.0)
    ring = ring_numbers(context, job)[_connections(job)]
    return Ends(family, ring, found / period_ns, rounding_ns / period_ns)


def _connections(job: JobView) -> Codes:
    """The connections of a job, in the order of its classes."""
    return np.concatenate([part.one.connections for part in job.phases.classes])


def _families(context: Context, job: JobView) -> Ints:
    """Number the connections so that those of rings with the same hops between servers are alike.

    Gathers and reductions may go round a ring in different directions, one after the other.
    """
    servers, connections = context.topology.servers, context.connections
    rings = ring_numbers(context, job)
    number: dict[frozenset[tuple[int, int]], int] = {}
    of_ring = np.full(int(rings.max(initial=-1)) + 2, -1)  # the last one is that of no ring
    for one in range(of_ring.size - 1):
        ring = np.flatnonzero(rings == one)
        ends = (servers[side[ring]].tolist() for side in (connections.src, connections.dst))
        of_ring[one] = number.setdefault(frozenset(zip(*ends, strict=True)), len(number))
    return of_ring[rings[_connections(job)]]


def _middle(values: Floats) -> tuple[Floats, Floats, Ints]:
    """Mean, deviation and number of the values of each series without the largest and the smallest.

    The records of a single step may count into two. Of fewer than five values, all count.
    """
    ordered = np.sort(values, axis=1)  # NaN come last
    count = np.isfinite(ordered).sum(axis=1, keepdims=True)
    place = np.arange(ordered.shape[1])
    cut = count >= ENOUGH
    kept = np.where((place >= cut) & (place < count - cut), ordered, np.nan)
    number = np.isfinite(kept).sum(axis=1)
    known = np.where(number > 0, number, np.nan)
    mean = np.nansum(kept, axis=1) / known
    apart = np.nan_to_num(kept - mean[:, None])
    return mean, np.sqrt((apart**2).sum(axis=1) / known), number
