"""A folder in which exporters leave files: a file that has its final name is complete.

Exporters write under another name and rename (nfcapd, Parquet writers, ``mv`` within a file
system), so a file is read once, as it is when it appears. Names that begin with a dot, and those
of files that are being written (``nfcapd.current.*``, ``*.tmp``, ``*.partial``) are passed over. A
folder inside of the folder is an observation point with its name.

A file is known by what it holds: one that is renamed, compressed or touched is not read again. A
compressed file whose end is missing is still being written, if it changed in the last minute.

The folder is listed again and again instead of being watched: that works on network file systems
as well, and misses nothing. Files are never moved or removed.
"""

from __future__ import annotations

import stat
import time
from collections.abc import Iterable, Iterator
from fnmatch import fnmatch
from hashlib import blake2b
from pathlib import Path
from typing import Any

from llmprism.ingest.sources import BROKEN
from llmprism.ingest.sources import Source as File
from llmprism.watch.sources import Source, Taken, register
from prism_common.errors import Problem, UserError
from prism_common.folders import OwnFolder

_UNFINISHED = (".*", "nfcapd.current*", "*.tmp", "*.partial", "*.part")
_LEAST_BYTES, _MOST_BYTES = 1 << 18, 1 << 28  # taken together
_ROUND_S = 1.0  # to read and store what is taken: signals are looked at between
_LOOK_S = 0.5
_WRITTEN_NS = 60_000_000_000

Seen = dict[str, list[Any]]
"""Size [bytes], time of change [ns] and digest of each file that was read, by its path."""


class Directory(Source):
    """The files of a folder, in the order in which they were written.

    Those of a monitor's ``own`` are removed when they are stored, and no others are looked at.
    """

    def __init__(self, path: Path, own: OwnFolder | None = None) -> None:
        self._path, self._own = path, own
        self._at_once, self._taken = 4 * _LEAST_BYTES, (0.0, 0)  # bytes; when, and how many
        self._digests: dict[tuple[Any, ...], str] = {}  # of what is in the folder

    def take(self, position: Any, wait_s: float) -> Taken:
        """Return the files that are new, or were replaced."""
        deadline = time.monotonic() + wait_s
        seen = _seen(position)
        while True:
            found = dict(self._listed())
            taken, known = self._some(seen, found)
            left_s = deadline - time.monotonic()
            if taken or left_s <= 0:
                break
            time.sleep(min(_LOOK_S, left_s))
        self._let_go(seen)  # stored, before a crash
        kept = {name: stamp for name, stamp in seen.items() if name in found}
        files = [File(self._path / name, point=str(Path(name).parent)) for name in taken]
        return Taken(files, {**kept, **known})

    def _some(self, seen: Seen, found: Seen) -> tuple[list[str], Seen]:
        """The oldest files to read, not too large together; and the stamps of all that are known.

        Ends after the time of a round: what is left waits for the next.
        """
        ends_s = time.monotonic() + _ROUND_S
        digests = {stamp[-1] for stamp in seen.values()}
        keys = {name: (str(Path(name).parent), *stamp) for name, stamp in found.items()}
        self._digests = {key: self._digests[key] for key in keys.values() if key in self._digests}
        new = [name for name, stamp in found.items() if seen.get(name, [])[:2] != stamp[:2]]
        taken: list[str] = []
        known: Seen = {}
        total = 0
        for name in sorted(new, key=lambda name: (found[name][1], name)):
            digest, size = self._digest(name, keys[name]), found[name][0]
            if not digest:
                continue
            if digest not in digests:
                if taken and total + size > self._at_once:
                    break
                taken.append(name)
                total += size
            digests.add(digest)
            known[name] = [*found[name][:2], digest]
            if time.monotonic() > ends_s:
                break
        self._taken = time.monotonic(), total
        return taken, known

    def _digest(self, name: str, key: tuple[Any, ...]) -> str:
        """Of the content of a file of this folder, size, time and inode, whatever its name is.

        Empty if it is being written.
        """
        if self._own is not None:
            return str((name, *key))
        is_young = time.time_ns() - key[2] < _WRITTEN_NS
        if not self._digests.get(key) and (key not in self._digests or not is_young):
            self._digests[key] = _digest(self._path / name, key[0], is_young)
        return self._digests[key]

    def stored(self, taken: Taken) -> None:
        """Remove the files, if they are the monitor's own; take as much as a round allows next."""
        began_s, count = self._taken
        if taken.files:
            fitting = round(count * _ROUND_S / max(time.monotonic() - began_s, 1e-3))
            self._at_once = min(max(fitting, _LEAST_BYTES), _MOST_BYTES)
        self._let_go(file.path.name for file in taken.files)

    def _let_go(self, names: Iterable[str]) -> None:
        if self._own is not None:
            for name in names:
                self._own.remove(name)

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
                yield str(name), [found.st_size, found.st_mtime_ns, found.st_ino]

    def _paths(self) -> Iterable[Path]:
        if self._own is None:
            next(self._path.iterdir(), None)  # a folder that is gone is an error, and not empty
            return self._path.rglob("*")
        return (self._path / name for name in self._own.files())


def _digest(path: Path, point: str, is_young: bool) -> str:
    """Of a file and its point; empty if it is young and compressed, and its end is missing."""
    found = blake2b(point.encode(), digest_size=16)
    try:
        with File(path).open() as stream:
            while piece := stream.read(_LEAST_BYTES):
                found.update(piece)
    except (*BROKEN, UserError) as error:  # what reads it says what is wrong with it
        if is_young and isinstance(error, EOFError):
            return ""
        found.update(str(path).encode())
    return found.hexdigest()


def _seen(position: Any) -> Seen:
    """What a state says was read; damaged, or of another kind of source, it says less."""
    stamps = position if isinstance(position, dict) else {}
    return {name: one for name, one in stamps.items()
            if isinstance(one, list) and one and isinstance(one[-1], (int, str))}  # fmt: skip


@register("directory", "a folder of files", lambda text: Path(text).is_dir())
def open_directory(text: str, _folder: Path) -> Directory:
    """Open the folder that exporters write into."""
    path = Path(text)
    try:
        next(path.iterdir(), None)
    except OSError as error:
        raise UserError(Problem(f"cannot list this: {error.strerror}", text)) from error
    return Directory(path)
