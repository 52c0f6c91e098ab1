"""Single steps: parts of equal bytes, each ending in the silence between two bursts.

Every step of a job moves the same bytes, however long it takes. So the total of a job, which
counters give exactly, is a clock of steps: against bytes instead of time, the silences between
bursts are an even train, and its frequency is the number of steps. Each step then ends in the
silence next to its place in that train.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from llmprism.counters.curves import Curves
from llmprism.counters.rhythm import Rhythm, profile
from llmprism.numerics.arrays import Floats, Ints

SAMPLES = 6.0
"""Refreshes in a step from which single steps are given; fewer leave errors of a sixth."""
PARTS = 64
"""Parts of the bytes of a step: the places where it may end."""
NUMBER_WITHIN = 0.08
"""Of the number of steps that the rhythm gives: delays lengthen the mean step."""
REACH = PARTS // 4
"""Parts by which a silence may be away from its place: traffic besides that of steps."""


@dataclass(frozen=True)
class JobSteps:
    """The steps of one job.

    Attributes
    ----------
    edges_ns : ends of steps, from that of the first partial one, shape (steps + 1,).
    evenness : how much of the silence is in the even train, in [0, 1]: 1 if each step ends with
        all of it.
    """

    edges_ns: Ints
    evenness: float

    @property
    def durations_ns(self) -> Ints:
        """Length of each step."""
        return np.diff(self.edges_ns)


def can_show_steps(curves: Curves, rhythm: Rhythm) -> bool:
    """Whether single steps can be given."""
    return rhythm.period_ns >= SAMPLES * curves.resolution_ns


def steps_of(curves: Curves, rows: Ints, rhythm: Rhythm) -> JobSteps:
    """Divide the traffic of a job into steps."""
    passed = np.concatenate([[0.0], np.cumsum(profile(curves, rows))])
    about = curves.span_ns / rhythm.period_ns
    count = int(about * PARTS)
    marks = np.linspace(0.0, passed[-1], count + 1)
    at = np.interp(marks, passed + 1e-9 * np.arange(passed.size), np.arange(passed.size))
    dwell = np.diff(at)
    number, phase, evenness = _train(dwell, about)
    places = _followed(dwell, count / number, phase * count / number)
    edges = curves.start_ns + np.rint(at[places] * curves.bin_ns).astype(np.int64)
    return JobSteps(edges, evenness)


def _train(dwell: Floats, about: float) -> tuple[float, float, float]:
    """The even train of silences: number of steps, phase of the first end, and evenness."""
    place = np.arange(dwell.size) / dwell.size
    above = dwell - dwell.mean()
    low, high = about * (1 - NUMBER_WITHIN), about * (1 + NUMBER_WITHIN)
    numbers = np.arange(low, high, 0.2)
    waves = np.array([np.vdot(np.exp(2j * np.pi * n * place), above) for n in numbers])
    best = int(np.abs(waves).argmax())
    phase = float(-np.angle(waves[best]) / (2 * np.pi)) % 1.0
    evenness = float(np.abs(waves[best]) / max(np.abs(above).sum(), 1e-30))
    return float(numbers[best]), phase, evenness


def _followed(dwell: Floats, part: float, first: float) -> Ints:
    """The place of the longest silence near each mark; marks follow what was found before."""
    places = []
    mark = first if first >= REACH else first + part
    while mark + REACH < dwell.size:
        low = max(0, int(mark) - REACH)
        near = dwell[low : int(mark) + REACH + 1]
        away = np.abs(np.arange(low, low + near.size) - mark) / REACH
        place = low + int((near * (1 - 0.5 * away)).argmax())
        places.append(place)
        mark += part + 0.3 * (place - mark)
    return np.array(places, np.int64)
