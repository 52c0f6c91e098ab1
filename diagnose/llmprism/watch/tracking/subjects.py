"""What is diagnosed on its own: each job that takes steps, and all that belongs to none of them.

Each such *subject* has a time at which its diagnosis is due. It is due earlier if it changes: its
steps become longer or shorter, or do not come, or traffic from outside reaches it that the window
of its last diagnosis did not have.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from llmprism.numerics.arrays import Bools, Codes, Floats, Grouped, Ints, grouped
from llmprism.watch.tracking.progress import Progress
from llmprism.watch.tracking.records import Numbers, Records

NONE = ""
"""The name of what belongs to no job; its place is the first."""

STRANGE = 2.0  # times the traffic from outside that the diagnosed window had
LITTLE = 0.001  # of all traffic of the subject


@dataclass
class Subject:
    """A job, or what belongs to none.

    Attributes
    ----------
    members : codes of its addresses, shape (members,).
    since_ns : end of the window of its last diagnosis [ns].
    period_ns : usual length of its steps [ns]; 0 if none is known.
    steps : of the window of its last diagnosis.
    progress : its steps; None if it has none, or cannot be followed.
    bound : rate of traffic from outside above which it has changed [bytes/ns].
    records_per_ns : that it sends.
    pause_ns : from then until the next one [ns].
    """

    members: Ints
    since_ns: int
    period_ns: float = 0.0
    steps: int = 0
    progress: Progress | None = None
    bound: float = 0.0
    records_per_ns: float = 0.0
    pause_ns: int = 0
    _outside: float = 0.0
    _is_new: bool = False

    def add(self, own: Records, outside: float, is_new: bool) -> None:
        """Take in its records, the traffic from outside [bytes], and whether a sender is new."""
        self._outside += outside
        self._is_new |= is_new
        if self.progress is not None:
            self.progress.add(own)

    def is_due(self, time_ns: int) -> bool:
        """Whether its diagnosis is due if nothing has changed."""
        return time_ns >= self.since_ns + self.pause_ns

    def has_changed(self, time_ns: int) -> bool:
        """Whether it is another one than it was in the window of its last diagnosis."""
        if self._is_new or self._outside > self.bound * (time_ns - self.since_ns):
            return True
        one = self.progress
        return one is not None and (one.has_changed or one.is_overdue(time_ns))


@dataclass(frozen=True)
class Split:
    """Records by subject.

    Attributes
    ----------
    by : rows by the place of their sender.
    outside, own : what reaches each subject from outside, and what it sends, shape (subjects,)
        [bytes].
    new : places that a sender reaches which is not ``seen``.
    """

    by: Grouped
    outside: Floats
    own: Floats
    new: frozenset[int]

    def rows(self, place: int) -> Codes:
        """The records that a subject sends."""
        return self.by.rows(place)


def split(records: Records, numbers: Numbers, place_of: Codes, count: int, seen: Bools) -> Split:
    """Split records by the place of each address among so many subjects.

    What nobody's addresses send is outside of the subject that gets it. What one job sends to
    another is outside of both.
    """
    source = numbers.sources(records.lane)
    sender, receiver = place_of[source], place_of[numbers.targets(records.lane)]
    size = records.bytes
    crosses = (sender != receiver) & (sender != 0) & (receiver != 0)
    into = crosses | (sender == 0)
    outside = _sums(receiver[into], size[into], count)
    outside += _sums(sender[crosses], size[crosses], count)
    reached = np.where(sender == 0, receiver, sender)[~seen[source]]
    own = _sums(sender, size, count)
    return Split(grouped(sender, count), outside, own, frozenset(reached.tolist()))


def _sums(place: Codes, size: Ints, count: int) -> Floats:
    """The bytes of each place, shape (count,)."""
    return np.bincount(place, size, count).astype(np.float64)
