"""Whether the parts of one division are steps, and those of a coarser one several of them.

Equal parts may be too fine: buckets of one size, or micro-batches whose gradients are
reduced one by one, divide a step into parts that are alike. Such parts show themselves by the
gaps between them: every k-th gap is longer than all others. That this happens by chance for
all of the N / k longest gaps has probability 1 / C(N - 1, N / k - 1). Unless that is very small,
the longer gaps must also be longer by more than the others differ. Pauses (evaluation,
checkpoints) make every k-th gap longer, too. A coarser division is believed only in three cases:

- The finer one's parts are single collectives, and the longer gaps leave time for a forward pass.
  Messages of a pipeline, in which few connections move at the same time, need no such time: its
  passes follow at equal distances.
- Two of them make a coarser part: gradients are reduced, then as many bytes of parameters
  gathered, and nothing else moves in between.
- The longer gaps are less than twice as long (an optimizer's update between micro-batches; a pause
  is longer), and the others are too short for steps that compute. If more than four parts lie
  between them, as steps do between two pauses, they are longer by less than a tenth of a part.
"""

from __future__ import annotations

from math import comb

from llmprism.methods.prism.classes.classes import TrafficClass
from llmprism.methods.prism.cycles.cycles import Division
from llmprism.methods.prism.cycles.updates import hardly_rests, holds_updates
from llmprism.methods.prism.parameters import HALF, SMALL
from llmprism.methods.prism.steps.proposals import (
    Proposals,
    parts_held,
    records_of_part,
)
from llmprism.methods.prism.steps.silences import (
    CHANCE,
    MOST_MICRO_BATCHES,
    RARE,
    accumulate,
    longer_by,
    stands_apart,
)

PHASES = 2  # a step may reduce gradients and gather as many bytes of parameters
ATOMIC = 1.2  # records of a connection in a part that is a single collective; some are cut in two
FORWARD = 0.3  # of a step's backward pass: a forward pass takes as long, if activations come again
UPDATE = 2.0  # an evaluation of two micro-batches makes silences of one forward pass longer by more


def are_pieces(proposals: Proposals, fine: int, coarse: int) -> bool:
    """Whether fine parts are only pieces of steps, and the coarse parts are steps."""
    own = (proposals, fine, coarse)
    every, showing = proposals.both(fine, coarse), proposals.showing(fine, coarse)
    chance = 1 / comb(fine - 1, coarse - 1)
    if chance > CHANCE or any(_denies(*each) for each in every):
        return False
    if chance >= RARE and not any(stands_apart(*each) for each in showing):
        return False
    if parts_held(*own) == PHASES:
        return True
    longer = longer_by(*own)
    if all(records_of_part(one, fine) <= ATOMIC for one, *_ in every):
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
