"""Whether the parts of a coarser division are several steps each, with pauses between them.

Jobs evaluate, or save their state, after every so many steps. The silences of such pauses are
longer than those between steps, so that they divide the traffic into equal parts as well.

All classes of a job move in every step. So parts are no steps where a good part of all bytes moves
in few of them, as gradients do beside exchanges between experts.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from llmprism.methods.prism.classes.classes import TrafficClass
from llmprism.methods.prism.cycles.cycles import Division, Traffic
from llmprism.methods.prism.cycles.parts import regularity
from llmprism.methods.prism.parameters import EQUAL, HALF, MOSTLY, SMALL
from llmprism.methods.prism.steps.coarser import are_pieces
from llmprism.methods.prism.steps.proposals import GOOD, Proposals, of_count, records_of_part
from llmprism.numerics.arrays import Ints

LEAST_CLEAR = 0.02  # of all bytes: gradients beside exchanges of long sequences, if clear
QUALITY, CLEAR = 0.98, 3.0  # quality and clarity of such steps
NEARLY_ALL, LARGE = 0.9, 0.25  # of the parts, and of all bytes: gradients that move in so many
RETURNED = 2.4  # records of a connection in a single exchange there and back; some are cut in two
MANY = 3  # times the connections of a ring: fewer need not join everyone with everyone


def is_paused(proposals: Proposals, fine: int, coarse: int) -> bool:
    """Whether the coarse division shows only pauses between some parts of the fine one.

    Every class that shows the coarse parts shows the fine ones, in equal groups, or sends as much
    one way in each of the fine ones: evaluations in some steps bring no gradients.
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


def lacks_gradients(proposals: Proposals, count: int) -> bool:
    """Whether a good part of all bytes moves in some of so many parts only.

    Exchanges between experts repeat more often than gradients, and in evaluations as well, so that
    they need not be a multiple of the steps. Parts of more than single exchanges are believed
    unless these join everyone with everyone, and gradients move round a ring: a checkpoint does not
    move in every step, either. It goes one way, to storage: what circulates in most connections, in
    equal and clear parts, are gradients, also where long sequences leave them a small share.
    """
    classes = proposals.classes
    shown = [one for one, divisions in proposals.each() if of_count(divisions, count) is not None]
    single = all(records_of_part(one, count) <= RETURNED for one in shown)
    share, least = (HALF, SMALL) if single else (NEARLY_ALL, LARGE)
    joined = sum(one.connections.size for one in shown)
    extent_ns = proposals.clearest(count)[1:]
    seldom = 0.0
    for one, divisions in proposals.each():
        coarse = [d for d in divisions if len(d) <= share * count and d.quality >= GOOD]
        if not coarse or _busy(one.traffic, *extent_ns) > share * count:
            continue
        if _are_gradients(one, classes) and any(_is_clear(d, count) for d in coarse):
            return True
        if single or joined >= MANY * one.connections.size:
            seldom += one.bytes
    return seldom >= least * sum(one.bytes for one in classes)


def _are_gradients(one: TrafficClass, classes: Sequence[TrafficClass]) -> bool:
    """Whether a class circulates in most connections, and moves no negligible part of all bytes."""
    widest = max(each.connections.size for each in classes)
    least = LEAST_CLEAR * sum(each.bytes for each in classes)
    return one.circulates and 2 * one.connections.size >= widest and one.bytes >= least


def _is_clear(division: Division, count: int) -> bool:
    """Whether a division makes at most half as many as ``count`` parts, equal and clear ones."""
    clear = division.clarity >= CLEAR and division.quality >= QUALITY
    return clear and len(division) <= HALF * count


def _busy(traffic: Traffic, begin_ns: Ints, end_ns: Ints) -> int:
    """Number of parts in which any record begins: from their begins on, or up to their ends.

    Gradients of a step may move after its last exchange, or parameters before the first one.
    """
    borders = (begin_ns, end_ns)  # also what comes before the first begin, or after the last end
    parts = [np.bincount(np.searchsorted(one, traffic.start_ns)) for one in borders]
    return min(int(np.count_nonzero(own)) for own in parts)
