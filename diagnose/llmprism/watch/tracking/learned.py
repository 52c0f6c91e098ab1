"""What the diagnoses of windows have taught about jobs, and what came since."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from llmprism.batches.chains import ends_of, members_of, period_of
from llmprism.diagnosis import Diagnosis
from llmprism.numerics.arrays import Bools, Codes
from llmprism.watch.state import Habit
from llmprism.watch.tracking.progress import has_ended, progress_of
from llmprism.watch.tracking.records import Numbers, Records
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
