"""Bytes under way between the two directions of a pair.

In a pipeline, what one direction sends is answered by the other: activations by gradients. Between
two steps nothing is left to answer. ``D(t)`` is what the direction that begins sent by its starts,
less what the other one sent by its ends. A moment is clean if ``D`` does not fall below it within
the next events. The minimum looks forward only, so an evaluation, whose activations nobody answers,
and a lost record shift all later moments alike.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from llmprism.methods.prism.parameters import ANSWERED, FORWARD_EVENTS, UNDER_WAY
from llmprism.methods.prism.segment.lanes import Lane
from llmprism.numerics.arrays import Bools, Floats


@dataclass(frozen=True)
class Balance:
    """Bytes under way of one pair, after each event, shape (events,).

    Attributes
    ----------
    time : of each event [ns].
    left : bytes that are answered within the next events, in typical records.
    """

    time: Floats
    left: Floats

    def clean(self, low: Floats, high: Floats) -> Bools:
        """Whether nothing is under way at some moment of each silence [low, high]."""
        first = np.maximum(np.searchsorted(self.time, low, side="right") - 1, 0)
        last = np.maximum(np.searchsorted(self.time, high, side="left"), first + 1)
        bounds = np.stack([first, np.minimum(last, self.left.size)], axis=1).ravel()
        padded = np.append(self.left, np.inf)
        least = np.minimum.reduceat(padded, bounds)[::2]
        result: Bools = least <= UNDER_WAY
        return result


def balance_of(lane: Lane, back: Lane) -> Balance | None:
    """Bytes under way between two directions; None if neither answers the other.

    One direction carries far more than the other, or both send at once, as a ring of two does.
    """
    if not 0.5 <= lane.bytes / max(back.bytes, 1.0) <= 2.0:
        return None
    first, second = (lane, back) if _begins(lane, back) else (back, lane)
    if _waited(first, second) < ANSWERED:
        return None
    time, left = _left(first, second, second.end)
    return Balance(time, left)


def _left(first: Lane, second: Lane, answered: Floats) -> tuple[Floats, Floats]:
    """Times, and what is under way after each, if ``second`` answers at the times ``answered``."""
    time = np.concatenate((first.start, answered))
    change = np.concatenate((first.size, -second.size))
    order = np.argsort(time, kind="stable")
    under_way = np.cumsum(change[order])
    ahead = np.concatenate((under_way[1:], np.full(FORWARD_EVENTS, under_way[-1])))
    forward = sliding_window_view(ahead, FORWARD_EVENTS).min(axis=1)
    left = (under_way - forward[: under_way.size]) / max(first.typical, second.typical)
    return time[order], left


def _waited(first: Lane, second: Lane) -> float:
    """Time in which half a record has no answer begun, beside that in which something is sent.

    A silence in which nothing is under way does not count, however long.
    """
    time, left = _left(first, second, second.start)
    waits = np.diff(time)[left[:-1] > 0.5].sum()
    return float(waits / max(first.sending_ns + second.sending_ns, waits, 1.0))


def _begins(lane: Lane, back: Lane) -> bool:
    return (lane.start[0], not lane.forth) <= (back.start[0], not back.forth)
