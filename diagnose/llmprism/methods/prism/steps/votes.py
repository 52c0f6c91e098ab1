"""Which number of steps the classes of a component agree on.

Every class proposes divisions into equal parts. Some are equal by chance, and some are too fine.
Each division is a vote for its number of parts. It counts more if its parts are more equal, and if
the silences between them are clearer.
"""

from __future__ import annotations

import numpy as np

from llmprism.methods.prism.classes.classes import TrafficClass
from llmprism.methods.prism.cycles.cycles import Division
from llmprism.methods.prism.cycles.parts import regularity
from llmprism.methods.prism.steps.assignment import SAME_SPREAD, is_cut
from llmprism.methods.prism.steps.coarser import is_paused, is_step, lacks_gradients
from llmprism.methods.prism.steps.messages import same_messages, several_collectives
from llmprism.methods.prism.steps.silences import (
    GOOD,
    are_halves,
    of_count,
    show_micro_batches,
)

FEWEST = 3  # steps
EQUAL = 0.98  # quality of steps that nothing explains but training
CLEAR = 3.0  # clarity of steps that nothing explains but training
SPLIT_MESSAGES = 0.02  # of the messages: what an exporter cuts in two
SPLIT = 0.2  # share of the parts that a silence inside a step may have made
_CLOSE = 0.5  # share of the best vote that makes a coarser count worth a look
_NEAR = 0.03  # difference in votes that decides nothing


def agreed(
    classes: tuple[TrafficClass, ...], proposed: list[list[Division]], single: bool = False
) -> int:
    """The number of parts that most classes agree on; 0 if there is none.

    Parts of a single record are equal if records are, also where records were lost. So a vote
    counts the less the fewer records a part has. Parts of equal bytes in other messages may be no
    steps; they count where a class with equal messages has as many. Some classes may not move in a
    part that the records do not show whole. So such parts also speak for the one fewer that others
    have. ``single``: whether each server has one rank.
    """
    votes: dict[int, float] = {}
    others: dict[int, float] = {}
    whole: dict[int, float] = {}
    for one, own in zip(classes, proposed, strict=True):
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
    votes = {
        count: vote + others.get(count, 0.0) + whole.get(count, 0.0)
        for count, vote in votes.items()
        if not lacks_gradients(classes, proposed, count)
    }
    if not votes:
        return _agreed_in_time(classes, proposed)
    top = max(votes.values())
    chosen = max(votes, key=lambda count: (votes[count], count))
    counts = sorted(c for c, vote in votes.items() if vote >= _CLOSE * top)
    paused = [c for c in counts if is_paused(classes, proposed, c, chosen, single)]
    if paused:
        return max(paused, key=lambda count: votes[count])
    chosen = max(c for c in counts if c % chosen == 0 and votes[c] >= (1 - _NEAR) * top)
    for coarser in sorted((c for c in votes if c < chosen), reverse=True):
        is_one = is_step if coarser in counts else show_micro_batches
        both = (proposed, chosen, coarser)
        parted = chosen % coarser == 0 or are_halves(*both)
        if parted and is_one(classes, *both, single):
            chosen = coarser
    return without_splits(proposed, _of_pipeline(classes, proposed, chosen))


def _of_pipeline(
    classes: tuple[TrafficClass, ...], proposed: list[list[Division]], chosen: int
) -> int:
    """The number of steps that a pipeline shows, if the ``chosen`` parts are its micro-batches.

    Stages that shard their parameters gather and reduce in every micro-batch, and rest while they
    wait for each other. The pipeline passes on a message each way in every micro-batch, or one for
    each chunk, and rests at the end of a step.
    """
    for one, own in zip(classes, proposed, strict=True):
        if not one.two_way or of_count(own, chosen) is not None:
            continue
        for division in own:
            every, rest = divmod(chosen, len(division))
            clear = division.quality >= EQUAL and division.clarity >= CLEAR
            if clear and not rest and every > 1 and len(division) >= FEWEST:
                messages = len(one.traffic) / (len(division) * one.connections.size * every)
                if messages >= 1 and abs(messages - round(messages)) <= SPLIT_MESSAGES:
                    return len(division)
    return chosen


def without_splits(proposed: list[list[Division]], chosen: int) -> int:
    """The number of steps if a few of the ``chosen`` parts are parts of one, split by a silence.

    All classes that show that number have equal parts without a few of the cuts, and unequal ones
    with them, but for those of which the records show the first or the last part in part.
    """
    few = range(chosen - 1, int((1 - SPLIT) * chosen), -1)
    for count in few:
        both = [(of_count(own, chosen), of_count(own, count)) for own in proposed]
        shown = [
            (finer, whole)
            for finer, whole in both
            if finer is not None and not (count == chosen - 1 and is_cut(finer))
        ]
        if shown and all(
            whole is not None
            and finer.quality < EQUAL <= whole.quality
            and np.ptp(whole.volumes) <= SAME_SPREAD * np.median(whole.volumes)
            and np.isin(whole.cuts, finer.cuts).all()
            for finer, whole in shown
        ):
            return count
    return chosen


def _by_count(own: list[Division]) -> dict[int, list[Division]]:
    """Divisions of one class by their number of parts, from FEWEST on."""
    alike: dict[int, list[Division]] = {}
    for division in own:
        if len(division) >= FEWEST:
            alike.setdefault(len(division), []).append(division)
    return alike


def _agreed_in_time(classes: tuple[TrafficClass, ...], proposed: list[list[Division]]) -> int:
    """Where volumes do not repeat (records are lost): clear cuts at regular times."""
    votes: dict[int, float] = {}
    for one, own in zip(classes, proposed, strict=True):
        for division in own:
            clear = division.clarity >= 3.0 and len(division) >= FEWEST + 1
            if clear and not several_collectives(one, division):
                lengths = np.diff(one.traffic.start_ns[division.firsts]).astype(np.float64)
                tolerance, parts, _ = regularity(lengths)
                if np.isfinite(tolerance):
                    weight = parts * (1.0 - 1.0 / division.clarity)
                    votes[len(division)] = votes.get(len(division), 0.0) + weight
    return max(votes, key=lambda count: votes[count]) if votes else 0
