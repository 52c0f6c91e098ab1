"""Whether the parts of a division hold the same messages, not only as many bytes.

Steps move the same messages. Layers of sharded parameters, or buckets of gradients, may be parts
of equal volume although one holds a message where another holds two: in a recording of a step or
two they look like steps of one or two messages. Where silences cut clearly, or a part holds many
messages, chance does not make such parts, and an exporter that bridges silences may join the
messages of a step in different ways. Nothing is asked of those.
"""

from __future__ import annotations

import numpy as np

from llmprism.methods.prism.classes.classes import TrafficClass
from llmprism.methods.prism.cycles.cycles import Division
from llmprism.methods.prism.cycles.parts import regularity
from llmprism.methods.prism.parameters import EQUAL
from llmprism.methods.prism.records.repeated_sizes import MOST, are_messages
from llmprism.numerics.arrays import Bools, Ints

MANY = 4  # messages of a connection in a part, above which equal volumes are no chance
UNCLEAR = 1.5  # clarity below which a silence inside a part may be as long as one that cuts
QUALITY = 0.98  # quality of parts of the same bytes
SINGLE = 1.2  # messages of a connection in a part that is a single collective


def same_messages(one: TrafficClass, division: Division) -> bool:
    """Whether most parts have about as many messages of the usual size, or others that recur."""
    records = len(one.traffic)
    if division.clarity >= UNCLEAR or records > MANY * len(division) * one.connections.size:
        return True
    if not are_messages(one.traffic.size):
        return True
    held = np.bincount(division.part_of(records)[_usual(one.traffic.size)], minlength=len(division))
    regular = np.isfinite(regularity(held.astype(np.float64))[0]) and np.median(held) > 0
    equal = division.quality >= QUALITY
    return bool(regular or (equal and _joined_alike(one, division)))


def _joined_alike(one: TrafficClass, division: Division) -> bool:
    """Whether parts differ only in which of the same messages are one record.

    Silences inside a step may be longer than the exporter bridges in some steps only: a slow rank
    makes them. The records of all parts then end where those of the part with the most of them do.
    """
    way = 2 * one.traffic.couple.astype(np.int64) + one.traffic.forth
    cell = way * len(division) + division.part_of(len(one.traffic))
    order = np.argsort(cell, kind="stable")
    cell, size = cell[order], one.traffic.size[order].astype(np.float64)
    last = np.append(cell[1:] != cell[:-1], True)
    sent = np.cumsum(size)
    ends = sent[last]
    before, total = (
        np.repeat(each, np.diff(np.flatnonzero(last), prepend=-1))
        for each in (np.append(0.0, ends[:-1]), np.diff(ends, prepend=0.0))
    )
    place = (cell // len(division)) * 2.0 + (sent - before) / total
    inner = np.flatnonzero(~last)
    if inner.size == 0:
        return True
    finest = np.isin(cell, _most(cell[inner], len(division))) & ~last
    known = np.sort(place[finest])
    at = np.clip(np.searchsorted(known, place[inner]), 1, max(known.size - 1, 1))
    apart = np.minimum.reduce(
        [np.abs(place[inner] - known[np.minimum(near, known.size - 1)]) for near in (at - 1, at)]
    )
    strange = np.unique(cell[inner[apart > EQUAL]]).size
    return bool(strange <= (1 - MOST) * ends.size)


def _most(cell: Ints, parts: int) -> Ints:
    """The cell of each way with the most entries; a way has ``parts`` cells."""
    own, many = np.unique(cell, return_counts=True)
    order = np.lexsort((-many, own // parts))
    ways = own[order] // parts
    return own[order][np.flatnonzero(np.append(True, ways[1:] != ways[:-1]))]


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
