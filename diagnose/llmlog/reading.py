"""Finding the log files of jobs.

A folder with ``index.json`` (the accounting of the scheduler) has one folder a job; any other
input is one job, and names of folders and files tell nodes. Rotated parts are read in order, a
higher number first.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path, PurePath
from typing import Any

from llmlog.names import of_file, rank_of_file
from prism_common.errors import Problem, UserError
from prism_common.recorder import has_all_ranks
from prism_common.untrusted import OutsideError, parsed, whole

INDEX = "index.json"
_MOST_GPUS = 1 << 16  # of a node
_PART = re.compile(r"(?P<stem>.+?)(?:\.(?P<number>\d+))?(?:\.(?:gz|zst|bz2|xz))?$")
_SUFFIXES = {"log", "txt", "out", "err", "dmesg"}
_KERNEL = re.compile(r"(?i)\bkern(?:el)?\b|dmesg|\bmessages\b|\bsyslog\b|\bjournal\b")
_ATTEMPT = re.compile(r"(?:(?P<node>[^/]+)/)?attempt_\d+/(?P<local>\d+)/std(?:out|err)\.log")


@dataclass(frozen=True)
class LogFile:
    """One file, or one part of a rotated file.

    Attributes
    ----------
    path, name : where it is, and its name below the folder of all logs.
    whole : the name that all parts of it share.
    node, local : whose output it is by its name; None if the lines say so.
    place : ``batch`` (output of the whole job), ``kernel``, ``node`` or ``rank``.
    sure : whether the accounting knows the node.
    rank : in the file's name.
    """

    path: Path
    name: str
    whole: str
    node: str | None
    local: int | None
    place: str
    sure: bool = False
    rank: int | None = None


@dataclass(frozen=True)
class Job:
    """The files of one job, and what the scheduler says of it; times are ns since 1970."""

    name: str
    files: tuple[LogFile, ...]
    nodes: tuple[str, ...] = ()
    gpus_per_node: int | None = None
    state: str | None = None
    user: str | None = None
    begin_ns: int | None = None
    end_ns: int | None = None


def find_jobs(paths: Iterable[Path]) -> list[Job]:
    """The jobs in ``paths``, in order of their begin.

    Raises
    ------
    UserError : a path does not exist, has no files, or its index is wrong.
    """
    jobs: list[Job] = []
    loose: list[LogFile] = []
    for path in paths:
        if not path.exists():
            raise UserError(Problem("does not exist", str(path), "give files or folders of logs"))
        if (path / INDEX).is_file():
            jobs += _indexed(path)
        else:
            found = _files(path, path) if path.is_dir() else [_file(path, path.name)]
            whole = [file for file in found if has_all_ranks(file.path)]
            jobs += [Job(file.path.stem, (file,)) for file in whole]
            loose += [file for file in found if file not in whole]
    if loose:
        nodes = sorted({file.node for file in loose if file.node is not None})
        jobs.append(Job("job", tuple(loose), tuple(nodes)))
    if not any(job.files for job in jobs):
        where = ", ".join(map(str, paths))
        raise UserError(Problem("there are no log files", where, "give a folder of logs"))
    return jobs


def _indexed(folder: Path) -> list[Job]:
    place = str(folder / INDEX)
    try:
        rows = parsed((folder / INDEX).read_bytes())["jobs"]
        return [_accounted(folder, row) for row in rows]
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        reason = error if isinstance(error, OutsideError) else f"{type(error).__name__}: {error}"
        what = f"is not an accounting of jobs ({reason})"
        how = "write it again, or give the folders of the jobs"
        raise UserError(Problem(what, place, how)) from None


def _accounted(folder: Path, row: dict[str, Any]) -> Job:
    name = str(row["job"])
    if Path(name).name != name or name in ("", ".", ".."):
        raise ValueError(f"{name!r} is not the name of a folder")
    nodes = tuple(str(node) for node in row["nodes"])
    files = (_listed(file, nodes) for file in _files(folder / name, folder))
    return Job(
        name,
        tuple(files),
        nodes,
        whole(row["gpus_per_node"], 0, _MOST_GPUS),
        str(row["state"]),
        str(row.get("user", "")),
        *(None if row.get(one) is None else whole(row[one]) for one in ("begin_ns", "end_ns")),
    )


def _listed(file: LogFile, nodes: tuple[str, ...]) -> LogFile:
    """A file with its node, if the accounting knows it by the name of the file or of its folder."""
    name = file.whole.rsplit("/", 1)[-1].removesuffix(".log").removesuffix(".kernel")
    node = next((node for node in (file.node, name) if node in nodes), file.node)
    return replace(file, node=node, sure=node in nodes)


def _files(folder: Path, root: Path) -> list[LogFile]:
    found = (path for path in folder.rglob("*") if path.is_file() and path.name != INDEX)
    return [_file(path, path.relative_to(root).as_posix()) for path in sorted(found, key=_order)]


def _order(path: Path) -> tuple[str, int]:
    """Parts of a file together, the oldest (highest number) first."""
    match = _PART.fullmatch(path.name)
    stem, number = (match["stem"], match["number"]) if match else (path.name, None)
    return str(path.parent / stem), -int(number or 0)


def _file(path: Path, name: str) -> LogFile:
    match = _PART.fullmatch(name)
    stem = match["stem"] if match else name
    last = stem.rsplit("/", 1)[-1]
    if attempt := _ATTEMPT.search(stem):
        return LogFile(path, name, stem, attempt["node"], int(attempt["local"]), "rank")
    if last == "agent.log":
        return LogFile(path, name, stem, PurePath(name).parent.name or None, None, "node")
    bare, dot, suffix = last.rpartition(".")
    bare = bare if dot and suffix in _SUFFIXES else last
    if _KERNEL.search(last):
        return LogFile(path, name, stem, of_file(bare), None, "kernel")
    rank = rank_of_file(bare)
    if last.startswith("slurm") or suffix != "log":
        return LogFile(path, name, stem, None, None, "batch", rank=rank)
    node = of_file(bare) if rank is None else None
    return LogFile(path, name, stem, node, None, "node", rank=rank)
