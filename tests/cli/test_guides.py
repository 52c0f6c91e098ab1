"""Commands and programs of README, installation and how-to guides run as they are written."""

from __future__ import annotations

import re
import runpy
import shlex
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest
from typer.testing import CliRunner

import llmlog.cli
import llmprism.cli
import prism_sim.cli
from guides import TEXT, THREE_COMMANDS, blocks

ROOT = Path(__file__).resolve().parents[2]
SMALLER = {
    "NAME": "mine",
    "tiny/quickstart": "tiny/pair",
    "operations/what-diagnosis-brings": "operations/meta",
}
"""What stands in for names in commands."""


@pytest.fixture(scope="module")
def run_folder(tmp_path_factory):
    """A folder in which the commands find the files that they name."""
    folder = tmp_path_factory.mktemp("readme")
    arguments = ["run", "tiny/pair", "--out", str(folder / "run"), "--quiet"]
    result = CliRunner().invoke(prism_sim.cli.app, arguments)
    assert result.exit_code == 0, result.output
    for name in ("flows.parquet", "topology.json"):
        (folder / name).write_bytes((folder / "run" / name).read_bytes())
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("code", blocks("python"))
def test_its_python_runs(code, run_folder, monkeypatch):
    monkeypatch.chdir(run_folder)
    (run_folder / "readme.py").write_text(code)
    made = runpy.run_path(str(run_folder / "readme.py"))
    diagnosis = made["run"].diagnosis if "run" in made else made["diagnosis"]
    assert len(diagnosis.jobs) > 0


@pytest.mark.slow
def test_its_commands_run(run_folder, monkeypatch):
    """All of them, in order, with one small scenario for every scenario named."""
    monkeypatch.chdir(run_folder)
    (run_folder / "tests").symlink_to(ROOT / "tests")  # commands name fixtures
    named = re.findall(r"`(prism-sim [^`]+)`", TEXT)
    shown = [line for block in blocks("") for line in block.splitlines()]
    lines = [line for line in named + shown if re.match(r"(prism-sim|llmprism) ", line)]
    lines = [line for line in lines if line not in THREE_COMMANDS]  # they have their own test
    apps = {"prism-sim": prism_sim.cli.app, "llmprism": llmprism.cli.app}
    assert {line.split()[0] for line in lines} == set(apps)
    for line in sorted(dict.fromkeys(lines), key=lambda line: " new " not in line):
        for long, short in SMALLER.items():
            line = line.replace(long, short)
        words = shlex.split(line)
        words = [str(ROOT / "scenarios/tiny/pair.yaml") if w == "FILE" else w for w in words]
        result = CliRunner().invoke(apps[words[0]], words[1:])
        assert result.exit_code == 0, (line, result.output)


def test_its_three_commands_lead_from_an_export_to_the_faults(tmp_path):
    """Exactly as written, each in a process of its own, on the files that are committed."""
    (tmp_path / "tests").symlink_to(ROOT / "tests")
    printed = []
    for line in THREE_COMMANDS:
        program, *words = shlex.split(line)
        assert program == "llmprism"
        command = [sys.executable, "-m", "llmprism.cli", *words]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, (line, done.stderr)
        printed.append(done.stdout)
    ingested, checked, _ = printed
    truth = ROOT / "tests/fixtures/captures/d_fault_rank_link"
    assert f"{len(pd.read_parquet(truth / 'flows.parquet')):,} flow records" in ingested
    assert re.search(r"can  steps: step \d+ ms", checked)
    assert re.search(r"cannot  slow switch or link: .*\n +to get it: export at leaves", checked)
    found = pd.read_parquet(tmp_path / "mine/diagnosis/findings.parquet")
    spans = {*zip(found["first_step"], found["last_step"], strict=True)}
    assert spans == {(3, 4), (5, 11), (6, 7), (12, 19), (28, 37)}
    steps = pd.read_parquet(truth / "truth/steps.parquet")
    took_ns = steps.groupby("step")["end_ns"].max().diff()
    assert took_ns[5:12].mean() > 1.1 * took_ns.median()  # the machine was busy


def test_its_three_commands_make_logs_and_diagnose_them(tmp_path, monkeypatch):
    """As written; the last one opens the page, which names each job that failed."""
    monkeypatch.chdir(tmp_path)
    (text,) = blocks("bash")
    make, diagnose, look = (shlex.split(line, comments=True) for line in text.splitlines())
    for app, words in ((prism_sim.cli.app, make), (llmlog.cli.app, diagnose)):
        result = CliRunner().invoke(app, words[1:])
        assert result.exit_code == 0, result.output
    page = (tmp_path / look[1]).read_text(encoding="utf-8")
    failures = pd.read_parquet(tmp_path / "mylogs/truth/logs_failures.parquet")
    assert len(failures)
    assert all(f">{job}</a>" in page for job in failures["job"])
