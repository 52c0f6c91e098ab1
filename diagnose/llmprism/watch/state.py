"""What a monitor knows: records that are kept, jobs, incidents, exporters, and reasons for doubt.

All of it is one file, which is replaced as a whole (:mod:`llmprism.watch.state_folder`). Fields
that no version knows are refused.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar
from zlib import crc32

from pydantic import ConfigDict

VERSION = 5
"""Of the file of the state; a monitor reads its own version and those before."""
COLLECTIVES = "-collectives"
"""In the names of files with operations of collectives."""
_CLOSED = ConfigDict(extra="forbid")


@dataclass
class Part:
    """Records that arrived together, as one file.

    Attributes
    ----------
    first_ns, last_ns : start of the first record, and end of the last one [ns].
    notes : how the records were cut, as their sources tell.
    named : observation points that records name themselves.
    groups : of each row group, the mark of the job whose addresses all of its records have; empty
        if it is that of several, or if the file is not divided.
    """

    name: str
    records: int
    first_ns: int
    last_ns: int
    notes: dict[str, list[int]] = field(default_factory=dict)
    groups: list[str] = field(default_factory=list)
    named: list[str] = field(default_factory=list)
    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="ignore")  # such as of version 3

    @property
    def is_of_collectives(self) -> bool:
        """Whether its records are operations of collectives."""
        return COLLECTIVES in self.name


@dataclass
class Habit:
    """Every so many steps of a job are longer.

    Attributes
    ----------
    every, at : steps ``at``, and all that are a multiple of ``every`` away from it.
    extra_ns : by how much they are longer [ns].
    latest : the last step that was.
    """

    every: int
    at: int
    extra_ns: int
    latest: int
    __pydantic_config__: ClassVar[ConfigDict] = _CLOSED


@dataclass
class KnownJob:
    """A job that a window had.

    Attributes
    ----------
    first_step, last_step : numbers of its first step, and of the last one that was counted.
    ends_ns : end of each step of the last window whose steps count [ns].
    candidate_ns : the same of a window since then whose steps do not count yet [ns].
    seen_ns : end of its last step [ns].
    since_ns : end of its first step [ns]; 0 if it has taken none.
    recent_ns : end of each of its last steps [ns].
    habits : what it does in every so many steps.
    support, first_count, counts : how the last window shows its steps, see
        :class:`~llmprism.watch.numbering.Numbering`.
    """

    name: str
    addresses: list[str]
    servers: list[str]
    last_step: int = -1
    ends_ns: dict[int, int] = field(default_factory=dict)
    seen_ns: int = 0
    since_ns: int = 0
    recent_ns: dict[int, int] = field(default_factory=dict)
    habits: list[Habit] = field(default_factory=list)
    candidate_ns: dict[int, int] = field(default_factory=dict)
    support: int = 0
    first_count: int = 0
    counts: bool = False
    __pydantic_config__: ClassVar[ConfigDict] = _CLOSED

    @property
    def mark(self) -> str:
        """Its name with a hash of its addresses: another one if those change."""
        return f"{self.name}/{crc32(' '.join(self.addresses).encode()):08x}"


@dataclass
class Incident:
    """One cause, in all windows that show it. Times in [ns], costs in GPU-hours.

    Attributes
    ----------
    key : tells the incident from all others.
    place : server, switch, link or job of the culprit.
    labels : what identifies its alert; they never change.
    stage : ``new``: not announced yet; ``open``, or ``resolved``.
    announced : GPU-hours and confidence in its last event.
    seen_ns : end of the first window that showed it [ns].
    cause : as the method names it.
    ranges : first and last step of each stretch of steps that a window has shown.
    cost_ns : by which its steps are longer, together [ns].
    gpus : of its job.
    withheld : why it is not announced; empty if it is, or will be when another window shows it.
    """

    key: str
    place: str
    job: str
    labels: dict[str, str]
    start_ns: int
    end_ns: int
    first_step: int
    last_step: int
    gpu_hours: float
    magnitude: float
    confidence: float
    sentence: str
    stage: str = "new"
    announced: tuple[float, float] = (0.0, 0.0)
    seen_ns: int = 0
    cause: str = ""
    ranges: list[tuple[int, int]] = field(default_factory=list)
    cost_ns: float = 0.0
    gpus: int = 1
    withheld: str = ""
    __pydantic_config__: ClassVar[ConfigDict] = _CLOSED

    @property
    def id(self) -> str:
        """Its name in addresses."""
        return short_name(self.key)


@dataclass
class Blindness:
    """A reason why the monitor does not see, since ``start_ns`` of this machine's clock [ns].

    Attributes
    ----------
    labels : of its alert, beside the name and the severity.
    severity : of its alert.
    """

    text: str
    start_ns: int
    labels: dict[str, str] = field(default_factory=dict)
    severity: str = "critical"
    __pydantic_config__: ClassVar[ConfigDict] = _CLOSED


@dataclass
class Exporter:
    """What sends records, by its clock and its activity.

    Attributes
    ----------
    latest_ns : end of its latest record, on its own clock [ns].
    seen_ns : when its last records came, on this machine's clock [ns].
    gap_ns : the usual time between two arrivals of its records [ns].
    takes : number of times that records of it came.
    records, lost : records that came, and units of its sequence that did not.
    disagreements : times in a row that its clock did not agree with those of the others.
    until_ns : end of the latest record that moved the window [ns].
    disorder_ns : by which its records come later than others that end after them [ns].
    ahead_ns : of its clock where its last datagram came [ns]; None if datagrams do not tell.
    """

    latest_ns: int = 0
    seen_ns: int = 0
    gap_ns: int = 0
    takes: int = 0
    records: int = 0
    lost: int = 0
    rate_per_s: float = 0.0
    disagreements: int = 0
    until_ns: int = 0
    disorder_ns: int = 0
    ahead_ns: int | None = None
    __pydantic_config__: ClassVar[ConfigDict] = _CLOSED

    @property
    def offset_ns(self) -> int:
        """By how much its latest record is ahead of this machine's clock; usually negative [ns]."""
        return self.latest_ns - self.seen_ns


@dataclass
class State:
    """All that a monitor knows.

    Attributes
    ----------
    version : of the file.
    commit : number of states before this one.
    position : where the source is; its meaning is the source's.
    dumps : where each file of collectives is, by its first line.
    parts : the records that are kept.
    cursor_ns : end of the last window that was diagnosed [ns].
    watermark_ns : time up to which records have come [ns].
    events : number of events that were made.
    outbox : the last of them, which may not be written yet.
    fates : numbers of records by what became of them.
    blind : the reasons why the monitor does not see, by name.
    exporters : what sends records, by name.
    starts : when exporters of NetFlow and IPFIX started, as their reader estimates it.
    failures : numbers of windows without a diagnosis, by the reason.
    hiccups : numbers of findings that were not announced, by job.
    """

    version: int = VERSION
    commit: int = 0
    position: Any = None
    dumps: dict[str, Any] = field(default_factory=dict)
    parts: list[Part] = field(default_factory=list)
    cursor_ns: int | None = None
    watermark_ns: int | None = None
    jobs: list[KnownJob] = field(default_factory=list)
    jobs_named: int = 0
    incidents: list[Incident] = field(default_factory=list)
    events: int = 0
    outbox: list[dict[str, Any]] = field(default_factory=list)
    fates: dict[str, int] = field(default_factory=dict)
    blind: dict[str, Blindness] = field(default_factory=dict)
    exporters: dict[str, Exporter] = field(default_factory=dict)
    starts: list[dict[str, Any]] = field(default_factory=list)
    failures: dict[str, int] = field(default_factory=dict)
    hiccups: dict[str, int] = field(default_factory=dict)
    windows: int = 0
    __pydantic_config__: ClassVar[ConfigDict] = _CLOSED

    def count(self, fate: str, records: int) -> None:
        """Count what became of records."""
        if records:
            self.fates[fate] = self.fates.get(fate, 0) + records


def short_name(key: str) -> str:
    """The name of an incident in addresses, from its key."""
    return f"{crc32(key.encode()):08x}"
