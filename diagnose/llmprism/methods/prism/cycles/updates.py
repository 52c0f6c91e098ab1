"""Where the optimizer updates parameters: once in every step, never between micro-batches.

Two signs tell whether equal parts are steps or micro-batches, when every k-th silence is longer.

- Parts that reduce gradients and then gather parameters have an update inside, so they are steps.
  It shows if gradients have twice the bytes of parameters: all messages of the last third of the
  bytes have sizes that those before do not have.
- Traffic that hardly ever rests, not even at the longest silences, gathers parameters all through
  the passes. Then silences hold an update and nothing else: there was no time for a pause. What is
  longer than the others is the update, and the parts between the others are micro-batches.
"""

from __future__ import annotations

import numpy as np

from llmprism.methods.prism.cycles.cycles import Division, Traffic

GATHERED = 1 / 3  # of the bytes of a step: parameters of two bytes beside gradients of four
MIXED = 0.02  # of the bytes: what the messages of some ranks may be early or late
ONE_SIZE = 0.01  # of a message: difference of size that counts as none
UPDATE = 0.2  # of a part: silence that an update and host work take; a pause is longer


def holds_updates(traffic: Traffic, parts: Division) -> bool:
    """Whether every part reduces gradients, then gathers parameters."""
    part = parts.part_of(len(traffic))
    until = np.cumsum(traffic.size, dtype=np.float64)
    before = np.concatenate(([0.0], until))[parts.firsts]
    middle = (until - traffic.size / 2 - before[part]) / parts.volumes[part]
    late = middle > 1 - GATHERED
    scale = np.rint(np.log(traffic.size) / ONE_SIZE).astype(np.int64)
    sizes, which = np.unique(scale, return_inverse=True)
    moved = np.zeros((sizes.size, 2))
    np.add.at(moved, (which, late.astype(np.int64)), traffic.size)
    gathers = moved[:, 1] > moved[:, 0]
    total = moved.sum()
    early = moved[gathers, 0].sum() + moved[~gathers, 1].sum()
    gathered = moved[gathers].sum() / total
    return bool(early <= 2 * MIXED * total and abs(gathered - GATHERED) <= MIXED)


def hardly_rests(traffic: Traffic, parts: Division, coarse: Division) -> bool:
    """Whether no silence of the ``coarse`` division is longer than an update in each of ``parts``.

    Silences longer than the usual ones, as around an evaluation, do not count.
    """
    part_ns = parts.usual_ns(traffic)
    return bool(np.median(traffic.rests_ns()[coarse.cuts - 1]) <= UPDATE * part_ns)
