"""Of two servers in one ring: is the last rank of one late, or the first of the other?

The hop between the two sends nothing in both cases. The hop back sends the chunks of the ranks
before the late one, and then pauses: those of all ranks of its server, or of all but the first. So
it tells, once the bytes of a chunk are known. Healthy ranks are late in turn, too, by a little:
what hops send before such pauses is a whole number of chunks as well. If the pauses of other steps
agree with one of the two sizes of a chunk, and not with the other one, that is right.
"""

from __future__ import annotations

import numpy as np

from llmprism.methods.prism.faults.rings.ring_bursts import Hops
from llmprism.numerics.arrays import Bools, Floats

OTHER = 0.02  # of the bytes: amounts that differ by less are one
WHOLE = 0.05  # of a chunk: servers have eight ranks at most, so wrong ones are an eighth off
FEWEST = 2  # amounts that agree: a single one does so by chance


def all_but_first(sent: Floats, hops: Hops, ranks: int) -> tuple[Bools, Bools]:
    """In which steps a hop had sent the chunks of all its server's ``ranks`` but the first one.

    And in which ones it is known. ``sent`` is what it sent before it paused for the late rank; NaN
    in other steps. ``hops`` are those of the ring.
    """
    paused = hops.sent[hops.again_ns > 0]
    first, known = np.zeros((2, sent.size), np.bool_)
    for step in np.flatnonzero(sent > 0).tolist():
        others = _apart(paused, float(sent[step]))
        fits = [_agree(others, float(sent[step]) / each, 2 * ranks) for each in (ranks - 1, ranks)]
        known[step], first[step] = fits[0] != fits[1], fits[0]
    return first & known, known


def _apart(paused: Floats, own: float) -> Floats:
    """The different amounts in ``paused`` that are not ``own``."""
    ordered = np.sort(paused)
    ordered = ordered[np.abs(ordered - own) > OTHER * own]
    if not ordered.size:
        return ordered
    new = np.concatenate(([True], np.diff(ordered) > OTHER * ordered[:-1]))
    found: Floats = ordered[new]
    return found


def _agree(amounts: Floats, chunk: float, members: int) -> bool:
    """Whether the amounts of a ring's first collective are whole numbers of chunks."""
    within = amounts[amounts < (members - 1 + WHOLE) * chunk] / chunk
    return within.size >= FEWEST and bool((np.abs(within - np.rint(within)) < WHOLE).all())
