"""A folder in which exporters leave files: a file that has its final name is complete.

Exporters write under another name and rename (nfcapd, Parquet writers, ``mv`` within a file
system), so a file is read once, as it is when it appears. Names that begin with a dot, and those
of files that are being written (``nfcapd.current.*``, ``*.tmp``, ``*.partial``) are passed over. A
folder inside of the folder is an observation point with its name.

The folder is listed again and again instead of being watched: that works on network file systems
as well, and misses nothing. Files are never moved or removed.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from llmprism.ingest.sources import Source as File
from llmprism.watch.sources import Taken, register
from prism_common.errors import Problem, UserError

_UNFINISHED = (".*", "nfcapd.current*", "*.tmp", "*.partial", "*.part")
_MOST_BYTES = 1 << 28  # taken together
_LOOK_S = 0.5

Seen = dict[str, list[int]]
"""Size [bytes] and time of change [ns] of each file that was read, by its path in the folder."""


class Directory:
    """The files of a folder, in the order in which they were written."""

    def __init__(self, path: Path, removes: bool = False) -> None:
        self._path = path
        self._removes = removes

    def take(self, position: Any, wait_s: float) -> Taken:
        """Return the files that are new, or were replaced."""
        deadline = time.monotonic() + wait_s
        seen: Seen = position or {}
        while True:
            found = dict(self._listed())
            fresh = [name for name, stamp in found.items() if seen.get(name) != stamp]
            left_s = deadline - time.monotonic()
            if fresh or left_s <= 0:
                break
            time.sleep(min(_LOOK_S, left_s))
        for name in seen if self._removes else ():
            (self._path / name).unlink(missing_ok=True)  # stored, before a crash
        taken = self._some(sorted(fresh, key=lambda name: (found[name][1], name)), found)
        kept = {name: stamp for name, stamp in seen.items() if name in found}
        files = [File(self._path / name, point=str(Path(name).parent)) for name in taken]
        return Taken(files, {**kept, **{name: found[name] for name in taken}})

    def is_waiting(self, position: Any) -> bool:
        """Whether a file has come behind ``position``."""
        return any((position or {}).get(name) != stamp for name, stamp in self._listed())

    def stored(self, taken: Taken) -> None:
        """Remove the files, if they are the monitor's own."""
        for file in taken.files if self._removes else []:
            file.path.unlink(missing_ok=True)

    def close(self) -> None:
        """Nothing is open."""

    def _listed(self) -> Iterator[tuple[str, list[int]]]:
        for path in self._path.rglob("*"):
            name = path.relative_to(self._path)
            if any(fnmatch(part, form) for part in name.parts for form in _UNFINISHED):
                continue
            try:
                found = path.stat()
            except FileNotFoundError:  # removed meanwhile
                continue
            if path.is_file():
                yield str(name), [found.st_size, found.st_mtime_ns]

    def _some(self, names: list[str], found: Seen) -> list[str]:
        """The first of the files that are not too large together."""
        taken: list[str] = []
        total = 0
        for name in names:
            total += found[name][0]
            if taken and total > _MOST_BYTES:
                break
            taken.append(name)
        return taken


@register("directory", "a folder of files", lambda text: Path(text).is_dir())
def open_directory(text: str, _folder: Path) -> Directory:
    """Open the folder that exporters write into."""
    path = Path(text)
    try:
        next(path.iterdir(), None)
    except OSError as error:
        raise UserError(Problem(f"cannot list this: {error.strerror}", text)) from error
    return Directory(path)
