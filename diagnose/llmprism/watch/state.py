"""The state of a monitor on disk: one file that is replaced as a whole.

``state.json`` says what the source has handed over, which parts of the window are kept, which jobs
and incidents are known, and which events were made. It is written beside the old one, forced to
the disk, and renamed: after a crash there is either the old state or the new one. All other files
have names that follow from the number of the *commit*, so work that a crash cut off is done again
in the same files, and files that no state names are removed.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from zlib import crc32

from pydantic import TypeAdapter, ValidationError

from prism_common.errors import Problem, UserError
from prism_common.files import replacing

_FILE, _LOCK = "state.json", "lock"


@dataclass
class Part:
    """Records that arrived together, as one file.

    Attributes
    ----------
    first_ns, last_ns : start of the first record, and end of the last one [ns].
    notes : how the records were cut, as their sources tell.
    groups : of each row group, the mark of the job whose addresses all of its records have; empty
        if it is that of several, or if the file is not divided.
    """

    name: str
    records: int
    first_ns: int
    last_ns: int
    notes: dict[str, list[int]] = field(default_factory=dict)
    groups: list[str] = field(default_factory=list)


@dataclass
class KnownJob:
    """A job that a window had.

    Attributes
    ----------
    first_step, last_step : numbers of its first step, and of the last one that was counted.
    ends_ns : end of each step of the last window [ns].
    seen_ns : end of its last step [ns].
    """

    name: str
    addresses: list[str]
    servers: list[str]
    last_step: int = -1
    ends_ns: dict[int, int] = field(default_factory=dict)
    seen_ns: int = 0

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


@dataclass
class Blindness:
    """A reason why the monitor does not see, since ``start_ns`` of this machine's clock [ns]."""

    text: str
    start_ns: int


@dataclass
class State:
    """All that a monitor knows.

    Attributes
    ----------
    commit : number of states before this one.
    position : where the source is; its meaning is the source's.
    parts : the records that are kept.
    cursor_ns : end of the last window that was diagnosed [ns].
    watermark_ns : time up to which records have come [ns].
    events : number of events that were made.
    outbox : the last of them, which may not be written yet.
    fates : numbers of records by what became of them.
    blind : the reasons why the monitor does not see, by name.
    """

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

    def count(self, fate: str, records: int) -> None:
        """Count what became of records."""
        if records:
            self.fates[fate] = self.fates.get(fate, 0) + records


_STATE = TypeAdapter(State)


class StateFolder:
    """The folder of one monitor; another one is refused while it is open."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.mkdir(parents=True, exist_ok=True)
        self._refuse_others_files()
        self._lock = _locked(path / _LOCK)
        self.state = self._read()
        self.parts.mkdir(exist_ok=True)
        self._remove_unfinished()
        self.tidy()

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
        named = {part.name for part in self.state.parts}
        for path in self.parts.iterdir():
            if path.name not in named and path.is_file():
                path.unlink()

    def _remove_unfinished(self) -> None:
        """Remove what a monitor that was killed had begun to write."""
        shutil.rmtree(self.path / "window", ignore_errors=True)
        for path in self.path.rglob(".*.partial"):
            path.unlink()

    def close(self) -> None:
        """Let another monitor use the folder."""
        os.close(self._lock)

    def _read(self) -> State:
        path = self.path / _FILE
        if not path.exists():
            return State()
        try:
            return _STATE.validate_json(path.read_bytes())
        except ValidationError as error:
            what = f"this is no state of a monitor: {error.errors()[0]['msg']}"
            how = "name another folder with --state, or remove this one to begin again"
            raise UserError(Problem(what, str(path), how)) from error

    def _refuse_others_files(self) -> None:
        """Refuse a folder with files in which no monitor has worked."""
        names = {one.name for one in self.path.iterdir()}
        if names and _LOCK not in names:
            what = f"holds {min(names)!r}, and no monitor has worked here"
            raise UserError(Problem(what, str(self.path), "name another folder with --state"))


def _locked(path: Path) -> int:
    lock = os.open(path, os.O_CREAT | os.O_RDWR, 0o644)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        os.close(lock)
        what, how = "another monitor works in this folder", "end it, or name another folder"
        raise UserError(Problem(what, str(path.parent), how)) from error
    return lock


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
