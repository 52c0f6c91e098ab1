"""The command line as a process: what it imports, and how it takes a signal."""

import contextlib
import json
import os
import signal
import sys
from pathlib import Path

import pytest

from processes import PRISM_SIM, completed, started, wait_until

HEAVY = {"numpy", "pandas", "matplotlib", "seaborn", "numba", "pyarrow", "scipy", "simpy"}


def _imported_by(code: str) -> set[str]:
    listing = f"{code}\nimport sys; print(*(name.split('.')[0] for name in sys.modules))"
    done = completed([sys.executable, "-c", listing], Path.cwd())
    assert done.returncode == 0, done.stderr
    return set(done.stdout.split())


def test_importing_the_command_line_imports_nothing_heavy() -> None:
    imported = _imported_by("import prism_sim.cli")
    assert "typer" in imported
    assert imported & (HEAVY | {"pydantic", "yaml", "rich", "jinja2"}) == set()


def test_help_of_a_command_imports_nothing_heavy() -> None:
    asked = "import sys; sys.argv = ['prism-sim', 'run', '--help']"
    code = f"{asked}\nfrom prism_sim.cli import main\ntry: main()\nexcept SystemExit: pass"
    assert _imported_by(code) & HEAVY == set()


def test_a_process_reports_errors_without_traceback(tmp_path: Path) -> None:
    done = completed([*PRISM_SIM, "simulate", "nothing.yaml"], tmp_path)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("nothing.yaml: there is no file")


LONG = """\
cluster: {servers: 16}
jobs:
  - {name: long, model: llama-7b, dp: 16, tp: 8, micro_batches: 4, steps: 1000000}
"""


def _records_written(folder: Path) -> bool:
    """Whether the first records have reached the disk, so that the run is under way."""
    return any(path.stat().st_size > 1000 for path in folder.rglob(".flows.parquet.*"))


@pytest.mark.parametrize(("signum", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_a_run_without_half_written_files(
    tmp_path: Path, signum: int, code: int
) -> None:
    (tmp_path / "long.yaml").write_text(LONG)
    folder = tmp_path / "here"
    command = [*PRISM_SIM, "simulate", "long.yaml", "--out", "here"]
    with started(command, tmp_path) as process:
        wait_until(lambda: _records_written(folder) or process.poll() is not None)
        assert process.poll() is None, process.communicate()[1]
        os.kill(process.pid, signum)
        _, err = process.communicate(timeout=60)
    assert process.returncode == code
    assert "Traceback" not in err
    assert [path for path in folder.rglob("*") if path.is_file()] == []


def test_results_go_to_stdout_and_the_rest_to_stderr(tmp_path: Path) -> None:
    done = completed([*PRISM_SIM, "simulate", "tiny/pair", "--json"], tmp_path)
    assert done.returncode == 0
    assert json.loads(done.stdout)["run"] == "results/pair/0"
    assert done.stderr.startswith("simulate: ")
    assert "\x1b" not in done.stderr


def _read_to_the_end(terminal: int) -> str:
    """What is written to a pseudo-terminal until its other end is closed."""
    pieces = []
    with contextlib.suppress(OSError):  # which is how Linux tells that the end is closed
        while piece := os.read(terminal, 65536):
            pieces.append(piece)
    os.close(terminal)
    return b"".join(pieces).decode()


@pytest.mark.skipif(not hasattr(os, "openpty"), reason="needs a pseudo-terminal")
@pytest.mark.parametrize(("options", "bar"), [([], True), (["--quiet"], False)])
def test_progress_is_drawn_on_a_terminal_unless_quiet(
    tmp_path: Path, options: list[str], bar: bool
) -> None:
    ours, theirs = os.openpty()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "100"}
    environment.pop("NO_COLOR", None)
    command = [*PRISM_SIM, "simulate", "tiny/pair", *options]
    with started(command, tmp_path, env=environment, stderr=theirs) as process:
        os.close(theirs)
        drawn = _read_to_the_end(ours)
        out, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    assert ("\x1b[" in drawn, "100%" in drawn) == (bar, bar)
    assert "\x1b" not in out
    assert "run: results/pair/0" in out
