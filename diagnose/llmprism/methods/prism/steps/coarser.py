"""Whether the parts of one division are steps, and those of a coarser one several of them.

Equal parts may be too fine: buckets of one size, or micro-batches whose gradients are
reduced one by one, divide a step into parts that are alike. Such parts show themselves by the
gaps between them: every k-th gap is longer than all others. That this happens by chance for
all of the N / k longest gaps has probability 1 / C(N - 1, N / k - 1). Unless that is very small,
the longer gaps must also be longer by more than the others differ. Pauses (evaluation,
checkpoints) make every k-th gap longer, too. A coarser division is believed only in four cases:

- The finer one's parts are single collectives, or messages of one size that follow at once, and
  the longer gaps leave time for a forward pass. Messages of a pipeline, in which few connections
  move at the same time, need no such time: its passes follow at equal distances.
- Two of them make a coarser part: gradients are reduced, then as many bytes of parameters
  gathered, and nothing else moves in between.
- The longer gaps are less than twice as long (an optimizer's update between micro-batches; a pause
  is longer), and the others are too short for steps that compute. If more than four parts lie
  between them, as steps do between two pauses, they are longer by less than a tenth of a part.
- Ranks drift apart between the longer gaps.

All classes of a job move in every step. So parts are no steps where a good part of all bytes moves
in few of them, as gradients do beside exchanges between experts.
"""

from __future__ import annotations

from math import comb

import numpy as np

from llmprism.methods.prism.classes.classes import TrafficClass
from llmprism.methods.prism.cycles.cycles import Division, Traffic
from llmprism.methods.prism.cycles.evaluations import MOST_SIZES
from llmprism.methods.prism.cycles.parts import regularity
from llmprism.methods.prism.cycles.updates import hardly_rests, holds_updates
from llmprism.methods.prism.steps.drift import drift_apart
from llmprism.methods.prism.steps.silences import (
    BRIEF,
    CHANCE,
    GOOD,
    MOST_MICRO_BATCHES,
    RARE,
    RESTS,
    SAME_SPREAD,
    accumulate,
    are_halves,
    extent,
    follow_at_once,
    longer_by,
    of_count,
    show_micro_batches,
    standing,
    stands_apart,
)
from llmprism.numerics.arrays import Ints
from llmprism.numerics.early import INTS

PHASES = 2  # a step may reduce gradients and gather as many bytes of parameters
GRADIENTS = 0.05  # of all bytes: what gradients have at least
LEAST_CLEAR = 0.02  # ... of those that move many long sequences, if steps are clear in them
EQUAL, CLEAR = 0.98, 3.0  # quality and clarity of such steps
FEW = 0.5  # of the fine parts: gradients move beside some of the exchanges of a step only
MOSTLY = 0.8  # share of parts in which an evaluation's direction moves no less than the other one
NEARLY_ALL, LARGE = 0.9, 0.25  # of the parts; and of all bytes, as gradients have that move in them
ATOMIC = 1.2  # records of a connection in a part that is a single collective; some are cut in two
RETURNED = 2 * ATOMIC  # ... that is an exchange between experts, there and back
MANY = 3  # times the connections of a ring: fewer need not join everyone with everyone
LEAST = 0.1  # of the bytes of a part: what messages of one size have that show something
FORWARD = 0.3  # of a step's backward pass: a forward pass takes as long, if activations come again
CONCURRENT = 0.5  # share of connections that move at the same time: nearly all do in a collective
UPDATE = 2.0  # an evaluation of two micro-batches makes silences of one forward pass longer by more


def lacks_gradients(
    classes: tuple[TrafficClass, ...], proposed: list[list[Division]], count: int
) -> bool:
    """Whether a good part of all bytes moves in some of so many parts only.

    Exchanges between experts repeat more often than gradients, and in evaluations as well, so that
    they need not be a multiple of the steps. Parts of more than single exchanges are believed
    unless these join everyone with everyone, and gradients move round a ring: a checkpoint does not
    move in every step, either. It goes one way, to storage: what circulates in most connections, in
    equal and clear parts, are gradients, also where long sequences leave them a small share.
    """
    both = [*zip(classes, proposed, strict=True)]
    shown = [one for one, own in both if of_count(own, count) is not None]
    single = all(_records_of_part(one, count) <= RETURNED for one in shown)
    share, least = (FEW, GRADIENTS) if single else (NEARLY_ALL, LARGE)
    joined = sum(one.connections.size for one in shown)
    extent_ns = _extent_of_clearest(classes, proposed, count)[1:]
    total, widest = (
        sum(one.bytes for one in classes),
        max(one.connections.size for one in classes),
    )
    seldom, clearly = 0.0, False
    for one, own in both:
        coarse = [d for d in own if len(d) <= share * count and d.quality >= GOOD]
        if not coarse or _busy(one.traffic, *extent_ns) > share * count:
            continue
        if single or joined >= MANY * one.connections.size:
            seldom += one.bytes
        wide = (
            one.circulates
            and 2 * one.connections.size >= widest
            and one.bytes >= LEAST_CLEAR * total
        )
        clearly |= wide and any(
            len(d) <= FEW * count and d.clarity >= CLEAR and d.quality >= EQUAL for d in coarse
        )
    return clearly or seldom >= least * total


def _records_of_part(one: TrafficClass, count: int) -> float:
    """Records of a connection in each of so many parts, on average."""
    return len(one.traffic) / (count * one.connections.size)


def is_step(
    classes: tuple[TrafficClass, ...],
    proposed: list[list[Division]],
    fine: int,
    coarse: int,
    single: bool = False,
) -> bool:
    """Whether parts of the fine division are only pieces of a step.

    ``single``: whether each server has one rank.
    """
    if show_micro_batches(classes, proposed, fine, coarse, single):
        return True
    chance = 1 / comb(fine - 1, coarse - 1)
    if chance > CHANCE:
        return False
    clarity, atomic, apart, restless = np.inf, True, chance < RARE, False
    for one, own in zip(classes, proposed, strict=True):
        coarser, finer = of_count(own, coarse), of_count(own, fine)
        if coarser is None or coarser.clarity <= 1.0:  # its gaps are not longer than all others
            return False
        if finer is not None and finer.evaluated and not coarser.evaluated:
            return False  # the coarser parts are several steps and an evaluation
        if finer is not None and holds_updates(one.traffic, finer):
            return False
        restless |= finer is not None and hardly_rests(one.traffic, finer, coarser)
        clarity = min(clarity, coarser.clarity)
        collective = _records_of_part(one, fine) <= ATOMIC
        atomic &= collective or (finer is not None and follow_at_once(one.traffic, finer, coarser))
        if finer is not None:
            apart |= stands_apart(one.traffic, finer, coarser)
    phases = are_halves(proposed, fine, coarse) and not (
        _all_move_in(classes, proposed, fine)
        or _alternate(classes, proposed, fine)
        or _are_alike(classes, proposed, fine)
    )
    if not apart or phases:
        return apart
    longer = longer_by(classes, proposed, fine, coarse)
    if atomic:
        collective = all(one.concurrency >= CONCURRENT for one in classes)
        return not collective or longer >= FORWARD * fine / coarse
    if drift_apart(classes, proposed, fine, coarse):
        return True
    few = fine <= MOST_MICRO_BATCHES * coarse
    brief = restless or (clarity < UPDATE and (few or longer <= BRIEF))
    return brief and not accumulate(classes, proposed, fine, coarse, single)


def _all_move_in(
    classes: tuple[TrafficClass, ...], proposed: list[list[Division]], fine: int
) -> bool:
    """Whether other classes move between all parts of the clearest fine division.

    Nothing else moves between the gradients of a step and the parameters gathered after them.
    """
    if len(classes) == 1:
        return False
    lead, _, end_ns = _extent_of_clearest(classes, proposed, fine)
    if not end_ns.size:
        return False
    volumes = np.zeros(fine + 1)
    for i, one in enumerate(classes):
        if i != lead:
            part = np.searchsorted(end_ns, one.traffic.start_ns)
            volumes += np.bincount(part, one.traffic.size, fine + 1)
    inside = volumes[1:fine]  # before the first part there may be more, and after the last one
    alternate = [float(np.median(inside[first::PHASES])) for first in range(PHASES)]
    return min(alternate) >= GOOD * max(alternate) > 0


def _alternate(
    classes: tuple[TrafficClass, ...], proposed: list[list[Division]], fine: int
) -> bool:
    """Whether gradients and parameters, of half as many bytes each, move in all fine parts.

    The parts of a step in which gradients are reduced, or parameters gathered, hold one of both.
    """
    lead, _, _ = _extent_of_clearest(classes, proposed, fine)
    finer, traffic = of_count(proposed[lead], fine), classes[lead].traffic
    if finer is None:
        return False
    sizes, which = np.unique(traffic.size, return_inverse=True)
    part, least = finer.part_of(len(traffic)), LEAST * float(traffic.size.sum()) / fine
    own = []
    for at in np.argsort(-np.bincount(which, traffic.size))[:MOST_SIZES].tolist():
        alike = which == at
        if np.bincount(part[alike], traffic.size[alike], fine).min() >= least:
            own.append(float(sizes[at]))
    return any(abs(one - 2 * other) <= SAME_SPREAD * one for one in own for other in own)


def _are_alike(
    classes: tuple[TrafficClass, ...], proposed: list[list[Division]], fine: int
) -> bool:
    """Whether every second fine part takes as long as the others, and silences are no updates.

    Gradients are reduced while they are computed, and parameters gathered at once.
    """
    _, start_ns, end_ns = _extent_of_clearest(classes, proposed, fine)
    if not end_ns.size:
        return False
    rest_ns, lasts_ns = start_ns[1:] - end_ns[:-1], (end_ns - start_ns)[1:-1]
    shorter, _ = _of_both(rest_ns)
    brief, longer = _of_both(lasts_ns)
    rests = shorter > RESTS * float(np.median(np.diff(start_ns)))
    return rests and longer <= (1 + RESTS) * brief


def _of_both(values: Ints) -> list[float]:
    """The median of every second value, and that of the others; the smaller one first."""
    return sorted(float(np.median(values[first::PHASES])) for first in range(PHASES))


def _busy(traffic: Traffic, begin_ns: Ints, end_ns: Ints) -> int:
    """Number of parts in which any record begins: from their begins on, or up to their ends.

    Gradients of a step may move after its last exchange, or parameters before the first one.
    """
    borders = (begin_ns, end_ns)  # also what comes before the first begin, or after the last end
    return min(np.unique(np.searchsorted(one, traffic.start_ns)).size for one in borders)


def is_paused(
    classes: tuple[TrafficClass, ...],
    proposed: list[list[Division]],
    fine: int,
    coarse: int,
    single: bool = False,
) -> bool:
    """Whether the coarse division shows only pauses between some parts of the fine one.

    Every class that shows the coarse parts shows the fine ones, in equal groups, or sends as much
    one way in each of the fine ones: evaluations in some steps bring no gradients. If the same
    fine part of each coarse one is larger or smaller, the fine ones are buckets of a step.
    """
    if fine <= coarse or is_step(classes, proposed, fine, coarse, single):
        return False
    _, _, end_ns = _extent_of_clearest(classes, proposed, fine)
    for one, own in zip(classes, proposed, strict=True):
        finer, coarser = _of_about(own, fine), _of_about(own, coarse)
        if coarser is None:
            continue
        if not (_one_way_in_each(one, end_ns) if finer is None else _in_groups(finer, coarser)):
            return False
        if finer is not None and not finer.evaluated and _differ_alike(finer, coarser):
            return False
    return True


def _extent_of_clearest(
    classes: tuple[TrafficClass, ...], proposed: list[list[Division]], count: int
) -> tuple[int, Ints, Ints]:
    """The class that is divided most clearly into so many parts, if any; their extents [ns]."""
    found = [of_count(own, count) for own in proposed]
    lead = max(range(len(found)), key=lambda i: standing(found[i]))
    best = found[lead]
    return lead, *((INTS, INTS) if best is None else extent(classes[lead].traffic, best))


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
        least = float(np.median(steady)) * (1 - SAME_SPREAD) if steady.size else 0.0
        if least > 0 and np.isfinite(regularity(steady)[0]) and (other >= least).mean() >= MOSTLY:
            return True
    return False


def _of_about(own: list[Division], count: int) -> Division | None:
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
    away = np.abs(np.array(volumes) / np.median(fine.volumes) - 1) > SAME_SPREAD
    return len(volumes) >= MOST_MICRO_BATCHES and bool((away.mean(axis=0) >= MOSTLY).any())
