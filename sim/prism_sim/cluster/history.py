"""The free capacity of each link in the recent past.

The free capacity of a link changes when an entity on it starts, ends or changes its rate. At each
such time the link stores a note: the time, and the bytes that it could have carried in addition to
its load until then. The last :data:`NOTES` are kept. Ranks that wait for others can already send
some chunks before their collective begins. These notes limit the number of chunks.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from prism_common.compiled import compiled, compiled_part
from prism_sim.cluster.state import NOTES, Int64s, Net


@compiled_part
def note_room(net: Net, at: int, now: int) -> None:
    """Store the free capacity of link ``at`` until ``now``, before its load changes."""
    link = net.link[at]
    since_ns = link["noted_ns"]
    if since_ns == now:
        return
    spared = link["spared"] + max(link["left"], 0.0) * (now - since_ns)
    notes = link["notes"]
    link["spared"], link["noted_ns"], link["notes"] = spared, now, notes + 1
    net.note_ns[at, notes % NOTES] = now
    net.note_bytes[at, notes % NOTES] = spared


class Spare(NamedTuple):
    """Free capacity of the links of an entity's hops.

    Attributes
    ----------
    ptr : hop h has the rows ``ptr[h]`` to ``ptr[h + 1] - 1``, one per link.
    time_ns, spared : bytes of the hop that it could carry until each of these times, shape (rows,
        NOTES + 1).
    """

    ptr: Int64s
    time_ns: NDArray[np.float64]
    spared: NDArray[np.float64]


@compiled
def spare_of(
    net: Net, template: int, now: int
) -> tuple[Int64s, NDArray[np.float64], NDArray[np.float64]]:
    """The notes of all links of the hops of ``template``, up to ``now``, oldest first."""
    first = net.hop_ptr[template]
    end = first + net.hops[template]
    base = net.hop_link_ptr[first]
    ptr = net.hop_link_ptr[first : end + 1] - base
    time_ns = np.zeros((ptr[-1], NOTES + 1))
    spared = np.zeros((ptr[-1], NOTES + 1))
    for row in range(ptr[-1]):
        at = net.hop_link[base + row]
        share = net.hop_weight[base + row]
        left, notes = max(net.link[at]["left"], 0.0), net.link[at]["notes"]
        time_ns[row, NOTES] = now
        free = net.link[at]["spared"] + left * (now - net.link[at]["noted_ns"])
        spared[row, NOTES] = free / share
        for back in range(1, min(notes, NOTES) + 1):
            time_ns[row, NOTES - back] = net.note_ns[at, (notes - back) % NOTES]
            spared[row, NOTES - back] = net.note_bytes[at, (notes - back) % NOTES] / share
    return ptr, time_ns, spared


def without_short_notes(spare: Spare, since_ns: int) -> Spare:
    """``spare``, with all capacity free on links whose notes do not reach back to ``since_ns``."""
    time_ns, spared = spare.time_ns.copy(), spare.spared.copy()
    short = time_ns[:, 0] > since_ns
    time_ns[short, :-1] = spared[short, :-1] = 0.0
    spared[short, -1] = np.inf
    return Spare(spare.ptr, time_ns, spared)


@compiled_part
def sent_by(
    spare: Spare, hop: int, begin_ns: float, size_bytes: int, rate: float
) -> tuple[float, float]:
    """Time at which ``hop`` has sent ``size_bytes`` with free capacity, and the bytes not yet sent.

    The hop begins at ``begin_ns`` and sends at ``rate`` [bytes/ns] at most, until the last note.
    """
    end_ns, left_bytes = begin_ns, 0.0
    for row in range(spare.ptr[hop], spare.ptr[hop + 1]):
        left, at_ns = float(size_bytes), begin_ns
        for i in range(NOTES):
            since_ns, until_ns = spare.time_ns[row, i], spare.time_ns[row, i + 1]
            if until_ns <= at_ns:
                continue
            spared = spare.spared[row, i + 1] - spare.spared[row, i]
            possible = min(rate, spared / (until_ns - since_ns))
            if possible * (until_ns - at_ns) >= left:
                at_ns, left = at_ns + left / possible, 0.0
                break
            left -= possible * (until_ns - at_ns)
            at_ns = until_ns
        end_ns, left_bytes = max(end_ns, at_ns), max(left_bytes, left)
    return end_ns, left_bytes
