"""Where the optimizer updates parameters: once in every step, never between micro-batches.

Two signs tell whether equal parts are steps or micro-batches, when every k-th silence is longer.

- Parts that reduce gradients and then gather parameters have an update inside, so they are steps.
  It shows if gradients have twice the bytes of parameters, and are reduced k times: all messages of
  the last 1/(1 + 2k) of the bytes have sizes that those before do not have, half of theirs.
- Traffic that hardly ever rests, not even at the longest silences, gathers parameters all through
  the passes. Then silences hold an update and nothing else: there was no time for a pause. What is
  longer than the others is the update, and the parts between the others are micro-batches.
"""

from __future__ import annotations

import numpy as np

from llmprism.methods.prism.cycles.cycles import Division, Traffic
from llmprism.methods.prism.parameters import EQUAL, NEARLY, QUARTER
from llmprism.numerics.arrays import Floats

GATHERED = tuple(1 / (1 + 2 * k) for k in range(1, 33))
"""Of the bytes of a step: parameters of two bytes beside k times their gradients of four."""
MIXED = 0.06  # of the gathered bytes: what the messages of some ranks may be early or late


def holds_updates(traffic: Traffic, parts: Division) -> bool:
    """Whether every part reduces gradients, then gathers parameters."""
    part = parts.part_of(len(traffic))
    moved = np.cumsum(traffic.size, dtype=np.float64)
    before = np.concatenate(([0.0], moved))[parts.firsts]
    middle = (moved - traffic.size / 2 - before[part]) / parts.volumes[part]
    scale = np.rint(np.log(traffic.size) / EQUAL).astype(np.int64)
    first, which = np.unique(scale, return_index=True, return_inverse=True)[1:]
    sizes = traffic.size[first].astype(np.float64)
    late_for = np.searchsorted(1 - np.array(GATHERED), middle)  # how many of the shares
    shape = sizes.size, len(GATHERED) + 1
    of_cell = np.bincount(which * shape[1] + late_for, traffic.size, shape[0] * shape[1])
    until = np.cumsum(of_cell.reshape(shape), axis=1)
    for share, early in zip(GATHERED, until.T[:-1], strict=True):
        if _are_gathers(sizes, np.column_stack((early, until[:, -1] - early)), share):
            return True
    return False


def _are_gathers(sizes: Floats, moved: Floats, share: float) -> bool:
    """Whether the sizes that move late, in the last ``share`` of the bytes, are of parameters.

    ``moved`` are the bytes in messages of each size, early and late.
    """
    gathers = moved[:, 1] > moved[:, 0]
    bytes_, total = moved.sum(axis=1), moved.sum()
    mixed = moved[gathers, 0].sum() + moved[~gathers, 1].sum()
    off = abs(bytes_[gathers].sum() - share * total)
    if mixed > 2 * MIXED * share * total or off > MIXED * share * total:
        return False
    doubled = 2 * sizes[gathers, None] / sizes[~gathers]
    halves = (np.abs(doubled - 1) <= 2 * EQUAL).any(axis=1)
    return bool(bytes_[gathers][halves].sum() >= NEARLY * bytes_[gathers].sum())


def hardly_rests(traffic: Traffic, parts: Division, coarse: Division) -> bool:
    """Whether no silence of the ``coarse`` division is longer than an update in each of ``parts``.

    Silences longer than the usual ones, as around an evaluation, do not count.
    """
    part_ns = parts.usual_ns(traffic)
    return bool(np.median(traffic.rests_ns()[coarse.cuts - 1]) <= QUARTER * part_ns)
