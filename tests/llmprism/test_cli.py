"""The command line: exit codes, messages, and the output on stdout and stderr."""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import typer
from rich.console import Console
from typer.testing import CliRunner, Result

import llmprism
from llmprism.check.command import check_app
from llmprism.cli import app
from llmprism.ingest.commands import ingest_app
from llmprism.page.command import report_app
from llmprism.terminal import findings_table
from prism_common.errors import UserError
from small_jobs import make_world

APPS = [app, ingest_app, check_app, report_app]


@pytest.fixture
def files(tmp_path: Path) -> tuple[str, ...]:
    """Arguments that name the flows and topology of a small job with one slow step."""
    flows, topology = make_world(steps=16, slow={(1, 9): 2.5}).save(tmp_path / "in")
    return str(flows), "--topology", str(topology)


def call(*arguments: str) -> Result:
    return CliRunner().invoke(app, list(arguments), env={"NO_COLOR": "1"})


def test_the_result_is_a_table_on_stdout(files: tuple[str, ...]) -> None:
    result = call(*files, "--method", "paper")
    assert result.exit_code == 0
    assert "Jobs (method paper)" in result.stdout
    assert "job-0" in result.stdout
    assert "slow_step" in result.stdout
    assert result.stderr == ""  # no terminal, nothing set aside: nothing to say


def test_a_diagnosis_without_findings_says_so(tmp_path: Path) -> None:
    flows, topology = make_world().save(tmp_path / "in")
    assert "Nothing stands out." in call(str(flows), "--topology", str(topology)).stdout


def test_json_is_all_there_is_on_stdout(files: tuple[str, ...]) -> None:
    result = call(*files, "--method", "paper", "--json")
    summary = json.loads(result.stdout)
    assert summary["method"] == "paper"
    assert summary["jobs"][0]["steps"] == 16
    assert summary["findings"][0]["first_step"] == 9


def test_out_writes_the_tables(files: tuple[str, ...], tmp_path: Path) -> None:
    result = call(*files, "--out", str(tmp_path / "out"))
    assert result.exit_code == 0
    assert f"tables written to {tmp_path / 'out'}" in " ".join(result.stderr.split("\n"))
    assert pq.read_table(tmp_path / "out" / "steps.parquet").num_rows == 16 * 8


def test_records_set_aside_are_reported_on_stderr(tmp_path: Path) -> None:
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
    assert "without them, one job may look like several" in result.stderr
    assert "resolver" not in result.stdout
    assert call(str(flows), "--topology", str(topology), "--quiet").stderr == ""


def test_bad_data_exit_1_without_a_traceback(files: tuple[str, ...]) -> None:
    whole = Path(files[0])
    whole.write_bytes(whole.read_bytes()[:-30])
    result = call(*files)
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.startswith("error: ")
    assert "not a readable Parquet file" in result.stderr
    assert "if it is cut off or damaged, write it again" in result.stderr
    assert "Traceback" not in result.stderr


def test_debug_shows_where_an_error_comes_from(tmp_path: Path) -> None:
    missing = str(tmp_path / "none")
    result = call(missing, "--topology", missing, "--debug")
    assert (result.exit_code, type(result.exception)) == (1, UserError)


def test_both_files_are_complained_about() -> None:
    result = call("no-flows", "--topology", "no-topology")
    assert (result.exit_code, "no-flows" in result.stderr) == (1, True)
    assert "no-topology" in result.stderr


@pytest.mark.parametrize(
    "arguments", [(), ("flows",), ("flows", "--topology", "t", "--method", "guess"), ("--nope",)]
)
def test_wrong_usage_exits_2(arguments: tuple[str, ...]) -> None:
    assert call(*arguments).exit_code == 2


def test_the_short_form_is_the_command_diagnose(files: tuple[str, ...]) -> None:
    short = call(*files, "--method", "null", "--json")
    assert call("diagnose", *files, "--method", "null", "--json").stdout == short.stdout
    flows, *rest = files
    assert call(*rest, "--method", "null", "--json", flows).stdout == short.stdout != ""


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


@pytest.mark.parametrize("option", ["-h", "--help"])
@pytest.mark.parametrize("app", APPS)
def test_help_has_no_python_types(app: typer.Typer, option: str) -> None:
    result = CliRunner().invoke(app, [option])
    assert result.exit_code == 0
    assert "Usage:" in result.stdout
    assert not re.search(r"<[\w\[\] ]+>", result.stdout)
    assert max(map(len, result.stdout.splitlines())) <= 80


@pytest.mark.parametrize("app", APPS)
def test_the_version_is_printed(app: typer.Typer) -> None:
    result = CliRunner().invoke(app, ["--version"])
    assert (result.exit_code, result.stdout) == (0, f"llmprism {llmprism.__version__}\n")


def test_findings_are_put_into_words(files: tuple[str, ...]) -> None:
    """With the name of the part, the steps, the cost and the confidence."""
    result = call(*files, "--method", "paper", "--json")
    found = json.loads(result.stdout)["findings"]
    text = " ".join(call(*files, "--method", "paper").stdout.split())
    for one in found[:5]:
        assert f" {one['finding']}. " in text  # as in the tables
        assert f"step {one['first_step']}" in text
    assert text.count("Confidence ") == min(len(found), 5) > 0
    assert (f"{len(found) - 5} more: see" in text) == (len(found) > 5)


def test_a_finding_about_a_job_has_the_number_of_affected_addresses(files: tuple[str, ...]) -> None:
    shown = " ".join(call(*files, "--method", "paper").stdout.replace("│", " ").split())
    assert "8 of 8" in shown
    assert "localised" in shown


def test_names_with_brackets_are_shown_as_they_are(tmp_path: Path) -> None:
    """Rich would take [red] for a colour and fail on [/x]."""
    world = make_world(steps=16)
    world.flows["dst"] = world.flows["dst"].replace({"a.0.1.0": "[red]x[/x]"})
    flows, topology = world.save(tmp_path / "in")
    result = call(str(flows), "--topology", str(topology))
    assert "[red]x[/x]" in result.stderr
    names = {"culprit_kind": "address", "culprit": "[red]n[/x]", "evidence": {}}
    usual = {"symptom": "slow", "cause": "unknown", "job": "[b]j", "first_step": 1, "last_step": 2}
    figures = {"magnitude": 2.0, "cost": 1e9, "confidence": 0.9, "finding": 3}
    table = _printed([names | usual | figures], "paper")
    assert "[red]n[/x]" in table
    assert "[b]j" in table


def _printed(findings: list[dict[str, Any]], method: str) -> str:
    console = Console(file=io.StringIO(), width=80, markup=False)
    console.print(findings_table(findings, method))
    return console.file.getvalue()


def test_a_magnitude_is_what_the_method_means_by_it() -> None:
    """A part loses a share of its speed or of its rate; `paper` gives times relative to normal."""
    names = {"culprit_kind": "address", "culprit": "n", "job": "j", "evidence": {}, "finding": 0}
    usual = {"symptom": "slow_passes", "cause": "slow_gpu", "first_step": 1, "last_step": 2}
    figures = {"cost": 1e9, "confidence": 0.9}
    lost = _printed([names | usual | figures | {"magnitude": 0.4}], "prism")
    assert [" lost " in lost, " of speed " in lost] == [True, True]
    assert [" slow_passes " in lost, " slow_gpu " in lost] == [True, True]  # each in one piece
    assert "40 %" in lost
    transfers = usual | {"symptom": "slow_transfers", "cause": "slow_nic", "magnitude": 0.4}
    assert " of rate " in _printed([names | figures | transfers], "prism")
    normal = _printed([names | usual | figures | {"magnitude": 1.6}], "paper")
    assert "to normal" in normal
    assert "1.6x" in normal


def test_insufficient_records_exit_with_4_and_the_reason(tmp_path: Path) -> None:
    flows, topology = make_world(steps=1).save(tmp_path / "in")
    out = tmp_path / "out"
    files = (str(flows), "--topology", str(topology), "--method", "paper")
    result = call(*files, "--out", str(out), "--quiet")
    assert result.exit_code == 4
    assert "Nothing stands out" not in result.stdout
    assert "These records cannot tell what was slow" in result.stderr
    assert pq.read_table(out / "jobs.parquet").num_rows == 8
    summary = json.loads(call(*files, "--json").stdout)
    assert summary["verdict"]["reasons"][0]["reason"] == "too_few_steps"


@pytest.mark.parametrize("out", ["file", "", "file/below"])
def test_a_wrong_folder_is_one_line(
    out: str, files: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("mine")
    result = call(*files, "--out", out)
    assert result.exit_code == 1
    assert result.stderr.startswith("error: ")
    assert "Traceback" not in result.stderr
    assert (tmp_path / "file").read_text() == "mine"


def test_flows_come_from_standard_input(files: tuple[str, ...]) -> None:
    command = [sys.executable, "-m", "llmprism", "-", *files[1:], "--json"]
    content = Path(files[0]).read_bytes()
    done = subprocess.run(command, input=content, capture_output=True, check=True)
    assert json.loads(done.stdout)["jobs"][0]["addresses"] == 8


def test_a_locale_without_unicode_is_enough(tmp_path: Path) -> None:
    world = make_world(steps=1)
    world.flows["dst"] = world.flows["dst"].replace({"a.0.1.0": "münchen-東京"})
    flows, topology = world.save(tmp_path / "in")
    command = [sys.executable, "-m", "llmprism.cli", str(flows), "--topology", str(topology)]
    env = os.environ | {"PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0", "LC_ALL": "C"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=env)
    assert done.returncode == 4
    assert "Traceback" not in done.stderr
    assert "東京" in done.stderr or "\\u6771" in done.stderr


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs the device /dev/full")
@pytest.mark.parametrize("command", [["--json"], ["check"]])
def test_a_full_disk_behind_stdout_is_one_line(files: tuple[str, ...], command: list[str]) -> None:
    words = [*command, *files] if command == ["check"] else [*files, *command]
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "llmprism.cli", *words, "--quiet"],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert done.returncode == 1
    assert done.stderr.splitlines() == ["error: stdout: No space left on device"]


def test_the_table_of_jobs_has_their_layout(files: tuple[str, ...]) -> None:
    """As the table `layouts` has it; -1 there is a question mark here."""
    for method in ("prism", "paper"):
        job = json.loads(call(*files, "--method", method, "--json").stdout)["jobs"][0]
        sizes = [job["layout"][axis] for axis in ("dp", "pp", "tp", "ep", "cp")]
        shown = " ".join(" ?" if size == -1 else f"{size:>2}" for size in sizes)
        table = call(*files, "--method", method).stdout
        assert f"  {shown}  " in table
        assert max(map(len, table.splitlines())) <= 80
    assert -1 in sizes  # the published method does not tell all of them


def test_where_no_job_is_found_a_sentence_stands_for_the_table(tmp_path: Path) -> None:
    world = make_world()
    flows, _ = world.save(tmp_path / "in")
    other = tmp_path / "other.json"
    other.write_text(
        '{"endpoints": [{"address": "x", "server": "s"}], "switches": [], "links": []}'
    )
    result = call(str(flows), "--topology", str(other))
    assert result.exit_code == 4
    assert "Which jobs there are is not answered" in result.stdout
    assert "is this the topology of these records?" in result.stderr
