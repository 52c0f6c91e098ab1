"""What each link had to spare in the recent past.

The room on a link changes when something on it starts, ends or changes its rate. At each such
moment the link notes the time and the bytes that it could have carried beside its load up to
then. The last :data:`NOTES` are kept. Ranks that wait for others send what they can before their
collective begins as a whole; what they can is told by these notes.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from llmprism.numerics.compiled import compiled, compiled_part
from llmprism.numerics.early import compile_early
from prism_sim.cluster.state import NOTES, Int64s, Net, example_net


@compiled_part
def note_room(net: Net, at: int, now: int) -> None:
    """Note what link ``at`` had to spare until ``now``, before its load changes."""
    since_ns = net.link[at]["noted_ns"]
    if since_ns == now:
        return
    net.link[at]["spared"] += max(net.link[at]["left"], 0.0) * (now - since_ns)
    net.link[at]["noted_ns"] = now
    notes = net.link[at]["notes"]
    net.link[at]["notes"] = notes + 1
    net.note_ns[at, notes % NOTES] = now
    net.note_bytes[at, notes % NOTES] = net.link[at]["spared"]


class Spare(NamedTuple):
    """What the links of an entity's hops had to spare.

    Attributes
    ----------
    ptr : hop h takes the rows ``ptr[h]`` to ``ptr[h + 1] - 1``, one a link.
    time_ns, spared : bytes spared until each of these times, shape (rows, NOTES + 1).
    """

    ptr: Int64s
    time_ns: NDArray[np.float64]
    spared: NDArray[np.float64]


@compiled
def spare_of(
    net: Net, template: int, now: int
) -> tuple[Int64s, NDArray[np.float64], NDArray[np.float64]]:
    """The notes of all links of the hops of ``template``, up to ``now``, oldest first."""
    first, end = net.hop_ptr[template], net.hop_ptr[template + 1]
    base = net.hop_link_ptr[first]
    ptr = net.hop_link_ptr[first : end + 1] - base
    time_ns = np.zeros((ptr[-1], NOTES + 1))
    spared = np.zeros((ptr[-1], NOTES + 1))
    for row in range(ptr[-1]):
        at = net.hop_link[base + row]
        left, notes = max(net.link[at]["left"], 0.0), net.link[at]["notes"]
        time_ns[row, NOTES] = now
        spared[row, NOTES] = net.link[at]["spared"] + left * (now - net.link[at]["noted_ns"])
        for back in range(1, min(notes, NOTES) + 1):
            time_ns[row, NOTES - back] = net.note_ns[at, (notes - back) % NOTES]
            spared[row, NOTES - back] = net.note_bytes[at, (notes - back) % NOTES]
    return ptr, time_ns, spared


compile_early(spare_of, lambda: (example_net(), 0, 0))


@compiled_part
def sent_by(
    spare: Spare, hop: int, begin_ns: float, size_bytes: int, rate: float
) -> tuple[float, float]:
    """When ``hop`` has sent ``size_bytes`` in what its links had to spare, and what it has not.

    It begins at ``begin_ns`` and sends at ``rate`` [bytes/ns] at most, until the notes end.
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
