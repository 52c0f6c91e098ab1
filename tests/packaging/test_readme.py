"""The README is correct: its commands run, and its figures are those of the reference."""

from __future__ import annotations

import gzip
import json
import re
import runpy
import shlex
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest
from typer.testing import CliRunner

import export_fixture
import llmlog.cli
import llmprism.cli
import prism_sim.cli
from evaluation.exam.page import summary
from evaluation.reference import pages
from evaluation.twins import lab_twins, variants
from evaluation.twins import page as twins
from prism_sim.loading.loader import load

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text()


SMALLER = {
    "NAME": "mine",
    "tiny/quickstart": "tiny/pair",
    "operations/what-diagnosis-brings": "operations/evaluation-scheduling",
}
"""What stands in for names in commands."""


def blocks(language: str) -> list[str]:
    """The README's code blocks in ``language`` ("": plain ones)."""
    found = re.findall(r"^```(\w*)\n(.*?)^```", README, re.DOTALL | re.MULTILINE)
    return [text for name, text in found if name == language]


THREE_COMMANDS = re.search(
    r"## Your own flows in three commands\n\n```\n(.*?)```", README, re.DOTALL
)[1].splitlines()  # fmt: skip


def cells(row: str) -> list[str]:
    return [cell.strip() for cell in row.strip("|").split("|")]


def table_rows(page: str) -> list[str]:
    return [line for line in page.splitlines() if line.startswith("|")]


def test_its_table_is_the_reference():
    marked = README.split("<!-- scores -->")[1].split("<!-- /scores -->")[0]
    assert table_rows(marked)
    page = (ROOT / "results/reference/captures.md").read_text().split('## `method="paper"`')[0]
    known = [set(cells(row)) for row in table_rows(page)]
    head, _, *rows = table_rows(marked)
    assert set(cells(head)) <= known[0]
    assert all(any(set(cells(row)) <= one for one in known) for row in rows)


def test_its_figures_of_findings_are_those_of_the_exam():
    figures = json.loads((ROOT / "results/reference/exam.json").read_text())
    assert summary(figures) in " ".join(README.split())


def test_its_links_and_pictures_exist():
    for target in re.findall(r"\]\((?!https?:)([^)]+)\)", README):
        assert (ROOT / target).exists(), target


def test_its_make_targets_exist():
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = re.findall(r"(?:^|`)make ([a-z-]+)(?:`|$)", README, re.MULTILINE)
    assert {"quickstart", "test"} <= set(named) <= targets


def test_its_scenario_is_one(tmp_path):
    (text,) = blocks("yaml")
    path = tmp_path / "readme.yaml"
    path.write_text(text)
    assert load(path).jobs[0].model.name == "llama-13b"


@pytest.fixture(scope="module")
def run_folder(tmp_path_factory):
    """A folder in which the README's commands find the files that they name."""
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
    named = re.findall(r"`(prism-sim [^`]+)`", README)
    shown = [line for block in blocks("") for line in block.splitlines()]
    lines = [line for line in named + shown if re.match(r"(prism-sim|llmprism) ", line)]
    lines = [line for line in lines if line not in THREE_COMMANDS]  # they have their own test
    apps = {"prism-sim": prism_sim.cli.app, "llmprism": llmprism.cli.app}
    assert {line.split()[0] for line in lines} <= set(apps)
    assert lines
    for line in sorted(lines, key=lambda line: " new " not in line):
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
    assert steps_of_faults(truth) == {(12, 19), (28, 37)} == spans - {(3, 10)}
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


def steps_of_faults(case):
    faults = pd.read_parquet(case / "truth/faults.parquet")
    return set(zip(faults["from_step"], faults["to_step"] - 1, strict=True))


def test_the_committed_export_is_made_from_the_capture():
    exports = ROOT / "tests/fixtures/exports"
    content = gzip.decompress((exports / "training.ipfix.gz").read_bytes())
    assert content == export_fixture.datagrams()
    assert (exports / "cables.csv").read_text() == export_fixture.cables()


@pytest.mark.full
def test_the_reference_of_the_captures_is_the_output_of_its_command():
    assert pages.captures() == (ROOT / "results/reference/captures.md").read_text()


@pytest.mark.parametrize("method", ["paper", "prism"])
@pytest.mark.parametrize("case", ["captures/a2_ddp4", "lab/short"])
def test_rows_of_the_reference_follow_from_their_captures(case, method):
    page = (ROOT / "results/reference/captures.md").read_text()
    for row in pages.capture_rows([ROOT / "tests/fixtures" / case], method):
        assert f"| {' | '.join(row)} |\n" in page


def test_the_reference_has_every_capture_with_both_methods():
    page = (ROOT / "results/reference/captures.md").read_text()
    for folder in pages.capture_folders():
        assert len(re.findall(rf"^\| `{folder.name}` \| [25] ms \|", page, re.MULTILINE)) == 4
        jobs = pd.read_parquet(folder / "truth" / "ranks.parquet")["job"].nunique()
        exported = (folder / "flows_netflow.parquet").exists()
        rows = re.findall(rf"^\| `{folder.name}` \| [A-Z] \|", page, re.MULTILINE)
        assert len(rows) == (jobs if exported else 0)


@pytest.mark.full
def test_the_reference_of_the_twins_is_the_output_of_its_command(tmp_path):
    cases = [twins.measured(name, tmp_path) for name in twins.ABOUT]
    lab = [lab_twins.compared(name, tmp_path / "lab") for name in lab_twins.cases()]
    assert (
        twins.page(cases, lab, variants.tried())
        == (ROOT / "results/reference/twins.md").read_text()
    )
