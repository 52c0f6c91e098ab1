"""What the hops of a ring have sent when all of them rest: it shows which rank they wait for.

Each hop passes on what it received from the hop before. So a hop that is farther behind the late
rank has sent more chunks, whenever in a step the ring rests.
"""

from __future__ import annotations

import numpy as np

from llmprism.methods.prism.faults.context import JobView
from llmprism.methods.prism.faults.measures.bursts import Bursts
from llmprism.numerics.arrays import Bools, Floats, Ints

FEWEST = 3  # hops of which two show what one server adds, and another one that it is as much
EQUAL = 0.5  # of the amount by which each hop sent more than the hop before it


def grows(sent: Floats) -> Bools:
    """Whether each hop of a ring sent more than the one before it, from the one that sent least.

    By equal amounts: a chunk for each rank of a server. Only the next hop may have sent less, if
    its server is the one that is late.
    """
    if len(sent) <= FEWEST:
        return np.zeros(sent.shape[1], np.bool_)
    ahead = np.arange(len(sent) - 1)[:, None] + np.argmin(np.nan_to_num(sent, nan=np.inf), axis=0)
    steps = np.arange(sent.shape[1])
    more = sent[(ahead + 1) % len(sent), steps] - sent[ahead % len(sent), steps]
    usual = np.median(more[1:], axis=0)
    alike = (np.abs(more[1:] - usual) < EQUAL * usual).all(axis=0)
    found: Bools = (usual > 0) & alike & (more[0] < (1 + EQUAL) * usual)
    return found


def sent_until_longest_rest(job: JobView, places: Ints, bursts: Bursts, steps: Ints) -> Floats:
    """Bytes that each of some hops sent in each step before none of them sent for longest.

    In the order of ``places``; NaN but for ``steps``, and where one of the hops sent nothing.
    """
    found = np.full((places.size, job.count), np.nan)
    own = np.flatnonzero(np.isin(bursts.place, places) & np.isin(bursts.step, steps))
    own = own[np.lexsort((bursts.start_ns[own], bursts.step[own]))]
    step = bursts.step[own]
    row = np.argsort(places)[np.searchsorted(np.sort(places), bursts.place[own])]
    for one, first, last in zip(*(each.tolist() for each in _runs(step)), strict=True):
        inside = own[first:last]
        latest_ns = np.maximum.accumulate(bursts.end_ns[inside])
        rest_ns = bursts.start_ns[inside[1:]] - latest_ns[:-1]
        if rest_ns.size and np.unique(row[first:last]).size == places.size:
            until = int(np.argmax(rest_ns)) + 1
            size = bursts.size[inside[:until]]
            found[:, one] = np.bincount(row[first : first + until], size, places.size)
    return found


def _runs(step: Ints) -> tuple[Ints, Ints, Ints]:
    """Each step, and where its entries begin and end; ``step`` is in order."""
    first = np.flatnonzero(np.diff(step, prepend=-1))
    return step[first], first, np.append(first, step.size)[1:]
