"""Decides what is diagnosed when, and follows the jobs that need no diagnosis.

A job is diagnosed if it changes, and from time to time, twice as late each time if nothing has
changed: at first in the next stride; in the end, after CALM windows if it has no open incident, and
after half a window otherwise, so that each record is in two windows. A job with steps but without a
pattern is diagnosed 30 times in the time of one window, or once in a step; while its steps are too
few for a pattern, when they are half as many again, since they do not count before. However many
records a window has, diagnoses for these reasons take at most half of the time. A job with an
incident of few steps is diagnosed with its next step, which shows whether it persists.

The others are followed meanwhile. Jobs that share a server are diagnosed together, and what belongs
to no job is diagnosed with them. After CALM windows, all are.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pandas as pd
import pyarrow as pa

from llmprism.batches.chains import ends_of, members_of, period_of
from llmprism.diagnosis import Diagnosis
from llmprism.io.topology import Topology
from llmprism.numerics.arrays import Bools, Codes
from llmprism.watch.following import SETTLED, Followed
from llmprism.watch.numbering import GROWN
from llmprism.watch.policy import HICCUP, PERSISTS
from llmprism.watch.settings import Settings
from llmprism.watch.state import Habit, KnownJob, State
from llmprism.watch.tracking.patterns import FEWEST
from llmprism.watch.tracking.progress import has_ended, progress_of
from llmprism.watch.tracking.records import Numbers, Records, joined
from llmprism.watch.tracking.subjects import LITTLE, NONE, STRANGE, Subject, split
from llmprism.watch.window import Span

STEPS = ["job", "step", "start_ns", "end_ns", "ranks", "dp_end_ns"]
NO_STEPS = pd.DataFrame(columns=STEPS)


@dataclass
class Learned:
    """All subjects, by name.

    Attributes
    ----------
    seen : the addresses that sent anything, shape (addresses,).
    """

    numbers: Numbers
    subjects: dict[str, Subject]
    seen: Bools

    def __post_init__(self) -> None:
        self._place_of = places(self.subjects, self.seen.size)

    @property
    def has_rest(self) -> bool:
        """Whether an address sends that belongs to no job which takes steps."""
        return bool((self.seen & (self._place_of == 0)).any())

    def take(self, records: Records, names: Collection[str]) -> None:
        """Take in records for some of the subjects."""
        found = split(records, self.numbers, self._place_of, len(self.subjects), self.seen)
        for place, (name, one) in enumerate(self.subjects.items()):
            if name in names:
                own = records.take(found.rows(place))
                one.add(own, float(found.outside[place]), place in found.new)

    def steps_until(self, time_ns: int) -> pd.DataFrame:
        """The steps that were completed by a time."""
        rows = [
            (name, number, start_ns, end_ns + job.after_ns, job.ranks, end_ns)
            for name, one in self.subjects.items()
            if (job := one.progress) is not None
            for number, start_ns, end_ns in job.steps_until(time_ns)
        ]
        return pd.DataFrame(rows, columns=STEPS).astype(
            dict.fromkeys(("step", "start_ns", "end_ns", "ranks", "dp_end_ns"), np.int64)
        )


def places(subjects: dict[str, Subject], addresses: int) -> Codes:
    """The place of each address among the subjects; that of NONE if no job has it."""
    found: Codes = np.zeros(addresses, np.int32)
    for place, one in enumerate(subjects.values()):
        found[one.members] = place
    return found


def learned_from(
    diagnosis: Diagnosis,
    records: Records,
    span: Span,
    numbers: Numbers,
    others: dict[str, Subject],
    habits: Mapping[str, Sequence[Habit]],
) -> Learned:
    """What a diagnosis teaches; ``others`` are jobs that were not diagnosed, and stay as they are.

    ``records`` are all of its jobs that are stored. Only jobs with ``habits``, though it be none,
    are followed.
    """
    window = records.where((records.end_ns <= span.end_ns) & (records.end_ns >= span.start_ns))
    seen = np.isin(np.arange(len(numbers.addresses)), numbers.sources(window.lane))
    for one in others.values():
        seen[one.members] = True
    fresh, idle = _subjects(diagnosis, span, numbers)
    subjects = fresh | others  # NONE stays the first
    window = window.where(~idle[numbers.sources(window.lane)])
    found = split(window, numbers, places(subjects, seen.size), len(subjects), seen)
    lasts_ns = max(float(np.ptp(window.end_ns)) if len(window) else 0.0, 1.0)
    ends = ends_of(diagnosis.steps)
    for place, (name, one) in enumerate(fresh.items()):
        every = found.own[place] if place else found.own.sum()
        one.bound = float(STRANGE * found.outside[place] + LITTLE * every) / lasts_ns
        one.records_per_ns = found.rows(place).size / lasts_ns
        if name in habits:
            own = window.take(found.rows(place))
            one.progress = progress_of(diagnosis, name, ends[name], own, numbers, habits[name])
    return Learned(numbers, subjects, seen)


def _subjects(
    diagnosis: Diagnosis, span: Span, numbers: Numbers
) -> tuple[dict[str, Subject], Bools]:
    """The subjects of a diagnosis, and the addresses of jobs that take no more steps.

    If such an address sends again, that is traffic which the window does not have.
    """
    found = {NONE: Subject(np.zeros(0, np.int64), span.end_ns)}
    idle: Bools = np.zeros(len(numbers.addresses), np.bool_)
    members = members_of(diagnosis)
    for job, ends_ns in ends_of(diagnosis.steps).items():
        codes = numbers.codes([*members[job]])
        if has_ended(ends_ns, span.end_ns):
            idle[codes] = True
        else:
            found[job] = Subject(codes, span.end_ns, period_of(ends_ns, 0.0), len(ends_ns))
    return found, idle


CALM = 16  # windows from one diagnosis to the next, at most
RECORD_NS = 25_000  # that each record adds to the time of a diagnosis, about
SHARE = 0.5  # of the time, for diagnoses of windows without a change
RECENT = 10  # steps, at least, of a job that has changed: in fewer, it could not be followed
QUICKLY = 200_000  # records that are diagnosed in some seconds


@dataclass(frozen=True)
class Turn:
    """What to do with a window.

    Attributes
    ----------
    is_due : whether anything is diagnosed.
    others : jobs that are not diagnosed, because they go on as they were.
    steps : those that ``others`` have completed.
    since_ns : the diagnosis needs no records that start before [ns].
    """

    is_due: bool = True
    others: frozenset[str] = frozenset()
    steps: pd.DataFrame = field(default_factory=NO_STEPS.copy)
    since_ns: int = 0

    def only(self, others: frozenset[str]) -> Turn:
        """The same with fewer ``others``."""
        steps = self.steps[self.steps["job"].isin(others)]
        return replace(self, others=self.others & others, steps=steps)


@dataclass
class Tracker:
    """What was learned of the jobs; nothing at first, and again after a failure."""

    settings: Settings
    _topology: Topology | None = None
    _numbers: Numbers = field(default_factory=lambda: Numbers(()))
    _later: Records = field(default_factory=lambda: joined([]))  # in order of their ends
    _learned: Learned | None = None
    _whole_ns: int = 0  # end of the last window that was diagnosed as a whole
    _changed: frozenset[str] = frozenset()
    _growing: frozenset[str] = frozenset()
    _until_ns: int = 0  # no diagnosis before

    def forget(self, until_ns: int = 0) -> None:
        """Forget everything, so that the first window that ends after a time is diagnosed [ns]."""
        self._learned = None
        self._until_ns = until_ns

    def cover(self, topology: Topology) -> bool:
        """Follow jobs in this network; if it is another one than before, forget everything.

        Return whether it is: then the records that no window had have to be added again.
        """
        if topology is self._topology:
            return False
        self._topology, self._numbers = topology, Numbers(topology.addresses)
        self._later = joined([])
        self.forget()
        return True

    def add(self, table: pa.Table) -> None:
        """Take in records that have come; they count in the window in which they end."""
        later = joined([self._later, self._numbers.of(table)])
        self._later = later.take(np.argsort(later.end_ns, kind="stable"))

    def later_ns(self, time_ns: int) -> int | None:
        """End of the first record that ends after a time [ns]; None if there is none."""
        ends_ns = self._later.end_ns
        place = int(np.searchsorted(ends_ns, time_ns, side="right"))
        return int(ends_ns[place]) if place < ends_ns.size else None

    def follow(self, span: Span, known: Sequence[KnownJob]) -> Turn:
        """Count the steps up to the end of a window, and say what has to be diagnosed."""
        learned, ended = self._learned, self._later.end_ns <= span.end_ns
        if learned is not None:
            learned.take(self._later.where(ended), learned.subjects)
        self._later = self._later.where(~ended)
        if learned is None and span.end_ns < self._until_ns:
            return Turn(is_due=False)
        if learned is None or span.end_ns >= self._whole_ns + CALM * self.settings.window_ns:
            return Turn()
        steps = learned.steps_until(span.end_ns)
        counted = steps["job"].map({one.name: one.last_step for one in known})
        steps = steps[steps["step"] > counted]  # the last step of a diagnosis may be complete
        subjects = learned.subjects.items()
        self._changed = frozenset(name for name, one in subjects if one.has_changed(span.end_ns))
        due = self._changed.union(name for name, one in subjects if one.is_due(span.end_ns))
        jobs = frozenset(learned.subjects) - {NONE}
        every = _with_sharers(due, jobs, known)
        is_recent = due <= self._changed | self._growing
        since_ns = self._recent_ns(every, span) if is_recent else 0
        return Turn(bool(due), jobs, steps, since_ns).only(jobs - every)

    def _recent_ns(self, names: frozenset[str], span: Span) -> int:
        """Since when records show what has changed, without more of them than needed [ns]."""
        assert self._learned is not None
        own = [one for name, one in self._learned.subjects.items() if name in names]
        quickly_ns = QUICKLY / max(sum(one.records_per_ns for one in own), 1e-12)
        steps_ns = RECENT * max((one.period_ns for one in own), default=0.0)
        return max(span.start_ns, span.end_ns - int(max(quickly_ns, steps_ns)))

    def learn(
        self, followed: Followed, tables: Iterable[pa.Table], span: Span, state: State, turn: Turn
    ) -> None:
        """Learn from the diagnosis of a turn; ``tables`` have all stored records of its jobs."""
        settings, others = self.settings, turn.others
        before = self._learned.subjects if self._learned is not None else {}
        numbers = self._numbers
        records = joined([numbers.of(table) for table in tables])
        kept = {name: one for name, one in before.items() if name in others}
        shown = Span(max(span.start_ns, turn.since_ns), span.end_ns)
        habits = {one.name: one.habits for one in state.jobs if one.counts}
        self._learned = learned_from(followed.diagnosis, records, shown, numbers, kept, habits)
        if not others:
            self._whole_ns = span.end_ns
        announced = {one.job for one in state.incidents if one.stage == "open"}
        if before.keys() - self._learned.subjects.keys() - announced:
            self._changed |= {NONE}  # a job takes no more steps; later windows may show why
        growing = _growing(state, followed)
        growing |= {NONE} if growing.difference(self._learned.subjects) else set()
        self._growing = frozenset(growing)
        open_at = {one.job for one in state.incidents if one.stage != "resolved"}
        open_at |= {NONE} if open_at.difference(self._learned.subjects) else set()
        rate = sum(one.records_per_ns for one in self._learned.subjects.values())
        least_ns = int(RECORD_NS * rate * settings.window_ns / SHARE)  # as if all were together
        unexplained = self._changed.difference(followed.diagnosis.findings["job"])
        for name, one in self._learned.subjects.items():
            if name not in others:
                old = before.get(name) if name not in self._changed else None
                most_ns = settings.window_ns // 2 if name in open_at else CALM * settings.window_ns
                one.pause_ns = max(min(self._later_ns(name, one, old), most_ns), least_ns)
                if name in growing:
                    soon_ns = max(settings.stride_ns, int(SETTLED * one.period_ns))
                    one.pause_ns = min(one.pause_ns, soon_ns)
                if turn.since_ns > span.start_ns and name in unexplained:
                    one.pause_ns = 0  # the whole window may show why it has changed
        self._changed = frozenset()

    def _later_ns(self, name: str, one: Subject, old: Subject | None) -> int:
        """From a diagnosis to the next one [ns]; ``old`` is what has not changed since the last."""
        assert self._learned is not None
        if name == NONE and not self._learned.has_rest:
            return CALM * self.settings.window_ns
        if name != NONE and one.progress is None:
            few = one.steps if one.steps < FEWEST else 0
            return max(self.settings.pause_ns, int(max((GROWN - 1) * few, 1) * one.period_ns))
        return self.settings.stride_ns if old is None else 2 * old.pause_ns


def _growing(state: State, followed: Followed) -> set[str]:
    """Jobs with an incident that only lacks some steps, and that the next step may continue."""
    last = followed.last_step
    return {
        one.job
        for one in state.incidents
        if one.stage == "new"
        and one.withheld in ("", HICCUP)
        and one.last_step - one.first_step < 2 * PERSISTS
        and one.last_step >= last.get(one.job, one.last_step + 2) - 1
    }


def _with_sharers(
    due: frozenset[str], jobs: frozenset[str], known: Sequence[KnownJob]
) -> frozenset[str]:
    """``due``, and the ``jobs`` that share a server with one of them, or with one of those."""
    left = [one for one in known if one.name in jobs]
    while True:
        servers = {server for one in left if one.name in due for server in one.servers}
        more = due.union(one.name for one in left if not servers.isdisjoint(one.servers))
        if more == due:
            return due
        due = more
