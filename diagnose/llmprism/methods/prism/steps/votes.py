"""Which number of steps the classes of a component agree on.

Every class proposes divisions into equal parts. Some are equal by chance, and some are too fine.
Each division is a vote for its number of parts. It counts more if its parts are more equal, and if
the silences between them are clearer.

Steps move the same messages. Layers of sharded parameters, or buckets of gradients, may be parts
of equal volume although one holds a message where another holds two: in a recording of a step or
two they look like steps of one or two messages. Nothing is asked of parts that silences cut clearly
or that hold many messages: chance does not make these.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from llmprism.methods.prism.classes.classes import Component, TrafficClass
from llmprism.methods.prism.cycles.cycles import Division
from llmprism.methods.prism.cycles.divisions import divisions
from llmprism.methods.prism.cycles.parts import regularity
from llmprism.methods.prism.parameters import EQUAL, FEWEST, QUARTER, SMALL
from llmprism.methods.prism.records.repeated_sizes import MOST, are_messages
from llmprism.methods.prism.steps.assignment import is_cut
from llmprism.methods.prism.steps.coarser import are_pieces
from llmprism.methods.prism.steps.paused import is_paused, lacks_gradients
from llmprism.methods.prism.steps.proposals import GOOD, Proposals, of_count, parts_held
from llmprism.methods.prism.steps.repeated_bytes import RepeatedBytes
from llmprism.methods.prism.steps.silences import lengthened
from llmprism.numerics.arrays import Bools, Ints

FEW = 5  # parts: as many may be equal by chance
LASTING = 0.4  # share of the time of the longest class
QUALITY = 0.98  # quality of steps that nothing explains but training
CLEAR = 3.0  # clarity of steps that nothing explains but training
MANY = 4  # messages of a connection in a part, above which equal volumes are no chance
UNCLEAR = 1.5  # clarity below which a silence inside a part may be as long as one that cuts
SINGLE = 1.2  # messages of a connection in a part that is a single collective

_SOME = 0.4  # ... that makes a finer count worth a look: a habit cuts more clearly than steps
_CLOSE = 0.5  # share of the best vote that makes a coarser count worth a look
_NEAR = 0.03  # difference in votes that decides nothing


@dataclass(frozen=True)
class Agreement:
    """What the classes of a component propose, and agree on.

    Attributes
    ----------
    count : number of steps; 0 if there is none.
    every : all divisions of each class.
    proposed : those of them whose bytes may be those of steps.
    """

    count: int
    every: list[list[Division]]
    proposed: list[list[Division]]


def agreement_of(component: Component, repeats: list[RepeatedBytes]) -> Agreement:
    """The number of steps that the classes agree on, and the divisions of each class.

    If it is so small that it may be chance, brief classes count that show more steps clearly.
    ``repeats``: after how many bytes the records of each class begin again.
    """
    lasting = _lasting(component)
    every = [
        _divisions(one) if lasts else []
        for one, lasts in zip(component.classes, lasting, strict=True)
    ]
    proposed = [_repeating(own, which) for own, which in zip(every, repeats, strict=True)]
    count = agreed(Proposals(component.classes, proposed))
    if count <= FEW:
        brief = [
            [] if lasts else _clear(divisions(one.traffic, FEWEST, passes=one.passes))
            for one, lasts in zip(component.classes, lasting, strict=True)
        ]
        shown = agreed(Proposals(component.classes, brief))
        if shown:
            return Agreement(shown, brief, brief)
    return Agreement(count, every, proposed)


def _divisions(one: TrafficClass) -> list[Division]:
    """All divisions of a class; and that of its best one in which every k-th part takes longer."""
    found = divisions(one.traffic, FEWEST, passes=one.passes)
    best = max(found, key=lambda division: division.weight, default=None)
    longer = None if best is None or one.two_way else lengthened(one.traffic, best)
    return found if longer is None else [*found, longer]


def _lasting(component: Component) -> list[bool]:
    """Which classes are active for a good part of the time of the longest, and not only once.

    Classes that move little do not count as the longest: a service may go on after the job.
    """
    spans = []
    for one in component.classes:
        moved = np.cumsum(one.traffic.size, dtype=np.float64)
        middle = np.searchsorted(moved, moved[-1] * np.array([0.05, 0.95]))
        spans.append(float(np.diff(one.traffic.start_ns[middle])[0]))
    total = sum(one.bytes for one in component.classes)
    large = [one.bytes >= SMALL * total for one in component.classes]
    longest = max(span for span, counts in zip(spans, large, strict=True) if counts)
    return [span >= LASTING * longest for span in spans]


def _repeating(own: list[Division], repeats: RepeatedBytes) -> list[Division]:
    """A class's divisions, without those whose bytes are not those of any number of steps."""
    records = len(repeats.traffic)
    return [
        one for one in own
        if not repeats.denies(one.part_of(records), evaluated=one.evaluated)
    ]  # fmt: skip


def _clear(own: list[Division]) -> list[Division]:
    """Divisions that show steps where traffic goes on for far longer: a job among services."""
    return [
        one for one in own
        if len(one) > FEW and one.quality >= QUALITY and one.clarity >= CLEAR
    ]  # fmt: skip


def agreed(proposals: Proposals) -> int:
    """The number of parts that most classes agree on; 0 if there is none."""
    votes = _votes(proposals)
    if not votes:
        return _agreed_in_time(proposals)
    top = max(votes.values())
    chosen = max(votes, key=lambda count: (votes[count], count))
    counts = sorted(c for c, vote in votes.items() if vote >= _CLOSE * top)
    some = [c for c, vote in votes.items() if c > chosen and vote >= _SOME * top]
    paused = [c for c in some if is_paused(proposals, c, chosen)]
    if paused:
        return max(paused, key=lambda count: votes[count])
    chosen = max(c for c in counts if c % chosen == 0 and votes[c] >= (1 - _NEAR) * top)
    for coarser in sorted((c for c in counts if c < chosen), reverse=True):
        if parts_held(proposals, chosen, coarser) > 1 and are_pieces(proposals, chosen, coarser):
            chosen = coarser
    return without_splits(proposals, chosen)


def _votes(proposals: Proposals) -> dict[int, float]:
    """How much all classes speak for each number of parts that may be steps.

    Parts of a single record are equal if records are, also where records were lost. So a vote
    counts the less the fewer records a part has. Parts of equal bytes in other messages may be no
    steps; they count where a class with equal messages has as many. Some classes may not move in a
    part that the records do not show whole. So such parts also speak for the one fewer that others
    have.
    """
    votes: dict[int, float] = {}
    others: dict[int, float] = {}
    whole: dict[int, float] = {}
    for one, own in proposals.each():
        by_count = _by_count(own)
        for count, alike in by_count.items():
            best = max(alike, key=lambda division: division.weight)
            if best.quality < GOOD or several_collectives(one, best):
                continue
            side = votes if same_messages(one, best) else others
            vote = best.weight * (1 - count / (len(one.traffic) + 1))
            side[count] = side.get(count, 0.0) + vote
            if is_cut(best) and count - 1 not in by_count:
                whole[count - 1] = whole.get(count - 1, 0.0) + vote
    return {
        count: vote + others.get(count, 0.0) + whole.get(count, 0.0)
        for count, vote in votes.items()
        if not lacks_gradients(proposals, count)
    }


def without_splits(proposals: Proposals, chosen: int) -> int:
    """The number of steps if a few of the ``chosen`` parts are parts of one, split by a silence.

    All classes that show that number have equal parts without a few of the cuts, and unequal ones
    with them, but for those of which the records show the first or the last part in part.
    """
    few = range(chosen - 1, int((1 - QUARTER) * chosen), -1)
    for count in few:
        both = [(of_count(own, chosen), of_count(own, count)) for own in proposals.divisions]
        shown = [
            (finer, whole)
            for finer, whole in both
            if finer is not None and not (count == chosen - 1 and is_cut(finer))
        ]
        if shown and all(
            whole is not None
            and finer.quality < QUALITY <= whole.quality
            and np.ptp(whole.volumes) <= EQUAL * np.median(whole.volumes)
            and np.isin(whole.cuts, finer.cuts).all()
            for finer, whole in shown
        ):
            return count
    return chosen


def _by_count(own: Sequence[Division]) -> dict[int, list[Division]]:
    """Divisions of one class by their number of parts, from FEWEST on."""
    alike: dict[int, list[Division]] = {}
    for division in own:
        if len(division) >= FEWEST:
            alike.setdefault(len(division), []).append(division)
    return alike


def _agreed_in_time(proposals: Proposals) -> int:
    """Where volumes do not repeat (records are lost): clear cuts at regular times."""
    votes: dict[int, float] = {}
    for one, own in proposals.each():
        for division in own:
            clear = division.clarity >= 3.0 and len(division) >= FEWEST + 1
            if clear and not several_collectives(one, division):
                lengths = np.diff(one.traffic.start_ns[division.firsts]).astype(np.float64)
                tolerance, parts, _ = regularity(lengths)
                if np.isfinite(tolerance):
                    weight = parts * (1.0 - 1.0 / division.clarity)
                    votes[len(division)] = votes.get(len(division), 0.0) + weight
    return max(votes, key=lambda count: votes[count]) if votes else 0


def same_messages(one: TrafficClass, division: Division) -> bool:
    """Whether most parts have about as many messages of the usual size, or others that recur."""
    records = len(one.traffic)
    if division.clarity >= UNCLEAR or records > MANY * len(division) * one.connections.size:
        return True
    if not are_messages(one.traffic.size):
        return True
    held = np.bincount(division.part_of(records)[_usual(one.traffic.size)], minlength=len(division))
    return bool(np.isfinite(regularity(held.astype(np.float64))[0]) and np.median(held) > 0)


def several_collectives(one: TrafficClass, division: Division) -> bool:
    """Whether parts are single collectives of several sizes: buckets, not steps of one bucket.

    The messages of a collective have one size. Sampling and merging change each on its own.
    """
    size = one.traffic.size
    if size.size > SINGLE * len(division) * one.connections.size:
        return False
    most = np.maximum.reduceat(size, division.firsts)[division.part_of(size.size)]
    alike = np.abs(size - most) <= EQUAL * most
    usual = _usual(size)
    return bool(alike.mean() >= MOST and size[usual].sum() < MOST * size.sum())


def _usual(size: Ints) -> Bools:
    """Which messages have the size in which the median byte travels."""
    order = np.sort(size)
    moved = np.cumsum(order, dtype=np.float64)
    usual = order[np.searchsorted(moved, moved[-1] / 2)]
    near: Bools = np.abs(size - usual) <= EQUAL * usual
    return near
