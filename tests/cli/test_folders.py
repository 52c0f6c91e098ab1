"""Folders that commands write into: nothing of the user's is lost, and no two runs are mixed."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import signal
from importlib import import_module
from pathlib import Path

import pandas as pd
import pytest

from calling import call
from prism_sim.products import RECORD, stage_files
from processes import PRISM_SIM, started, wait_until

pytestmark = pytest.mark.usefixtures("empty_folder")
MINE = [
    "figures/map.png", "figures/notes.txt", "report.html", "score.json", "trace.json",
    "manifest.json", "truth/ranks.parquet", "diagnosis/jobs.parquet", "diagnosis/intake.json",
    "topology.json", "flows.parquet", ".flows.parquet.1.partial",
]  # fmt: skip


def _fill(folder: Path) -> None:
    for name in MINE:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(f"my {name}")


def _contents(folder: Path) -> dict[str, str]:
    return {
        path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in folder.rglob("*")
        if path.is_file()
    }


@pytest.fixture
def run_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A run of prism-sim, for its flows and topology, in an empty folder."""
    monkeypatch.chdir(tmp_path)
    assert call("simulate", "tiny/pair", "--out", "run", "--quiet").exit_code == 0
    return Path("run")


@pytest.mark.parametrize("through_link", [False, True])
@pytest.mark.parametrize(
    "command",
    [
        ["simulate", "tiny/pair", "--out", "mine"],
        ["run", "tiny/pair", "--out", "mine"],
        ["diagnose", "mine/none.parquet", "--topology", "run/topology.json"],
        ["diagnose", "run/flows.parquet", "--topology", "run/topology.json", "--out", "mine"],
        ["diagnose", "run/flows.parquet", "--topology", "run/topology.json", "--out",
         "mine/diagnosis"],
        ["score", "mine"],
        ["report", "mine"],
        ["whatif", "tiny/pair", "--out", "mine"],
    ],
)  # fmt: skip
@pytest.mark.usefixtures("run_folder")
def test_no_command_changes_a_file_that_it_did_not_write(
    command: list[str], through_link: bool
) -> None:
    mine = Path("theirs" if through_link else "mine")
    _fill(mine)
    (mine / "jobs.parquet").write_text("my jobs")
    (mine / "whatif.json").write_text("my own")
    if through_link:
        Path("mine").symlink_to("theirs")
    before = _contents(mine)
    result = call(*command, "--quiet")
    assert result.exit_code == 1
    assert "Traceback" not in result.output
    assert _contents(mine) == before


@pytest.mark.parametrize("out", ["", " "])
@pytest.mark.parametrize(
    "command",
    [["simulate", "tiny/pair"], ["run", "tiny/pair"], ["whatif", "tiny/pair"],
     ["diagnose", "f.parquet", "--topology", "t.json"]],
)  # fmt: skip
def test_an_empty_name_is_not_the_current_folder(command: list[str], out: str) -> None:
    result = call(*command, "--out", out)
    assert result.exit_code == 2
    assert "empty" in result.stderr
    assert [*Path().iterdir()] == []


def test_ones_own_flows_can_be_diagnosed_again_and_again(run_folder: Path) -> None:
    mine = Path("mine")
    mine.mkdir()
    for name in ("flows.parquet", "topology.json"):
        shutil.copy(run_folder / name, mine / name)
    (mine / "score.json").write_text("mine")
    command = ["diagnose", "mine/flows.parquet", "--topology", "mine/topology.json", "--quiet"]
    assert [call(*command).exit_code for _ in range(2)] == [0, 0]
    assert (mine / "score.json").read_text() == "mine"
    assert (mine / "diagnosis/jobs.parquet").exists()


@pytest.mark.usefixtures("stand_ins")
def test_a_run_without_a_record_is_known_by_its_manifest(pair: Path) -> None:
    assert call("run", str(pair), "--out", "here").exit_code == 0
    Path("here", RECORD).unlink()
    assert call("simulate", str(pair), "--out", "here").exit_code == 0
    assert not Path("here/score.json").exists()


def test_a_stage_that_fails_keeps_the_old_files(
    pair: Path, stand_ins: list[tuple[str, ...]], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert call("run", str(pair), "--out", "here").exit_code == 0
    before = _contents(Path("here"))

    def broken(*_: object) -> None:
        raise OSError(28, "No space left on device", "here/score.json")

    monkeypatch.setattr(import_module("prism_sim.score"), "score_run", broken)
    monkeypatch.setattr("prism_sim.world.write_truth", broken)
    monkeypatch.setattr(import_module("prism_sim.simulate"), "write_truth", broken)
    assert call("score", "here").exit_code == 1
    assert call("simulate", str(pair), "--out", "here").exit_code == 1
    assert _contents(Path("here")) == before
    assert stand_ins


def test_a_score_never_stays_with_another_diagnosis(tmp_path: Path) -> None:
    def write(stage: str, *names: str) -> None:
        with stage_files(tmp_path, stage) as aside:
            for name in names:
                (aside / name).parent.mkdir(exist_ok=True)
                (aside / name).write_text(stage)

    write("simulate", "flows.parquet", "manifest.json")
    write("diagnose", "diagnosis/jobs.parquet")
    write("score", "score.json")
    write("report", "figures/a.png", "report.html")
    write("score", "score.json")
    assert {*_contents(tmp_path)} == {
        RECORD, "flows.parquet", "manifest.json", "diagnosis/jobs.parquet", "score.json",
        "figures/a.png", "report.html",
    }  # fmt: skip
    write("diagnose", "diagnosis/pairs.parquet")
    assert {*_contents(tmp_path)} == {
        RECORD, "flows.parquet", "manifest.json", "diagnosis/pairs.parquet",
    }  # fmt: skip


@pytest.mark.slow
def test_two_runs_in_one_folder_are_never_mixed(tmp_path: Path) -> None:
    command = [*PRISM_SIM, "run", "tiny/pair", "--quiet", "--no-report", "--set"]
    with (
        started([*command, "jobs.0.steps=5"], tmp_path) as first,
        started([*command, "jobs.0.steps=9"], tmp_path) as second,
    ):
        ends = {steps: (*process.communicate(timeout=300), process.returncode)
                for steps, process in ((5, first), (9, second))}  # fmt: skip
    folder = tmp_path / "results/pair/0"
    manifest = json.loads((folder / "manifest.json").read_text())
    steps = manifest["scenario"]["jobs"][0]["steps"]
    score = json.loads((folder / "score.json").read_text())
    assert ends[steps][2] == 0
    refused = [err for _, err, code in ends.values() if code == 1]
    assert all("is writing into this folder" in err for err in refused)
    assert len(refused) + sum(code == 0 for *_, code in ends.values()) == 2
    assert list(manifest["timings_s"]) == ["simulate", "diagnose", "score"]
    assert set(pd.read_parquet(folder / "truth/steps.parquet")["step"]) == {*range(steps)}
    assert call("score", str(folder)).exit_code == 0
    assert json.loads((folder / "score.json").read_text()) == score


def test_a_folder_is_free_again_when_its_holder_was_killed(tmp_path: Path) -> None:
    (tmp_path / "here").mkdir()
    command = ["simulate", "tiny/pair", "--quiet", "--out", "here"]
    long = [*PRISM_SIM, *command, "--set", "jobs.0.steps=100000"]
    with started(long, tmp_path) as holder:
        wait_until(lambda: (tmp_path / "here/.prism-sim.lock").exists())
        wait_until(lambda: any((tmp_path / "here").glob(".prism-sim.*.partial")))
        refused = call(*command)
        assert refused.exit_code == 1
        assert f"process {holder.pid} is writing into this folder" in refused.stderr
        os.kill(holder.pid, signal.SIGKILL)
        holder.communicate(timeout=60)
    assert call(*command).exit_code == 0
    assert not any((tmp_path / "here").glob(".prism-sim.*.partial"))
    assert (tmp_path / "here/flows.parquet").exists()
