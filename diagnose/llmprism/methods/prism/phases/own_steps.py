"""Move messages into their own step that a silence within a step counts to a step beside it.

Steps are divided at silences. If a rank pauses after the first messages of a step, this silence
may be longer than the one before the step. Then these messages count to the step before: it has
more bytes than usual, and the next one lacks as many. So they are moved to the next step. The same
holds the other way round. Ranks of a ring that are ready send the first part of a collective to a
rank that is late, and wait.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np

from llmprism.methods.prism.classes.kind_of import KindOf
from llmprism.methods.prism.parameters import HALF
from llmprism.methods.prism.records.connections import Connections
from llmprism.numerics.arrays import Bools, Floats, Ints, order_in_groups

HEADERS = 0.002  # of the bytes of a step: what headers add
MOVED = 0.01  # of the bytes of a step: less is no message


def in_own_steps(
    place: Ints, step: Ints, size: Ints, count: int, firsts: Ints, *, counted: bool
) -> Ints:
    """The own step of each message, in order of connections (``place``), then of time.

    What one step has more than usual the next one lacks. ``firsts`` are the first steps of
    attempts. ``counted``: messages are counted, since sequences that differ in length change bytes
    as well, and so does sampling. Then bytes only have to be more where there are more messages.
    """
    cell = place * count + step
    cells = (int(place.max(initial=0)) + 1) * count
    weight = np.ones(size.size) if counted else size.astype(np.float64)
    amounts, sizes = (np.bincount(cell, each, cells).reshape(-1, count) for each in (weight, size))
    usual, volume = (np.median(each, axis=1) for each in (amounts, sizes))
    found = step.copy()
    for row in np.flatnonzero(usual > 0).tolist():
        extra = amounts[row] / usual[row] - 1
        more = extra * (sizes[row] - volume[row]) > 0
        for one, other in _moved(extra, more, firsts):
            inside = slice(*np.searchsorted(cell, row * count + np.array([one, other + 1])))
            own = weight[inside]
            number = (np.cumsum(own) - own / 2) // usual[row]
            found[inside] = one + np.clip(number.astype(np.int64), 0, other - one)
    return found


def _moved(extra: Floats, more: Bools, firsts: Ints) -> list[tuple[int, int]]:
    """Steps of which one has what the other lacks, and those in between have what is usual."""
    begins, free = set(firsts.tolist()), 0  # the first step that is not yet part of a pair
    found = []
    for one, other in pairwise(np.flatnonzero(np.abs(extra) > HEADERS).tolist()):
        moved = abs(extra[one]) > MOVED and abs(extra[one] + extra[other]) <= HEADERS
        across = bool(begins & {*range(one + 1, other + 1)})
        if one >= free and moved and more[one] and more[other] and not across:
            free = other + 1
            found.append((one, other))
    return found


def with_own_steps(connections: Connections, one: KindOf, count: int, firsts: Ints) -> KindOf:
    """A data-parallel class with each of its records in its own step: all steps move as much.

    Where few do, as in sampled records, two steps may differ from the others by as much by chance.
    """
    if one.kind != "dp":
        return one
    volume = one.volumes(connections, count)
    usual = np.median(volume, axis=1, keepdims=True)
    away = (volume - usual) / np.maximum(usual, 1.0)
    some: Bools = (away.max(axis=1) > MOVED) & (away.min(axis=1) < -MOVED)  # others move nothing
    some &= (np.abs(away) <= HEADERS).mean(axis=1) > HALF
    if not some.any():
        return one
    known, cell = one.cells(connections, count)
    known, cell = known[some[cell // count]], cell[some[cell // count]]
    order = order_in_groups(cell, one.traffic.start_ns[known])
    known, place, own = known[order], cell[order] // count, cell[order] % count
    step = one.step.copy()
    size = one.traffic.size[known]
    step[known] = in_own_steps(place, own, size, count, firsts, counted=False)
    return replace(one, step=step)
