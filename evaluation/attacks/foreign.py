"""A folder in which others have been: their files, links, pipes and marks, at any names."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from pathlib import Path

from hypothesis import strategies as st

PRECIOUS = b"three years of work\n"
_RECORD = (
    b'{"products": {"../outside/thesis.txt": "report", "/tmp/outside.txt": "score", "thesis.txt": '
    b'"score", "notes/plan.txt": "diagnose", "figures/../thesis.txt": "report"}}'
)
CONTENTS = (PRECIOUS, b"", b"{}", b"[]", b'{"cases": 1}', b'{"tables_of": "another"}', _RECORD)
_NAMES = (
    "thesis.txt", "photo.jpg", ".draft.partial", "notes/plan.txt", "lock", "state.json",
    "records/thesis.txt", "records/1.parquet", "window/photo.jpg", "window/flows.parquet",
    "spool/mine.csv", "spool/00000000000000000007.lines", "history/steps/day=2020-01-01/1.parquet",
    "history/steps/day=2020-01-01/mine.parquet", "alerts.jsonl", "points/notes.txt", "points",
    "points/0123456789abcdef01234567.json", ".prism-sim.json", ".prism-sim.lock", "score.json",
    "report.html", "figures/map.png", "truth/ranks.parquet", "diagnosis/jobs.parquet", "diagnosis",
    "logs/index.json", "corpus.json", "operations.json", "sweep.parquet", "intake.json",
    "jobs.parquet", "failures.parquet", "events.parquet", "llmlog.json", "flows.parquet",
    "topology.json", "ingest.json", "library.json", ".library.json.1.partial", "records", "spool",
)  # fmt: skip
KINDS = ("file", "folder", "link", "link_to_folder", "loop", "nowhere", "pipe", "hard_link")


@dataclass(frozen=True)
class Entry:
    """Something of others: its name in the folder, what it is, and its content."""

    name: str
    kind: str
    content: bytes


def entries() -> st.SearchStrategy[list[Entry]]:
    """Draw what others have put into a folder."""
    one = st.builds(
        Entry, st.sampled_from(_NAMES), st.sampled_from(KINDS), st.sampled_from(CONTENTS)
    )
    return st.lists(one, max_size=6)


def place(given: list[Entry], folder: Path, outside: Path) -> None:
    """Put entries into a folder; links lead to ``outside``, which has files of its own."""
    (outside / "papers").mkdir(parents=True)
    for name in ("thesis.txt", "papers/jobs.parquet", "papers/1.parquet", "papers/score.json"):
        (outside / name).write_bytes(PRECIOUS)
    folder.mkdir()
    for one in given:
        path = folder / one.name
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except (FileExistsError, NotADirectoryError):  # another entry is there
            continue
        if not os.path.lexists(path) and _is_inside(path.parent, folder):
            _make(one, path, outside)


def _is_inside(path: Path, folder: Path) -> bool:
    return path.resolve().is_relative_to(folder.resolve())


def _make(one: Entry, path: Path, outside: Path) -> None:
    if one.kind == "file":
        path.write_bytes(one.content)
    elif one.kind == "folder":
        path.mkdir()
        (path / "mine.txt").write_bytes(PRECIOUS)
    elif one.kind == "link":
        path.symlink_to(outside / "thesis.txt")
    elif one.kind == "link_to_folder":
        path.symlink_to(outside / "papers")
    elif one.kind == "loop":
        path.symlink_to(path.name)
    elif one.kind == "nowhere":
        path.symlink_to(outside / "new.txt")
    elif one.kind == "pipe":
        os.mkfifo(path)
    else:
        os.link(outside / "thesis.txt", path)


def contents(folder: Path) -> dict[str, tuple[str, bytes]]:
    """What each entry below a folder is, with its content; links are not followed."""
    found = {}
    for above, folders, files in os.walk(folder):
        for name in (*folders, *files):
            path = Path(above) / name
            found[path.relative_to(folder).as_posix()] = _content(path)
    return found


def _content(path: Path) -> tuple[str, bytes]:
    mode = path.lstat().st_mode
    if stat.S_ISLNK(mode):
        return "link", os.fsencode(path.readlink())
    if stat.S_ISREG(mode):
        return "file", path.read_bytes()
    return ("folder", b"") if stat.S_ISDIR(mode) else ("other", b"")
