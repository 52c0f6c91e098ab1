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

SINGLE = 1.2  # messages of a connection in a part that is a single collective


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
