"""The plug-in for pytest, in a project of its own: bounds fail the test, mistakes are explained."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from processes import completed

FEW = 'set={"jobs.0.steps": 4}'
PROJECT = f"""\
import pytest

@pytest.mark.prism("tiny/pair", "jobs.accuracy=1", "timeline.step_error_mean<=0.003", {FEW})
def test_reached(prism_case):
    assert prism_case.score.jobs.exact == 1
    assert len(prism_case.flows()) == prism_case.score.meta.intake["rows"]
    assert prism_case.scenario.jobs[0].steps == 4

@pytest.mark.prism("tiny/pair", "jobs.accuracy>=1.5", "pairs.missing<=-1", {FEW}, method="paper")
def test_missed():
    pass

@pytest.mark.prism("tiny/pair", "jobs.acuracy=1", {FEW})
def test_unknown_figure():
    pass

@pytest.mark.prism("tiny/pare")
def test_unknown_scenario():
    pass

@pytest.mark.prism("tiny/pair", "jobs.accuracy", {FEW})
def test_no_bound():
    pass

@pytest.mark.prism("tiny/pair", method="guess", {FEW})
def test_unknown_method():
    pass

@pytest.mark.prism("tiny/pair", seeds=[1])
def test_unknown_option():
    pass

def test_without_a_marker(prism_case):
    pass
"""


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> subprocess.CompletedProcess[str]:
    project: Path = tmp_path_factory.mktemp("project")
    (project / "test_project.py").write_text(PROJECT)
    command = [sys.executable, "-m", "pytest", "--strict-markers", "-rA", "-p", "no:cacheprovider"]
    return completed([*command, "--basetemp", str(project / "made")], project, timeout_s=600)


@pytest.mark.slow
def test_a_test_passes_or_fails_by_its_bounds(session):
    of_each = re.findall(r"^(PASSED|FAILED|ERROR) test_project.py::(\w+)", session.stdout, re.M)
    assert dict(map(reversed, of_each)) == {
        "test_reached": "PASSED",
        "test_missed": "FAILED",
        **dict.fromkeys(
            ("test_unknown_figure", "test_unknown_scenario", "test_no_bound", "test_unknown_method",
             "test_unknown_option", "test_without_a_marker"), "ERROR"),
    }  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(
    "message",
    [
        "jobs.accuracy is 1; required: at least 1.5\npairs.missing is 0; required: at most -1",
        "there is no figure 'jobs.acuracy'\n    did you mean jobs.accuracy?",
        "no bundled scenario 'tiny/pare'",
        "'jobs.accuracy' is not of the form figure=bound",
        "there is no method 'guess'",
        "the marker prism has no option 'seeds'",
        "prism_case needs the marker prism(scenario, *bounds",
    ],
)
def test_the_message_gives_the_reason(session, message):
    assert message in session.stdout


@pytest.mark.slow
def test_a_scenario_with_the_same_changes_is_simulated_once(session):
    made = Path(session.args[session.args.index("--basetemp") + 1])
    assert len([*made.glob("prism-simulated[0-9]/run")]) == 1
