"""Whether the parts of a coarser division are several steps each, with pauses between them.

Jobs evaluate, or save their state, after every so many steps. The silences of such pauses are
longer than those between steps, so that they divide the traffic into equal parts as well.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from llmprism.methods.prism.cycles.cycles import Division
from llmprism.methods.prism.parameters import EQUAL, MOSTLY
from llmprism.methods.prism.steps.coarser import are_pieces
from llmprism.methods.prism.steps.proposals import GOOD, Proposals
from llmprism.methods.prism.steps.silences import MOST_MICRO_BATCHES


def is_paused(proposals: Proposals, fine: int, coarse: int) -> bool:
    """Whether the coarse division shows only pauses between some parts of the fine one.

    Every class that shows the coarse parts shows the fine ones, in equal groups. If the same fine
    part of each coarse one is larger or smaller, the fine ones are buckets of a step.
    """
    if fine <= coarse or are_pieces(proposals, fine, coarse):
        return False
    for own in proposals.divisions:
        finer, coarser = _of_about(own, fine), _of_about(own, coarse)
        if coarser is None:
            continue
        if finer is None or not _in_groups(finer, coarser):
            return False
        if not finer.evaluated and _differ_alike(finer, coarser):
            return False
    return True


def _of_about(own: Sequence[Division], count: int) -> Division | None:
    """The good division of so many parts, or of one more or less: records begin in some part."""
    near = [d for d in own if abs(len(d) - count) <= 1 and d.quality >= GOOD]
    return min(near, key=lambda d: (abs(len(d) - count), -d.weight), default=None)


def _in_groups(fine: Division, coarse: Division) -> bool:
    """Whether each coarse part but the first and the last holds as many fine parts, over one."""
    held = np.diff(np.searchsorted(fine.cuts, coarse.cuts))
    return bool(held.size > 0 and held.min() == held.max() > 1)


def _differ_alike(fine: Division, coarse: Division) -> bool:
    """Whether the same fine part of most coarse ones has another volume than fine parts have."""
    borders = np.searchsorted(fine.cuts, coarse.cuts) + 1
    size = int(np.diff(borders).min(initial=len(fine)))
    volumes = [fine.volumes[first : first + size] for first in borders[:-1].tolist()]
    away = np.abs(np.array(volumes) / np.median(fine.volumes) - 1) > EQUAL
    return len(volumes) >= MOST_MICRO_BATCHES and bool((away.mean(axis=0) >= MOSTLY).any())
