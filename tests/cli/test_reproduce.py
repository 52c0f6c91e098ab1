"""``prism-sim reproduce``: what it refuses, and what it makes, in its reduced form."""

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from typer.testing import Result

from prism_sim.studies.paper import EXPERIMENTS

Call = Callable[..., Result]
ARGUMENTS = ["reproduce", "paper", "--reduced", "--seeds", "1", "--out", "out", "--processes", "2"]


def test_reproduce_refuses_what_there_is_not(call: Call) -> None:
    result = call("reproduce", "paper", "--only", "e99")
    assert result.exit_code == 1
    assert "there is no experiment 'e99'" in result.stderr
    assert call("reproduce", "papers").exit_code == 2
    assert call("reproduce", "paper", "--update", "--reduced").exit_code == 2


def _reproducing(folder: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", "from prism_sim.cli import main; main()", *ARGUMENTS, "--json"]
    return subprocess.Popen(
        command, cwd=folder, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )


def _cases(folder: Path) -> dict[str, int]:
    """Every finished case, and when it was written."""
    return {path.name: path.stat().st_mtime_ns for path in (folder / "out/cases").glob("*.json")}


def test_what_was_killed_goes_on_and_ends_with_every_experiment_on_the_page(tmp_path: Path) -> None:
    process = _reproducing(tmp_path)
    deadline = time.monotonic() + 120
    while len(_cases(tmp_path)) < 2 and time.monotonic() < deadline:
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=60)
    before = _cases(tmp_path)
    assert len(before) >= 2
    process = _reproducing(tmp_path)
    out, err = process.communicate(timeout=300)
    assert process.returncode == 0, err
    facts = json.loads(out)
    assert facts["from_before"] == len(before)
    assert facts["made"] == facts["cases"] - len(before) > 0
    assert f"{facts['cases']} of {facts['cases']}: " in err
    after = _cases(tmp_path)
    assert before.items() <= after.items()
    assert len(after) == facts["cases"]
    page = (tmp_path / "out/paper.md").read_text()
    assert [one["name"] for one in facts["experiments"]] == list(EXPERIMENTS)
    for one in EXPERIMENTS.values():
        section = page.split(f"## {one.title}\n")[1].split("\n## ")[0]
        assert sum(line.startswith("|") for line in section.splitlines()) >= 3, one.title
    assert "Reduced form" in page
    for line in page.splitlines():
        if line.startswith("!["):
            assert (tmp_path / "out" / line.split("](")[1].rstrip(")")).exists()
