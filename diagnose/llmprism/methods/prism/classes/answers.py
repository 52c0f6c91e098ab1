"""Which connection answers which: activations are answered by gradients of equal volume.

Two addresses may have connections of several kinds: a hop of a ring, which nothing answers, and
exchanges that go both ways. Volumes show which connections of the two directions belong together.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from llmprism.methods.prism.parameters import MOSTLY, QUARTER
from llmprism.methods.prism.records.connections import Connections
from llmprism.methods.prism.records.sampled import allowed
from llmprism.numerics.arrays import Bools, Floats, Ints

ANSWERED, ONE_SIZE = 0.4, 0.02  # least share of messages of one size that is answered
SAME = 1e-3  # difference in volume (in logarithm) that does not make another connection nearer
SPAN = 65.0  # more than any logarithm of a volume


@dataclass(frozen=True)
class Answers:
    """What comes back for each of some connections, shape (connections,).

    Attributes
    ----------
    lesser : bytes of the lesser direction over those of the connection; 0 if it is one way.
    record : typical record of what comes back [bytes].
    """

    lesser: Floats
    record: Ints


def find_answers(connections: Connections, own: Ints) -> Answers:
    """Find what answers each connection: the one of most similar volume the other way.

    Those that none resembles, or that only resemble the answer of another one, are compared with
    each other only.
    """
    src, dst = connections.src[own].astype(np.int64), connections.dst[own].astype(np.int64)
    nodes = int(max(src.max(initial=0), dst.max(initial=0))) + 1
    pair, back = src * nodes + dst, dst * nodes + src
    total = connections.total_bytes[own].astype(np.float64)
    typical = connections.typical_bytes[own]
    least = np.exp(-allowed(-np.log(MOSTLY), total, connections.sample_bytes))
    nearest = _most_similar(pair, back, total)
    alike = _mutually_alike(pair, total, typical, nearest, least)
    lesser = np.where(alike, np.minimum(1.0, total[nearest] / total), 0.0)
    record = np.where(alike, typical[nearest], 0)
    rest = np.flatnonzero(~alike)
    lesser[rest], record[rest] = _together(
        pair[rest], back[rest], total[rest], typical[rest], least[rest]
    )
    return Answers(lesser, record)


def _mutually_alike(
    pair: Ints, total: Floats, typical: Ints, nearest: Ints, least: Floats
) -> Bools:
    """Whether each connection and its ``nearest`` one move similar volumes, and none is nearer.

    The lesser of two has the share ``least`` of the greater one. Of several that would be answered
    by the same one, those of the most similar records are.
    """
    found = nearest >= 0
    answer = np.where(found, total[nearest], 0.0)
    apart = np.where(found, np.abs(np.log(np.maximum(answer, 1.0) / total)), np.inf)
    _, of_pair, counts = np.unique(pair, return_inverse=True, return_counts=True)
    as_many = found & (counts[of_pair] == counts[of_pair[nearest]])
    mutual = as_many | (apart <= apart[nearest] + SAME)
    alike: Bools = mutual & (np.minimum(total, answer) >= least * np.maximum(total, answer))
    records = np.abs(np.log(np.maximum(typical, 1) / np.maximum(typical[nearest], 1)))
    most_alike = np.full(pair.size, np.inf)
    np.minimum.at(most_alike, nearest[alike], records[alike])
    alike &= as_many | (records <= most_alike[nearest] + QUARTER)
    return alike


def _together(
    pair: Ints, back: Ints, total: Floats, typical: Ints, least: Floats
) -> tuple[Floats, Ints]:
    """The same for all connections of a pair together: lesser over greater, and record.

    Both directions move similar volumes, or messages of one size: an evaluation sends activations
    that no gradients answer.
    """
    number, of_pair = np.unique(pair, return_inverse=True)
    if number.size == 0:
        return np.empty(0), np.empty(0, np.int64)
    volume = np.bincount(of_pair, total, number.size)
    size = np.zeros(number.size, np.int64)
    np.maximum.at(size, of_pair, typical)
    at = np.searchsorted(number, back).clip(max=number.size - 1)
    answered = number[at] == back
    forth, answer = volume[of_pair], np.where(answered, volume[at], 0.0)
    sizes, answers = size[of_pair], np.where(answered, size[at], 0)
    ratio = np.minimum(forth, answer) / np.maximum(forth, answer)
    same_size = np.abs(sizes - answers) <= ONE_SIZE * sizes
    two_way = (ratio >= least) | (same_size & (ratio >= ANSWERED))
    return np.where(two_way, np.minimum(1.0, answer / forth), 0.0), np.maximum(sizes, answers)


def _most_similar(pair: Ints, back: Ints, total: Floats) -> Ints:
    """Index of the connection on the pair ``back`` whose volume is nearest; -1 if there is none."""
    order = np.lexsort((total, pair))
    names, place = np.unique(pair, return_inverse=True)
    levels = np.log2(np.maximum(total, 1.0))
    keys = place[order] * SPAN + levels[order]
    at = np.searchsorted(names, back).clip(max=max(names.size - 1, 0))
    wanted = at * SPAN + levels
    above = np.searchsorted(keys, wanted).clip(max=max(keys.size - 1, 0))
    below = np.maximum(above - 1, 0)
    best = np.where(np.abs(keys[below] - wanted) < np.abs(keys[above] - wanted), below, above)
    nearest = order[best]
    return np.where(pair[nearest] == back, nearest, -1)
