"""The command line as a process: its imports, and its reaction to signals."""

import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from prism_sim.toolkit import open_session
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


LONG = """\
cluster: {servers: 16}
jobs:
  - {name: long, model: llama-7b, dp: 16, tp: 8, micro_batches: 4, steps: 1000000}
"""


def _records_written(folder: Path) -> bool:
    """Whether the first records are in the file, so the run has started."""
    return any(path.stat().st_size > 1000 for path in folder.rglob(".flows.parquet.*"))


@pytest.mark.parametrize(
    ("signum", "code"),
    [(signal.SIGINT, 130), pytest.param(signal.SIGTERM, 143, marks=pytest.mark.slow)],
)
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


@pytest.mark.parametrize(("raised", "code"), [(KeyboardInterrupt(), 130), (SystemExit(143), 143)])
def test_a_signal_in_compiled_code_ends_a_run_as_any_other(
    raised: BaseException, code: int
) -> None:
    inner, outer = SystemError("an exception is set"), SystemError("an exception is set")
    inner.__cause__, outer.__cause__ = raised, inner
    with pytest.raises(SystemExit) as ended, open_session(False, True, False):
        raise outer
    assert ended.value.code == code


def _read_to_the_end(terminal: int) -> str:
    """The text that is written to a pseudo-terminal until its other end is closed."""
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


def _cat(path: str) -> str:
    return (Path(__file__).resolve().parents[2] / path).read_text()


@pytest.mark.parametrize("name", ["-", pytest.param("/dev/stdin", marks=pytest.mark.slow)])
@pytest.mark.parametrize("command", ["validate", "simulate"])
def test_a_scenario_can_come_from_a_pipe(tmp_path: Path, name: str, command: str) -> None:
    with started([*PRISM_SIM, command, name, "--quiet"], tmp_path, stdin=subprocess.PIPE) as end:
        out, err = end.communicate(_cat("scenarios/tiny/pair.yaml"), timeout=120)
    assert (end.returncode, err) == (0, "")
    assert "fine" in out if command == "validate" else "results/stdin/0" in out


def test_errors_in_a_pipe_have_lines(tmp_path: Path) -> None:
    with started([*PRISM_SIM, "validate", "-"], tmp_path, stdin=subprocess.PIPE) as end:
        _, err = end.communicate("cluster: {servers: 2}\njobs: []\n", timeout=120)
    assert end.returncode == 1
    assert "/dev/stdin:2: " in err


ASCII = {**os.environ, "LC_ALL": "C", "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0",
         "PYTHONCOERCECLOCALE": "0"}  # fmt: skip


@pytest.mark.slow
def test_a_locale_without_unicode_is_no_obstacle(tmp_path: Path) -> None:
    text = _cat("scenarios/tiny/pair.yaml").replace("name: ", "name: \u00e9\u4e2d", 1)
    (tmp_path / "pair.yaml").write_text(text, encoding="utf-8")
    done = completed([*PRISM_SIM, "run", "pair.yaml"], tmp_path, env=ASCII)
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    refused = completed([*PRISM_SIM, "validate", "n\u00e9.yaml"], tmp_path, env=ASCII)
    assert refused.returncode == 1
    assert "Traceback" not in refused.stderr


def test_a_disk_that_takes_no_more_is_one_line(tmp_path: Path) -> None:
    code = (
        "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))\n"
        "from prism_sim.cli import main; main()"
    )
    command = [sys.executable, "-c", code, "simulate", "tiny/pair", "--out", "here", "--quiet"]
    done = completed(command, tmp_path, env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"})
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert len(done.stderr.splitlines()) <= 2
    assert not (tmp_path / "here").exists()


def test_a_reader_that_closes_early_is_not_an_error(tmp_path: Path) -> None:
    with started([*PRISM_SIM, "list"], tmp_path) as process:
        assert process.stdout is not None
        process.stdout.close()
        assert process.stderr is not None
        assert process.stderr.read() == ""


def test_the_module_is_the_command(tmp_path: Path) -> None:
    done = completed([sys.executable, "-m", "prism_sim", "run", "--version"], tmp_path)
    assert (done.returncode, done.stdout.split()[0]) == (0, "prism-sim")
