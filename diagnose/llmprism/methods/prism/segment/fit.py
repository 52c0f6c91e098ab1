"""How far steps fit: whether lanes send as usual in each of them.

A step may hold an evaluation besides, but a lane that takes part in steps does so in all of them. A
lane that lacks something in most steps is of other traffic, such as a service or a save. It does
not count, unless it repeats at another pace: of the bytes that repeat, most have to take part.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from llmprism.methods.prism.parameters import ALIKE_BYTES, BESIDE, HALF, HEAVY
from llmprism.methods.prism.segment.lanes import Lane
from llmprism.methods.prism.segment.programme import usual_bytes
from llmprism.numerics.arrays import Floats, Ints


@dataclass(frozen=True)
class Fit:
    """How far lanes that take part send as usual; shares of the steps, weighted by class.

    Attributes
    ----------
    lacking, more : they send less, and more, than usual.
    empty : heavy ones send nothing.
    apart : lanes repeat that do not take part.
    """

    lacking: float
    more: float
    empty: float
    apart: float

    @property
    def missing(self) -> float:
        """How far lanes lack what a step should have."""
        return self.lacking + self.empty

    @property
    def share(self) -> float:
        """How far lanes send as usual, in [0, 1]."""
        return 1 - self.lacking - BESIDE * self.more - self.apart

    @property
    def worth(self) -> float:
        """The same, less for steps without traffic, which are none."""
        return self.share - self.empty


def fit_of(lanes: Sequence[Lane], cut: Sequence[Ints], regular: Floats) -> Fit:
    """How far ``lanes`` fit the steps at which they are ``cut``.

    Parameters
    ----------
    regular : how well each lane repeats at its best level, shape (lanes,).
    """
    unlike = np.array([_unlike(lane, bounds) for lane, bounds in zip(lanes, cut, strict=True)])
    sent = np.array([lane.bytes for lane in lanes])
    of_class = np.array([lane.of_class for lane in lanes])
    weight = np.sqrt(np.bincount(of_class, sent)) / np.maximum(np.bincount(of_class), 1)
    weight = weight[of_class] / weight[of_class].sum()
    part = unlike[:, 0] <= HALF
    lacking, more = weight[part] @ unlike[part, :2]
    apart = float((weight * regular)[~part].sum())
    heavy = part & (sent >= HEAVY * sent.max())
    empty = float(unlike[heavy, 2].mean()) if heavy.any() else 1.0
    return Fit(float(lacking), float(more), empty, apart)


def _unlike(lane: Lane, bounds: Ints) -> tuple[float, float, float]:
    """Shares of the steps in which a lane sends less, and more, than usual, and nothing."""
    steps = np.diff(lane.sent[bounds])
    inner = steps[1:-1] if steps.size > 3 else steps
    usual = usual_bytes(inner)
    if not usual:
        return 1.0, 0.0, 1.0
    inner = _without_cut_ends(steps, (1 - ALIKE_BYTES) * usual)
    lacking = np.mean(inner < (1 - ALIKE_BYTES) * usual)
    more = np.mean(inner > (1 + ALIKE_BYTES) * usual)
    return float(lacking), float(more), float(np.mean(steps == 0))


def _without_cut_ends(steps: Floats, least: float) -> Floats:
    """The steps, without a first and last one that the recording may have cut."""
    first, last = int(steps[0] < least), int(steps[-1] < least)
    return steps[first : steps.size - last] if steps.size > first + last else steps
