"""Rings in which one direction gathers parameters and the other one reduces gradients.

An all-reduce uses one direction of a ring, or moves as many bytes at the same time in both. Some
libraries reduce in one direction and gather in the other one (gloo). Then records of any size
show what is sharded, by their times. Sharded parameters are gathered from the begin of the forward
pass, and again in the backward pass until the last layer has them. Gradients are reduced from
the begin of the backward pass until it ends.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from llmprism.methods.prism.classes.kind_of import KindOf
from llmprism.methods.prism.parameters import FEWEST, NEARLY, SMALL
from llmprism.methods.prism.records.connections import Connections
from llmprism.numerics.arrays import Floats, Ints
from llmprism.numerics.missing import finite_median, nanmedian


def gather_one_way(connections: Connections, own: Sequence[KindOf], count: int) -> bool:
    """Whether rings of some classes gather parameters in one direction, and reduce in the other.

    The gathers begin and end earlier, and both move for a while. Rings go both ways then.
    """
    chosen = np.concatenate([one.connections for one in own])
    src, dst = connections.src[chosen].astype(np.int64), connections.dst[chosen].astype(np.int64)
    codes, number = np.unique(src << 32 | dst, return_inverse=True)
    volume = np.bincount(number, connections.total_bytes[chosen])
    ahead, back = _couples(codes)
    if volume[ahead].sum() + volume[back].sum() < NEARLY * volume.sum():
        return False
    start, end = _extents(connections, own, number, (codes.size, count))
    first = np.fmin.reduce(start, axis=0)
    step_ns = finite_median(np.diff(first[np.isfinite(first)]))
    lag = nanmedian(start[back] - start[ahead], axis=1)
    lead, other = np.where(lag >= 0, (ahead, back), (back, ahead))
    apart = start[other] - start[lead], end[other] - end[lead], end[lead] - start[other]
    return all(finite_median(nanmedian(one, axis=1)) > SMALL * step_ns for one in apart)


def _couples(codes: Ints) -> tuple[Ints, Ints]:
    """Indices of directed pairs and of those that lead back, in rings of three or more.

    In a ring of two both directions carry every collective.
    """
    src, dst = codes >> 32, codes & 0xFFFFFFFF
    neighbours = dict(zip(*np.unique(src, return_counts=True), strict=True))
    place = {code: i for i, code in enumerate(codes.tolist())}
    found = [
        (i, place[b << 32 | a])
        for i, (a, b) in enumerate(zip(src.tolist(), dst.tolist(), strict=True))
        if a < b and b << 32 | a in place and min(neighbours[a], neighbours[b]) >= FEWEST - 1
    ]
    both = np.array(found, np.int64).reshape(-1, 2)
    return both[:, 0], both[:, 1]


def _extents(
    connections: Connections, own: Sequence[KindOf], number: Ints, shape: tuple[int, int]
) -> tuple[Floats, Floats]:
    """First start and last end of each directed pair in each step [ns], NaN where it is idle.

    ``number`` has the pair of each connection, in the order of the classes.
    """
    start, end = np.full(shape, np.inf), np.full(shape, -np.inf)
    before = 0
    for one in own:
        known, cell = one.cells(connections, shape[1])
        pair = number[before + cell // shape[1]], cell % shape[1]
        np.minimum.at(start, pair, one.traffic.start_ns[known])
        np.maximum.at(end, pair, one.traffic.end_ns[known])
        before += one.connections.size
    start[np.isinf(start)], end[np.isinf(end)] = np.nan, np.nan
    return start, end
