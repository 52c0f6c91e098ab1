"""The ready files for continuous integration run as written, and the page about them is right."""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import yaml

from prism_sim.render.markdown import table
from prism_sim.studies.regression.headlines import GATES
from prism_sim.studies.regression.suite import read_suite
from prism_sim.studies.rules import rule_for
from processes import PRISM_SIM, completed

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGE = (DOCS / "regression.md").read_text()
SUITE = """\
cases:
  - {scenario: tiny/pair, seeds: [1], methods: [paper], set: {jobs.0.steps: 4}}
"""


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)


def steps(name: str) -> list[str]:
    """The commands of a file, without the installation."""
    content: Any = yaml.safe_load((DOCS / "ci" / name).read_text())
    if name == "gitlab.yml":
        return list(content["diagnosis"]["script"])
    own = content["jobs"]["gate"]["steps"]
    return [step["run"] for step in own if "run" in step and step["name"] != "Install"]


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project with the test of the page, a suite and its reference."""
    folder = tmp_path_factory.mktemp("project")
    (folder / "test_method.py").write_text(blocks("python")[0])
    (folder / "suite.yaml").write_text(SUITE)
    update = ["regress", "--suite", "suite.yaml", "--update", "--quiet"]
    done = completed([*PRISM_SIM, *update], folder, timeout_s=600)
    assert done.returncode == 0, done.stderr
    assert "new reference" in done.stdout
    return folder


def run(step: str, folder: Path) -> int:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    variables = {**os.environ, "PATH": path, "GITHUB_STEP_SUMMARY": str(folder / "summary.md")}
    done = completed(["bash", "-e", "-c", step], folder, timeout_s=600, env=variables)
    assert done.returncode in (0, 3), done.stdout + done.stderr
    return done.returncode


@pytest.mark.slow
def test_the_steps_of_github_pass_and_leave_reports(project):
    assert [run(step, project) for step in steps("github.yml")] == [0, 0]
    for name in ("junit-tests.xml", "junit-gate.xml"):
        assert not [*ElementTree.parse(project / name).iter("failure")]
    assert "none moved" in (project / "summary.md").read_text()


@pytest.mark.slow
def test_the_gate_of_gitlab_fails_if_a_headline_is_worse(project):
    gate = steps("gitlab.yml")[-1]
    assert steps("gitlab.yml")[0] == steps("github.yml")[0]
    path = project / "suite.json"
    before = path.read_text()
    held = json.loads(before)
    for headline in held["headlines"]:
        headline["value"] -= 1.0 if headline["better"] == "lower" else 0.0
    path.write_text(json.dumps(held))
    assert run(gate, project) == 3
    path.write_text(before)
    assert [*ElementTree.parse(project / "junit-gate.xml").iter("failure")]
    assert "lost" in (project / "gate.md").read_text()


def test_the_files_are_complete():
    workflow = yaml.safe_load((DOCS / "ci/github.yml").read_text())
    (job,) = workflow["jobs"].values()
    assert all("uses" in step or step["run"].startswith(("pip", "pytest", "prism-sim"))
               for step in job["steps"])  # fmt: skip
    assert job["steps"][-1]["if"] == "always()"
    gitlab = yaml.safe_load((DOCS / "ci/gitlab.yml").read_text())["diagnosis"]
    assert gitlab["artifacts"]["reports"]["junit"] == job["steps"][-1]["with"]["path"]


def test_the_page_has_every_gate_with_its_reason():
    marked = PAGE.split("<!-- gates -->")[1].split("<!-- /gates -->")[0]
    rows = [
        (gate.name, f"`{gate.figure}`", rule_for(gate.figure).better.value, f"{gate.tolerance:g}",
         gate.reason)
        for gate in GATES
    ]  # fmt: skip
    head = ("headline", "figure", "better", "tolerance", "reason of the tolerance")
    assert marked.strip() == table(head, rows).strip()


def test_the_suite_of_the_page_is_one(tmp_path):
    (text,) = blocks("yaml")
    (tmp_path / "mine.yaml").write_text(text)
    cases = read_suite(tmp_path / "mine.yaml")
    assert [case.scenario.seed for case in cases] == [1, 2, 3]
    assert {case.methods for case in cases} == {("prism", "paper")}
