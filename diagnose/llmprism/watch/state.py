"""The state of a monitor on disk: one file that is replaced as a whole.

``state.json`` says what the source has handed over, which parts of the window are kept, which jobs
and incidents are known, and which events were made. It is written beside the old one, forced to
the disk, and renamed: after a crash there is either the old state or the new one. All other files
have names that follow from the number of the *commit*, so work that a crash cut off is done again
in the same files, and files that no state names are removed.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar
from zlib import crc32

from pydantic import ConfigDict, TypeAdapter, ValidationError

from prism_common.errors import Problem, UserError
from prism_common.files import replacing
from prism_common.folders import BusyError, Names, OwnFolder, is_regular, lock_file

_FILE, _LOCK = "state.json", "lock"
VERSION = 2
"""Of the file of the state; a monitor reads its own version and those before."""
_CLOSED = ConfigDict(extra="forbid")
_WORDS = b"llmprism watch\n"
_OTHER = "name another folder with --state"
_RECORDS = Names(r"records/\d+\.parquet")
NAMES = Names(
    r"state\.json",
    r"lock",
    r"alerts\.jsonl(?:\.1)?",
    r"records/\d+\.parquet",
    r"window/flows\.parquet",
    r"window/\.ingest-\w+/[^/]+",
    r"samples/[\w-]+/(?:error\.txt|topology\.json|flows\.parquet)",
    r"spool/(?:\d{20}|messages|\.writing)\.[a-z.]+",
    r"spool/\.templates",
    r"history/(?:steps|layouts|findings)/day=\d{4}-\d\d-\d\d/\d+(?:-\d+)?\.parquet",
)
"""All files of a monitor."""


@dataclass
class Part:
    """Records that arrived together, as one file.

    Attributes
    ----------
    first_ns, last_ns : start of the first record, and end of the last one [ns].
    stretches : first and last time of each stretch of records [ns]; longer gaps are between them.
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
    stretches: list[tuple[int, int]] = field(default_factory=list)
    named: list[str] = field(default_factory=list)
    __pydantic_config__: ClassVar[ConfigDict] = _CLOSED


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
    ends_ns : end of each step of the last window [ns].
    seen_ns : end of its last step [ns].
    since_ns : end of its first step [ns]; 0 if it has taken none.
    recent_ns : end of each of its last steps [ns].
    habits : what it does in every so many steps.
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
    """What sends records, by its clock and its signs of life.

    Attributes
    ----------
    latest_ns : end of its latest record, on its own clock [ns].
    seen_ns : when its last records came, on this machine's clock [ns].
    gap_ns : the usual time between two arrivals of its records [ns].
    takes : number of times that records of it came.
    records, lost : records that came, and units of its sequence that did not.
    strikes : times in a row that its clock did not agree with those of the others.
    """

    latest_ns: int = 0
    seen_ns: int = 0
    gap_ns: int = 0
    takes: int = 0
    records: int = 0
    lost: int = 0
    rate_per_s: float = 0.0
    strikes: int = 0
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


_STATE = TypeAdapter(State)


class StateFolder:
    """The folder of one monitor; another one is refused while it is open.

    Its lock says whose it is. In a folder with other files, but without this lock, no monitor
    works; and in its own, it touches only the files of :data:`NAMES`.

    Raises
    ------
    UserError : the folder is somebody else's, or another monitor works there.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.own = OwnFolder(path, NAMES, _OTHER)
        path.mkdir(parents=True, exist_ok=True)
        self._refuse_others_files()
        self._lock = self._locked()
        try:
            self.own.refuse_in_the_way()
            self.state = self._read()
            os.pwrite(self._lock, _WORDS, 0)
            self.parts.mkdir(exist_ok=True)
            self._remove_unfinished()
            self.tidy()
        except BaseException:
            os.close(self._lock)
            raise

    @property
    def parts(self) -> Path:
        """Where the records of the window are."""
        return self.path / "records"

    @contextmanager
    def commit(self) -> Iterator[State]:
        """Yield a copy of the state; it becomes the state, on disk as well, if the block succeeds.

        Raises
        ------
        OSError : the disk does not take it; then the old state holds.
        """
        fresh = deepcopy(self.state)
        yield fresh
        fresh.commit += 1
        write_durably(self.path / _FILE, _STATE.dump_json(fresh, indent=1))
        self.state = fresh

    def tidy(self) -> None:
        """Remove the records that the state does not name."""
        named = {f"records/{part.name}" for part in self.state.parts}
        for name in [*self.own.files("records")]:
            if name not in named:
                self.own.remove(name)

    def _remove_unfinished(self) -> None:
        """Remove what a monitor that was killed had begun to write."""
        self.own.remove_unfinished()
        for left in (self.path / "window").glob(".ingest-*"):
            self.own.remove_folder(f"window/{left.name}")
        self.own.remove_folder("window")

    def close(self) -> None:
        """Let another monitor use the folder."""
        os.close(self._lock)

    def _read(self) -> State:
        path = self.path / _FILE
        if not path.exists():
            return State()
        how = "name another folder with --state, or remove this one to begin again"
        try:
            found = _STATE.validate_json(path.read_bytes())
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(map(str, first["loc"]))
            what = f"this is no state of a monitor of this version: {where}: {first['msg']}"
            raise UserError(Problem(what, str(path), how)) from error
        if found.version > VERSION:
            what = f"a later version wrote this state ({found.version}, and {VERSION} is known)"
            raise UserError(Problem(what, str(path), how))
        if not all(f"records/{part.name}" in _RECORDS for part in found.parts):
            raise UserError(Problem("its records are not in its folder", str(path), how))
        found.version = VERSION
        return found

    def _refuse_others_files(self) -> None:
        """Refuse a folder with files in which no monitor has worked.

        Monitors of before had an empty lock: then the state shows whose the folder is.
        """
        names = {one.name for one in self.path.iterdir()}
        lock = self.path / _LOCK
        is_marked = is_regular(lock) and lock.stat().st_size > 0  # its words are looked at later
        if is_marked or not names or (names == {_LOCK} and is_regular(lock)):
            return
        if not (is_regular(lock) and is_regular(self.path / _FILE) and self._read().commit):
            what = f"holds {min(names)!r}, and no monitor has worked here"
            raise UserError(Problem(what, str(self.path), _OTHER))

    def _locked(self) -> int:
        try:
            return lock_file(self.path / _LOCK, lambda words: words in (b"", _WORDS))
        except BusyError as error:
            what, how = "another monitor works in this folder", "end it, or name another folder"
            raise UserError(Problem(what, str(self.path), how)) from error


def write_durably(path: Path, content: bytes) -> None:
    """Replace a file so that after a crash either the old or the new content is there."""
    with replacing(path) as partial, partial.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    force_names(path.parent)


def force_names(folder: Path) -> None:
    """Force what was renamed or made in ``folder`` to the disk."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def compact(content: Any) -> str:
    """JSON on one line."""
    return json.dumps(content, separators=(", ", ": "), allow_nan=False)
