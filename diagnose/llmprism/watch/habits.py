"""What a job does in every k-th step: it evaluates or saves, and that step is longer as a rule.

A habit is learned from the lengths of steps alone: if steps k apart are long, at least FEWEST of
them, and those between are not. It is remembered until steps that should be long are not.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from llmprism.numerics.arrays import Bools, Floats, Ints
from llmprism.numerics.missing import TO_SIGMA
from llmprism.watch.state import Habit, KnownJob

FEWEST = 3  # long steps that show a habit, and usual ones that end it
MOST_STEPS = 512
"""Steps of a job whose ends are remembered."""
_MOST_HABITS = 4
_COMPARED = 16  # long steps, the last ones
_LONG = 0.1  # of the usual length, and
_CLEARLY = 0.02  # of the usual length, and
_DEVIATIONS = 5.0  # by which a long step is longer
_HITS = 0.8  # of the steps at which a habit is due
_BETWEEN = 0.34  # of the other steps may be long as well, at most
_DEARER = 1.5  # times the cost of a habit is more than that


@dataclass(frozen=True)
class Lengths:
    """Lengths of the steps of a job.

    Attributes
    ----------
    step : numbers, shape (steps,).
    length_ns : from the end of the step before to its end, shape (steps,) [ns].
    """

    step: Ints
    length_ns: Floats

    @staticmethod
    def of(ends_ns: Mapping[int, int]) -> Lengths:
        """The lengths of steps whose predecessor is known, by their ends [ns]."""
        step = np.array(sorted(ends_ns), np.int64)
        end = np.array([ends_ns[one] for one in step.tolist()], np.float64)
        follows = np.diff(step) == 1
        return Lengths(step[1:][follows], np.diff(end)[follows])

    @property
    def usual_ns(self) -> float:
        """The median length [ns]; 0 if there is none."""
        return float(np.median(self.length_ns)) if self.step.size else 0.0

    @property
    def deviation_ns(self) -> float:
        """By how much most lengths differ from the median [ns]; 0 if there is none."""
        if not self.step.size:
            return 0.0
        return TO_SIGMA * float(np.median(np.abs(self.length_ns - self.usual_ns)))

    @property
    def clear_ns(self) -> float:
        """By how much a step is clearly longer than usual [ns]."""
        return max(_CLEARLY * self.usual_ns, _DEVIATIONS * self.deviation_ns)

    @property
    def is_clear(self) -> Bools:
        """Which steps are clearly longer than usual, though it be by little."""
        found: Bools = self.length_ns >= self.usual_ns + self.clear_ns
        return found

    @property
    def is_long(self) -> Bools:
        """Which steps are longer than usual."""
        usual_ns = self.usual_ns
        least_ns = max(_DEVIATIONS * self.deviation_ns, _LONG * usual_ns)
        found: Bools = self.length_ns > usual_ns + least_ns
        return found


def remember(job: KnownJob, ends_ns: Mapping[int, int]) -> None:
    """Take note of the ends of steps of a job [ns], and bring its habits up to date."""
    if not ends_ns:
        return
    before = max(job.recent_ns, default=-1)
    every = job.recent_ns | dict(ends_ns)
    job.recent_ns = {step: every[step] for step in sorted(every)[-MOST_STEPS:]}
    lengths = Lengths.of(job.recent_ns)
    long = lengths.step[lengths.is_long] if lengths.step.size else lengths.step
    if (long > before).any():
        job.habits = _learned(lengths, job.habits)
    elif lengths.step.size:
        job.habits = [one for one in job.habits if _holds(one, lengths)]


def _learned(lengths: Lengths, known: Sequence[Habit]) -> list[Habit]:
    """The habits that steps show, and those known before that they do not contradict."""
    left = lengths.is_long.copy()
    found: list[Habit] = []
    while len(found) < _MOST_HABITS and left.sum() >= FEWEST:
        habit = _habit(lengths, left)
        if habit is None:
            break
        found.append(habit)
        left &= (lengths.step - habit.at) % habit.every != 0
    kept = [one for one in known if _holds(one, lengths) and not _has(found, one)]
    return (found + kept)[:_MOST_HABITS]


def _has(habits: Iterable[Habit], one: Habit) -> bool:
    return any(it.every == one.every and (it.at - one.at) % it.every == 0 for it in habits)


def _habit(lengths: Lengths, is_long: Bools) -> Habit | None:
    """The habit that explains most of the long steps."""
    long = lengths.step[is_long]
    best: tuple[int, Habit] | None = None
    last = long[-_COMPARED:]
    apart = np.unique(last[:, None] - last[None, :])
    for every in apart[apart > 0].tolist():
        for at in np.unique(long % every).tolist() if every > 1 else ():
            since = lengths.step >= long[long % every == at][0]
            due = (lengths.step % every == at) & since
            hits = int((due & is_long).sum())
            between = is_long[(lengths.step % every != at) & since]
            if hits < FEWEST or hits < _HITS * due.sum() or between.mean() > _BETWEEN:
                continue
            extra_ns = float(np.median(lengths.length_ns[due & is_long])) - lengths.usual_ns
            latest = int(lengths.step[due & is_long][-1])
            if best is None or hits > best[0]:
                best = hits, Habit(int(every), latest, round(extra_ns), latest)
    return best[1] if best else None


def _holds(habit: Habit, lengths: Lengths) -> bool:
    """Whether no more than FEWEST steps were usual at which a habit known before was due."""
    due = ((lengths.step - habit.at) % habit.every == 0) & (lengths.step > habit.latest)
    return int((due & ~lengths.is_long).sum()) < FEWEST


def is_habitual(job: KnownJob, first: int, last: int, cost_ns: float) -> bool:
    """Whether the habits of a job explain what some of its steps cost [ns].

    Windows divide steps near a long one otherwise at times, so the step beside it counts as well.
    """
    span = np.arange(first - 1, last + 2)
    due = [one for one in job.habits if last - first + 1 < max(one.every, 2)]
    explained = np.zeros(span.size, np.bool_)
    extra_ns = 0.0
    for one in due:
        hits = (span - one.at) % one.every == 0
        explained |= hits
        extra_ns += one.extra_ns * hits.sum()
    if not explained.any() or cost_ns > _DEARER * extra_ns:
        return False
    lengths = Lengths.of(job.recent_ns)
    near = np.convolve(explained, np.ones(3), "same") > 0
    others = np.isin(lengths.step, span[(span >= first) & (span <= last) & ~near])
    return not (others & lengths.is_long).any() and (others & lengths.is_clear).sum() < FEWEST


def is_due(known: Sequence[Habit], steps: Ints, extra_ns: Floats) -> Bools:
    """Mark the steps at which a habit is due, if they are not much longer than it makes them."""
    found = np.zeros(steps.size, np.bool_)
    for one in known:
        found |= ((steps - one.at) % one.every == 0) & (extra_ns <= _DEARER * one.extra_ns)
    return found


def extra_of(known: Sequence[Habit], step: int) -> int:
    """By how much habits make a step longer at most [ns], or one beside it."""
    near = (one.extra_ns for one in known if (step + 1 - one.at) % one.every <= 2)
    return max(near, default=0)


def longest_pause_ns(job: KnownJob) -> float:
    """The longest step that the habits of a job make [ns]; 0 if it has none."""
    extra_ns = max((one.extra_ns for one in job.habits), default=0)
    return Lengths.of(job.recent_ns).usual_ns + extra_ns if extra_ns else 0.0
