"""``llmprism report``: the operator's page, from a diagnosis alone."""

import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from llmprism.page.command import report_app
from llmprism.pipeline import diagnose

CAPTURES = Path(__file__).parents[2] / "fixtures" / "captures"
LOADED = """
import sys
from llmprism.page.command import report_app
report_app(sys.argv[1:], standalone_mode=False)
print([name for name in sys.modules if name.partition(".")[0] in ("prism_sim", "matplotlib")])
"""


@pytest.fixture
def folder(tmp_path):
    """A folder as a user has it: flow records, topology and diagnosis."""
    case = CAPTURES / "a2_ddp4"
    for name in ("flows.parquet", "topology.json"):
        (tmp_path / name).write_bytes((case / name).read_bytes())
    diagnose(case / "flows.parquet", case / "topology.json").write(tmp_path / "diagnosis")
    return tmp_path


def invoke(*arguments):
    return CliRunner().invoke(report_app, [str(one) for one in arguments])


def test_the_page_needs_no_simulator(folder):
    command = [sys.executable, "-c", LOADED, str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    path, loaded = done.stdout.splitlines()
    assert loaded == "[]"
    page = (folder / "report.html").read_text(encoding="utf-8")
    assert path == str(folder / "report.html")
    assert "What is slow" in page
    assert "truth" not in page


def test_the_same_folder_gives_the_same_page(folder, tmp_path):
    first, second = tmp_path / "a.html", tmp_path / "b.html"
    for out in (first, second, second):  # a page of its own may be replaced
        assert invoke(folder, "--out", out).exit_code == 0
    assert first.read_bytes() == second.read_bytes()


@pytest.mark.parametrize(
    ("name", "reason"),
    [("report.html", "will not replace"), ("diagnosis/steps.parquet", "steps.parquet")],
)
def test_a_file_that_is_not_ours_is_named_and_stays(folder, name, reason):
    (folder / name).write_bytes(b"<p>mine</p>")
    done = invoke(folder)
    assert (done.exit_code, reason in done.stderr, "Traceback" in done.stderr) == (1, True, False)
    assert (folder / name).read_bytes() == b"<p>mine</p>"


def test_without_a_diagnosis_it_says_what_to_run(tmp_path):
    done = invoke(tmp_path)
    assert done.exit_code == 1
    assert "first run llmprism" in done.stderr
