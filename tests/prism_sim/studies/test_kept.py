"""Saved results: a file counts as done or not, and files of a killed process are removed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from prism_sim.studies.kept import Content, Piece, content, do_missing
from prism_sim.studies.scratch import OWNER, remove_abandoned, working_folder

DONE: list[int] = []


def _double(number: int) -> Content:
    DONE.append(number)
    return {"twice": {"value": 2 * number}}


def _all_done(folder: Path, retry: bool = False) -> tuple[int, int]:
    DONE.clear()
    pieces = [Piece("ab12", "one", 1), Piece("cd34", "two", 2)]
    return do_missing(_double, pieces, folder, 1, None, retry, total=2, result="twice")


@pytest.mark.parametrize(
    "text",
    ["", "{}", "[]", "null", '{"case": "one"}', '{"case": "one", "twice": {}}', '{"case": "on',
     '{"case": "one", "error": ""}', "\x00\x00"],
)  # fmt: skip
def test_a_file_without_a_result_counts_as_missing(tmp_path: Path, text: str) -> None:
    assert _all_done(tmp_path) == (2, 0)
    (tmp_path / "ab12.json").write_text(text)
    assert _all_done(tmp_path) == (1, 1)
    assert DONE == [1]
    assert content(tmp_path, "ab12")["twice"] == {"value": 2}


def test_a_file_that_is_not_text_counts_as_missing(tmp_path: Path) -> None:
    _all_done(tmp_path)
    (tmp_path / "ab12.json").write_bytes(b"\xff\xfe{")
    assert _all_done(tmp_path) == (1, 1)


def test_an_error_counts_as_done_without_retry(tmp_path: Path) -> None:
    _all_done(tmp_path)
    (tmp_path / "ab12.json").write_text('{"case": "one", "error": "too large"}')
    assert _all_done(tmp_path) == (0, 2)
    assert _all_done(tmp_path, retry=True) == (1, 1)


def test_half_written_files_of_the_dead_are_removed_and_no_others(tmp_path: Path) -> None:
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()
    dead = tmp_path / f".ab12.json.{child.pid}.partial"
    alive = tmp_path / f".ab12.json.{os.getppid()}.partial"
    foreign = tmp_path / ".notes.partial"
    for path in (dead, alive, foreign):
        path.write_text("x")
    _all_done(tmp_path)
    assert [path.exists() for path in (dead, alive, foreign)] == [False, True, True]


HOLD = """\
import sys, time
from prism_sim.studies.scratch import working_folder
with working_folder() as folder:
    (folder / "flows.parquet").write_text("large")
    print(folder, flush=True)
    time.sleep(600)
"""


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A temporary folder of the system's, of this test alone."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setattr(tempfile, "tempdir", None)
    return folder


def test_a_working_folder_outlives_its_killed_owner_until_the_next_start(temporary: Path) -> None:
    child = subprocess.Popen([sys.executable, "-c", HOLD], stdout=subprocess.PIPE, text=True)
    try:
        assert child.stdout is not None
        folder = Path(child.stdout.readline().strip())
        assert folder.parent == temporary
        assert remove_abandoned() == []  # its process still runs
        assert folder.exists()
    finally:
        child.send_signal(signal.SIGKILL)
        child.communicate(timeout=60)
    assert folder.exists()
    assert remove_abandoned() == [folder]
    assert list(temporary.iterdir()) == []


def test_only_files_of_the_manifest_are_removed(temporary: Path) -> None:
    bare = temporary / "prism-sim-of-mine"
    bare.mkdir()
    (bare / "precious").write_text("x")
    other = temporary / "prism-sim-other"
    other.mkdir()
    (other / OWNER).write_text("the text of another program")
    linked = temporary / "prism-sim-link"
    target = temporary / "elsewhere"
    target.mkdir()
    (target / OWNER).write_bytes(b"Working folder of prism-sim; removed when its owner is gone.\n")
    linked.symlink_to(target)
    with working_folder() as own:
        assert remove_abandoned() == []
        assert own.exists()
    assert {path.name for path in temporary.iterdir()} == {
        "prism-sim-of-mine", "prism-sim-other", "prism-sim-link", "elsewhere",
    }  # fmt: skip


def test_a_working_folder_is_gone_after_an_error(temporary: Path) -> None:
    with pytest.raises(KeyError), working_folder():
        raise KeyError
    assert list(temporary.iterdir()) == []


def test_a_folder_whose_process_died_before_it_was_marked_is_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    ended = subprocess.run([sys.executable, "-c", "import os; print(os.getpid())"],
                           capture_output=True, text=True, check=True)  # fmt: skip
    dead = tmp_path / f"prism-sim-{ended.stdout.strip()}-a"
    alive = tmp_path / f"prism-sim-{os.getpid()}-b"
    for folder in (dead, alive, tmp_path / "prism-sim-of-mine"):
        folder.mkdir()
    full = tmp_path / f"prism-sim-{ended.stdout.strip()}-c"
    full.mkdir()
    (full / "thesis.txt").write_text("mine")
    assert remove_abandoned() == [dead]
    assert alive.exists()
    assert full.exists()
