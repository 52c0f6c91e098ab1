"""A folder in which exporters leave files: a file that has its final name is complete.

Exporters write under another name and rename (nfcapd, Parquet writers, ``mv`` within a file
system), so a file is read once, as it is when it appears. Names that begin with a dot, and those
of files that are being written (``nfcapd.current.*``, ``*.tmp``, ``*.partial``) are passed over. A
folder inside of the folder is an observation point with its name.

A file is known by its content: one that was renamed, compressed, touched, or copied in its
folder is not read again.

The folder is listed again and again instead of being watched: that works on network file systems
as well, and misses nothing. Files are never moved or removed.
"""

from __future__ import annotations

import hashlib
import stat
import time
from collections.abc import Iterable, Iterator, Mapping
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from llmprism.ingest.sources import Source as File
from llmprism.watch.sources import Taken, register
from prism_common.errors import Problem, UserError
from prism_common.folders import OwnFolder
from prism_common.service.logging import LOGGER

_UNFINISHED = (".*", "nfcapd.current*", "*.tmp", "*.partial", "*.part")
_MOST_BYTES, _MOST_OWN_BYTES = 1 << 28, 1 << 22  # taken together
_MOST_GONE = 4_096  # contents of files that are gone and are known
_BLOCK_BYTES = 1 << 20
_LOOK_S = 0.5
_FILES, _GONE = "files", "gone"

Seen = dict[str, list[Any]]
"""Size [bytes], time of change [ns] and content of each file that was read, by its path."""


class Directory:
    """The files of a folder, in the order in which they were written.

    Those of a monitor's ``own`` are removed when they are stored, and no others are looked at.
    """

    def __init__(self, path: Path, own: OwnFolder | None = None) -> None:
        self._path, self._own = path, own

    def take(self, position: Any, wait_s: float) -> Taken:
        """Return the files that are new, or have another content."""
        deadline = time.monotonic() + wait_s
        seen, gone = _known(position)
        while True:
            found = dict(self._listed())
            fresh = [name for name, stamp in found.items() if seen.get(name, [])[:2] != stamp]
            left_s = deadline - time.monotonic()
            if fresh or left_s <= 0:
                break
            time.sleep(min(_LOOK_S, left_s))
        self._let_go(seen)  # stored, before a crash
        fresh.sort(key=lambda name: (found[name][1], name))
        some = self._some(fresh, found)
        waiting_s = _age_s(found, fresh[len(some) :])
        now = {name: own for name, own in seen.items() if name in found}
        gone = list(dict.fromkeys([*gone, *(own[2] for own in seen.values() if len(own) > 2)]))
        taken, known = [], set(gone)
        for name in some:
            content = self._content(name)
            now[name] = [*found[name], content]
            if content and content in known:
                LOGGER.info("%s is not read: its content was read before", name)
            else:
                taken.append(name)
                known.add(content)
        files = [File(self._path / name, point=str(Path(name).parent)) for name in taken]
        return Taken(files, {_FILES: now, _GONE: gone[-_MOST_GONE:]}, waiting_s=waiting_s)

    def is_waiting(self, position: Any) -> bool:
        """Whether a file has come behind ``position``."""
        seen, _ = _known(position)
        return any(seen.get(name, [])[:2] != stamp for name, stamp in self._listed())

    def stored(self, taken: Taken) -> None:
        """Remove the files, if they are the monitor's own."""
        self._let_go(file.path.name for file in taken.files)

    def _content(self, name: str) -> str:
        """What tells the content of a file from others in its folder; empty if it is our own."""
        if self._own is not None:
            return ""
        found = hashlib.blake2b(str(Path(name).parent).encode(), digest_size=16)
        try:
            with File(self._path / name).open() as file:
                while block := file.read(_BLOCK_BYTES):
                    found.update(block)
        except (OSError, EOFError, ValueError):
            return ""  # a reader says what is wrong with it
        return found.hexdigest()

    def _let_go(self, names: Iterable[str]) -> None:
        if self._own is not None:
            for name in names:
                self._own.remove(name)

    def close(self) -> None:
        """Nothing is open."""

    def _listed(self) -> Iterator[tuple[str, list[int]]]:
        for path in self._paths():
            name = path.relative_to(self._path)
            if any(fnmatch(part, form) for part in name.parts for form in _UNFINISHED):
                continue
            try:
                found = path.stat()
            except OSError:  # removed meanwhile, or a link that leads nowhere
                continue
            if stat.S_ISREG(found.st_mode):
                yield str(name), [found.st_size, found.st_mtime_ns]

    def _paths(self) -> Iterable[Path]:
        if self._own is None:
            next(self._path.iterdir(), None)  # a folder that is gone is an error, and not empty
            return self._path.rglob("*")
        return (self._path / name for name in self._own.files())

    def _some(self, names: list[str], found: Mapping[str, list[int]]) -> list[str]:
        """The first of the files that are not too large together."""
        most_bytes = _MOST_BYTES if self._own is None else _MOST_OWN_BYTES
        taken: list[str] = []
        total = 0
        for name in names:
            total += found[name][0]
            if taken and total > most_bytes:
                break
            taken.append(name)
        return taken


def _known(position: Any) -> tuple[Seen, list[str]]:
    """What a state says was read; nothing if it is the position of another kind of source.

    States of before have the files alone, and nothing of their contents.
    """
    if not isinstance(position, dict):
        return {}, []
    if isinstance(position.get(_FILES), dict):
        return position[_FILES], [*position.get(_GONE, [])]
    return {name: own for name, own in position.items() if isinstance(own, list)}, []


def _age_s(found: Mapping[str, list[int]], names: list[str]) -> float:
    """For how long the oldest of some files has waited [s]."""
    oldest_ns = min((found[name][1] for name in names), default=None)
    return 0.0 if oldest_ns is None else max(0.0, (time.time_ns() - oldest_ns) / 1e9)


@register("directory", "a folder of files", lambda text: Path(text).is_dir())
def open_directory(text: str, _folder: Path) -> Directory:
    """Open the folder that exporters write into."""
    path = Path(text)
    try:
        next(path.iterdir(), None)
    except OSError as error:
        raise UserError(Problem(f"cannot list this: {error.strerror}", text)) from error
    return Directory(path)
