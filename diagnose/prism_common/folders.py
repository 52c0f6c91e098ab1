"""A folder of ours: what a program may write, replace and remove in it, and nothing else.

A folder belongs to its user. A program owns in it only *regular files* whose names it gives itself
(:class:`Names`), and reaches them without following a link. All else may be someone's work: it is
never opened, replaced or removed, whatever a record in the folder says of it. A *lock* lets one
process write at a time, and its words tell the file from a user's own. Replacement is atomic:
:func:`prism_common.files.replacing` for a file, :func:`replacing_folder` for a whole folder.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import re
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from prism_common.errors import Problem, UserError
from prism_common.files import DRAFT, resolved
from prism_common.scratch import working_folder

_LONGEST_WORDS = 64  # bytes of a lock that are looked at


class Names:
    """The names that a program gives its files, as paths in its folder.

    Parameters
    ----------
    patterns : regular expressions; no slash within a group.

    Examples
    --------
    >>> names = Names(r"state\\.json", r"records/[0-9]+\\.parquet")
    >>> "records/7.parquet" in names, "records/../thesis.txt" in names
    (True, False)
    """

    def __init__(self, *patterns: str) -> None:
        parts = [re.split(r"(?<!\^)/", pattern) for pattern in patterns]  # not that of [^/]
        above = {"/".join(one[:end]) for one in parts for end in range(1, len(one))}
        self._files = _any_of(patterns)
        self._folders = _any_of(sorted(above))

    def __contains__(self, name: str) -> bool:
        return is_plain(name) and self._files.fullmatch(name) is not None

    def has_folder(self, name: str) -> bool:
        """Whether files of these names lie in a folder called ``name``."""
        return self._folders.fullmatch(name) is not None


def _any_of(patterns: Iterator[str] | tuple[str, ...] | list[str]) -> re.Pattern[str]:
    return re.compile("|".join(f"(?:{one})" for one in patterns) or r"(?!)")


def is_plain(name: str) -> bool:
    """Whether a path is relative, has no ``..``, and is written in the one shortest way.

    >>> is_plain("truth/pairs.parquet"), is_plain("../thesis.txt"), is_plain("/etc/passwd")
    (True, False, False)
    """
    path = PurePosixPath(name)
    return (
        name not in ("", ".")
        and name == str(path)
        and not path.is_absolute()
        and ".." not in path.parts
        and "\0" not in name
    )


def is_regular(path: Path) -> bool:
    """Whether a file is there that is no link, folder, pipe or device."""
    try:
        return stat.S_ISREG(path.lstat().st_mode)
    except (OSError, ValueError):
        return False


@dataclass(frozen=True)
class OwnFolder:
    """The files of one program in a folder.

    Attributes
    ----------
    path : the folder; it may be a link that the user made.
    names : of the program's files.
    how : how the user names another folder, such as ``name another folder with --out``.
    """

    path: Path
    names: Names
    how: str

    def holds(self, name: str) -> bool:
        """Whether ``name`` is a file of ours: its name, its kind, and no link on the way."""
        return name in self.names and self._is_direct(name) and is_regular(self.path / name)

    def path_of(self, name: str) -> Path:
        """Return where to write the file ``name``.

        Raises
        ------
        UserError : something that is no file of ours is there, or a link leads elsewhere.
        """
        path = self.path / name
        free = not os.path.lexists(path)
        if name not in self.names or not self._is_direct(name) or not (free or is_regular(path)):
            raise self._foreign(name)
        return path

    def files(self, folder: str = "") -> Iterator[str]:
        """Yield the names of the files of ours that are there; links are not followed.

        With ``folder``, only those in that folder.
        """
        if folder and not self._is_direct(f"{folder}/_"):
            return
        for name, entry in self._entries(f"{folder}/" if folder else ""):
            if name in self.names and entry.is_file(follow_symlinks=False):
                yield name

    def foreign(self) -> list[str]:
        """Return the names of the entries that are neither files of ours nor folders of them."""
        return sorted(
            name
            for name, entry in self._entries("")
            if not self._is_own(name, entry) and not self._is_draft(name)
        )

    def refuse_foreign(self, allowed: Callable[[str], bool] = lambda _name: False) -> None:
        """Raise a UserError if anything but files of ours, and what is ``allowed``, is there."""
        if strange := [name for name in self.foreign() if not allowed(name)]:
            raise self._foreign(strange[0], len(strange) - 1)

    def refuse_in_the_way(self) -> None:
        """Raise a UserError if a link, a pipe or a folder is where a file of ours belongs."""
        for name, entry in self._entries(""):
            is_name = name in self.names or self.names.has_folder(name)
            if is_name and not self._is_own(name, entry):
                raise self._foreign(name)

    def remove(self, name: str) -> None:
        """Remove a file of ours; all else stays."""
        if self.holds(name):
            (self.path / name).unlink(missing_ok=True)

    def remove_unfinished(self) -> None:
        """Remove what a process that was killed had begun to write; call it with the lock held."""
        for name, _entry in list(self._entries("")):
            if self._is_draft(name) and is_regular(self.path / name):
                (self.path / name).unlink(missing_ok=True)

    def remove_folder(self, name: str) -> None:
        """Remove the files of ours in a folder of them, and the folder if nothing else is in it."""
        if self.names.has_folder(name) and self._is_direct(f"{name}/_"):
            for one, _entry in list(self._entries(f"{name}/")):
                self.remove(one)
            with suppress(OSError):  # someone's files are in it
                (self.path / name).rmdir()

    def size_bytes(self, of: Names) -> int:
        """Return the size of those files of ours that have such names [bytes]."""
        total = 0
        for name, entry in self._entries(""):
            if name in of and entry.is_file(follow_symlinks=False):
                with suppress(OSError):  # removed meanwhile
                    total += entry.stat(follow_symlinks=False).st_size
        return total

    def _entries(self, prefix: str) -> Iterator[tuple[str, os.DirEntry[str]]]:
        """Yield everything in the folder; what is in folders is looked at if ours may be there."""
        with suppress(FileNotFoundError), os.scandir(self.path / prefix) as found:
            for entry in sorted(found, key=lambda one: one.name):
                name = f"{prefix}{entry.name}"
                yield name, entry
                if self.names.has_folder(name) and entry.is_dir(follow_symlinks=False):
                    yield from self._entries(f"{name}/")

    def _is_own(self, name: str, entry: os.DirEntry[str]) -> bool:
        if self.names.has_folder(name):
            return entry.is_dir(follow_symlinks=False)
        return name in self.names and entry.is_file(follow_symlinks=False)

    def _is_draft(self, name: str) -> bool:
        parent, _, last = name.rpartition("/")
        match = DRAFT.fullmatch(last)
        return match is not None and "/".join(filter(None, (parent, match["name"]))) in self.names

    def _is_direct(self, name: str) -> bool:
        """Whether no part of the way to ``name`` is a link or no folder, as far as it is there."""
        at = self.path
        for part in PurePosixPath(name).parts[:-1]:
            at = at / part
            if os.path.lexists(at) and (at.is_symlink() or not at.is_dir()):
                return False
        return True

    def _foreign(self, name: str, more: int = 0) -> UserError:
        path = self.path / name
        kind = "a link" if path.is_symlink() else "no file of ours"
        others = f", and {more} more" if more else ""
        what = f"{name!r} is {kind}{others}; nothing is written here"
        return UserError(Problem(what, str(self.path), f"move it away, or {self.how}"))


class BusyError(Exception):
    """Another process holds a lock; the argument is what it wrote into it."""


def lock_file(path: Path, is_ours: Callable[[bytes], bool]) -> int:
    """Lock a file, which is made if missing; return its descriptor.

    The operating system releases the lock when the process ends. On a file system without locks,
    there is none.

    Parameters
    ----------
    is_ours : whether the first bytes of the file are those of a lock.

    Raises
    ------
    BusyError : another process holds it.
    UserError : the file is a link, no regular file, or holds something else; it is not changed.
    """
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        lock = os.open(path, flags, 0o644)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.EISDIR, errno.ENXIO):
            raise _no_lock(path) from error
        raise
    try:
        words = os.pread(lock, _LONGEST_WORDS, 0) if _is_regular_file(lock) else b"?"
        if not _is_regular_file(lock) or not is_ours(words):
            raise _no_lock(path)
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(lock)
        raise BusyError(words.decode(errors="replace").strip()) from None
    except OSError as error:
        if error.errno in (errno.ENOTSUP, errno.ENOSYS, errno.EINVAL):
            return lock  # a file system without locks
        os.close(lock)
        raise
    except UserError:
        os.close(lock)
        raise
    return lock


def _is_regular_file(descriptor: int) -> bool:
    return stat.S_ISREG(os.fstat(descriptor).st_mode)


def _no_lock(path: Path) -> UserError:
    what = f"{path.name!r} is no lock of ours; nothing is written here"
    return UserError(Problem(what, str(path.parent), "move it away, or name another folder"))


@contextmanager
def new_folder(path: Path) -> Iterator[None]:
    """Make a folder, and its parents, for what the block writes; none is left if it fails.

    Folders that exist, and what others wrote meanwhile, stay.
    """
    made = [one for one in (path, *path.parents) if not one.exists()]
    path.mkdir(parents=True, exist_ok=True)
    try:
        yield
    except BaseException:
        with suppress(OSError):  # not empty
            for folder in made:
                folder.rmdir()
        raise


@contextmanager
def replacing_folder(folder: Path) -> Iterator[Path]:
    """Yield a new folder next to ``folder`` that replaces it only if the block succeeds.

    After any failure, ``folder`` contains either all of the old files or all of the new ones. All
    that is in ``folder`` must be known to be ours: it is removed.
    """
    folder = resolved(folder)  # a link stays a link, to the new content
    folder.parent.mkdir(parents=True, exist_ok=True)
    with working_folder(folder) as aside:
        fresh, old = aside / "new", aside / "old"
        fresh.mkdir()
        yield fresh
        if folder.exists() and not _exchanged(fresh, folder):
            folder.rename(old)
        if not folder.exists():
            try:
                fresh.rename(folder)
            except OSError:
                old.rename(folder)
                raise


def _exchanged(fresh: Path, folder: Path) -> bool:
    """Whether two folders have exchanged their names, in one step; only Linux can."""
    rename = getattr(ctypes.CDLL(None), "renameat2", None)
    if rename is None:
        return False
    at, exchange = -100, 2  # AT_FDCWD, RENAME_EXCHANGE
    return bool(rename(at, os.fsencode(fresh), at, os.fsencode(folder), exchange) == 0)
