"""How far a job has come since its pattern was learned: its steps, and what counts for the next.

Whether steps have become longer or shorter is seen in cumulative sums (Page, 1954). Lengths are
compared with what a step usually takes; or, if the job is slow already, with what its last steps
took. A sum grows with each step that is more than a deviation longer, and shrinks with all others.
It says that something has changed if it exceeds what the diagnosed steps reached without a finding,
since steps with a checkpoint or an evaluation are longer as a rule.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pandas as pd

from llmprism.diagnosis import Diagnosis
from llmprism.numerics.arrays import Bools, Floats
from llmprism.numerics.missing import TO_SIGMA
from llmprism.watch.following import SETTLED
from llmprism.watch.habits import extra_of, is_due
from llmprism.watch.state import Habit
from llmprism.watch.tracking.patterns import FITTING, REACHED, Pattern, learn
from llmprism.watch.tracking.records import Numbers, Records, joined

ALLOWED = 1.0  # deviations by which a step may be longer
LEAST_SUM = 5.0  # reached by chance in one of some ten thousand steps
MOST = 8.0  # deviations of one step that count
SMALLEST = 0.003  # of a step: shorter delays are no finding
LAST = 5  # steps that show how long they take at present
ABOVE = 1.25  # times the largest sum of steps without a finding


@dataclass(frozen=True)
class Level:
    """What steps take at present, by how much they vary [ns], and the bound of sums."""

    usual_ns: float
    deviation_ns: float
    bound: float

    def is_left(self, lengths_ns: Floats) -> bool:
        """Whether the steps that follow are longer or shorter."""
        return any(_largest_sum(self, lengths_ns, sign) > self.bound for sign in (1.0, -1.0))


def level_of(lengths_ns: Floats, explained: Bools) -> Level:
    """The present level of steps, some of which a finding explains."""
    usual = float(np.median(lengths_ns))
    away = np.abs(lengths_ns - usual)
    deviation = max(TO_SIGMA * float(np.median(away)), SMALLEST * usual)
    plain = Level(usual, deviation, LEAST_SUM)
    others = lengths_ns[~explained]
    sums = [_largest_sum(plain, others, sign) for sign in (1.0, -1.0)]
    now = float(np.median(lengths_ns[-LAST:]))
    is_slow = abs(now - usual) > MOST * deviation
    return Level(now if is_slow else usual, deviation, max(LEAST_SUM, ABOVE * max(sums)))


def _largest_sum(level: Level, lengths_ns: Floats, sign: float) -> float:
    away = sign * (lengths_ns - level.usual_ns) / level.deviation_ns
    total = np.cumsum(np.clip(away, -MOST, MOST) - ALLOWED)
    lowest = np.minimum.accumulate(np.concatenate(([0.0], total)))[:-1]
    return float((total - lowest).max(initial=0.0))


OVERDUE = 2.0  # times the longest step: then the job has stopped, or its pattern is another one


@dataclass
class Progress:
    """A job that is followed.

    Attributes
    ----------
    before_ns : from the end of a step to the start of the next one, as tables have them [ns].
    after_ns : from the end of DP traffic to that of the step, as tables have them [ns].
    ranks : that take its steps.
    step, end_ns : number of its last step, and when that ended [ns].
    longest_ns : of the steps that were diagnosed, without those that a habit makes longer [ns].
    habits : of the job: the steps that they make longer say nothing.
    lengths_ns : of the steps since the diagnosis [ns].
    """

    pattern: Pattern
    level: Level
    before_ns: float
    after_ns: float
    ranks: int
    step: int
    end_ns: float
    longest_ns: float
    habits: Sequence[Habit] = ()
    lengths_ns: list[float] = field(default_factory=list)
    _waiting: list[Records] = field(default_factory=list)

    def add(self, records: Records) -> None:
        """Keep the records that count."""
        own = self._later(records)
        if len(own):
            self._waiting.append(own)

    def steps_until(self, time_ns: int) -> list[tuple[int, float, float]]:
        """Number, start, and end of DP traffic [ns] of the steps that are complete by a time."""
        found = []
        records = joined(self._waiting)
        while (end_ns := self._next_end(records, time_ns)) is not None:
            start_ns = self.end_ns + self.before_ns
            self.lengths_ns.append(end_ns - self.end_ns)
            self.step, self.end_ns = self.step + 1, end_ns
            found.append((self.step, start_ns, end_ns))
            records = self._later(records)
        self._waiting = [records]
        return found

    @property
    def has_changed(self) -> bool:
        """Whether its steps have become longer or shorter."""
        lengths_ns = np.array(self.lengths_ns, float)
        steps = np.arange(self.step - lengths_ns.size, self.step) + 1
        usual = ~is_due(self.habits, steps, lengths_ns - self.level.usual_ns)
        return self.level.is_left(lengths_ns[usual])

    def is_overdue(self, time_ns: int) -> bool:
        """Whether its next step should have been complete long ago."""
        longest_ns = self.longest_ns + extra_of(self.habits, self.step + 1)
        return time_ns > self.end_ns + OVERDUE * longest_ns

    def _next_end(self, records: Records, time_ns: int) -> float | None:
        """When the next step ended; None if it has not, or may still get records."""
        end_ns, agreeing = self.pattern.agreed_ns(self._moved_ns(records))
        may_grow = end_ns + SETTLED * self.pattern.period_ns > time_ns
        return None if agreeing < FITTING or may_grow else end_ns

    def _moved_ns(self, records: Records) -> Floats:
        """When each lane has moved what it moves in a step [ns]; NaN if it has not."""
        order = np.lexsort((records.end_ns, records.lane))
        place, _ = self.pattern.places(records)
        place, end_ns, volume = place[order], records.end_ns[order], records.bytes[order]
        sums = np.cumsum(volume)
        first = np.searchsorted(place, np.arange(self.pattern.lanes.size))
        sums = sums - np.concatenate(([0], sums))[first][place]
        reached = sums >= REACHED * self.pattern.step_bytes[place]
        moved = np.full(self.pattern.lanes.size, np.nan)
        moved[place[reached][::-1]] = end_ns[reached][::-1]  # the first one counts
        return moved

    def _later(self, records: Records) -> Records:
        """The records that count in the steps after the last one."""
        place, own = self.pattern.places(records)
        later = records.end_ns > self.end_ns + self.pattern.border_ns[place]
        return records.where(own & later)


def has_ended(ends_ns: pd.Series, time_ns: int) -> bool:
    """Whether a job whose steps end at such times [ns] takes no more of them at a later time."""
    longest_ns = float(ends_ns.diff().max()) if len(ends_ns) > 1 else float("inf")
    return time_ns > float(ends_ns.iloc[-1]) + OVERDUE * longest_ns


def progress_of(
    diagnosis: Diagnosis,
    job: str,
    ends_ns: pd.Series,
    window: Records,
    numbers: Numbers,
    habits: Sequence[Habit] = (),
) -> Progress | None:
    """A job as a diagnosis of a ``window`` left it; None if it cannot be followed."""
    found = learn(diagnosis, job, ends_ns, window, numbers)
    if found is None:
        return None
    pattern, shown_ns = found
    steps = diagnosis.steps[diagnosis.steps["job"] == job]
    times = steps.groupby("step")[["start_ns", "end_ns"]].median()
    findings = diagnosis.findings[diagnosis.findings["job"] == job]
    explained = np.zeros(shown_ns.size, np.bool_)
    for first, last in zip(findings["first_step"], findings["last_step"], strict=True):
        explained |= (ends_ns.index[1:-1] >= first) & (ends_ns.index[1:-1] <= last)
    lengths_ns = np.diff(shown_ns)
    extra_ns = lengths_ns - float(np.median(lengths_ns))
    habitual = is_due(habits, ends_ns.index[2:-1].to_numpy(np.int64), extra_ns)
    explained[1:] |= habitual
    one = Progress(
        pattern=pattern,
        level=level_of(lengths_ns, explained[1:]),
        before_ns=float((times["start_ns"] - ends_ns.shift()).median()),
        after_ns=float((times["end_ns"] - ends_ns).median()),
        ranks=int(steps["address"].nunique()),
        step=int(ends_ns.index[-2]),
        end_ns=float(shown_ns[-1]),
        longest_ns=float(lengths_ns[~habitual].max(initial=np.median(lengths_ns))),
        habits=habits,
    )
    one.add(window)
    return one
