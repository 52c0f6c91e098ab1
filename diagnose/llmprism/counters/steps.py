"""Single steps: parts of equal bytes, each ending in the silence between two bursts.

Every step of a job moves the same bytes, however long it takes. So the total of a job, which
counters give exactly, is a clock of steps: against bytes instead of time, the silences between
bursts are an even train, and its frequency is the number of steps. Each step then ends where the
quiet time next to its place in that train begins.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from llmprism.counters.curves import Curves
from llmprism.counters.rhythm import Rhythm, active_part, profile
from llmprism.numerics.arrays import Floats, Ints

SAMPLES = 6.0
"""Refreshes in a step from which single steps are given; fewer leave errors of a sixth."""
PARTS = 64
"""Parts of the bytes of a step: the places where it may end."""
QUIET = 4
"""Parts that pass in the quiet time: a pipeline sends a little all the time."""
NUMBER_WITHIN = 0.08
"""Of the number of steps that the rhythm gives: delays lengthen the mean step."""
REACH = PARTS // 4
"""Parts by which a silence may be away from its place: traffic besides that of steps."""
WHOLE = 0.9
"""Of the bytes of a step, that a whole one at the edge of the recording has."""


@dataclass(frozen=True)
class JobSteps:
    """The steps of one job.

    Attributes
    ----------
    edges_ns : where steps end; the first is the begin of the first whole step, shape (steps + 1,).
    evenness : how much of the silence is in the even train, in [0, 1]: 1 if each step ends with
        all of it.
    rest : bytes after the last whole step, as a share of those of a step.
    """

    edges_ns: Ints
    evenness: float
    rest: float

    @property
    def durations_ns(self) -> Ints:
        """Length of each step."""
        return np.diff(self.edges_ns)

    def step_at(self, time_ns: int) -> int:
        """The step at a time, -1 before the first."""
        return int(np.searchsorted(self.edges_ns, time_ns, side="right")) - 1


def can_show_steps(curves: Curves, rhythm: Rhythm) -> bool:
    """Whether single steps can be given."""
    return rhythm.period_ns >= SAMPLES * curves.resolution_ns


def steps_of(curves: Curves, rows: Ints, rhythm: Rhythm) -> JobSteps:
    """Divide the traffic of a job into steps."""
    rate = profile(curves, rows)
    first, last = active_part(rate)
    passed = np.concatenate([[0.0], np.cumsum(rate[first:last])])
    about = (last - first) * curves.bin_ns / rhythm.period_ns
    count = max(1, int(about * PARTS))
    marks = np.linspace(0.0, passed[-1], count + 1)
    at = first + np.interp(marks, passed + 1e-9 * np.arange(passed.size), np.arange(passed.size))
    dwell = np.diff(at)
    number, phase, evenness = _train(dwell, about)
    part = count / number
    places = _followed(np.convolve(dwell, np.ones(QUIET), "valid"), part, phase * part)
    edges = at[places]
    if places.size and places[0] >= WHOLE * part and first > 0:
        edges = np.concatenate([[max(0.0, edges[0] - np.median(np.diff(edges)))], edges])
    rest = (count - places[-1]) / part if places.size else 0.0
    if rest >= WHOLE:
        edges, rest = np.append(edges, last), 0.0
    times = curves.start_ns + np.rint(edges * curves.bin_ns).astype(np.int64)
    return JobSteps(times, evenness, float(rest))


def _train(dwell: Floats, about: float) -> tuple[float, float, float]:
    """The even train of silences: number of steps, phase of the first end, and evenness."""
    place = np.arange(dwell.size) / dwell.size
    above = dwell - dwell.mean()
    low, high = about * (1 - NUMBER_WITHIN) - 1, about * (1 + NUMBER_WITHIN) + 1
    numbers = np.arange(max(1.0, low), high, 0.2)
    waves = np.array([np.vdot(np.exp(2j * np.pi * n * place), above) for n in numbers])
    best = int(np.abs(waves).argmax())
    phase = float(-np.angle(waves[best]) / (2 * np.pi)) % 1.0
    evenness = float(np.abs(waves[best]) / max(np.abs(above).sum(), 1e-30))
    return float(numbers[best]), phase, evenness


def _followed(quiet: Floats, part: float, first: float) -> Ints:
    """Where the longest quiet time near each mark begins; marks follow what was found before."""
    places = []
    mark = first if first >= REACH else first + part
    while mark + REACH < quiet.size:
        low = max(0, int(mark) - REACH)
        near = quiet[low : int(mark) + REACH + 1]
        away = np.abs(np.arange(low, low + near.size) - mark) / REACH
        place = low + int((near * (1 - 0.5 * away)).argmax())
        places.append(place)
        mark += part + 0.3 * (place - mark)
    return np.array(places, np.int64)
