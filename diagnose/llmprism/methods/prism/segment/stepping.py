"""The steps of a component, and of what is divided by the steps of another one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from llmprism.methods.prism.classes.classes import Component
from llmprism.methods.prism.parameters import MOSTLY
from llmprism.methods.prism.records.traffic import Traffic
from llmprism.numerics.arrays import Codes, Floats, Ints


@dataclass(frozen=True)
class Stepping:
    """The steps of a component.

    Attributes
    ----------
    count : number of steps, 0 if flows show none.
    quality : of the reference's division, in [0, 1].
    reference : index of the class whose division is the reference.
    step_of : for each class the step of each of its records, -1 where unknown.
    start_ns, end_ns : of the reference's traffic in each step [ns], shape (count,).
    """

    count: int
    quality: float
    reference: int
    step_of: tuple[Codes, ...]
    start_ns: Ints
    end_ns: Ints


@dataclass(frozen=True)
class Part:
    """A component and its steps."""

    component: Component
    stepping: Stepping


def by_windows(traffic: Traffic, borders: Sequence[Ints], count: int) -> Codes:
    """Step of each record by those of the ``borders`` that make volumes most equal, -1 after all.

    Borders at which the class moves something count only if it does so at all of them. Records may
    end within a step before the class moves in it: then the last step is empty.
    """
    choices: list[tuple[tuple[float, bool], Codes]] = []
    resting = [one for one in borders if _rests(traffic, one) >= MOSTLY]
    for one in resting or borders:
        step = np.searchsorted(one, traffic.start_ns, side="right").astype(np.int32)
        step[step == count] = -1
        volumes = _volumes(step, traffic, count)
        choices.append(((float(_spread(volumes)), bool(volumes[0] < volumes[-1])), step))
    return min(choices, key=lambda choice: choice[0])[1]


def _rests(traffic: Traffic, border: Ints) -> float:
    """Share of the times in ``border`` at which nothing of the traffic moves."""
    until = np.maximum.accumulate(traffic.end_ns)
    before = np.searchsorted(traffic.start_ns, border, side="right") - 1
    return float(np.mean((before < 0) | (until[before] <= border))) if border.size else 1.0


def _volumes(step: Codes, traffic: Traffic, count: int) -> Floats:
    """Bytes of each step."""
    known = step >= 0
    return np.bincount(step[known], traffic.size[known], count).astype(np.float64)


def _spread(volumes: Floats) -> Floats:
    """How unequal parts are, usually and on average, over the median part; shape (..., parts)."""
    median = np.asarray(np.median(volumes, axis=-1))
    away = np.abs(volumes - median[..., None])
    unequal: Floats = (np.median(away, axis=-1) + away.mean(axis=-1)) / np.maximum(median, 1.0)
    return unequal
