"""Whether the parts of a coarser division are several steps each, with pauses between them.

Jobs evaluate, or save their state, after every so many steps. The silences of such pauses are
longer than those between steps, so that they divide the traffic into equal parts as well.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from llmprism.methods.prism.classes.classes import TrafficClass
from llmprism.methods.prism.cycles.cycles import Division
from llmprism.methods.prism.cycles.parts import regularity
from llmprism.methods.prism.parameters import EQUAL, MOSTLY
from llmprism.methods.prism.steps.coarser import are_pieces
from llmprism.methods.prism.steps.proposals import GOOD, Proposals
from llmprism.methods.prism.steps.silences import MOST_MICRO_BATCHES
from llmprism.numerics.arrays import Ints


def is_paused(proposals: Proposals, fine: int, coarse: int) -> bool:
    """Whether the coarse division shows only pauses between some parts of the fine one.

    Every class that shows the coarse parts shows the fine ones, in equal groups, or sends as much
    one way in each of the fine ones: evaluations in some steps bring no gradients. If the same
    fine part of each coarse one is larger or smaller, the fine ones are buckets of a step.
    """
    if fine <= coarse or are_pieces(proposals, fine, coarse):
        return False
    _, _, end_ns = proposals.clearest(fine)
    for one, own in proposals.each():
        finer, coarser = _of_about(own, fine), _of_about(own, coarse)
        if coarser is None:
            continue
        if not (_one_way_in_each(one, end_ns) if finer is None else _in_groups(finer, coarser)):
            return False
        if finer is not None and not finer.evaluated and _differ_alike(finer, coarser):
            return False
    return True


def _one_way_in_each(one: TrafficClass, end_ns: Ints) -> bool:
    """Whether one direction moves the same, and the other no less, until each of ``end_ns``."""
    if not one.two_way:
        return False
    traffic = one.traffic
    part = np.searchsorted(end_ns, traffic.start_ns)
    volumes = [
        np.bincount(part[way], traffic.size[way], end_ns.size + 1)[: end_ns.size].astype(np.float64)
        for way in (traffic.forth, ~traffic.forth)
    ]
    for steady, other in (volumes, volumes[::-1]):
        least = float(np.median(steady)) * (1 - EQUAL) if steady.size else 0.0
        if least > 0 and np.isfinite(regularity(steady)[0]) and (other >= least).mean() >= MOSTLY:
            return True
    return False


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
