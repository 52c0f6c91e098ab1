"""The number of steps of a component of lanes, by a vote of all levels of its lanes."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np

from llmprism.methods.prism.parameters import (
    BYTES_WEIGHT,
    CONTRAST_SCALE,
    DOUBTED,
    NEAR_BEST,
    QUALITY_WEIGHT,
    SAME_STEPS,
)
from llmprism.methods.prism.segment.lanes import Lane
from llmprism.methods.prism.segment.levels import Level, preferred

Vote = tuple[int, float, int, Level]
"""Number of parts, weight, lane and level."""


@dataclass(frozen=True)
class Election:
    """What the lanes of a component elected.

    Attributes
    ----------
    steps : number of steps.
    levels : level of each lane that has this number, by index of the lane.
    lead : lane whose vote was strongest.
    weight : of the votes for about as many steps.
    """

    steps: int
    levels: dict[int, Level]
    lead: int
    weight: float


def elect(
    lanes: list[Lane],
    levels: list[list[Level]],
    answered: Collection[int],
    near: int | None = None,
    besides: int | None = None,
) -> Election | None:
    """Elect the number of steps of the ``lanes``; None if nothing repeats.

    It is ``near`` a given number, or not near that which was elected ``besides``.

    ``answered`` are the lanes whose bytes under way are known. They place a border best, since they
    are silent for the shortest time at it. They also tell a step from what follows every few steps,
    so the others are not in doubt about the number that one of them prefers.
    """
    votes: list[Vote] = []
    first = [preferred(own, number in answered) for number, own in enumerate(levels)]
    told = _told([level for number in answered if (level := first[number]) is not None])
    for number, lane in enumerate(lanes):
        weight = lane.bytes**BYTES_WEIGHT
        best = max((level.quality for level in levels[number]), default=0.0)
        for level in levels[number]:
            strength = weight * level.quality**QUALITY_WEIGHT
            strength *= 1.1 - np.exp(-max(level.contrast, 0.0) / CONTRAST_SCALE)
            is_told = level.parts in told and level.quality >= NEAR_BEST * best
            strength *= 1.0 if level is first[number] or is_told else DOUBTED
            open_ = near is None or abs(level.parts / near - 1) <= SAME_STEPS
            open_ &= besides is None or abs(level.parts / besides - 1) > SAME_STEPS
            if strength > 0 and open_:
                votes.append((level.parts, strength, number, level))
    if not votes:
        return None
    parts = np.array([vote[0] for vote in votes], float)
    strength = np.array([vote[1] for vote in votes])
    lane_of = np.array([vote[2] for vote in votes])
    best, supporters = 0.0, np.zeros(0, int)
    for number in np.unique(parts):
        alike = np.flatnonzero(np.abs(parts / number - 1) <= SAME_STEPS)
        alike = alike[np.lexsort((-strength[alike], lane_of[alike]))]
        alike = alike[np.unique(lane_of[alike], return_index=True)[1]]
        if strength[alike].sum() > best:
            best, supporters = float(strength[alike].sum()), alike
    exact = np.unique(parts[supporters])
    steps = max(exact, key=lambda n: float(strength[supporters][parts[supporters] == n].sum()))
    agree = supporters[parts[supporters] == steps]
    lead = _lead([votes[vote] for vote in agree], answered)
    chosen = {int(lane_of[vote]): votes[vote][3] for vote in agree}
    return Election(int(steps), chosen, lead, best)


def _told(levels: list[Level]) -> set[int]:
    """Numbers of steps that the best of some ``levels`` tell."""
    best = max((level.quality for level in levels), default=0.0)
    return {level.parts for level in levels if level.quality >= NEAR_BEST * best}


def _lead(votes: list[Vote], answered: Collection[int]) -> int:
    """The lane that shows the borders best."""
    best = max(vote[3].quality for vote in votes)
    good = [vote for vote in votes if vote[3].quality >= NEAR_BEST * best]
    pairs = [vote for vote in good if vote[2] in answered]
    if pairs:
        return min(pairs, key=lambda vote: vote[3].silence_ns)[2]
    return max(votes, key=lambda vote: vote[1])[2]
