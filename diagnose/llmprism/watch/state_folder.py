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
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from llmprism.watch.state import COLLECTIVES, VERSION, State
from prism_common.errors import Problem, UserError
from prism_common.files import replacing
from prism_common.folders import BusyError, Names, OwnFolder, is_regular, lock_file

_FILE, _LOCK = "state.json", "lock"
_WORDS = b"llmprism watch\n"
_OTHER = "name another folder with --state"
_RECORDS = Names(rf"records/\d+(?:{COLLECTIVES})?\.parquet")
NAMES = Names(
    r"state\.json",
    r"lock",
    r"alerts\.jsonl(?:\.1)?",
    rf"records/\d+(?:{COLLECTIVES})?\.parquet",
    r"window/flows\.parquet",
    r"window/\.ingest-\w+/[^/]+",
    r"samples/[\w-]+/(?:error\.txt|topology\.json|flows\.parquet)",
    r"spool/(?:\d{20}|messages|\.writing)\.[a-z.]+",
    r"spool/\.templates",
    r"history/(?:steps|layouts|findings)/day=\d{4}-\d\d-\d\d/\d+(?:-\d+)?\.parquet",
)
"""All files of a monitor."""


_STATE = TypeAdapter(State)


class StateFolder:
    """The folder of one monitor; another one is refused while it is open.

    Its lock says whose it is. In a folder with other files, but without this lock, no monitor
    works; and in its own, it touches only the files of :data:`NAMES`.

    Raises
    ------
    UserError : the folder is someone else's, or another monitor works there.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.own = OwnFolder(path, NAMES, _OTHER)
        path.mkdir(parents=True, exist_ok=True)
        _refuse_others_files(path)
        self._lock = self._locked()
        try:
            self.own.refuse_in_the_way()
            self.state = _read(path / _FILE)
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

    def _locked(self) -> int:
        try:
            return lock_file(self.path / _LOCK, lambda words: words in (b"", _WORDS))
        except BusyError as error:
            what, how = "another monitor works in this folder", "end it, or name another folder"
            raise UserError(Problem(what, str(self.path), how)) from error


def refuse_folder(path: Path) -> None:
    """Refuse a folder that :class:`StateFolder` refuses, and touch nothing."""
    if path.exists():
        _refuse_others_files(path)
        OwnFolder(path, NAMES, _OTHER).refuse_in_the_way()
        _read(path / _FILE)
    above = next(one for one in (path, *path.absolute().parents) if one.exists())
    if not (above.is_dir() and os.access(above, os.W_OK)):
        raise UserError(Problem("no folder can be made or written here", str(path), _OTHER))


def _read(path: Path) -> State:
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


def _refuse_others_files(path: Path) -> None:
    """Refuse a folder with files in which no monitor has worked.

    Monitors of before had an empty lock: then the state shows whose the folder is.
    """
    names = {one.name for one in path.iterdir()}
    lock = path / _LOCK
    is_marked = is_regular(lock) and lock.stat().st_size > 0  # its words are looked at later
    if is_marked or not names or (names == {_LOCK} and is_regular(lock)):
        return
    if not (is_regular(lock) and is_regular(path / _FILE) and _read(path / _FILE).commit):
        what = f"holds {min(names)!r}, and no monitor has worked here"
        raise UserError(Problem(what, str(path), _OTHER))


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
