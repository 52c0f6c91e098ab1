"""Temporary folders, and threads of libraries."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from prism_common.errors import UserError
from prism_common.files import is_foreign, refuse_foreign, replacing, replacing_marked
from prism_common.folders import replacing_folder
from prism_common.threads import both, in_threads
from prism_sim.toolkit import working_folder

HOLD = """
import os, pathlib, signal, sys
from prism_common.{module} import {name}
with {name}({argument}) as made:
    (made / "flows.parquet" if made.is_dir() else made).write_text("half")
    print(made, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A temporary folder of the system's, of this test alone."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setattr(tempfile, "tempdir", None)
    return folder


def killed(module: str, name: str, argument: str = "") -> Path:
    """What a process has left that was killed within the block."""
    program = HOLD.format(module=module, name=name, argument=argument)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == -9, done.stderr
    return Path(done.stdout.strip())


def test_a_working_folder_outlives_its_killed_owner_until_the_next_is_made(temporary: Path) -> None:
    left = killed("scratch", "working_folder")
    assert (left / "flows.parquet").exists()
    with working_folder() as folder:
        assert [*temporary.iterdir()] == [folder]
        with working_folder():
            assert folder.exists(), "its process runs"
    assert [*temporary.iterdir()] == []


def test_a_folder_and_a_file_are_replaced_though_an_earlier_process_was_killed(
    tmp_path: Path,
) -> None:
    folder, file = tmp_path / "o", tmp_path / "o.json"
    for _ in range(2):
        killed("folders", "replacing_folder", f"pathlib.Path({str(folder)!r})")
        killed("files", "replacing", f"pathlib.Path({str(file)!r})")
    (tmp_path / ".thesis.txt.1.partial").write_text("of another program")
    with replacing_folder(folder) as fresh:
        (fresh / "jobs.parquet").write_text("whole")
    with replacing_folder(folder) as fresh:
        (fresh / "steps.parquet").write_text("whole")
    with replacing(file) as partial:
        partial.write_text("whole")
    found = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*")}
    assert found == {"o", "o/steps.parquet", "o.json", ".thesis.txt.1.partial"}


def test_nothing_else_is_removed(temporary: Path) -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    for name in ("prism-of-mine", f"prism-{ended.pid}-a", f"prism-{os.getpid()}-b"):
        (temporary / name).mkdir()
        (temporary / name / "thesis.txt").write_text("mine")
    (temporary / f"prism-{ended.pid}-empty").mkdir()
    (temporary / f"prism-{ended.pid}-link").symlink_to(temporary / "prism-of-mine")
    before = {path.name for path in temporary.iterdir()}
    with pytest.raises(KeyError), working_folder():
        raise KeyError
    assert {path.name for path in temporary.iterdir()} == before - {f"prism-{ended.pid}-empty"}


def test_a_single_file_is_replaced_only_if_the_program_made_it(tmp_path: Path) -> None:
    path = tmp_path / "picture.svg"
    for _ in range(2):
        with replacing_marked(path, "llmprism", "--picture") as partial:
            partial.write_text("<svg>made by llmprism</svg>")
    assert is_foreign(path, "prism-sim")
    path.write_text("<svg>of mine</svg>")
    with pytest.raises(UserError, match="name another file with --picture"):
        refuse_foreign(path, "llmprism", "--picture")
    assert path.read_text() == "<svg>of mine</svg>"


def test_the_first_error_is_raised() -> None:
    with pytest.raises(ZeroDivisionError):
        in_threads(lambda value: 1 / value, [1, 0, 2])
    for calls in ((lambda: 1, lambda: 1 / 0), (lambda: 1 / 0, lambda: 1)):
        with pytest.raises(ZeroDivisionError):
            both(*calls)
