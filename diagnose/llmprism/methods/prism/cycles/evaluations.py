"""Steps with an evaluation between some of them, where both gather sharded parameters.

An evaluation after some steps makes parts of unequal bytes: a step, or a step and an evaluation.
Several steps and one evaluation are equal parts again, and too coarse. The sizes of messages tell
the two apart. Every step reduces gradients, in messages of a size of their own (a gradient has
other bytes than a parameter), and an evaluation reduces nothing. So the cuts are right if

- every part moves as much in messages of one size, the gradients; a part without any is an
  evaluation and belongs to the part before it, not the forward pass of every step;
- many parts are equal in all their bytes, and the others hold more, all as much;
- of what they hold more of, every part holds some, since a step of sharded parameters gathers, too.
  Micro-batches that reduce their gradients, the last one with the gathers of the step, do not.
  After many of them, these gathers are so few of all bytes that none of their sizes is prominent.

In a pipeline whose gradients stay inside servers, activations and their gradients are all there is,
of one size. Then the direction that moves less is that of gradients.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from llmprism.methods.prism.cycles.balance import EVEN, both_ways
from llmprism.methods.prism.cycles.parts import FEW
from llmprism.methods.prism.parameters import EQUAL, HALF, SMALL
from llmprism.numerics.arrays import Bools, Codes, Floats, Ints

SINGLE = 0.4  # share of parts that are a step alone: an evaluation follows every other step at most
MOST_SIZES = 6  # of messages that are prominent: of more, none shows where evaluations are


@dataclass(frozen=True)
class Sizes:
    """Bytes before each record: ``every``, and ``of`` the messages of each prominent size."""

    every: Floats
    of: tuple[Floats, ...]


def sizes_of(size: Ints) -> Sizes:
    """The prominent sizes among messages of ``size``; none if only one is."""
    distinct, which = np.unique(size, return_inverse=True)
    bytes_ = np.bincount(which, size)
    chosen: list[float] = []
    for at in np.argsort(-bytes_)[: 2 * MOST_SIZES].tolist():
        known = any(abs(distinct[at] - one) <= EQUAL * one for one in chosen)
        if bytes_[at] >= SMALL * bytes_.sum() and not known:
            chosen.append(float(distinct[at]))
    everything = bytes_before(size)
    if not 1 < len(chosen) <= MOST_SIZES:
        return Sizes(everything, ())
    return Sizes(
        everything, tuple(bytes_before(size, np.abs(size - one) <= EQUAL * one) for one in chosen)
    )


def with_directions(sizes: Sizes, couple: Codes, forth: Bools, size: Ints) -> Sizes:
    """``sizes``, or the two directions of a pipeline that moves more activations than gradients.

    ``couple``, ``forth`` and ``size`` are of the records
    (:class:`~llmprism.methods.prism.cycles.cycles.Traffic`). An evaluation brings no gradients, so
    all couples move more in one direction, and as much more.
    """
    gradients = gradients_of(couple, forth, size)
    if gradients is None:
        return sizes
    return Sizes(sizes.every, (bytes_before(size, gradients), bytes_before(size, ~gradients)))


def gradients_of(couple: Codes, forth: Bools, size: Ints) -> Bools | None:
    """Which records go the way that moves less; None unless it is the same share in all couples."""
    volume = both_ways(couple, forth, size)
    less, more = volume.min(axis=1), volume.max(axis=1)
    if not less.size or (less <= 0).any() or (more <= (1 + EVEN) * less).any():
        return None
    if not _equal(more / less):
        return None
    chosen: Bools = forth == (volume[:, 1] < volume[:, 0])[couple]
    return chosen


def steps_and_evaluations(cuts: Ints, sizes: Sizes) -> Ints | None:
    """Those of the ``cuts`` that begin a step, if some parts hold an evaluation; else None."""
    every = np.concatenate(([0], cuts, [sizes.every.size - 1]))
    for gradients in sizes.of:
        edges = _without_openings(every, gradients, sizes.every)
        begins = edges[:-1][np.diff(gradients[edges]) > 0]
        if begins.size < FEW:
            continue
        whole = np.concatenate(([0], begins[1:], edges[-1:]))
        pieces = np.diff(np.searchsorted(edges, whole))
        if _are_steps(gradients, whole, pieces, sizes):
            return whole[1:-1]
    return None


def _without_openings(edges: Ints, gradients: Floats, every: Floats) -> Ints:
    """``edges`` without those that part the first message of a step from the rest of it.

    A rank may be ready before the others, and then wait for them. An evaluation moves more.
    """
    held, moved = np.diff(gradients[edges]) > 0, np.diff(every[edges])
    little = ~held & (moved <= EVEN * np.median(moved[held])) if held.any() else ~held
    opening = np.flatnonzero(little[:-1] & held[1:]) + 1
    return np.delete(edges, opening)


def _are_steps(gradients: Floats, edges: Ints, pieces: Ints, sizes: Sizes) -> bool:
    """Whether the parts between ``edges`` are steps, and some of them hold an evaluation.

    Parts with an evaluation may be of several ``pieces``. The first and the last part may be cut
    off by the window, so they may hold less than the others, but no more.
    """
    every = np.diff(sizes.every[edges])
    volume = every[1:-1]
    if max(every[0], every[-1]) > (1 + EVEN) * volume.max():
        return False
    single = volume <= (1 + EVEN) * volume.min()
    if (pieces[1:-1][single] > 1).any():
        return False
    more = volume[~single]
    if more.size == 0 or single.mean() < SINGLE or np.ptp(more) > EVEN * more.max():
        return False
    if more.size == 1 and _whole(more / volume[single].mean()):
        return False  # one part of several steps, the messages of which were cut or joined
    if not _equal(np.diff(gradients[edges])[1:-1]):
        return False
    known = 0.0
    for one in sizes.of:
        own = np.diff(one[edges])[1:-1]
        usual = float(np.median(own[single]))
        if own.min() < (1 - SMALL) * usual or (usual == 0 and own.max() > 0):
            return False
        known += float(np.median(own[~single])) - usual
    return known >= HALF * float(np.median(more) - np.median(volume[single]))


def _whole(ratio: Floats) -> bool:
    return bool((np.abs(ratio - np.rint(ratio)) <= EVEN * ratio).all())


def _equal(volume: Floats) -> bool:
    return bool(np.ptp(volume) <= EVEN * volume.max())


def beyond_steps(couple: Codes, forth: Bools, part: Codes, size: Ints) -> Bools:
    """Which records are of an evaluation, as it follows a step in the same part, or precedes it.

    Each direction of a couple moves as many bytes in every step. In a pipeline gradients come last
    in a step, so in each part where they come last, the evaluation precedes them.
    """
    follows = _after_usual(couple, forth, part, size)
    gradients = gradients_of(couple, forth, size)
    if gradients is None:
        return follows
    precedes = _after_usual(couple[::-1], forth[::-1], part[::-1], size[::-1])[::-1]
    ends = np.flatnonzero(np.diff(part, append=part.max(initial=0) + 1))
    return np.where(gradients[ends][part], precedes, follows)


def _are_single(part: Codes, size: Ints) -> Bools:
    """Which parts hold no evaluation; the first and the last one may be cut off."""
    volume = np.bincount(part, size)
    single: Bools = volume <= (1 + EVEN) * np.sort(volume)[FEW // 2 :].min()
    return single


def _after_usual(couple: Codes, forth: Bools, part: Codes, size: Ints) -> Bools:
    """Which records come when their direction has moved what it moves in a part without more."""
    line = couple * 2 + forth
    single = _are_single(part, size)
    order = np.lexsort((np.arange(part.size), part, line))
    moved = np.cumsum(size[order], dtype=np.float64)
    key = line[order].astype(np.int64) * single.size + part[order]
    first = np.flatnonzero(np.diff(key, prepend=-1))
    before = moved[first] - size[order][first]
    held = np.diff(np.append(before, moved[-1]))
    middle = np.empty(part.size)  # of each record, among the bytes of its line and part
    records = np.diff(np.append(first, key.size))
    middle[order] = moved - size[order] / 2 - np.repeat(before, records)
    usual = np.full(int(line.max(initial=-1)) + 1, np.inf)
    alone = single[part[order][first]]
    for one in np.unique(line).tolist():
        own = held[alone & (line[order][first] == one)]
        if own.size:
            usual[one] = np.median(own)
    beyond: Bools = (middle > usual[line]) & ~single[part]
    return beyond


def bytes_before(size: Ints, chosen: Bools | bool = True) -> Floats:
    """Bytes of the ``chosen`` records before each one, and of all at the end."""
    return np.concatenate(([0.0], np.cumsum(np.where(chosen, size, 0), dtype=np.float64)))
