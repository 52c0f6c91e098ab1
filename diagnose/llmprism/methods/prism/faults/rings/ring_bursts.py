"""When the hops of a ring are busy in a step: their first bursts, and how long they are silent."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from llmprism.methods.prism.faults.context import JobView
from llmprism.methods.prism.faults.measures.bursts import Bursts
from llmprism.methods.prism.faults.measures.series import healthy
from llmprism.numerics.arrays import Floats, Ints
from llmprism.numerics.missing import finite_median, nanmedian

LONGER = 2.0  # times all other silences of a step: the one before its first collective


@dataclass(frozen=True)
class Hops:
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

    def of(self, places: Ints) -> Hops:
        """The hops of one ring, in its order."""
        return Hops(*(values[places] for values in vars(self).values()))


def hops_of(job: JobView, bursts: Bursts) -> Hops:
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
    return Hops(found[0], found[1], found[2], found[3], total.reshape(hops, job.count))


@dataclass(frozen=True)
class Silence:
    """How long the hops of a ring are silent: before each step, and within it, shape (steps,)."""

    before_ns: Floats
    within_ns: Floats

    @property
    def longer_ns(self) -> Floats:
        """How much longer within a step than within healthy ones."""
        longer: Floats = np.maximum(self.within_ns - healthy(self.within_ns[None, :])[0], 0.0)
        return np.nan_to_num(longer)

    @property
    def works_first(self) -> bool:
        """Whether the hops are silent before the first collective of a healthy step for longest."""
        if not np.isfinite(self.before_ns).any():
            return False
        usual = float(healthy(self.within_ns[None, :])[0])
        return bool(finite_median(self.before_ns) > LONGER * usual)


def silence_of(job: JobView, places: Ints, bursts: Bursts) -> Silence:
    """How long the hops at ``places`` of a class are silent, in the middle."""
    own = np.isin(bursts.place, places)
    place, step = bursts.place[own], bursts.step[own]
    silent = (bursts.start_ns[own][1:] - bursts.end_ns[own][:-1]).astype(np.float64)
    same, within = np.diff(place) == 0, np.diff(step) == 0
    total, number = np.zeros(job.count), np.bincount(step, minlength=job.count)
    np.add.at(total, step[1:][same & within], silent[same & within])
    before = np.full((places.size, job.count), np.nan)
    first = same & ~within
    before[np.searchsorted(np.sort(places), place[1:][first]), step[1:][first]] = silent[first]
    hops = places.size
    return Silence(nanmedian(before, axis=0), np.where(number > 0, total / hops, np.nan))
