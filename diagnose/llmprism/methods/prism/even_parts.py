"""Equal parts of traffic that rests no longer between its steps than inside them.

Two ranks that shard parameters exchange messages all through a step, and the next step begins at
once. No threshold on silences cuts such traffic into steps. But the bytes of a step are the same in
all of them, so after each multiple of these bytes there is a silence, however short it is. Every
number of bytes that leads from the begin to one of the first silences is tried, until all
multiples of one lead to silences, and the last one to the end. What finds one by chance is unlikely
to find one after every part. This is tried only where no other traffic has steps: traffic of a
job whose other connections show them belongs to these.
"""

from __future__ import annotations

import numpy as np

from llmprism.methods.prism.cycles import Division, Traffic
from llmprism.methods.prism.parts import regularity
from llmprism.numerics.arrays import Floats, Ints

SAME = 0.005  # of a part: difference of bytes that acknowledgements and headers make
FIRST = 100  # silences of which one ends the first part
FEWEST = 8  # parts
CHANCE = 1e-6  # that silences lead from part to part for no reason


def even_parts(traffic: Traffic) -> Division | None:
    """The division into most parts of equal bytes, each of which begins after a silence."""
    at = np.flatnonzero(traffic.rests_ns() > 0) + 1
    before = np.concatenate(([0.0], np.cumsum(traffic.size, dtype=np.float64)))
    moved = before[at]
    for whole in moved[:FIRST].tolist():
        parts = before[-1] / whole
        if parts < FEWEST:
            return None
        if abs(parts - np.rint(parts)) > SAME * parts or _likely(at.size, int(parts)):
            continue
        cuts = _cuts(at, moved, float(before[-1] / np.rint(parts)), int(np.rint(parts)))
        if cuts is not None:
            volumes = np.diff(before[np.concatenate(([0], cuts, [before.size - 1]))])
            return Division(cuts, volumes, *regularity(volumes), 1.0)
    return None


def _likely(silences: int, parts: int) -> bool:
    """Whether silences at any moments may lead from part to part."""
    near = min(1.0, 2 * SAME * silences / parts)  # of them near the end of a part
    return bool(FIRST * near ** (parts - 1) > CHANCE)


def _cuts(at: Ints, moved: Floats, whole: float, parts: int) -> Ints | None:
    """The record after the silence nearest to the end of each part; None if one has none near."""
    ends = np.arange(1, parts) * whole
    place = np.clip(np.searchsorted(moved, ends), 1, moved.size - 1)
    nearest = np.where(ends - moved[place - 1] < moved[place] - ends, place - 1, place)
    if (np.abs(moved[nearest] - ends) > SAME * whole).any():
        return None
    cuts: Ints = at[nearest]
    return cuts
