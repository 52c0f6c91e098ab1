"""Whether the parts of one division are steps, and those of a coarser one several of them.

Equal parts may be too fine: buckets of one size, or micro-batches whose gradients are
reduced one by one, divide a step into parts that are alike. Such parts show themselves by the
gaps between them: every k-th gap is longer than all others. That this happens by chance for
all of the N / k longest gaps has probability 1 / C(N - 1, N / k - 1). Unless that is very small,
the longer gaps must also be longer by more than the others differ. Pauses (evaluation,
checkpoints) make every k-th gap longer, too. A coarser division is believed only in three cases:

- The finer one's parts are single collectives, or messages of one size that follow at once, and
  the longer gaps leave time for a forward pass. Messages of a pipeline, in which few connections
  move at the same time, need no such time: its passes follow at equal distances.
- Two of them make a coarser part: gradients are reduced, then as many bytes of parameters
  gathered, and nothing else moves in between.
- The longer gaps are less than twice as long (an optimizer's update between micro-batches; a pause
  is longer), and the others are too short for steps that compute. If more than four parts lie
  between them, as steps do between two pauses, they are longer by less than a tenth of a part.
"""

from __future__ import annotations

from math import comb

import numpy as np

from llmprism.methods.prism.classes.classes import TrafficClass
from llmprism.methods.prism.cycles.cycles import Division
from llmprism.methods.prism.cycles.evaluations import MOST_SIZES
from llmprism.methods.prism.cycles.updates import hardly_rests, holds_updates
from llmprism.methods.prism.parameters import EQUAL, HALF, SMALL
from llmprism.methods.prism.steps.proposals import (
    GOOD,
    Proposals,
    are_halves,
    of_count,
    records_of_part,
)
from llmprism.methods.prism.steps.silences import (
    CHANCE,
    MOST_MICRO_BATCHES,
    RARE,
    RESTS,
    accumulate,
    follow_at_once,
    longer_by,
    show_micro_batches,
    stands_apart,
)
from llmprism.numerics.arrays import Ints

PHASES = 2  # a step may reduce gradients and gather as many bytes of parameters
ATOMIC = 1.2  # records of a connection in a part that is a single collective; some are cut in two
FORWARD = 0.3  # of a step's backward pass: a forward pass takes as long, if activations come again
UPDATE = 2.0  # an evaluation of two micro-batches makes silences of one forward pass longer by more


def are_pieces(proposals: Proposals, fine: int, coarse: int) -> bool:
    """Whether fine parts are only pieces of steps, and the coarse parts are steps."""
    own = (proposals, fine, coarse)
    if show_micro_batches(*own):
        return True
    every, showing = proposals.both(fine, coarse), proposals.showing(fine, coarse)
    chance = 1 / comb(fine - 1, coarse - 1)
    if chance > CHANCE or any(_denies(*each) for each in every):
        return False
    if chance >= RARE and not any(stands_apart(*each) for each in showing):
        return False
    if _are_phases(*own):
        return True
    longer = longer_by(*own)
    if all(_is_message(*each, fine) for each in every):
        collective = all(one.concurrency >= HALF for one in proposals.classes)
        return not collective or longer >= FORWARD * fine / coarse
    brief = any(hardly_rests(*each) for each in showing) or (
        min(coarser.clarity for _, _, coarser in every if coarser) < UPDATE
        and (fine <= MOST_MICRO_BATCHES * coarse or longer <= SMALL)
    )
    return brief and not accumulate(*own)


def _denies(one: TrafficClass, finer: Division | None, coarser: Division | None) -> bool:
    """Whether a class shows that the fine parts are steps, or that the coarse ones are none."""
    if coarser is None or coarser.clarity <= 1.0:  # its gaps are not longer than all others
        return True
    if finer is None:
        return False
    several = finer.evaluated and not coarser.evaluated  # steps, and an evaluation in each
    return several or holds_updates(one.traffic, finer)


def _is_message(
    one: TrafficClass, finer: Division | None, coarser: Division | None, fine: int
) -> bool:
    """Whether the fine parts are single collectives, or messages that follow at once."""
    if records_of_part(one, fine) <= ATOMIC:
        return True
    if finer is None or coarser is None:
        return False
    return follow_at_once(one.traffic, finer, coarser)


def _are_phases(proposals: Proposals, fine: int, coarse: int) -> bool:
    """Whether coarse parts have two halves: gradients are reduced, then parameters gathered."""
    return are_halves(proposals, fine, coarse) and not (
        _all_move_in(proposals, fine) or _alternate(proposals, fine) or _are_alike(proposals, fine)
    )


def _all_move_in(proposals: Proposals, fine: int) -> bool:
    """Whether other classes move between all parts of the clearest fine division.

    Nothing else moves between the gradients of a step and the parameters gathered after them.
    """
    if len(proposals.classes) == 1:
        return False
    lead, _, end_ns = proposals.clearest(fine)
    if not end_ns.size:
        return False
    volumes = np.zeros(fine + 1)
    for i, one in enumerate(proposals.classes):
        if i != lead:
            part = np.searchsorted(end_ns, one.traffic.start_ns)
            volumes += np.bincount(part, one.traffic.size, fine + 1)
    inside = volumes[1:fine]  # before the first part there may be more, and after the last one
    alternate = [float(np.median(inside[first::PHASES])) for first in range(PHASES)]
    return min(alternate) >= GOOD * max(alternate) > 0


def _alternate(proposals: Proposals, fine: int) -> bool:
    """Whether gradients and parameters, of half as many bytes each, move in all fine parts.

    The parts of a step in which gradients are reduced, or parameters gathered, hold one of both.
    """
    lead, _, _ = proposals.clearest(fine)
    finer, traffic = of_count(proposals.divisions[lead], fine), proposals.classes[lead].traffic
    if finer is None:
        return False
    sizes, which = np.unique(traffic.size, return_inverse=True)
    part, least = finer.part_of(len(traffic)), SMALL * float(traffic.size.sum()) / fine
    own = []
    for at in np.argsort(-np.bincount(which, traffic.size))[:MOST_SIZES].tolist():
        alike = which == at
        if np.bincount(part[alike], traffic.size[alike], fine).min() >= least:
            own.append(float(sizes[at]))
    return any(abs(one - 2 * other) <= EQUAL * one for one in own for other in own)


def _are_alike(proposals: Proposals, fine: int) -> bool:
    """Whether every second fine part takes as long as the others, and silences are no updates.

    Gradients are reduced while they are computed, and parameters gathered at once.
    """
    _, start_ns, end_ns = proposals.clearest(fine)
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
