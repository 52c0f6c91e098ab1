"""Which part of the network lost the time that transfers lost on the wire?

The time that the records of a connection last, summed over a step, is its time on the wire. A
transfer that is slow, or that stalls and goes on, is longer on the wire for the same bytes, by
about as much as it delays the job. So time shows what a pace does not: how much each connection
lost, whether in all its messages or in one of them.

A part that is slow delays all that cross it, and nothing else. How well that describes what was
lost is the share of its squares that the best value for the part explains (R squared). It is
the product of two shares: of the squares that cross the part (*coverage*), and of what crosses the
part that all of it lost alike (*purity*).

All hops of a collective group wait for the slowest one, and the exporter may count that as time
on the wire. So what the hop lost that lost least, all of them lost by waiting. Rings with the same
hops between servers wait for each other, too: all of them move one collective, and the next one
begins when they are done. So what all hops of the ring lost that lost least all rings lost by
waiting, unless they lost about as much.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from llmprism.methods.prism.faults.measures.hops import ARROW, IN, OUT
from llmprism.methods.prism.faults.measures.rates import Rates
from llmprism.methods.prism.faults.measures.series import SHORTEST, judged, stretches
from llmprism.methods.prism.faults.measures.tomography import Part
from llmprism.numerics.arrays import Floats
from llmprism.numerics.missing import nanmedian, row_deviations

SURELY = 3.0  # deviations of a mean: what is lost by less may be chance
LEAST = 0.01  # of a step: what a finding costs at least
MOST = 0.75  # of the steps: what lasts for longer is usual, and the exporter cuts the others
ALIKE = 0.7  # of what a ring lost: another one that lost as much is as slow
FAR_LESS = 0.1  # of what the worst step of a stretch loses: others have another reason
FEWEST = 2  # hops of a ring that show what waiting ones lose
HALF = 0.5  # of the other transfers of a switch: so many are slow, too, if it is the switch
PAIR = 2  # connections of a group that are one conversation: neither waits for the other

Bundle = tuple[frozenset[str], float]
"""Parts of the network that something crosses, and the time that it lost."""

Costs = Callable[[int, int], bool]
"""Whether a job is slower from one step to another one."""


@dataclass(frozen=True)
class LostTime:
    """What each connection of a job lost in the steps of a stretch, compared with other steps.

    Attributes
    ----------
    rates : of the connections.
    share : time on the wire beyond that of other steps, as a share of a step; NaN: unknown. What
        may be chance is 0, and so is what all of its group lost, or what is lost by waiting.
    whole : the same with what all of its group lost.
    ratio : time on the wire over the healthy one.
    """

    rates: Rates
    share: Floats
    whole: Floats
    ratio: Floats

    @property
    def crossed(self) -> frozenset[str]:
        """The parts of the network that something crosses that lost time."""
        at = np.flatnonzero(np.nan_to_num(self.share) > 0)
        return frozenset().union(*(self.rates.crosses[row] for row in at.tolist()))

    @property
    def kinds(self) -> list[str]:
        """The kinds of traffic that lost time."""
        at = np.flatnonzero(np.nan_to_num(self.share) > 0)
        return sorted({self.rates.kind[row] for row in at.tolist()})

    def worst_across(self, part: str) -> tuple[float, float]:
        """What the connection across ``part`` that lost most lost, and its ratio."""
        across = np.array([part in crossed for crossed in self.rates.crosses], np.bool_)
        row = int(np.argmax(np.where(across, np.nan_to_num(self.whole), -1.0)))
        return float(self.whole[row]), float(self.ratio[row])

    def all_across(self, part: str) -> bool:
        """Whether every connection whose time is known crosses ``part``."""
        known = np.flatnonzero(np.isfinite(self.share)).tolist()
        return all(part in self.rates.crosses[row] for row in known)

    def lost_beside(self, part: str, within: str) -> bool:
        """Whether what crosses ``within`` but not ``part`` lost more than what crosses neither.

        Hops of one ring are compared: those that wait lost about as much. Fewer transfers share
        their link, so they lose less than those across ``part`` do.
        """
        narrow, wide = (
            np.array([name in crossed for crossed in self.rates.crosses], np.bool_)
            for name in (part, within)
        )
        most = float(np.nan_to_num(self.share[narrow & wide]).max(initial=0.0))
        if most < LEAST:
            return False
        least = max(LEAST, FAR_LESS * most)
        more = []
        for row in np.flatnonzero(wide & ~narrow & np.isfinite(self.share)).tolist():
            peers = self.share[(self.rates.group == self.rates.group[row]) & ~wide]
            peers = peers[np.isfinite(peers)]
            if self.rates.group[row] >= 0 and peers.size >= FEWEST:
                more.append(self.share[row] > peers.max() + least)
        return bool(more) and float(np.mean(more)) >= HALF

    def sum_across(self, part: str) -> float | None:
        """What all connections across ``part`` lost together; None if some are not known."""
        across = np.array([part in crossed for crossed in self.rates.crosses], np.bool_)
        own = self.whole[across]
        return float(np.maximum(own, 0).sum()) if np.isfinite(own).all() else None


def lost_in(rates: Rates, first: int, last: int) -> LostTime:
    """What each connection lost in a stretch, mean over its steps."""
    inside = np.zeros(rates.lost.shape[1], np.bool_)
    inside[first : last + 1] = True
    usual = nanmedian(rates.lost[:, ~inside], axis=1)
    spread = row_deviations(rates.lost[:, ~inside])
    count = np.isfinite(rates.lost[:, inside]).sum(axis=1)
    whole = _mean(rates.lost[:, inside]) - usual
    whole[whole < SURELY * spread / np.sqrt(np.maximum(count, 1))] = 0.0
    share = whole.copy()
    if rates.ends is not None:
        share *= rates.ends.own_share(rates.lost, first, last)
    for group in np.unique(rates.group[rates.group >= 0]).tolist():
        own = np.flatnonzero((rates.group == group) & np.isfinite(share))
        if own.size > PAIR:
            share[own] -= share[own].min()
    share = np.maximum(share - _by_other_rings(rates, share), 0.0)
    return LostTime(rates, share, whole, _mean(rates.busy[:, inside]))


def _by_other_rings(rates: Rates, share: Floats) -> Floats:
    """What each connection lost because its ring waited for another one with the same hops."""
    waited = np.zeros(share.size)
    if rates.ends is None:
        return waited
    family = rates.ends.family
    for one in np.unique(family[family >= 0]).tolist():
        own = np.flatnonzero((family == one) & np.isfinite(share))
        of_rings = [share[own[rates.group[own] == ring]].min() for ring in {*rates.group[own]}]
        if len(of_rings) > 1 and min(of_rings) < ALIKE * max(of_rings):
            waited[own] = min(of_rings)
    return waited


def _mean(values: Floats) -> Floats:
    """Mean of each series; NaN where nothing is known, silently."""
    known = np.isfinite(values)
    count = np.where(known.any(axis=1), known.sum(axis=1), np.nan)
    mean: Floats = np.where(known, values, 0.0).sum(axis=1) / count
    return mean


def explained(lost: Sequence[LostTime]) -> list[Part]:
    """All parts, those first that explain best what connections of some jobs lost.

    Both directions of a conversation are one for a part as a whole: a transfer needs its answers.
    """
    ways: list[Bundle] = []
    both: dict[tuple[int, int], list[Bundle]] = {}
    for job, one in enumerate(lost):
        for row in np.flatnonzero(np.isfinite(one.share)).tolist():
            ways.append((one.rates.crosses[row], float(one.share[row])))
            both.setdefault((job, int(one.rates.conversation[row])), []).append(ways[-1])
    whole = [
        (frozenset().union(*(crossed for crossed, _ in own)), max(value for _, value in own))
        for own in both.values()
    ]
    found = [*_parts(ways, directed=True), *_parts(whole, directed=False)]
    return sorted(found, key=lambda part: (-round(part.score, 6), ARROW in part.name, part.name))


def _parts(bundles: Sequence[Bundle], *, directed: bool) -> list[Part]:
    total = sum(value**2 for _, value in bundles)
    across: dict[str, list[float]] = {}
    for cross, value in bundles:
        for name in cross:
            if (ARROW in name) == directed:
                across.setdefault(name, []).append(value)
    return [_part(name, own, total) for name, own in across.items() if any(own)]


def _part(name: str, lost: Sequence[float], total: float) -> Part:
    squares = sum(value**2 for value in lost)
    purity = sum(lost) ** 2 / len(lost) / squares
    return Part(name, squares / total, purity, sum(value > 0 for value in lost))


def windows_of(rates: Rates, costs: Costs) -> list[tuple[int, int]]:
    """Stretches worth an explanation: the heaviest, without those that overlap one.

    Stretches in which a connection or a NIC loses time on the wire.
    """
    weighed = []
    nics = _nics(rates)
    by_nic = [np.fmax.reduce(rates.lost[own], axis=0) for own in nics]
    lost = np.vstack((rates.lost, *by_nic))
    finest = np.concatenate((rates.finest, [rates.finest[own].max() for own in nics]))
    out = judged(1 + lost, LEAST, finest).lasting
    out &= (out.mean(axis=1) <= MOST)[:, None]
    for steps, values in zip(out, np.where(out, np.nan_to_num(lost), 0.0), strict=True):
        for stretch in stretches(steps):
            first, last = _without_far_less(values, *stretch)
            weighed.append((-round(float(values[first : last + 1].sum()), 6), first, last))
    return heaviest(weighed, costs)


def _without_far_less(lost: Floats, first: int, last: int) -> tuple[int, int]:
    """A stretch without steps at its ends that lose far less than its worst one, if any is left.

    Where a connection is steady, a step that loses next to nothing is out as well.
    """
    inside = lost[first : last + 1]
    at = np.flatnonzero(inside >= FAR_LESS * inside.max())
    own = first + int(at[0]), first + int(at[-1])
    return own if own[1] - own[0] + 1 >= SHORTEST else (first, last)


def heaviest(weighed: Sequence[tuple[float, int, int]], costs: Costs) -> list[tuple[int, int]]:
    """Stretches without those that overlap one whose weight is smaller; (weight, first, last).

    Those that cost the job time come first, as it is they that need an explanation: transfers may
    well be slower while the job is as fast as ever.
    """
    costly = {extent: costs(*extent) for extent in {(first, last) for _, first, last in weighed}}
    chosen: list[tuple[int, int]] = []
    for _, first, last in sorted(weighed, key=lambda one: (not costly[one[1:]], one)):
        if all(min(last, end) - max(first, begin) < 0 for begin, end in chosen):
            chosen.append((first, last))
    return sorted(chosen)


def _nics(rates: Rates) -> list[list[int]]:
    """The connections of each NIC."""
    rows: dict[str, list[int]] = {}
    for row, crossed in enumerate(rates.crosses):
        for part in crossed:
            if part.endswith((OUT, IN)):
                rows.setdefault(part.split(ARROW)[0], []).append(row)
    return list(rows.values())
