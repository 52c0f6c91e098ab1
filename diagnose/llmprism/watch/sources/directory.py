"""A folder in which exporters leave files: a file that has its final name is complete.

Exporters write under another name and rename (nfcapd, Parquet writers, ``mv`` within a file
system), so a file is read once, as it is when it appears. Names that begin with a dot, and those
of files that are being written (``nfcapd.current.*``, ``*.tmp``, ``*.partial``) are passed over. A
folder inside of the folder is an observation point with its name.

A file is known by what it holds: one that is renamed, compressed or touched is not read again. A
compressed file whose end is missing is still being written.

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
from llmprism.watch.sources import Taken, register
from prism_common.errors import Problem, UserError
from prism_common.folders import OwnFolder

_UNFINISHED = (".*", "nfcapd.current*", "*.tmp", "*.partial", "*.part")
_LEAST_BYTES, _MOST_BYTES = 1 << 18, 1 << 28  # taken together
_ROUND_S = 1.0  # to read and store what is taken: signals are looked at between
_LOOK_S = 0.5

Stamp = list[Any]
"""Size [bytes] and time of change [ns] of a file, and a digest of what it held when it was read."""

Seen = dict[str, Stamp]
"""Files that were read, by their paths in the folder."""


class Directory:
    """The files of a folder, in the order in which they were written.

    Those of a monitor's ``own`` are removed when they are stored, and no others are looked at.
    """

    def __init__(self, path: Path, own: OwnFolder | None = None) -> None:
        self._path, self._own = path, own
        self._at_once, self._taken = 4 * _LEAST_BYTES, (0.0, 0)  # bytes; when, and how many
        self._digests: dict[tuple[Any, ...], str] = {}  # of what is not in the position yet

    def take(self, position: Any, wait_s: float) -> Taken:
        """Return the files that are new, or were replaced."""
        deadline = time.monotonic() + wait_s
        seen = _seen(position)
        while True:
            found = dict(self._listed())
            changed = self._changed(seen, found)
            known = {one[-1] for one in seen.values()}
            fresh = [name for name, one in changed.items() if one[-1] not in known]
            left_s = deadline - time.monotonic()
            if fresh or left_s <= 0:
                break
            time.sleep(min(_LOOK_S, left_s))
        self._let_go(seen)  # stored, before a crash
        taken = self._some(sorted(fresh, key=lambda name: (found[name][1], name)), found)
        kept = {name: stamp for name, stamp in seen.items() if name in found}
        kept |= {name: one for name, one in changed.items() if name in taken or one[-1] in known}
        files = [File(self._path / name, point=str(Path(name).parent)) for name in taken]
        return Taken(files, kept)

    def _changed(self, seen: Seen, found: Seen) -> Seen:
        """Whole files that came or changed, with their digests."""
        names = [name for name, stamp in found.items() if seen.get(name, [])[:2] != stamp]
        keys = {name: (name, *found[name]) for name in names}
        if self._own is None:
            self._digests = {
                key: self._digests.get(key) or _digest(self._path / name, str(Path(name).parent))
                for name, key in keys.items()
            }
            names = [name for name in names if self._digests[keys[name]]]
        digests = self._digests
        return {name: [*found[name], digests.get(keys[name], str(keys[name]))] for name in names}

    def is_waiting(self, position: Any) -> bool:
        """Whether a file has come behind ``position``."""
        return any(_seen(position).get(name, [])[:2] != stamp for name, stamp in self._listed())

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

    def _some(self, names: list[str], found: Seen) -> list[str]:
        """The first of the files that are not too large together."""
        taken: list[str] = []
        total = 0
        for name in names:
            total += found[name][0]
            if taken and total > self._at_once:
                break
            taken.append(name)
            self._taken = time.monotonic(), total
        return taken


def _digest(path: Path, point: str) -> str:
    """Of what a file holds, and its point; empty if it is compressed, and its end is missing."""
    found = blake2b(point.encode(), digest_size=16)
    try:
        with File(path).open() as stream:
            while piece := stream.read(_LEAST_BYTES):
                found.update(piece)
    except EOFError:
        return ""
    except UserError:
        return str(path)
    except BROKEN:  # what reads it says what is wrong with it
        pass
    return found.hexdigest()


def _seen(position: Any) -> Seen:
    """What a state says was read; nothing if it is the position of another kind of source."""
    return position if isinstance(position, dict) else {}


@register("directory", "a folder of files", lambda text: Path(text).is_dir())
def open_directory(text: str, _folder: Path) -> Directory:
    """Open the folder that exporters write into."""
    path = Path(text)
    try:
        next(path.iterdir(), None)
    except OSError as error:
        raise UserError(Problem(f"cannot list this: {error.strerror}", text)) from error
    return Directory(path)
