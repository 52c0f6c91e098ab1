"""The command line: exit codes, what goes where, and what it says."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner, Result

from llmprism.cli import app
from llmprism.errors import UserError

Call = Callable[..., Result]


@pytest.fixture
def files(tmp_path: Path, make_world: Callable[..., Any]) -> tuple[str, ...]:
    """Arguments that name the flows and topology of a small job with one slow step."""
    flows, topology = make_world(steps=16, slow={(1, 9): 2.5}).save(tmp_path / "in")
    return str(flows), "--topology", str(topology)


@pytest.fixture
def call(monkeypatch: pytest.MonkeyPatch) -> Call:
    monkeypatch.setenv("NO_COLOR", "1")
    return lambda *arguments: CliRunner().invoke(app, list(arguments))


def test_the_result_is_a_table_on_stdout(files: tuple[str, ...], call: Call) -> None:
    result = call(*files)
    assert result.exit_code == 0
    assert "Jobs (method paper)" in result.stdout
    assert "job-0" in result.stdout
    assert "slow_step" in result.stdout
    assert result.stderr == ""  # no terminal, nothing set aside: nothing to say


def test_nothing_found_is_said(tmp_path: Path, make_world: Callable[..., Any], call: Call) -> None:
    flows, topology = make_world().save(tmp_path / "in")
    assert "Nothing stands out." in call(str(flows), "--topology", str(topology)).stdout


def test_json_is_all_there_is_on_stdout(files: tuple[str, ...], call: Call) -> None:
    result = call(*files, "--json")
    summary = json.loads(result.stdout)
    assert summary["method"] == "paper"
    assert summary["jobs"][0]["steps"] == 16
    assert summary["findings"][0]["first_step"] == 9


def test_out_writes_the_tables(files: tuple[str, ...], call: Call, tmp_path: Path) -> None:
    result = call(*files, "--out", str(tmp_path / "out"))
    assert result.exit_code == 0
    assert f"tables written to {tmp_path / 'out'}" in " ".join(result.stderr.split("\n"))
    assert pq.read_table(tmp_path / "out" / "steps.parquet").num_rows == 16 * 8


def test_what_was_set_aside_is_told_on_stderr(
    tmp_path: Path, make_world: Callable[..., Any], call: Call
) -> None:
    world = make_world()
    world.flows.loc[3, "dst"] = "resolver"
    world.flows.loc[5, "bytes"] = -4
    flows, topology = world.save(tmp_path / "in")
    result = call(str(flows), "--topology", str(topology))
    assert result.exit_code == 0
    total = len(world.flows)
    assert f"set aside 1 of {total} records: address unknown to the topology" in result.stderr
    assert f"set aside 1 of {total} records: negative size" in result.stderr
    assert "resolver (1)" in result.stderr
    assert "resolver" not in result.stdout
    assert call(str(flows), "--topology", str(topology), "--quiet").stderr == ""


def test_bad_data_exit_1_without_a_traceback(files: tuple[str, ...], call: Call) -> None:
    whole = Path(files[0])
    whole.write_bytes(whole.read_bytes()[:-30])
    result = call(*files)
    assert result.exit_code == 1
    assert result.stdout == ""
    assert result.stderr.startswith("error: ")
    assert "not a readable Parquet file" in result.stderr
    assert "Traceback" not in result.stderr


def test_debug_shows_where_an_error_comes_from(call: Call, tmp_path: Path) -> None:
    missing = str(tmp_path / "none")
    result = call(missing, "--topology", missing, "--debug")
    assert result.exit_code == 1
    assert isinstance(result.exception, UserError)


def test_both_files_are_complained_about(call: Call) -> None:
    result = call("no-flows", "--topology", "no-topology")
    assert result.exit_code == 1
    assert "no-flows" in result.stderr
    assert "no-topology" in result.stderr


@pytest.mark.parametrize(
    "arguments", [(), ("flows",), ("flows", "--topology", "t", "--method", "guess"), ("--nope",)]
)
def test_wrong_usage_exits_2(arguments: tuple[str, ...], call: Call) -> None:
    assert call(*arguments).exit_code == 2


def test_help_imports_nothing_heavy() -> None:
    code = (
        "import sys; from llmprism.cli import main; sys.argv = ['llmprism', '--help']\n"
        "try: main()\n"
        "except SystemExit as end: assert not end.code\n"
        "heavy = {'numpy', 'pandas', 'pyarrow', 'numba', 'scipy', 'matplotlib', 'pydantic'}\n"
        "print(sorted(heavy & set(sys.modules)), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "--topology" in done.stdout
    assert done.stderr.strip() == "[]"


def test_the_installed_command_runs(files: tuple[str, ...]) -> None:
    command = [sys.executable, "-m", "llmprism.cli", *files, "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout)["jobs"][0]["addresses"] == 8
